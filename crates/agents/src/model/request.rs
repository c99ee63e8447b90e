//! A model call as a value, and the HTTP request for it. PURE.

use super::schema::Schema;
use super::taken_schema::Taker;
use ground::error::Error;
use ground::redaction::Secret;
use ground::retry::RetryPolicy;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A request for one completion. [`CompletionRequest::new`] has the defaults that API users get.
pub struct CompletionRequest {
    /// Base URL of `/chat/completions`, e.g. `https://api.openai.com/v1`. A query stays at the end of the URL.
    pub base_url: String,
    pub api_key: Option<Secret>,
    pub model: String,
    /// Messages in the format of the API.
    pub messages: Value,
    /// Tools in the format of the API.
    pub tools: Option<Value>,
    /// The tool choice in the format of the API.
    pub tool_choice: Option<Value>,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    pub seed: Option<i64>,
    /// Further fields of the body. They replace those of the call itself, except `messages` and `stream`.
    pub extra_body: Map<String, Value>,
    /// The answer must be JSON that fits this schema.
    pub schema: Option<Schema>,
    /// Limit for one attempt, from the connection to the end of the answer. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Longest pause between two pieces of the answer; its head is the first piece. `None`: no limit.
    pub idle_timeout: Option<Duration>,
    pub retry: RetryPolicy,
    /// Further headers. They replace those of the call itself.
    pub headers: Vec<(String, String)>,
    pub listener: Option<TextListener>,
}

/// Gets the text of the answer as it comes, with the number of its attempt, from 1. A later attempt starts from its beginning.
pub type TextListener = Arc<dyn Fn(u32, &str) + Send + Sync>;

impl CompletionRequest {
    pub const TIMEOUT: Duration = Duration::from_secs(120);
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
    pub const RETRIES: u32 = 2;
    pub const BASE_DELAY: Duration = Duration::from_millis(200);
    pub const MAX_DELAY: Duration = Duration::from_secs(30);

    pub fn new(base_url: impl Into<String>, model: impl Into<String>, messages: Value) -> Self {
        CompletionRequest {
            base_url: base_url.into(),
            api_key: None,
            model: model.into(),
            messages,
            tools: None,
            tool_choice: None,
            temperature: None,
            max_tokens: None,
            seed: None,
            extra_body: Map::new(),
            schema: None,
            timeout: Some(Self::TIMEOUT),
            idle_timeout: Some(Self::IDLE_TIMEOUT),
            retry: retry_policy(|_| None),
            headers: Vec::new(),
            listener: None,
        }
    }

