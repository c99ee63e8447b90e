use crate::harness::launch::*;
use crate::harness::provider::Provider;

fn wanted(prompt: &str) -> Wanted {
    Wanted { prompt: prompt.into(), permission: Level::Auto, folder: "/own".into(), ..Wanted::default() }
}

#[test]
fn a_prompt_that_looks_like_a_flag_is_never_taken_for_one() {
    for provider in Provider::ALL {
        let launch = (provider.descriptor().launch)(&wanted("--help me")).unwrap();
        let at = launch.args.iter().position(|arg| arg == "--help me");
        let is_safe = match at {
            Some(at) => launch.args[at - 1] == "--",
            None => {
                launch.stdin.as_deref() == Some("--help me")
                    || launch.args.contains(&"--prompt=--help me".to_owned())
            }
        };
        assert!(is_safe, "{}: {:?}", provider.as_str(), launch.args);
    }
}

#[test]
fn a_prompt_is_words_and_no_command_of_a_cli() {
    // The others were tried, and take a prompt as it is.
    for (provider, has_files) in [
        (Provider::ClaudeCode, false),
        (Provider::Gemini, true),
        (Provider::Qwen, true),
        (Provider::Pi, false),
    ] {
        let launched = |prompt: &str| {
            let launch = (provider.descriptor().launch)(&wanted(prompt)).unwrap();
            let is_message = launch.args.iter().any(|arg| arg == "--input-format");
            let message = || ground::json::read::<Value>(launch.stdin.as_deref()?).ok();
            let parts = message().and_then(|message| message["message"]["content"].as_array().cloned());
            let texts = parts.iter().flatten().filter_map(|part| part["text"].as_str());
            let texts: Vec<String> = texts.map(str::to_owned).collect();
            if is_message {
                assert!(texts.last().is_some_and(|last| !last.contains('@')), "{texts:?}");
                return (true, texts.concat(), launch.warnings);
            }
            let sent =
                launch.stdin.clone().unwrap_or_else(|| launch.args.last().cloned().unwrap_or_default());
            (is_message, sent.trim_start_matches("--prompt=").to_owned(), launch.warnings)
        };
        assert_eq!(launched("/help me").1, " /help me", "{provider:?}");
        for prompt in ["see @notes.txt", "@a", "see @a.txt and @b.txt please ", "@é"] {
            let (is_message, sent, _) = launched(prompt);
            assert_eq!(sent, prompt, "{provider:?}");
            assert_eq!(is_message, provider == Provider::ClaudeCode, "{provider:?}");
        }
        let (_, _, warnings) = launched("see @notes.txt");
        assert_eq!(warnings.iter().any(|warning| warning.starts_with("prompt: ")), has_files, "{provider:?}");
        assert_eq!(launched("a @ b /c").2, Vec::<String>::new(), "{provider:?}");
        assert!(launched(" plain").1.contains(" plain"), "{provider:?}");
    }
}

#[test]
fn a_system_prompt_is_words_too() {
    let with = |provider: Provider, text: &str| {
        let wanted = Wanted { system_prompt: Some(text.into()), ..wanted("hi") };
        (provider.descriptor().launch)(&wanted)
    };
    // pi would read the file of this name.
    let launch = with(Provider::Pi, "/etc/hostname").unwrap();
    assert!(!launch.args.contains(&"/etc/hostname".to_owned()), "{:?}", launch.args);
    assert_eq!(launch.files[0].1, "/etc/hostname");
    for name in ["${AvailableTools}", "x ${SubAgents}", "${read_file_ToolName}", "$${AgentSkills}"] {
        let error = with(Provider::Gemini, name).unwrap_err();
        assert!(error.message().starts_with("systemPrompt: gemini puts"), "{}", error.message());
    }
    assert!(with(Provider::Gemini, "${HOME} $AvailableTools ${ToolName} {{x}} ${").is_ok());
}

#[test]
fn a_long_prompt_goes_by_stdin_or_is_refused() {
    let prompt = "x".repeat(200_000);
    for provider in Provider::ALL {
        let launch = (provider.descriptor().launch)(&wanted(&prompt));
        if let Err(error) = launch {
            assert!(error.message().starts_with("prompt: "), "{}", error.message());
            continue;
        }
        let launch = launch.unwrap();
        assert_eq!(launch.stdin.as_deref(), Some(&*prompt), "{}", provider.as_str());
        assert!(launch.args.iter().all(|arg| arg.len() < 131_072));
    }
}

