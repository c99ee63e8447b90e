//! PURE: decides on an agent's permission request: by rules, then by the level. A request that both leave open goes to the
//! handler.
//!
//! | | rule denies | rule allows | `plan` | `edit` | `ask` | `auto` |
//! |---|---|---|---|---|---|---|
//! | reads, searches, thinks | reject | allow | allow | allow | open | allow |
//! | writes below cwd | reject | allow | reject | allow | open | allow |
//! | a tool of the caller's own | reject | allow | if it only reads | allow | open | allow |
//! | anything else | reject | allow | reject | open | open | allow |
//!
//! A request that names a command is neither reading nor writing, whatever kind the agent states.
//!
//! An open request without a handler is rejected. The agent enforces the level by its own mode; these decisions are for requests
//! that it makes nevertheless.

use crate::acp::question::Question;
use crate::acp::question::place::Places;
use crate::acp::question::policy::{Policy, Rule};
use crate::harness::Level;
use crate::harness::level::command::{Commands, Found};
use crate::harness::level::glob::name_matches;
use std::fmt;

const HIDDEN: &str = "its input names no command in a known field";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    Allow,
    /// The reason, as the end of a sentence about the tool.
    Reject(String),
    /// A person decides.
    Open,
}

/// See the table above.
pub(crate) fn rule(policy: &Policy, level: Level, question: &Question, places: &Places) -> Ruling {
    let commands: Vec<Commands> = question.commands().iter().map(|command| Commands::read(command)).collect();
    let named = question.title_as_command().map(|title| Commands::read(&title));
    let searched: Vec<&Commands> = commands.iter().chain(&named).collect();
    for (index, rule) in policy.deny.iter().enumerate() {
        match rule.denies(question, &searched, places) {
            None => {}
            Some(Found::Command) => {
                return Ruling::Reject(format!("policy.deny[{index}] ({rule}) denies it"));
            }
            Some(Found::Unread(why)) => {
                let reason = format!("policy.deny[{index}] ({rule}) can't be ruled out, because {why}");
                return Ruling::Reject(reason);
            }
        }
    }
    if policy.allow.iter().any(|rule| rule.allows(question, &commands, places)) {
        return Ruling::Allow;
    }
    if question.own().is_some_and(|own| own.is_allowed_at(level)) {
        return Ruling::Allow;
    }
    let kind = question.kind();
    let is_reading = matches!(kind, "read" | "search" | "think");
    let is_writing = matches!(kind, "edit" | "delete" | "move") && places.are_below();
    match level {
        Level::Auto => Ruling::Allow,
        Level::Ask => Ruling::Open,
        Level::Plan if is_reading => Ruling::Allow,
        Level::Plan => Ruling::Reject("the level \"plan\" allows reading only".to_owned()),
        Level::Edit if is_reading || is_writing => Ruling::Allow,
        Level::Edit => Ruling::Open,
    }
}

impl Rule {
    /// Every path and the whole command has to be meant. The same words mean something else in a folder outside, or with other
    /// variables.
    fn allows(&self, question: &Question, commands: &[Commands], places: &Places) -> bool {
        let is_here = !question.changes_environment() && places.run_below();
        let is_command = |pattern: &String| {
            is_here && !commands.is_empty() && commands.iter().all(|command| command.are(pattern))
        };
        self.is_about(question, |kind| kind == question.kind())
            && self.command.as_ref().is_none_or(is_command)
            && self.path.as_ref().is_none_or(|pattern| places.all_are(pattern))
    }

    /// Any path and any part of a command is enough.
    fn denies(&self, question: &Question, commands: &[&Commands], places: &Places) -> Option<Found> {
        let is_kind = |kind: &str| kind == question.kind() || kind == question.tool.kind;
        if !self.is_about(question, is_kind)
            || self.path.as_ref().is_some_and(|pattern| !places.any_is(pattern))
        {
            return None;
        }
        let Some(pattern) = &self.command else { return Some(Found::Command) };
        let mut unread = question.hides_command().then_some(Found::Unread(HIDDEN));
        for command in commands {
            match command.contain(pattern) {
                Some(Found::Command) => return Some(Found::Command),
                other => unread = unread.or(other),
            }
        }
        unread
    }

