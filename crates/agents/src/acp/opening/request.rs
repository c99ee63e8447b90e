//! PURE: the requests of a session and of its prompts.

use crate::acp::question::own_tool::OwnTool;
use crate::acp::question::policy::{Policy, Rule};
pub use crate::harness::McpServer;
use crate::harness::budget::allowance::Allowance;
use crate::harness::clock::ClockLimits;
use crate::harness::launch::{MEDIA_TYPES, checked_image};
use crate::harness::level::allow;
use crate::harness::{AgentRequest, Provider};
use crate::model::Schema;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ground::error::Error;
use ground::json::object::put;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A session to open.
#[derive(Clone)]
pub struct OpenRequest {
    pub agent: AgentRequest,
    /// The folder whose installed packages may hold the program; that of the agent by default. A checkout has none.
    pub packages: Option<PathBuf>,
    pub policy: Policy,
    /// Somebody answers what the rules leave open.
    pub has_handler: bool,
    /// Somebody gives the input that the agent asks of the user.
    pub has_elicitation_handler: bool,
    /// For an answer of a handler; `None`: off.
    pub permission_timeout: Option<Duration>,
    pub servers: Vec<McpServer>,
    /// The caller's own tools, which one of the servers offers.
    pub tools: Vec<OwnTool>,
    /// For how long nothing may go on behind a turn before it is over.
    pub settle: Duration,
    /// The longest wait for the end of a usage limit; zero: none.
    pub wait_for_reset: Duration,
}

impl OpenRequest {
    pub const PERMISSION_TIMEOUT: Duration = Duration::from_secs(300);
    pub const SETTLE: Duration = Duration::from_millis(500);

    pub fn new(provider: Provider) -> Self {
        Self::of(AgentRequest::new(provider))
    }

    pub fn of(agent: AgentRequest) -> Self {
        OpenRequest {
            agent,
            packages: None,
            policy: Policy::default(),
            has_handler: false,
            has_elicitation_handler: false,
            permission_timeout: Some(Self::PERMISSION_TIMEOUT),
            servers: Vec::new(),
            tools: Vec::new(),
            settle: Self::SETTLE,
            wait_for_reset: Duration::ZERO,
        }
    }

    /// Adds a rule for each glob of the option `allow`, which has to be one that a turn takes too.
    pub fn allow_commands(&mut self, globs: Vec<String>) -> Result<(), Error> {
        allow::check(&globs, self.agent.level)?;
        let rule = |glob| Rule { command: Some(glob), ..Rule::default() };
        self.policy.allow.extend(globs.into_iter().map(rule));
        Ok(())
    }

    /// The session's budgets. `INVALID_OPTION` when its agent can't be held to them.
    pub(crate) fn allowance(&self) -> Result<Allowance, Error> {
        self.agent.allowance(self.agent.provider.protocol().accounting)
    }
}

impl McpServer {
    pub(crate) fn is_http(&self) -> bool {
        matches!(self, McpServer::Http { .. })
    }

    pub(crate) fn to_json(&self) -> Value {
        let pairs = |pairs: &[(String, String)]| -> Vec<Value> {
            pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
        };
        match self {
            McpServer::Http { name, url, headers } => {
                json!({ "type": "http", "name": name, "url": url, "headers": pairs(headers) })
            }
            McpServer::Program { name, command, args, env } => {
                json!({ "type": "stdio", "name": name, "command": command, "args": args, "env": pairs(env) })
            }
        }
    }
}

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPart {
    Text(String),
    /// `data` in base64.
    Image {
        mime_type: String,
        data: String,
    },
    /// A file or page that the agent may read itself, or its text.
    Resource {
        uri: String,
        text: Option<String>,
        mime_type: Option<String>,
    },
}

impl PromptPart {
    fn check(&self, path: &str) -> Result<(), Error> {
        match self {
            PromptPart::Image { mime_type, data } => {
                if !MEDIA_TYPES.contains(&mime_type.as_str()) {
                    let problem = format!("expected one of {}, got {mime_type:?}", MEDIA_TYPES.join(", "));
                    return Err(Error::invalid_option(&format!("{path}.mimeType"), problem));
                }
                image_type(data)
                    .map(drop)
                    .map_err(|problem| Error::invalid_option(&format!("{path}.data"), problem))
            }
            PromptPart::Resource { mime_type: Some(mime_type), .. } => {
                let is_word = |word: &str| {
                    !word.is_empty()
                        && word
                            .chars()
                            .all(|letter| letter.is_ascii_alphanumeric() || "!#$&^_.+-".contains(letter))
                };
                let essence = mime_type.split(';').next().unwrap_or_default().trim();
                if essence.split_once('/').is_some_and(|(kind, name)| is_word(kind) && is_word(name)) {
                    return Ok(());
                }
                let problem = format!("expected a media type such as \"text/plain\", got {mime_type:?}");
                Err(Error::invalid_option(&format!("{path}.mimeType"), problem))
            }
            PromptPart::Text(_) | PromptPart::Resource { .. } => Ok(()),
        }
    }
}

