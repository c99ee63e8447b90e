//! PURE: a permission request of the agent, in one shape for both versions, and the answer to it. Options are chosen by kind,
//! never by position.

pub(crate) mod elicitation;
pub(crate) mod named_files;
pub(crate) mod own_tool;
pub(crate) mod permission;
pub(crate) mod place;
pub(crate) mod policy;

use crate::acp::question::elicitation::{Elicitation, Elicited};
use crate::acp::question::named_files::{MAX_DEPTH, named_in, path_of};
use crate::acp::question::own_tool::OwnTool;
use crate::acp::wire::update::{ToolUpdate, owned};
use ground::json::object::put;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Instant;

/// The request to a handler; the shape is that of `PermissionRequest` in lib/harness/session/permission.ts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    pub id: String,
    pub tool: QuestionTool,
    pub options: Vec<QuestionOption>,
    /// All that was told of the call: by the request, and before it. Each may be what the agent will do.
    #[serde(skip)]
    told: Told,
    /// The caller's own tool that is meant.
    #[serde(skip)]
    own: Option<OwnTool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    /// The tool's name as the agent tells it.
    name: Option<String>,
    inputs: Vec<Value>,
    files: Vec<String>,
}

/// The tool that the agent wants to call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionTool {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub kind: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Location {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionOption {
    pub id: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`.
    pub kind: String,
    pub name: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Allow,
    AllowAlways,
    Reject,
    Option(String),
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decider {
    Policy,
    Handler,
    Timeout,
}

impl Decider {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Decider::Policy => "policy",
            Decider::Handler => "handler",
            Decider::Timeout => "timeout",
        }
    }
}

/// A request to the host while a session lives.
#[derive(Clone, Debug, PartialEq)]
pub enum HostRequest {
    /// Answer with [`Session::answer`](super::Session::answer).
    Question(Question),
    /// Answer with [`Session::elicited`](super::Session::elicited).
    Elicitation(Elicitation),
    /// The question, or the elicitation, needs no answer any more.
    Withdrawn { id: String },
    /// The turn was stopped: calls of the host's own tools are to end.
    Stopped,
}

/// A question that is to be answered.
pub(super) struct OpenQuestion {
    /// JSON-RPC id of the agent's request, as the agent wrote it. Agents use an id again after an answer, so a late answer of the
    /// handler is matched by the question's own id, which no other question of the session has.
    pub(super) asked: String,
    pub(super) subject: Subject,
    pub(super) reject_at: Option<Instant>,
}

/// The subject of a question.
pub(super) enum Subject {
    Permission(Question),
    Elicitation(Elicitation),
}

impl OpenQuestion {
    pub(super) fn id(&self) -> &str {
        match &self.subject {
            Subject::Permission(question) => &question.id,
            Subject::Elicitation(elicitation) => &elicitation.id,
        }
    }

    /// The answer on the wire that nobody decides on it any more.
    pub(super) fn cancelled(&self) -> Value {
        match &self.subject {
            Subject::Permission(_) => outcome(None),
            Subject::Elicitation(_) => Elicited::Cancel.to_json(),
        }
    }
}

impl Question {
    /// Reads the params of `session/request_permission`. `known`: the facts about a tool call so far, because requests may be
    /// sparse.
    pub(crate) fn read(id: &str, params: &Value, known: impl FnOnce(&str) -> Option<ToolUpdate>) -> Question {
        let subject = &params["subject"];
        let call = [&params["toolCall"], &subject["toolCall"]].into_iter().find(|call| call.is_object());
        let asked = call.and_then(ToolUpdate::read).unwrap_or_else(|| ToolUpdate {
            id: owned(&subject["toolCallId"]).unwrap_or_else(|| id.to_owned()),
            kind: subject["command"].is_string().then(|| "execute".to_owned()),
            input: subject["command"].is_string().then(|| json!({ "command": subject["command"] })),
            ..ToolUpdate::default()
        });
        let known = known(&asked.id).unwrap_or_default();
        let command = owned(&subject["command"]);
        let mut told = Told::of([&asked, &known], subject);
        let title = asked.title.or(known.title).or_else(|| owned(&params["title"])).or(command);
        let name = asked.name.or(known.name);
        told.name.clone_from(&name);
        let locations = asked.locations.or(known.locations).unwrap_or_default();
        Question {
            own: None,
            id: id.to_owned(),
            told,
            tool: QuestionTool {
                id: asked.id,
                kind: asked.kind.or(known.kind).unwrap_or_else(|| "other".to_owned()),
                title: title.or_else(|| name.clone()).unwrap_or_default(),
                name,
                input: asked.input.or(known.input),
                locations: locations.as_array().into_iter().flatten().filter_map(Location::read).collect(),
            },
            options: params["options"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(QuestionOption::read)
                .collect(),
        }
    }

    /// The question that a rule answers about what the client is to do for the agent.
    pub(crate) fn of_act(id: &str, method: &str, params: &Value) -> Question {
        let kind = match method {
            "terminal/create" => "execute",
            "fs/read_text_file" => "read",
            _ => "edit",
        };
        let mut input = params.clone();
        put(&mut input, "content", Value::Null);
        let call = json!({ "toolCallId": id, "kind": kind, "rawInput": input });
        Question::read(id, &json!({ "toolCall": call }), |_| None)
    }

    /// Finds the caller's own tool that is meant, and names it as the caller did. A title may be the words of a command, so it
    /// counts only where nothing is known to be run, read or written.
    pub(crate) fn among(mut self, tools: &[OwnTool]) -> Question {
        let title = Some(&self.tool.title).filter(|_| self.tool.kind == "other");
        let told = self.tool.name.as_ref().or(title);
        if let Some(own) = told.and_then(|told| OwnTool::find(tools, told)).cloned() {
            self.tool.name = Some(own.name.clone());
            self.own = Some(own);
        }
        self
    }

    /// The tool in words for the caller: its own name for it, or the agent's title.
    pub(crate) fn shown(&self) -> &str {
        self.own().map_or(&self.tool.title, |own| &own.name)
    }

    pub(crate) fn own(&self) -> Option<&OwnTool> {
        self.own.as_ref()
    }

    /// The names by which a rule may mean the tool: the caller's own, and the agent's.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.tool.name.iter().chain(&self.told.name)
    }

    /// The id of the option that says what the answer means. `None`: there is none that does.
    pub(crate) fn choose(&self, answer: &Answer) -> Option<&str> {
        let of_kind = |kind: &'static str| self.options.iter().filter(move |option| option.kind == kind);
        let chosen = match answer {
            // One that also switches the session's mode grants more than this call (qwen).
            Answer::Allow => of_kind("allow_once")
                .find(|option| !option.id.to_ascii_lowercase().contains("switch"))
                .or_else(|| of_kind("allow_once").next()),
            Answer::AllowAlways => of_kind("allow_always").next().or_else(|| of_kind("allow_once").next()),
            Answer::Reject => of_kind("reject_once").next().or_else(|| of_kind("reject_always").next()),
            Answer::Option(id) => self.options.iter().find(|option| option.id == *id),
        };
        chosen.map(|option| option.id.as_str())
    }

    /// The commands that are to run, as the agent names them.
    pub(crate) fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = self.told.inputs.iter().flat_map(commands_in).collect();
        if self.tool.kind == "execute" {
            commands.extend(self.told.inputs.iter().filter_map(|input| shell_text(input, true)));
        }
        // Gemini has no input: the title is the command.
        if self.told.inputs.is_empty() {
            commands.extend(self.title_as_command());
        }
        commands.sort_unstable();
        commands.dedup();
        commands
    }

    /// Whether a command is to run that none of the known fields names.
    pub(crate) fn hides_command(&self) -> bool {
        self.kind() == "execute" && !self.told.inputs.is_empty() && self.commands().is_empty()
    }

    /// The kind of the tool. What names a command to run runs it, whatever kind the agent states.
    pub(crate) fn kind(&self) -> &str {
        let runs = self.told.inputs.iter().any(|input| !commands_in(input).is_empty());
        if runs { "execute" } else { &self.tool.kind }
    }

    /// The title of a command. Agents also write a description there.
    pub(crate) fn title_as_command(&self) -> Option<String> {
        (self.tool.kind == "execute" && !self.tool.title.is_empty()).then(|| self.tool.title.clone())
    }

    /// Folders that the agent names for the command to run in; empty if it runs in the session's folder.
    pub(crate) fn command_folders(&self) -> impl Iterator<Item = &str> {
        const NAMES: [&str; 7] =
            ["cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir_path", "dir"];
        let inputs = self.told.inputs.iter();
        inputs.flat_map(|input| NAMES.iter().filter_map(move |name| input.get(name)?.as_str()))
    }

    /// Whether the command is to run with variables of the agent's own.
    pub(crate) fn changes_environment(&self) -> bool {
        let fields =
            |input| ["env", "environment"].into_iter().filter_map(move |name| Value::get(input, name));
        self.told.inputs.iter().flat_map(fields).any(|value| match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(all) => !all.is_empty(),
            Value::Object(all) => !all.is_empty(),
        })
    }

    /// The files that are touched, as the agent names them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.told.files.iter().map(String::as_str)
    }
}

impl Told {
    fn of(calls: [&ToolUpdate; 2], subject: &Value) -> Told {
        let mut told = Told::default();
        for call in calls {
            let locations = call.locations.as_ref().and_then(Value::as_array);
            let paths = locations.into_iter().flatten().filter_map(|location| location["path"].as_str());
            told.files.extend(paths.map(path_of));
            told.files.extend(call.diffs.iter().map(|(path, ..)| path_of(path)));
            told.files.extend(call.input.iter().flat_map(named_in));
            told.inputs.extend(call.input.clone());
        }
        // The subject of the second version may be a command or a file itself. Its tool call was read above.
        if let Value::Object(fields) = subject {
            let mut rest = fields.clone();
            rest.remove("toolCall");
            let rest = Value::Object(rest);
            told.files.extend(named_in(&rest));
            if !commands_in(&rest).is_empty() {
                told.inputs.push(rest);
            }
        }
        told.files.sort_unstable();
        told.files.dedup();
        told
    }
}

/// All commands in the input of a tool, which may take its arguments as one field.
fn commands_in(input: &Value) -> Vec<String> {
    let mut commands = Vec::new();
    collect(input, MAX_DEPTH, &mut commands);
    commands.retain(|command| !command.is_empty());
    commands
}

/// A command is a text for a shell, or a list of words. Its arguments may stand beside it.
fn collect(input: &Value, depth: usize, commands: &mut Vec<String>) {
    const NAMES: [&str; 9] = [
        "command",
        "cmd",
        "commandLine",
        "command_line",
        "shell_command",
        "script",
        "program",
        "executable",
        "argv",
    ];
    let arguments: Vec<String> =
        ["args", "arguments"].iter().filter_map(|name| shell_text(&input[*name], false)).collect();
    let named = NAMES.iter().filter_map(|name| shell_text(&input[*name], true));
    commands.extend(named.map(|command| [&[command], arguments.as_slice()].concat().join(" ")));
    for name in ["commands", "cmds"] {
        let all = input[name].as_array().into_iter().flatten();
        commands.extend(all.filter_map(|command| shell_text(command, true)));
    }
    match input {
        _ if depth == 0 => {}
        Value::Object(fields) => fields.values().for_each(|value| collect(value, depth - 1, commands)),
        Value::Array(items) => items.iter().for_each(|value| collect(value, depth - 1, commands)),
        _ => {}
    }
}

/// A text as it is, words as a shell would be given them; `None` for what is neither. `is_whole`: a single word is a text.
fn shell_text(told: &Value, is_whole: bool) -> Option<String> {
    let words = match told {
        Value::String(text) => return Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Array(words) => words,
        _ => return None,
    };
    let words: Vec<String> = words
        .iter()
        .filter(|word| !word.is_null())
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
        .collect();
    match words.as_slice() {
        [] => None,
        [text] if is_whole => Some(text.clone()),
        words => Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-/:=@+%,".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The answer on the wire: an option, or that the question was cancelled.
pub(crate) fn outcome(option: Option<&str>) -> Value {
    match option {
        Some(id) => json!({ "outcome": { "outcome": "selected", "optionId": id } }),
        None => json!({ "outcome": { "outcome": "cancelled" } }),
    }
}

impl Answer {
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Answer::Allow => json!("allow"),
            Answer::AllowAlways => json!("allow-always"),
            Answer::Reject => json!("reject"),
            Answer::Option(id) => json!({ "optionId": id }),
        }
    }
}

impl Location {
    fn read(location: &Value) -> Option<Location> {
        Some(Location { path: owned(&location["path"])?, line: location["line"].as_u64() })
    }
}

impl QuestionOption {
    fn read(option: &Value) -> Option<QuestionOption> {
        Some(QuestionOption {
            id: owned(&option["optionId"])?,
            kind: owned(&option["kind"]).unwrap_or_default(),
            name: owned(&option["name"]).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(options: &[(&str, &str)]) -> Question {
        let options: Vec<Value> =
            options.iter().map(|(id, kind)| json!({"optionId": id, "kind": kind, "name": id})).collect();
        let params = json!({"toolCall":{"toolCallId":"1","kind":"execute","title":"ls"},"options":options});
        Question::read("0", &params, |_| None)
    }

    #[test]
    fn an_option_is_chosen_by_its_kind() {
        let gemini = question(&[
            ("proceed_always", "allow_always"),
            ("proceed_once", "allow_once"),
            ("cancel", "reject_once"),
        ]);
        assert_eq!(gemini.choose(&Answer::Allow), Some("proceed_once"));
        assert_eq!(gemini.choose(&Answer::AllowAlways), Some("proceed_always"));
        assert_eq!(gemini.choose(&Answer::Reject), Some("cancel"));
        let qwen =
            question(&[("switch_mode", "allow_once"), ("proceed", "allow_once"), ("no", "reject_always")]);
        assert_eq!(qwen.choose(&Answer::Allow), Some("proceed"));
        assert_eq!(qwen.choose(&Answer::Reject), Some("no"));
        assert_eq!(qwen.choose(&Answer::Option("switch_mode".into())), Some("switch_mode"));
        assert_eq!(qwen.choose(&Answer::Option("what".into())), None);
        let always = question(&[("always", "allow_always"), ("no", "reject_once")]);
        assert_eq!(always.choose(&Answer::Allow), None, "once is not for ever");
    }

    #[test]
    fn a_sparse_request_is_joined_with_what_is_known_of_its_tool() {
        let params = json!({"toolCall":{"toolCallId":"1"},"options":[]});
        let known =
            json!({"toolCallId":"1","kind":"execute","title":"run","rawInput":{"command":["git","log"]}});
        let question =
            Question::read("7", &params, |id| (id == "1").then(|| ToolUpdate::read(&known).unwrap()));
        assert_eq!(question.commands(), ["git log"]);
        assert_eq!((question.tool.kind.as_str(), question.tool.title.as_str()), ("execute", "run"));
    }

    #[test]
    fn a_tool_of_the_caller_has_the_caller_s_name_for_it() {
        let tools = [OwnTool { name: "ticket".to_owned(), reads_only: false }];
        for call in [
            json!({"toolCallId":"1","kind":"other","title":"mcp__sheepdog__ticket"}),
            json!({"toolCallId":"1","kind":"other","title":"ticket","name":"mcp__sheepdog__ticket"}),
            json!({"toolCallId":"1","kind":"other","title":"ticket (sheepdog MCP Server)"}),
        ] {
            let question =
                Question::read("1", &json!({"toolCall":call,"options":[]}), |_| None).among(&tools);
            assert_eq!(
                (question.tool.name.as_deref(), question.shown()),
                (Some("ticket"), "ticket"),
                "{call}"
            );
            let told = call["name"].as_str();
            assert!(
                told.is_none_or(|told| question.names().any(|name| name == told)),
                "a rule may say either"
            );
        }
        let params = json!({"toolCall":{"toolCallId":"1","kind":"execute","title":"ls"},"options":[]});
        let question = Question::read("1", &params, |_| None).among(&tools);
        assert_eq!((question.tool.name.as_deref(), question.shown()), (None, "ls"));
    }

    #[test]
    fn the_second_version_asks_about_a_subject() {
        let params =
            json!({"title":"May I?","subject":{"type":"command","command":"rm x","cwd":"/w"},"options":[]});
        let question = Question::read("7", &params, |_| None);
        assert_eq!(question.commands(), ["rm x"]);
        assert_eq!(question.tool.kind, "execute");
    }
}