#[test]
fn what_a_cli_cannot_do_is_said() {
    let wanted = Wanted {
        cli_tools: Some(vec!["read".into()]),
        max_turns: Some(3),
        system_prompt: Some("Be brief.".into()),
        model: Some("m".into()),
        ..wanted("hi")
    };
    for provider in Provider::ALL {
        let launch = (provider.descriptor().launch)(&wanted).unwrap();
        let all = format!("{:?} {:?} {:?}", launch.args, launch.set, launch.files);
        for (option, sign) in
            [("cliTools", "read"), ("maxTurns", "3\""), ("systemPrompt", "Be brief."), ("model", "\"m\"")]
        {
            let is_warned = launch.warnings.iter().any(|warning| warning.starts_with(option));
            assert!(all.contains(sign) || is_warned, "{} {option}: {all}", provider.as_str());
        }
    }
}

#[test]
fn tools_that_only_read_leave_none_of_those_that_write() {
    let tools = |permission, tools: &[&str]| {
        let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
        let wanted = Wanted { permission, cli_tools: tools, is_sandboxed: true, ..wanted("hi") };
        (Provider::Pi.descriptor().launch)(&wanted).unwrap().args.join(" ")
    };
    assert!(tools(Level::Plan, &["bash", "grep"]).contains("--tools grep"));
    assert!(tools(Level::Plan, &["bash"]).contains("--no-tools"), "an empty list might mean all");
    assert!(tools(Level::Edit, &["bash", "write"]).contains("--tools write"));
}

#[test]
fn images_reach_each_cli_that_takes_them() {
    use crate::harness::provider::Images;
    let content = ImageContent { media_type: "image/png", base64: "iVBO".into() };
    for (provider, way) in
        Provider::ALL.into_iter().filter_map(|provider| Some((provider, provider.descriptor().images?)))
    {
        let image = |path: &str| Image { path: path.into(), content: Some(content.clone()) };
        let wanted = Wanted { images: vec![image("/a b.png"), image("/c.png")], ..wanted("-- \"hi\"") };
        let launch = (provider.descriptor().launch)(&wanted).unwrap();
        if way == Images::ByPath {
            for path in ["/a b.png", "/c.png"] {
                assert!(
                    launch
                        .args
                        .iter()
                        .any(|arg| arg.ends_with(&format!("={path}")) || *arg == format!("@{path}")),
                    "{provider:?}: {:?}",
                    launch.args
                );
            }
            continue;
        }
        assert!(launch.args.join(" ").contains("--input-format stream-json"), "{provider:?}");
        assert!(!launch.args.iter().any(|arg| arg.contains("hi")), "{provider:?}: {:?}", launch.args);
        let message: Value = ground::json::read(launch.stdin.as_deref().unwrap()).unwrap();
        let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } });
        let text = json!({ "type": "text", "text": "-- \"hi\"" });
        assert_eq!(
            message["message"],
            json!({ "role": "user", "content": [text, image, image] }),
            "{provider:?}"
        );
    }
}

#[test]
fn an_image_is_known_by_its_first_bytes() {
    assert_eq!(media_type(b"\x89PNG\r\n\x1a\n..."), Some("image/png"));
    assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
    assert_eq!(media_type(b"GIF89a"), Some("image/gif"));
    assert_eq!(media_type(b"RIFF....WEBPVP8 "), Some("image/webp"));
    for other in [&b""[..], b"RIFF....WAVE", b"<svg/>", b"BM"] {
        assert_eq!(media_type(other), None);
    }
}

#[test]
fn servers_reach_each_cli_that_takes_them_without_their_secrets_in_arguments() {
    let server = McpServer::Program {
        name: "files".into(),
        command: "serve".into(),
        args: Vec::new(),
        env: vec![("TOKEN".into(), "a-secret".into())],
    };
    for provider in Provider::ALL.into_iter().filter(|provider| provider.descriptor().takes_servers) {
        for permission in [Level::Plan, Level::Edit, Level::Auto] {
            let wanted = Wanted { permission, mcp_servers: vec![server.clone()], ..wanted("hi") };
            let launch = (provider.descriptor().launch)(&wanted).unwrap();
            let args = launch.args.join(" ");
            assert!(!args.contains("a-secret"), "{provider:?}: {args}");
            let hidden = format!("{:?} {:?} {:?}", launch.files, launch.held, launch.set);
            assert!(hidden.contains("a-secret"), "{provider:?}: {hidden}");
            let is_allowed = ["allow-tool=files", "allowed-tools=mcp__files", "allowedTools=mcp__files"]
                .iter()
                .any(|flag| args.contains(flag));
            assert!(!is_allowed || permission == Level::Edit, "{provider:?} {permission:?}: {args}");
        }
    }
}