/// The media type of an image in base64, as its first bytes tell it.
fn image_type(data: &str) -> Result<&'static str, String> {
    match STANDARD.decode(data) {
        Ok(bytes) => checked_image(&bytes),
        Err(_) => {
            Err("is no base64: leave out `data:...;base64,` and line feeds, or pass the bytes".to_owned())
        }
    }
}

/// The parts of prompts that an agent takes, besides text and links.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PromptTakes {
    image: bool,
    text_of_resource: bool,
}

impl PromptTakes {
    /// As the answer to `initialize` says it, in both versions.
    pub(crate) fn of(hello: &Value) -> PromptTakes {
        let (first, second) =
            (&hello["agentCapabilities"]["promptCapabilities"], &hello["capabilities"]["session"]["prompt"]);
        let offers = |name: &str| first[name] == true || second[name].is_object();
        PromptTakes { image: offers("image"), text_of_resource: offers("embeddedContext") }
    }

    /// `INVALID_OPTION` for a part that the agent does not take, or that no model can be given.
    pub(crate) fn check(self, agent: &str, parts: &[PromptPart]) -> Result<(), Error> {
        for (index, part) in parts.iter().enumerate() {
            let what = match part {
                PromptPart::Image { .. } if !self.image => "images",
                PromptPart::Resource { text: Some(_), .. } if !self.text_of_resource => {
                    "the text of resources (leave `text` out, so that it reads the resource itself)"
                }
                _ => continue,
            };
            return Err(Error::invalid_option(
                &format!("prompt[{index}]"),
                format!("{agent} does not take {what} in a prompt"),
            ));
        }
        let mut parts = parts.iter().enumerate();
        parts.try_for_each(|(index, part)| part.check(&format!("prompt[{index}]")))
    }
}

impl PromptPart {
    fn to_json(&self) -> Value {
        match self {
            PromptPart::Text(text) => text_block(text),
            PromptPart::Image { mime_type, data } => {
                // The bytes tell more than the name that they were given.
                let mime_type = image_type(data).unwrap_or(mime_type);
                json!({ "type": "image", "mimeType": mime_type, "data": data })
            }
            PromptPart::Resource { uri, text: Some(text), mime_type } => {
                let resource = with_type(json!({ "uri": uri, "text": text }), mime_type.as_deref());
                json!({ "type": "resource", "resource": resource })
            }
            PromptPart::Resource { uri, text: None, mime_type } => {
                let name = uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(uri);
                with_type(json!({ "type": "resource_link", "uri": uri, "name": name }), mime_type.as_deref())
            }
        }
    }
}