    /// Whether it means the tool.
    fn is_about(&self, question: &Question, is_kind: impl Fn(&str) -> bool) -> bool {
        let name = |pattern: &String| question.names().any(|name| name_matches(pattern, name));
        *self != Rule::default()
            && self.kind.as_deref().is_none_or(is_kind)
            && self.name.as_ref().is_none_or(name)
    }
}

/// As it is written in `policy`.
impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields =
            [("kind", &self.kind), ("name", &self.name), ("command", &self.command), ("path", &self.path)];
        let told = fields.iter().filter_map(|(name, value)| Some(format!("{name}: {:?}", value.as_ref()?)));
        write!(formatter, "{{ {} }}", told.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::question::own_tool::OwnTool;
    use serde_json::{Value, json};
    use std::path::Path;

    fn question(call: Value) -> Question {
        let mut call = call;
        call["toolCallId"] = json!("1");
        Question::read("0", &json!({ "toolCall": call, "options": [] }), |_| None)
    }

    fn command(command: &str) -> Question {
        question(json!({"kind":"execute","title":command,"rawInput":{"command":command}}))
    }

    fn by_command(pattern: &str) -> Rule {
        Rule { command: Some(pattern.into()), ..Rule::default() }
    }

    /// Without its reason.
    fn ruled(policy: &Policy, level: Level, question: &Question) -> Ruling {
        match ruled_with_reason(policy, level, question) {
            Ruling::Reject(_) => REJECT,
            other => other,
        }
    }

    const REJECT: Ruling = Ruling::Reject(String::new());

    fn ruled_with_reason(policy: &Policy, level: Level, question: &Question) -> Ruling {
        rule(policy, level, question, &Places::look(question, policy, Path::new("/work")))
    }

    #[test]
    fn a_tool_that_the_caller_passed_needs_no_rule() {
        let tools = [("ticket", false), ("look", true)]
            .map(|(name, reads_only)| OwnTool { name: name.to_owned(), reads_only });
        let by_name = |name: &str| vec![Rule { name: Some(name.to_owned()), ..Rule::default() }];
        let denied = Policy { allow: vec![], deny: by_name("ticket") };
        let allowed = Policy { allow: by_name("ticket"), deny: vec![] };
        let none = Policy::default();
        let call = |name: &str| question(json!({"kind":"other","title":name})).among(&tools);
        for (policy, name, level, expected) in [
            (&none, "mcp__sheepdog__ticket", Level::Edit, true),
            (&none, "mcp__sheepdog__ticket", Level::Auto, true),
            (&none, "mcp__sheepdog__ticket", Level::Plan, false),
            (&none, "mcp__sheepdog__look", Level::Plan, true),
            (&none, "mcp__sheepdog__look", Level::Ask, false),
            (&none, "mcp__other__look", Level::Edit, false),
            (&none, "ticket", Level::Edit, false),
            (&denied, "mcp__sheepdog__ticket", Level::Auto, false),
            (&allowed, "mcp__sheepdog__ticket", Level::Ask, true),
            (&allowed, "mcp__sheepdog__ticket", Level::Plan, true),
        ] {
            let ruling = ruled(policy, level, &call(name));
            assert_eq!(ruling == Ruling::Allow, expected, "{name} {level:?}");
        }
        // The words of a command are no name.
        let command =
            json!({"kind":"execute","title":"sheepdog-ticket","rawInput":{"command":"sheepdog-ticket"}});
        assert_eq!(ruled(&none, Level::Edit, &question(command).among(&tools)), Ruling::Open);
    }

    #[test]
    fn deny_comes_before_allow_and_both_before_the_level() {
        let policy = Policy { allow: vec![by_command("git *")], deny: vec![by_command("git push*")] };
        let cases = [
            ("git log", Level::Plan, Ruling::Allow),
            ("git push -f", Level::Auto, REJECT),
            ("git log; git push", Level::Ask, REJECT),
            ("git log; ls", Level::Ask, Ruling::Open),
            ("ls", Level::Edit, Ruling::Open),
            ("ls", Level::Plan, REJECT),
            ("ls", Level::Auto, Ruling::Allow),
        ];
        for (words, level, expected) in cases {
            assert_eq!(ruled(&policy, level, &command(words)), expected, "{words} {level:?}");
        }
    }

    #[test]
    fn an_allowed_command_runs_here_and_with_the_variables_that_are() {
        let policy = Policy { allow: vec![by_command("git add *")], deny: vec![] };
        let with = |name: &str, value: Value| {
            let input = json!({"command":"git add x", name: value});
            question(json!({"kind":"execute","title":"x","rawInput":input}))
        };
        for (name, value, expected) in [
            ("timeout", json!(5), Ruling::Allow),
            ("workdir", json!("/work/sub"), Ruling::Allow),
            ("workdir", json!("sub"), Ruling::Allow),
            ("env", json!({}), Ruling::Allow),
            ("workdir", json!("/elsewhere"), Ruling::Open),
            ("cwd", json!("../elsewhere"), Ruling::Open),
            ("directory", json!("/work/../elsewhere"), Ruling::Open),
            ("env", json!({"GIT_EXTERNAL_DIFF":"touch"}), Ruling::Open),
            ("env", json!(["A=1"]), Ruling::Open),
        ] {
            assert_eq!(ruled(&policy, Level::Edit, &with(name, value.clone())), expected, "{name} {value}");
        }
    }

    #[test]
    fn edit_writes_below_its_folder_and_nowhere_else() {
        let edit = |path: &str| question(json!({"kind":"edit","title":"x","locations":[{"path":path}]}));
        let none = Policy::default();
        for (path, expected) in [
            ("/work/a.txt", Ruling::Allow),
            ("a/b.txt", Ruling::Allow),
            ("/work/../etc/passwd", Ruling::Open),
            ("/workshop/a", Ruling::Open),
            ("../a", Ruling::Open),
        ] {
            assert_eq!(ruled(&none, Level::Edit, &edit(path)), expected, "{path}");
        }
        assert_eq!(
            ruled(&none, Level::Edit, &edit("~/a")),
            Ruling::Open,
            "some agents take it for the home folder"
        );
        assert_eq!(
            ruled(&none, Level::Edit, &question(json!({"kind":"edit"}))),
            Ruling::Open,
            "no path, no proof"
        );
        assert_eq!(ruled(&none, Level::Plan, &edit("a")), REJECT);
        assert_eq!(ruled(&none, Level::Plan, &question(json!({"kind":"read"}))), Ruling::Allow);
        assert_eq!(ruled(&none, Level::Plan, &question(json!({"kind":"switch_mode"}))), REJECT);
    }

    #[test]
    fn what_names_a_command_is_neither_reading_nor_writing() {
        let by_kind = |kind: &str| vec![Rule { kind: Some(kind.to_owned()), ..Rule::default() }];
        for kind in ["read", "search", "think", "edit"] {
            for input in [
                json!({"command":"rm -r x","path":"/work/a"}),
                json!({"path":"/work/a","cmd":["rm","x"]}),
                json!({"path":"/work/a","arguments":{"script":"rm x"}}),
                json!({"path":"/work/a","steps":[{"commands":["rm x"]}]}),
            ] {
                let asked = question(json!({"kind":kind,"title":"look","rawInput":input}));
                let none = Policy::default();
                assert_eq!(ruled(&none, Level::Plan, &asked), REJECT, "{kind} {input}");
                assert_eq!(ruled(&none, Level::Edit, &asked), Ruling::Open, "{kind} {input}");
                let allowed = Policy { allow: by_kind(kind), deny: vec![] };
                assert_eq!(ruled(&allowed, Level::Ask, &asked), Ruling::Open, "{kind} {input}");
                for denied in [kind, "execute"] {
                    let denied = Policy { allow: vec![], deny: by_kind(denied) };
                    assert_eq!(ruled(&denied, Level::Auto, &asked), REJECT, "{kind} {input}");
                }
            }
            let nested =
                question(json!({"kind":kind,"rawInput":{"path":"a","with":{"command":"sudo rm x"}}}));
            let denied = Policy { allow: vec![], deny: vec![by_command("rm *")] };
            assert_eq!(ruled(&denied, Level::Auto, &nested), REJECT, "{kind}");
            let plain = question(json!({"kind":kind,"title":"look","rawInput":{"path":"a","command":""}}));
            assert_eq!(ruled(&Policy::default(), Level::Edit, &plain), Ruling::Allow, "{kind}");
        }
    }

    #[test]
    fn a_command_has_its_arguments_and_is_known_or_denied() {
        let policy = Policy { allow: vec![by_command("npm test")], deny: vec![by_command("rm *")] };
        for (input, expected) in [
            (json!({"command":"rm","args":["x"]}), REJECT),
            (json!({"command":"rm","arguments":["x"]}), REJECT),
            (json!({"command":"kill","args":[5]}), Ruling::Open),
            (json!({"program":"rm","args":["x"]}), REJECT),
            (json!({"executable":"rm","arguments":"x"}), REJECT),
            (json!({"argv":["rm","x"]}), REJECT),
            (json!({"shell_command":"rm x"}), REJECT),
            (json!({"command":"sh","args":["-c","rm x"]}), REJECT),
            (json!({"command":"ls","args":"; rm x"}), REJECT),
            (json!({"commands":[["rm","x"]]}), REJECT),
            (json!(["rm", "x"]), REJECT),
            (json!("rm x"), REJECT),
            (json!({"bash":"rm x"}), REJECT),
            (json!({"command":"npm","args":["test"]}), Ruling::Allow),
            (json!({"command":"npm test","args":[]}), Ruling::Allow),
            (json!({"command":"npm test","args":{"a":1}}), Ruling::Allow),
            (json!({"command":"npm test","args":["; ls"]}), Ruling::Open),
            (json!({"command":"npm test","args":"-- -u"}), Ruling::Open),
        ] {
            let asked = question(json!({"kind":"execute","title":"Run it","rawInput":input}));
            assert_eq!(ruled(&policy, Level::Edit, &asked), expected, "{input}");
        }
    }

    #[test]
    fn rules_by_path_kind_and_name() {
        let write =
            |path: &str| question(json!({"kind":"edit","name":"Write","rawInput":{"file_path":path}}));
        let docs =
            Policy { allow: vec![Rule { path: Some("docs/**".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&docs, Level::Ask, &write("/work/docs/a/b.md")), Ruling::Allow);
        assert_eq!(ruled(&docs, Level::Ask, &write("docs/../src/a.rs")), Ruling::Open);
        let both = question(json!({"kind":"edit","locations":[{"path":"docs/a"},{"path":"src/a"}]}));
        assert_eq!(ruled(&docs, Level::Ask, &both), Ruling::Open, "all of them have to be meant");
        let secrets =
            Policy { allow: vec![], deny: vec![Rule { path: Some("**/.env".into()), ..Rule::default() }] };
        assert_eq!(ruled(&secrets, Level::Auto, &write("a/.env")), REJECT);
        let tools =
            Policy { allow: vec![Rule { name: Some("Wr*".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&tools, Level::Ask, &write("x")), Ruling::Allow);
        let kinds =
            Policy { allow: vec![Rule { kind: Some("read".into()), ..Rule::default() }], deny: vec![] };
        assert_eq!(ruled(&kinds, Level::Ask, &write("x")), Ruling::Open);
        let empty = Policy { allow: vec![Rule::default()], deny: vec![] };
        assert_eq!(
            ruled(&empty, Level::Ask, &write("x")),
            Ruling::Open,
            "a rule that says nothing means nothing"
        );
    }

    #[test]
    fn gemini_names_its_command_in_the_title() {
        let policy = Policy { allow: vec![by_command("echo *")], deny: vec![] };
        let titled = |title: &str| question(json!({"kind":"execute","title":title}));
        assert_eq!(ruled(&policy, Level::Ask, &titled("echo x y")), Ruling::Allow);
        assert_eq!(ruled(&policy, Level::Ask, &titled("echo x > f.txt")), Ruling::Open);
        assert_eq!(
            ruled(&policy, Level::Ask, &question(json!({"kind":"other","title":"echo x"}))),
            Ruling::Open
        );
    }

    #[test]
    fn paths_count_by_where_they_lead() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let cwd = top.join("cwd");
        std::fs::create_dir_all(cwd.join("docs")).unwrap();
        std::fs::create_dir(top.join("out")).unwrap();
        std::fs::write(top.join("out/victim"), "").unwrap();
        std::fs::write(cwd.join(".env"), "").unwrap();
        for (target, link) in [
            ("../out", "linked"),
            ("../out/victim", "file"),
            ("../out/new", "dangling"),
            ("docs", "within"),
            ("../.env", "docs/harmless"),
            ("/proc/self/cwd", "magic"),
        ] {
            ground::os::link(Path::new(target), &cwd.join(link)).unwrap();
        }
        let asked = |kind: &str, path: &str| {
            question(json!({"kind":kind,"title":"x","locations":[{"path":cwd.join(path)}]}))
        };
        let ruled = |policy: &Policy, level, question: &Question| match rule(
            policy,
            level,
            question,
            &Places::look(question, policy, &cwd),
        ) {
            Ruling::Reject(_) => REJECT,
            other => other,
        };
        let none = Policy::default();
        for path in [
            "linked/victim",
            "linked/new/er",
            "file",
            "dangling",
            "linked/../x",
            "magic/a",
            "docs/../../out/a",
        ] {
            for kind in ["edit", "delete", "move"] {
                assert_eq!(ruled(&none, Level::Edit, &asked(kind, path)), Ruling::Open, "{kind} {path}");
            }
        }
        for path in ["within/a", "docs/harmless", "docs/new/er", "new"] {
            assert_eq!(ruled(&none, Level::Edit, &asked("edit", path)), Ruling::Allow, "{path}");
        }
        let by_path = |path: &str| vec![Rule { path: Some(path.to_owned()), ..Rule::default() }];
        let allowed = Policy { allow: by_path("**"), deny: vec![] };
        assert_eq!(ruled(&allowed, Level::Plan, &asked("edit", "linked/victim")), REJECT);
        let docs = Policy { allow: by_path("docs/**"), deny: vec![] };
        assert_eq!(ruled(&docs, Level::Ask, &asked("edit", "within/a")), Ruling::Allow);
        assert_eq!(ruled(&docs, Level::Ask, &asked("edit", "docs/harmless")), Ruling::Open);
        let outside = format!("{}/**", top.join("out").display());
        for (pattern, path) in [
            ("**/.env", "docs/harmless"),
            ("linked/**", "linked/victim"),
            (outside.as_str(), "file"),
            (outside.as_str(), "dangling"),
            ("within/*", "docs/a"),
            ("docs/harmless", ".env"),
            ("nothing", "magic/a"),
        ] {
            let denied = Policy { allow: vec![], deny: by_path(pattern) };
            assert_eq!(ruled(&denied, Level::Auto, &asked("read", path)), REJECT, "{pattern} {path}");
        }
        let denied = Policy { allow: vec![], deny: by_path("**/.env") };
        assert_eq!(ruled(&denied, Level::Auto, &asked("edit", "within/a")), Ruling::Allow);
    }

    #[test]
    fn every_file_of_a_request_counts() {
        let none = Policy::default();
        for call in [
            json!({"locations":[{"path":"a"}],"rawInput":{"file_path":"/etc/b"}}),
            json!({"rawInput":{"file_path":"a","destination":"/etc/b"}}),
            json!({"rawInput":{"paths":["a","/etc/b"]}}),
            json!({"rawInput":{"changes":{"a":{},"/etc/b":{}}}}),
            json!({"locations":[{"path":"a"}],"content":[{"type":"diff","path":"/etc/b","newText":"x"}]}),
            json!({"locations":[{"path":"a"}],"rawInput":"*** Update File: ../b"}),
            json!({"locations":[{"path":"a"}],"rawInput":{"edits":[{"uri":"file:///etc/b"}]}}),
        ] {
            let mut call = call;
            call["kind"] = json!("edit");
            assert_eq!(ruled(&none, Level::Edit, &question(call.clone())), Ruling::Open, "{call}");
            let denied = Rule { path: Some("/etc/*".into()), ..Rule::default() };
            let denied = Policy { allow: vec![], deny: vec![denied] };
            if !call.to_string().contains("../b") {
                assert_eq!(ruled(&denied, Level::Auto, &question(call.clone())), REJECT, "{call}");
            }
        }
        let known = json!({"toolCallId":"1","kind":"edit","locations":[{"path":"/etc/b"}]});
        let asked =
            json!({"toolCall":{"toolCallId":"1","kind":"edit","locations":[{"path":"a"}]},"options":[]});
        let both = Question::read("0", &asked, |_| crate::acp::wire::update::ToolUpdate::read(&known));
        assert_eq!(ruled(&none, Level::Edit, &both), Ruling::Open, "told before the request");
    }

    #[test]
    fn every_command_of_a_request_counts() {
        let policy = Policy {
            allow: vec![by_command("git *")],
            deny: vec![by_command("git push*"), by_command("rm *")],
        };
        let with = |input: Value| question(json!({"kind":"execute","title":"x","rawInput":input}));
        for (input, expected) in [
            (json!({"command":"git log"}), Ruling::Allow),
            (json!({"command":"git log","commands":["git log","npm publish"]}), Ruling::Open),
            (json!({"command":"git log","commands":["git push"]}), REJECT),
            (json!({"command":["git","log"]}), Ruling::Allow),
            (json!({"command":["git","-C",".","push"]}), REJECT),
            (json!({"command":["bash","-lc","cd /; rm x"]}), REJECT),
            (json!({"cmd":"sudo rm x"}), REJECT),
            (json!({"command":"git 2>&1 push"}), REJECT),
            (json!({"command":"python3 -c 'print(1)'"}), REJECT),
        ] {
            assert_eq!(ruled(&policy, Level::Ask, &with(input.clone())), expected, "{input}");
        }
    }

    #[test]
    fn a_refusal_says_which_rule_or_level_refused() {
        let policy = Policy { allow: vec![], deny: vec![by_command("rm *"), by_command("git push*")] };
        for (words, level, expected) in [
            ("git push", Level::Auto, "policy.deny[1] ({ command: \"git push*\" }) denies it"),
            ("$X", Level::Auto, "policy.deny[0] ({ command: \"rm *\" }) denies it"),
            (
                "python3 -c 1",
                Level::Auto,
                "policy.deny[0] ({ command: \"rm *\" }) can't be ruled out, because a part of it is no text of a shell",
            ),
            ("ls", Level::Plan, "the level \"plan\" allows reading only"),
        ] {
            assert_eq!(
                ruled_with_reason(&policy, level, &command(words)),
                Ruling::Reject(expected.to_owned()),
                "{words}"
            );
        }
    }
}