    /// The URL to post to. `INVALID_OPTION` when it is not an http or https URL.
    pub fn url(&self) -> Result<String, Error> {
        let is_http = ["http://", "https://"].iter().any(|scheme| {
            self.base_url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        if !is_http {
            return Err(Error::invalid_option(
                "baseUrl",
                "expected a URL that begins with http:// or https://",
            ));
        }
        let base = self.base_url.split('#').next().unwrap_or_default();
        let (path, query) = match base.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (base, String::new()),
        };
        let path = path.trim_end_matches('/');
        let end = if path.ends_with("/chat/completions") { "" } else { "/chat/completions" };
        Ok(format!("{path}{end}{query}"))
    }

    /// Scheme and host, which name the server in messages. User, password and path are left out.
    pub fn origin(&self) -> String {
        let (scheme, rest) = self.base_url.split_once("://").unwrap_or(("", &self.base_url));
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        format!("{scheme}://{host}")
    }

    /// The body of the request. `correction`: messages about a misfitting answer, which follow the caller's own.
    pub fn body(&self, correction: &[Value]) -> Value {
        let mut body = Map::new();
        body.insert("model".to_owned(), self.model.clone().into());
        body.insert("messages".to_owned(), self.messages_with(correction));
        // Some servers refuse an empty list, which means the same as none.
        if let Some(tools) =
            self.tools.as_ref().filter(|tools| tools.as_array().is_none_or(|list| !list.is_empty()))
        {
            body.insert("tools".to_owned(), tools.clone());
        }
        let settings = [
            ("tool_choice", self.tool_choice.clone()),
            ("temperature", self.temperature.map(Value::from)),
            ("max_tokens", self.max_tokens.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        }
        if let Some(schema) = &self.schema {
            let format = json!({
                "name": schema_name(schema.source()),
                "strict": Taker::Strict.takes(schema.source()),
                "schema": schema.source(),
            });
            body.insert(
                "response_format".to_owned(),
                json!({ "type": "json_schema", "json_schema": format }),
            );
        }
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        for (name, value) in &self.extra_body {
            if !["messages", "stream"].contains(&name.as_str()) {
                body.insert(name.clone(), value.clone());
            }
        }
        Value::Object(body)
    }

    fn messages_with(&self, correction: &[Value]) -> Value {
        let mut messages = self.messages.clone();
        if let Some(list) = messages.as_array_mut() {
            list.extend_from_slice(correction);
        }
        messages
    }

    /// The headers of the request. `INVALID_OPTION` for a value that a header can't hold; the error does not contain the value.
    pub fn all_headers(&self) -> Result<Vec<(String, String)>, Error> {
        let mut all = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            ("accept".to_owned(), "text/event-stream, application/json".to_owned()),
        ];
        if let Some(key) = &self.api_key {
            check_value("apiKey", key.expose())?;
            all.push(("authorization".to_owned(), format!("Bearer {}", key.expose())));
        }
        for (name, value) in &self.headers {
            let path = format!("headers.{name}");
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Error::invalid_option(&path, "invalid HTTP header name"));
            }
            check_value(&path, value)?;
            all.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
            all.push((name.to_ascii_lowercase(), value.clone()));
        }
        Ok(all)
    }

    /// The values that must not appear in an error. Servers often quote the key that they refuse.
    pub fn secrets(&self) -> Vec<Secret> {
        /// Shorter than any key. Redacting such short words would damage other text.
        const SHORTEST: usize = 4;
        let user_info = self.base_url.split_once("://").and_then(|(_, rest)| {
            rest.split(['/', '?', '#']).next()?.rsplit_once('@').map(|(user, _)| user.to_owned())
        });
        let mut secrets: Vec<String> = Vec::new();
        secrets.extend(self.api_key.iter().map(|key| key.expose().to_owned()));
        for (name, value) in &self.headers {
            if ["auth", "key", "token", "secret", "cookie"]
                .iter()
                .any(|part| name.to_ascii_lowercase().contains(part))
            {
                secrets.push(value.clone());
                secrets.extend(value.split_whitespace().skip(1).map(str::to_owned));
            }
        }
        if let Some(user_info) = user_info {
            secrets.extend(user_info.split(':').map(str::to_owned));
        }
        secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).map(Secret::from).collect()
    }
}

fn check_value(path: &str, value: &str) -> Result<(), Error> {
    if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(Error::invalid_option(path, "contains a character that an HTTP header cannot hold"));
    }
    Ok(())
}

/// The messages that ask the model for a correction: its misfitting answer, and the list of problems.
pub(super) fn correction(text: &str, problems: &[String]) -> Vec<Value> {
    let list: String = problems.iter().map(|problem| format!("- {problem}\n")).collect();
    let told = format!(
        "Your answer does not fit the JSON Schema that was asked for:\n{list}Answer again, with nothing but JSON that fits it."
    );
    vec![json!({ "role": "assistant", "content": text }), json!({ "role": "user", "content": told })]
}

/// A name for the schema. The API requires letters, digits, `_` and `-`, 64 at most.
fn schema_name(schema: &Value) -> String {
    let title = schema.get("title").and_then(Value::as_str).unwrap_or_default();
    let name: String = title
        .chars()
        .map(
            |character| {
                if character.is_ascii_alphanumeric() || "_-".contains(character) { character } else { '_' }
            },
        )
        .take(64)
        .collect();
    if name.trim_matches('_').is_empty() { "answer".to_owned() } else { name }
}