/// An absent type is left out: some agents refuse null.
fn with_type(mut block: Value, mime_type: Option<&str>) -> Value {
    if let Some(mime_type) = mime_type {
        put(&mut block, "mimeType", mime_type);
    }
    block
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A prompt of a session.
#[derive(Clone, Default)]
pub struct PromptRequest {
    /// The words of the prompt.
    pub text: String,
    /// The prompt in its parts, if it has others than text.
    pub parts: Vec<PromptPart>,
    pub schema: Option<Arc<Schema>>,
    /// `None`: as the session says. `Some(None)`: off.
    pub idle: Option<Option<Duration>>,
    pub tool_idle: Option<Option<Duration>>,
    pub total: Option<Option<Duration>>,
    /// Whether the turn ends though something goes on behind it.
    pub leaves: bool,
    /// Whether somebody may listen to the events.
    pub has_listener: bool,
}

impl PromptRequest {
    pub fn new(text: impl Into<String>) -> Self {
        PromptRequest { text: text.into(), ..PromptRequest::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.text.trim().is_empty() && self.parts.is_empty() {
            return Err(Error::invalid_option("prompt", "expected a prompt that is not empty"));
        }
        Ok(())
    }

    /// The content to send. `text`: the words, with all that was added to them.
    pub(crate) fn content(&self, text: &str) -> Vec<Value> {
        if self.parts.is_empty() {
            return vec![text_block(text)];
        }
        if text == self.text {
            return self.parts.iter().map(PromptPart::to_json).collect();
        }
        let others = self.parts.iter().filter(|part| !matches!(part, PromptPart::Text(_)));
        std::iter::once(text_block(text)).chain(others.map(PromptPart::to_json)).collect()
    }

    pub(crate) fn limits(&self, session: &ClockLimits) -> ClockLimits {
        ClockLimits {
            // The session has started long ago.
            start: None,
            idle: self.idle.unwrap_or(session.idle),
            tool_idle: self.tool_idle.unwrap_or(session.tool_idle),
            total: self.total.unwrap_or(session.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<PromptPart> {
        let image = PromptPart::Image { mime_type: "image/png".into(), data: "iVBORw0KGgo=".into() };
        let link = PromptPart::Resource { uri: "file:///work/a.rs".into(), text: None, mime_type: None };
        vec![PromptPart::Text("Compare ".into()), image, PromptPart::Text("with".into()), link]
    }

    #[test]
    fn parts_are_sent_in_their_order_or_behind_words_that_were_added() {
        let mut request = PromptRequest::new("Compare with");
        assert_eq!(request.content("Compare with"), [text_block("Compare with")]);
        request.parts = parts();
        let types = |text: &str| -> Vec<String> {
            let content = request.content(text).into_iter();
            content.map(|block| block["type"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(types("Compare with"), ["text", "image", "text", "resource_link"]);
        assert_eq!(types("Be brief. Compare with"), ["text", "image", "resource_link"]);
        assert_eq!(request.content("Compare with")[3]["name"], "a.rs");
    }

    #[test]
    fn an_image_is_judged_by_its_bytes() {
        let takes = PromptTakes { image: true, text_of_resource: true };
        let image = |mime_type: &str, data: String| PromptPart::Image { mime_type: mime_type.into(), data };
        let refused = |part: &PromptPart| {
            let error = takes.check("pi", std::slice::from_ref(part)).err();
            error.map(|error| error.message().to_owned()).unwrap_or_default()
        };
        let jpeg = STANDARD.encode(b"\xff\xd8\xff\xe0");
        assert_eq!(refused(&image("image/png", jpeg.clone())), "");
        assert_eq!(image("image/png", jpeg.clone()).to_json()["mimeType"], "image/jpeg");
        for (mime_type, data, place) in [
            ("image/png", STANDARD.encode("<!doctype html>"), "prompt[0].data: is not a PNG"),
            ("image/png", String::new(), "prompt[0].data: is not a PNG"),
            ("image/png", "not base64 !!".into(), "prompt[0].data: is no base64"),
            ("image/png", format!("data:image/jpeg;base64,{jpeg}"), "prompt[0].data: is no base64"),
            ("text/html", jpeg.clone(), "prompt[0].mimeType: expected one of image/png"),
            ("image/svg+xml", STANDARD.encode("<svg/>"), "prompt[0].mimeType: expected one of"),
            (
                "image/png",
                STANDARD.encode(vec![0x89; (20 << 20) + 1]),
                "prompt[0].data: is larger than 20 MiB",
            ),
        ] {
            let message = refused(&image(mime_type, data));
            assert!(message.starts_with(place), "{mime_type}: {message}");
        }
        let resource = |mime_type: &str| PromptPart::Resource {
            uri: "file:///a".into(),
            text: None,
            mime_type: Some(mime_type.into()),
        };
        for mime_type in ["text/plain", "text/x-rust; charset=utf-8", "application/vnd.api+json"] {
            assert_eq!(refused(&resource(mime_type)), "", "{mime_type}");
        }
        for mime_type in ["", "text", "text/", "a b/c", "<html>"] {
            assert!(refused(&resource(mime_type)).starts_with("prompt[0].mimeType: "), "{mime_type}");
        }
    }

    #[test]
    fn a_part_that_the_agent_does_not_take_is_refused_by_its_place() {
        let first = json!({"agentCapabilities":{"promptCapabilities":{"image":true}}});
        let second = json!({"capabilities":{"session":{"prompt":{"image":{},"embeddedContext":{}}}}});
        let text = PromptPart::Resource { uri: "a".into(), text: Some("b".into()), mime_type: None };
        for (hello, image, resource) in
            [(&first, true, false), (&second, true, true), (&json!({}), false, false)]
        {
            let takes = PromptTakes::of(hello);
            assert_eq!(takes.check("pi", &parts()).is_ok(), image, "{hello}");
            assert_eq!(takes.check("pi", std::slice::from_ref(&text)).is_ok(), resource, "{hello}");
        }
        let refused = PromptTakes::default().check("pi", &parts()).unwrap_err();
        assert_eq!(refused.message(), "prompt[1]: pi does not take images in a prompt");
    }
}
