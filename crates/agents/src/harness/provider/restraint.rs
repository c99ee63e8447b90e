//! PURE: the means that hold an agent to its level, besides the flags of each provider.

use crate::harness::level::{Level, Mode};
use crate::harness::provider::Provider;
use ground::error::Error;

/// How a session with this agent is held to a level.
pub(crate) fn mode_of(provider: Provider, level: Level, is_sandboxed: bool) -> Option<&'static Mode> {
    let known = provider.descriptor();
    let inside = known.modes_in_sandbox.as_ref().filter(|_| is_sandboxed);
    inside.unwrap_or(&known.modes)[level as usize].as_ref()
}

/// `INVALID_OPTION` for a variable, of the caller's own, that would let the agent do more than its level says.
pub(crate) fn check_switches(
    provider: Provider,
    level: Level,
    changes: &[(String, Option<String>)],
) -> Result<(), Error> {
    let switches = provider.descriptor().switches;
    let is_switch =
        |(name, value): &&(String, Option<String>)| value.is_some() && switches.contains(&name.as_str());
    match changes.iter().find(is_switch) {
        Some((name, _)) if level != Level::Auto => {
            let problem = format!(
                "could let {} do more than {:?}: leave it out, or pass permission: \"auto\"",
                provider.as_str(),
                level.as_str()
            );
            Err(Error::invalid_option(&format!("env[{name:?}]"), problem))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::launch::{Launch, Wanted};
    use crate::harness::provider::restraint::*;

    fn held(provider: Provider, wanted: &Wanted) -> Result<Launch, Error> {
        let mut launch = Launch::default();
        (provider.descriptor().hold)(wanted, &mut launch).map(|()| launch)
    }

    #[test]
    fn no_level_below_auto_has_the_means_of_auto() {
        for provider in Provider::ALL {
            let auto = held(provider, &Wanted { permission: Level::Auto, ..Wanted::default() }).unwrap();
            for permission in [Level::Plan, Level::Edit] {
                for is_sandboxed in [false, true] {
                    let wanted = Wanted { permission, is_sandboxed, ..Wanted::default() };
                    let Ok(launch) = held(provider, &wanted) else { continue };
                    // The mode's name stands behind a flag that all levels share.
                    for word in auto.args.iter().filter(|word| *word != "--approval-mode") {
                        assert!(!launch.args.contains(word), "{provider:?} {permission:?}: {word}");
                    }
                    assert!(
                        launch.set.iter().all(|pair| !auto.set.contains(pair)),
                        "{provider:?} {permission:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_level_is_held_or_refused_by_its_option() {
        for provider in Provider::ALL {
            for permission in [Level::Plan, Level::Edit] {
                match held(provider, &Wanted { permission, ..Wanted::default() }) {
                    Ok(launch) => {
                        assert!(!launch.args.is_empty(), "{provider:?} {permission:?}: nothing holds it")
                    }
                    Err(error) => assert!(error.message().starts_with("permission: "), "{}", error.message()),
                }
                let inside = Wanted { permission, is_sandboxed: true, ..Wanted::default() };
                assert!(held(provider, &inside).is_ok(), "{provider:?}: the kernel holds it");
            }
            let mut wanted = Wanted { allow: vec!["git *".into()], ..Wanted::default() };
            let error = held(provider, &wanted).err().unwrap();
            assert!(error.message().starts_with("allow: "), "{}", error.message());
            wanted.is_sandboxed = true;
            match held(provider, &wanted) {
                Ok(launch) => {
                    let all = format!("{:?} {:?} {:?}", launch.args, launch.held, launch.files);
                    assert!(all.contains("git"), "{provider:?}: {all}");
                }
                Err(error) => assert!(error.message().starts_with("allow: "), "{}", error.message()),
            }
        }
    }

    #[test]
    fn what_a_cli_reads_otherwise_than_it_is_written_is_refused_by_its_place() {
        let refusal = |provider, glob: &str| {
            let wanted =
                Wanted { allow: vec!["ls *".into(), glob.into()], is_sandboxed: true, ..Wanted::default() };
            held(provider, &wanted).map_err(|error| error.message().to_owned()).err().unwrap_or_default()
        };
        assert!(refusal(Provider::ClaudeCode, "npm run test:*").starts_with("allow[1]: "));
        assert!(refusal(Provider::Copilot, "npm test").contains("\"npm test *\""));
        assert!(refusal(Provider::Copilot, "git * main").starts_with("allow[1]: "));
        assert_eq!(refusal(Provider::Gemini, "npm run test:*"), "");
    }

    #[test]
    fn a_policy_of_geminis_says_what_the_glob_says_and_no_more() {
        let wanted = Wanted { allow: vec!["a.b+c *".into()], is_sandboxed: true, ..Wanted::default() };
        let launch = held(Provider::Gemini, &wanted).unwrap();
        let policy = &launch.files[0].1;
        let odd = Wanted { cwd: "/a b/c.d(1)*/é".into(), ..Wanted::default() };
        let odd = held(Provider::Gemini, &odd).unwrap();
        assert!(odd.files[0].1.contains(r#"'"file_path":"/a.b/c.d.1.././'"#), "{}", odd.files[0].1);
        assert!(policy.contains(r#"commandRegex = 'a\.b\+c [^"\\;&|`$<>()]*"'"#), "{policy}");
        assert!(policy.starts_with("[[rule]]\ntoolName = [\"run_shell_command\"]\ndecision = \"deny\""));
    }

    #[test]
    fn what_opencodes_user_has_in_its_variable_is_kept() {
        let with = |text: &str| {
            let variables = vec![("OPENCODE_CONFIG_CONTENT", text.to_owned())];
            held(Provider::Opencode, &Wanted { variables, folder: "/tmp/run-7".into(), ..Wanted::default() })
        };
        let launch = with(r#"{"model":"m","agent":{"sheepdog":{"permission":"allow"},"other":{}}}"#).unwrap();
        let content: serde_json::Value = ground::json::read(&launch.held[0].1).unwrap();
        assert_eq!(content["model"], "m");
        assert!(content["agent"]["other"].is_object());
        assert_eq!(content["agent"]["run-7"]["permission"]["*"], "deny");
        assert_eq!(
            content["agent"]["run-7"]["permission"]["bash"],
            serde_json::json!({"*":"deny","*>*":"deny"})
        );
        // The last rule counts: their order is what holds it.
        let allow = vec!["git *".to_owned()];
        let launch =
            held(Provider::Opencode, &Wanted { allow, is_sandboxed: true, ..Wanted::default() }).unwrap();
        assert!(
            launch.held[0].1.contains(r#""bash":{"*":"deny","git *":"allow","*>*":"deny"}"#),
            "{:?}",
            launch.held
        );
        for text in ["[]", "{", r#"{"agent":"x"}"#, "// a comment\n{}"] {
            let error = with(text).err().unwrap();
            assert!(error.message().starts_with("env[\"OPENCODE_CONFIG_CONTENT\"]: "), "{}", error.message());
        }
    }

    #[test]
    fn a_variable_that_raises_the_level_is_refused() {
        let changes = [("COPILOT_ALLOW_ALL".to_owned(), Some("1".to_owned()))];
        let refused = check_switches(Provider::Copilot, Level::Edit, &changes).unwrap_err();
        assert!(refused.message().starts_with("env[\"COPILOT_ALLOW_ALL\"]: "), "{}", refused.message());
        assert!(check_switches(Provider::Copilot, Level::Auto, &changes).is_ok());
        assert!(check_switches(Provider::Codex, Level::Edit, &changes).is_ok(), "it is none of its own");
        let removed = [("COPILOT_ALLOW_ALL".to_owned(), None)];
        assert!(check_switches(Provider::Copilot, Level::Edit, &removed).is_ok());
    }
}