/// The retry policy of a call. The number of retries comes from the environment: SHEEPDOG_AI_TIMEOUT_RETRIES, else
/// AGENTFIELD_AI_TIMEOUT_RETRIES, else [`CompletionRequest::RETRIES`]. A value that is not a whole number >= 0 counts as absent.
pub fn retry_policy(variable: impl Fn(&str) -> Option<String>) -> RetryPolicy {
    let read = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let retries = ["SHEEPDOG_AI_TIMEOUT_RETRIES", "AGENTFIELD_AI_TIMEOUT_RETRIES"].into_iter().find_map(read);
    let retries = retries.unwrap_or(CompletionRequest::RETRIES);
    RetryPolicy {
        attempts: retries.saturating_add(1),
        base_delay: CompletionRequest::BASE_DELAY,
        max_delay: CompletionRequest::MAX_DELAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(base_url: &str) -> CompletionRequest {
        CompletionRequest::new(base_url, "m", json!([{ "role": "user", "content": "hi" }]))
    }

    #[test]
    fn posts_to_chat_completions_below_the_base() {
        for (base, url) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("HTTPS://h/v1//", "HTTPS://h/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("http://h/v1?version=2#x", "http://h/v1/chat/completions?version=2"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ] {
            assert_eq!(request(base).url().unwrap(), url);
        }
        for wrong in ["", "h/v1", "ftp://h", "http:/h"] {
            assert!(request(wrong).url().unwrap_err().message().starts_with("baseUrl: "));
        }
    }

    #[test]
    fn asks_for_a_stream_with_usage_and_leaves_out_what_is_not_given() {
        let body = request("http://h").body(&[]);
        let names: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(names, ["model", "messages", "stream", "stream_options"]);
        let mut empty = request("http://h");
        empty.tools = Some(json!([]));
        assert!(empty.body(&[]).get("tools").is_none());
    }

    #[test]
    fn sends_the_schema_under_its_title() {
        let mut request = request("http://h");
        request.schema =
            Some(Schema::compile(json!({ "title": "A b!", "type": "object" }), "schema").unwrap());
        let format = request.body(&[])["response_format"].clone();
        assert_eq!(
            format["json_schema"],
            json!({ "name": "A_b_", "strict": false, "schema": { "title": "A b!", "type": "object" } })
        );
        assert_eq!(schema_name(&json!({})), "answer");
    }

    #[test]
    fn is_strict_only_where_the_schema_can_be() {
        let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let leaf = json!({ "type": "string" });
        for schema in [
            closed(json!({ "a": leaf }), json!(["a"])),
            closed(json!({ "a": { "type": ["string", "null"] } }), json!(["a"])),
            closed(json!({ "a": { "type": "array", "items": closed(json!({}), json!([])) } }), json!(["a"])),
            closed(json!({ "a": { "anyOf": [leaf, { "enum": [1] }] } }), json!(["a"])),
        ] {
            assert!(Taker::Strict.takes(&schema), "{schema}");
        }
        for schema in [
            json!({}),
            leaf.clone(),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "a": leaf }, "required": ["a"] }),
            closed(json!({ "a": leaf }), json!([])),
            closed(json!({ "a": {} }), json!(["a"])),
            closed(json!({ "a": true }), json!(["a"])),
            closed(json!({ "a": { "type": "object", "additionalProperties": leaf } }), json!(["a"])),
            closed(json!({ "a": { "oneOf": [leaf] } }), json!(["a"])),
            closed(json!({ "a": { "type": "array", "items": { "type": "object" } } }), json!(["a"])),
        ] {
            assert!(!Taker::Strict.takes(&schema), "{schema}");
        }
    }

    #[test]
    fn headers_of_the_user_win() {
        let mut request = request("http://h");
        request.api_key = Some("hunter2".into());
        request.headers =
            vec![("Authorization".into(), "Basic abcdef".into()), ("X-Team".into(), "blue".into())];
        let headers = request.all_headers().unwrap();
        let find = |name: &str| {
            headers.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(find("authorization"), ["Basic abcdef"]);
        assert_eq!(find("x-team"), ["blue"]);
        assert!(request.secrets().contains(&Secret::from("abcdef")));
    }

    #[test]
    fn a_key_that_can_not_be_sent_is_not_told() {
        let mut wrong = request("http://h");
        wrong.api_key = Some("hunter2\n".into());
        let error = wrong.all_headers().unwrap_err();
        assert!(error.message().starts_with("apiKey: ") && !error.message().contains("hunter2"));
        wrong = request("http://h");
        wrong.headers = vec![("a b".into(), "x".into())];
        assert!(wrong.all_headers().unwrap_err().message().starts_with("headers.a b: "));
    }

    #[test]
    fn names_the_server_without_user_and_path() {
        let request = request("https://user:passw0rd@host:8443/v1?key=x");
        assert_eq!(request.origin(), "https://host:8443");
        assert!(request.secrets().contains(&Secret::from("passw0rd")));
    }

    #[test]
    fn reads_the_retries_of_the_environment() {
        let attempts = |own: Option<&str>, inherited: Option<&str>| {
            let variable = |name: &str| {
                let value = if name.starts_with("SHEEPDOG") { own } else { inherited };
                value.map(str::to_owned)
            };
            retry_policy(variable).attempts
        };
        assert_eq!(attempts(None, None), 3);
        assert_eq!(attempts(Some("0"), Some("5")), 1);
        assert_eq!(attempts(None, Some("5")), 6);
        assert_eq!(attempts(Some(" 4 "), None), 5);
        for nonsense in ["", "-1", "2.5", "many", "1e3", "99999999999"] {
            assert_eq!(attempts(Some(nonsense), Some("1")), 2, "{nonsense}");
            assert_eq!(attempts(Some(nonsense), None), 3, "{nonsense}");
        }
    }
}
