//! PURE: MCP servers whose tools an agent is given.

use ground::error::Error;
use serde_json::{Map, Value, json};

/// A server of tools: one with an HTTP address, or a program that the agent starts.
#[derive(Clone, Debug, PartialEq)]
pub enum McpServer {
    Http { name: String, url: String, headers: Vec<(String, String)> },
    Program { name: String, command: String, args: Vec<String>, env: Vec<(String, String)> },
}

impl McpServer {
    pub fn name(&self) -> &str {
        match self {
            McpServer::Http { name, .. } | McpServer::Program { name, .. } => name,
        }
    }

    /// The same with other texts in all places where a user may write a key.
    pub(crate) fn map_texts(&self, map: impl Fn(&str) -> String) -> McpServer {
        let pairs = |pairs: &[(String, String)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| (name.clone(), map(value))).collect()
        };
        match self {
            McpServer::Http { name, url, headers } => {
                McpServer::Http { name: name.clone(), url: map(url), headers: pairs(headers) }
            }
            McpServer::Program { name, command, args, env } => McpServer::Program {
                name: name.clone(),
                command: map(command),
                args: args.iter().map(|argument| map(argument)).collect(),
                env: pairs(env),
            },
        }
    }

    /// Written so that the CLI's own replacing gives each value as it was given.
    pub(crate) fn written_for(&self, replaced: Replaced) -> McpServer {
        let braces = |text: &str| text.replace("${", &format!("${{{}}}{{", DOLLAR.0));
        let signs = |text: &str| text.replace('$', &format!("${{{}}}", DOLLAR.0));
        let escaped = |text: &str| text.replace('$', r"\$");
        let each = |pairs: &mut Vec<(String, String)>, write: &dyn Fn(&str) -> String| {
            pairs.iter_mut().for_each(|(_, value)| *value = write(value));
        };
        let mut written = match replaced {
            Replaced::Braces => self.map_texts(braces),
            Replaced::Signs => self.map_texts(signs),
            Replaced::Nothing | Replaced::Escapable => self.clone(),
        };
        match (replaced, &mut written) {
            // It replaces names in a header once more when it connects.
            (Replaced::Braces, McpServer::Http { headers, .. }) => each(headers, &braces),
            (Replaced::Escapable, McpServer::Http { headers, .. }) => each(headers, &escaped),
            (Replaced::Escapable, McpServer::Program { env, .. }) => each(env, &escaped),
            (Replaced::Nothing | Replaced::Braces | Replaced::Signs, _) => {}
        }
        written
    }

    /// As configuration files of CLIs have a server, below its name.
    pub(crate) fn to_configuration(&self) -> Value {
        match self {
            McpServer::Http { url, headers, .. } => {
                json!({ "type": "http", "url": url, "headers": object(headers) })
            }
            McpServer::Program { command, args, env, .. } => {
                json!({ "type": "stdio", "command": command, "args": args, "env": object(env) })
            }
        }
    }
}

/// The texts in a server's configuration in which a CLI replaces names of variables by their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replaced {
    Nothing,
    /// `${NAME}` in all values.
    Braces,
    /// `$NAME` and `${NAME}` in all values.
    Signs,
    /// `$NAME` and `${NAME}` in the values of the environment and of headers, but not behind a backslash.
    Escapable,
}

impl Replaced {
    /// Whether values are written with the variable [`DOLLAR`].
    pub(crate) fn needs_dollar(self) -> bool {
        matches!(self, Replaced::Braces | Replaced::Signs)
    }
}

/// A variable that stands for the sign in a value: what is put in its place is not looked at again.
pub(crate) const DOLLAR: (&str, &str) = ("SHEEPDOG_DOLLAR", "$");

/// The pairs as an object of JSON.
pub(crate) fn object(pairs: &[(String, String)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
}

/// Servers for a turn: CLIs make names of tools, rules and settings from the names.
pub(crate) fn check(servers: &[McpServer]) -> Result<(), Error> {
    for (index, server) in servers.iter().enumerate() {
        let path = format!("mcpServers[{index}].name");
        let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        if server.name().is_empty() || !server.name().chars().all(is_plain) {
            let problem = format!("expected letters, digits, \"-\" and \"_\", got {:?}", server.name());
            return Err(Error::invalid_option(&path, problem));
        }
        if servers[..index].iter().any(|earlier| earlier.name() == server.name()) {
            return Err(Error::invalid_option(&path, format!("{:?} is given twice", server.name())));
        }
    }
    Ok(())
}

/// `{"mcpServers": {...}}`, the text of a file.
pub(crate) fn configuration(servers: &[McpServer]) -> String {
    let servers: Map<String, Value> =
        servers.iter().map(|server| (server.name().to_owned(), server.to_configuration())).collect();
    json!({ "mcpServers": servers }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> McpServer {
        McpServer::Program { name: name.into(), command: "serve".into(), args: Vec::new(), env: Vec::new() }
    }

    #[test]
    fn a_name_that_a_cli_can_not_use_is_refused_by_its_path() {
        let problem = |servers: &[McpServer]| check(servers).map_err(|error| error.message().to_owned());
        assert_eq!(problem(&[server("files"), server("web_2-a")]), Ok(()));
        for name in ["", "a b", "a.b", "a\"", "ä"] {
            let message = problem(&[server("files"), server(name)]).expect_err("refused");
            assert!(message.starts_with("mcpServers[1].name: expected letters"), "{message}");
        }
        let message = problem(&[server("a"), server("a")]).expect_err("refused");
        assert_eq!(message, "mcpServers[1].name: \"a\" is given twice");
    }

    #[test]
    fn a_value_is_the_same_after_the_cli_has_replaced_names() {
        let program = McpServer::Program {
            name: "files".into(),
            command: "serve${A}".into(),
            args: vec!["${HOME}".into(), "$HOME".into(), "$${A:-b}$".into()],
            env: vec![("PW".into(), r"pa${HOME}ss$X\$Y".into())],
        };
        let web = McpServer::Http {
            name: "web".into(),
            url: "http://127.0.0.1/${HOME}".into(),
            headers: vec![("Authorization".into(), "Bearer ${HOME}".into())],
        };
        // As claude-code 2.1.330 replaces names: once, and once more in headers.
        let once = |text: &str| text.replace("${SHEEPDOG_DOLLAR}", "$");
        assert_eq!(program.written_for(Replaced::Braces).map_texts(once), program);
        let McpServer::Http { url, headers, .. } = web.written_for(Replaced::Braces) else { unreachable!() };
        assert_eq!(once(&url), "http://127.0.0.1/${HOME}");
        assert_eq!(headers[0].1, "Bearer ${SHEEPDOG_DOLLAR}{SHEEPDOG_DOLLAR}{HOME}");
        // As copilot 1.0.102 does, for names without braces too.
        let written = program.written_for(Replaced::Signs);
        assert_eq!(written.map_texts(once), program);
        written.map_texts(|text| {
            assert!(!once(&text.replace("${SHEEPDOG_DOLLAR}", "")).contains('$'), "{text}");
            text.to_owned()
        });
        // As gemini 0.61.0 does: a sign behind a backslash stays.
        let McpServer::Program { args, env, .. } = program.written_for(Replaced::Escapable) else {
            unreachable!()
        };
        assert_eq!((args[0].as_str(), env[0].1.as_str()), ("${HOME}", r"pa\${HOME}ss\$X\\$Y"));
        assert_eq!(env[0].1.replace(r"\$", "$"), r"pa${HOME}ss$X\$Y");
        let McpServer::Http { url, headers, .. } = web.written_for(Replaced::Escapable) else {
            unreachable!()
        };
        assert_eq!((url.as_str(), headers[0].1.as_str()), ("http://127.0.0.1/${HOME}", r"Bearer \${HOME}"));
        assert_eq!(web.written_for(Replaced::Nothing), web);
    }

    #[test]
    fn a_configuration_has_each_server_by_its_name() {
        let http = McpServer::Http {
            name: "web".into(),
            url: "http://127.0.0.1:1/mcp".into(),
            headers: vec![("Authorization".into(), "Bearer x".into())],
        };
        assert_eq!(
            configuration(&[server("files"), http]),
            r#"{"mcpServers":{"files":{"type":"stdio","command":"serve","args":[],"env":{}},"web":{"type":"http","url":"http://127.0.0.1:1/mcp","headers":{"Authorization":"Bearer x"}}}}"#
        );
    }
}
