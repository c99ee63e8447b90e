//! PURE: the output format that Claude Code introduced: `system`, `assistant`, `user`, `stream_event`, `result`. Qwen Code
//! prints the same with some differences, which [`Style`] names.

use super::Reader;
use super::message_usage::{MessageUsage, Style};
use crate::harness::event::AgentErrorKind;
use crate::harness::event::Usage;
use crate::harness::evidence::NO_MODEL;
use crate::harness::evidence::digest::Digest;
use crate::harness::evidence::failure::{Failure, Words};
use crate::harness::evidence::reset::Reset;
use ground::json::{Json, Line};

const REPEATED: &str = "the CLI retried within its answer: the beginning of the text may be repeated";

/// Reads the lines of both.
pub(crate) struct Messages {
    style: Style,
    words: &'static Words,
    message: String,
    usage: MessageUsage,
    /// Whether the thinking of the current message was streamed.
    is_thinking_told: bool,
    /// The CLI retried a call, and kept the text that it had streamed before.
    kept_words: bool,
    /// Turns of this run's results so far. Another result follows when a background task has ended.
    turns: u64,
}

impl Messages {
    pub(crate) fn new(style: Style, words: &'static Words, before: Option<Usage>) -> Self {
        Messages {
            style,
            words,
            message: String::new(),
            usage: MessageUsage::new(style, before),
            is_thinking_told: false,
            kept_words: false,
            turns: 0,
        }
    }
}

impl Reader for Messages {
    fn line(&mut self, line: Line, digest: &mut Digest) -> bool {
        const NAMES: [&str; 7] =
            ["type", "subtype", "session_id", "message", "event", "parent_tool_use_id", "error"];
        let [kind, subtype, session, message, event, parent, error] = line.fields(NAMES);
        if !kind.is_text() {
            return false;
        }
        let is_main = !parent.is_present();
        match kind.word() {
            b"system" => self.system(line, subtype, session, digest),
            b"assistant" if is_main => {
                report_session(session, digest);
                self.assistant(message, error, digest);
            }
            b"assistant" => {
                let [id, usage] = message.fields(["id", "usage"]);
                self.usage.on_other_message(
                    &id.text().unwrap_or_default(),
                    self.usage.style.usage(usage),
                    digest,
                );
                tools_of(message, digest);
            }
            b"user" => results_in(message.field("content"), digest),
            b"stream_event" if is_main => self.stream(event, digest),
            b"result" if is_main => self.result(line, subtype, session, digest),
            b"tool_progress" => digest.progress(),
            b"rate_limit_event" => rate_limit(line, digest),
            _ => {}
        }
        true
    }

    fn counted(&self) -> Option<Usage> {
        self.usage.counted
    }
}

impl Messages {
    fn system(&mut self, line: Line, subtype: Json, session: Json, digest: &mut Digest) {
        const NAMES: [&str; 7] =
            ["model", "attempt", "max_retries", "error_status", "error", "data", "message"];
        let [model, attempt, most, status, error, data, message] = line.fields(NAMES);
        match subtype.word() {
            b"init" => {
                digest.reopen();
                report_session(session, digest);
                digest.model(&model.text().unwrap_or_default());
                digest.tool_servers(line.fields(["mcp_servers"])[0]);
            }
            b"api_retry" => {
                let error = error.text().unwrap_or("unknown".into());
                let of = most.count().map(|most| format!(" of {most}")).unwrap_or_default();
                let status_text =
                    status.whole().map(|status| format!(" (status {status})")).unwrap_or_default();
                let words = format!("retry {}{of}: {error}{status_text}", attempt.count().unwrap_or(1));
                digest.retry(self.words.failure(status.whole(), words));
            }
            b"retry" => {
                let [reason, keeps] = data.fields(["reason", "preserveText"]);
                self.kept_words |= keeps.flag() == Some(true);
                let reason = reason.text().or(message.text()).unwrap_or("retry".into());
                digest.message_begins();
                digest.retry(self.words.failure(None, format!("the model call is tried again ({reason})")));
            }
            b"compact_boundary" | b"task_progress" => digest.progress(),
            b"task_started" => task_started(line, digest),
            b"task_notification" => {
                let [task] = line.fields(["task_id"]);
                digest.background_ends(&task.text().unwrap_or_default(), true);
            }
            // The model refused: another one goes on, or nothing does.
            b"model_refusal_fallback" | b"model_refusal_no_fallback" => {
                let [content] = line.fields(["content"]);
                let content = content.text().filter(|text| !text.trim().is_empty());
                digest.warning(&content.unwrap_or("the model refused to answer".into()));
                // The answer of the other model replaces the refused one.
                if subtype.is("model_refusal_fallback") {
                    digest.message_begins();
                }
            }
            b"informational" => {
                let [level, content] = line.fields(["level", "content"]);
                if let Some(content) =
                    content.text().filter(|text| level.is("warning") && !text.trim().is_empty())
                {
                    digest.warning(&content);
                }
            }
            _ => {}
        }
    }

    fn assistant(&mut self, message: Json, error: Json, digest: &mut Digest) {
        let [id, content, usage, model] = message.fields(["id", "content", "usage", "model"]);
        let usage = self.usage.style.usage(usage);
        if model.is("<synthetic>") || error.is_present() || self.is_api_error(content, usage) {
            // The CLI's own words about a failed call, dressed as an answer.
            let words = content
                .items()
                .find_map(|part| part.field("text").text())
                .or(error.text())
                .unwrap_or_default();
            if !words.is_empty() {
                digest.error(self.words.failure(None, words));
            }
            return;
        }
        digest.model(&model.text().unwrap_or_default());
        let id = id.text().unwrap_or_default();
        if id.is_empty() || id != self.message {
            self.message = id.clone().into_owned();
            digest.model_answered();
            self.usage.next_message();
        }
        self.usage.on_message(usage, digest);
        let key = (!id.is_empty()).then_some(&*id);
        for part in content.items() {
            let [kind, text, thinking] = part.fields(["type", "text", "thinking"]);
            match kind.word() {
                b"text" => {
                    digest.text(key, self.without_api_error(&text.text().unwrap_or_default(), usage).0)
                }
                b"thinking" if !self.is_thinking_told => {
                    digest.reasoning(&thinking.text().unwrap_or_default(), false)
                }
                b"thinking" => {}
                _ => tool_of(part, digest),
            }
        }
        // A tool of the service's own is told with its result, in the answer itself.
        results_in(content, digest);
    }

    /// Qwen puts the error of a failed call behind the words that came before it, and may call that a success.
    /// An answer that quotes one has cost tokens, and that call did not.
    fn without_api_error<'t>(&self, text: &'t str, usage: Option<Usage>) -> (&'t str, Option<&'t str>) {
        if self.style != Style::Qwen || !is_free(usage) || !text.trim_end().ends_with(']') {
            return (text, None);
        }
        let at = text.rfind("[API Error: ");
        at.map_or((text, None), |at| (&text[..at], Some(text[at..].trim_end())))
    }

    fn is_api_error(&self, content: Json, usage: Option<Usage>) -> bool {
        self.style == Style::Qwen
            && is_free(usage)
            && content.items().any(|part| part.field("text").word().starts_with(b"[API Error"))
    }

    /// Claude counts the turns of each result, Qwen those of the session.
    fn count_turns(&mut self, turns: Option<u64>, digest: &mut Digest) {
        if let Some(turns) = turns.filter(|turns| *turns > 0) {
            self.turns = if self.style == Style::Claude { self.turns.saturating_add(turns) } else { turns };
            digest.steps.turns = self.turns;
        }
    }

    /// Qwen's answer may end in the error of a call.
    fn good_end(&self, text: &str, status: Json, last_call: Option<Usage>, digest: &mut Digest) {
        let (answer, api_error) = self.without_api_error(text, last_call);
        digest.answer(answer);
        digest.end(api_error.is_none(), api_error.map(|words| self.words.failure(status.whole(), words)));
    }

    fn result(&mut self, line: Line, subtype: Json, session: Json, digest: &mut Digest) {
        let of = |name: &str| line.json().field(name);
        let (is_error, result, usage, status) =
            (of("is_error"), of("result"), of("usage"), of("api_error_status"));
        let turns = of("num_turns").count();
        report_session(session, digest);
        let last_call = self.usage.current;
        let new_usage = of("model_usage_since_last_result");
        self.usage.on_result(usage, of("total_cost_usd").amount(), new_usage, digest);
        self.count_turns(turns, digest);
        warn_of_denials(of("permission_denials"), digest);
        let structured =
            [of("structured_output"), of("structured_result")].into_iter().find(|it| it.is_present());
        if let Some(structured) = structured {
            digest.answer.structured = Some(structured.build());
        }
        // A complete result has a subtype, a flag for errors, and the answer.
        let is_success = subtype.is("success")
            && is_error.flag() == Some(false)
            && (result.is_text() || structured.is_some());
        if is_success {
            if self.kept_words {
                digest.warning(REPEATED);
            }
            let text = result.text().unwrap_or_default();
            let is_free = is_free(self.usage.style.usage(usage));
            // The words of a hook that kept the prompt from the model.
            if is_free && text.contains("operation blocked by hook") {
                let failure = Failure::new(AgentErrorKind::Permission, text.trim().to_owned());
                return digest.end(false, Some(failure));
            }
            let is_own = turns == Some(0) && of("duration_api_ms").count() == Some(0);
            if is_own && is_free && !text.trim().is_empty() {
                digest.warning(NO_MODEL);
            }
            return self.good_end(&text, status, last_call, digest);
        }
        if subtype.is("success") && is_error.flag() != Some(true) || !subtype.is_text() {
            return digest.warning("an incomplete result was ignored: it did not end the turn");
        }
        let words = words_of(of("errors"), of("error"), result).unwrap_or_else(|| {
            of("terminal_reason").text().or(subtype.text()).unwrap_or("the turn failed".into()).into_owned()
        });
        let mut failure = self.words.failure(status.whole(), words);
        if subtype.is("error_max_budget_usd") {
            failure.kind = AgentErrorKind::Quota;
        }
        digest.end(false, Some(failure));
    }
}

impl Messages {
    fn stream(&mut self, event: Json, digest: &mut Digest) {
        let [kind, delta] = event.fields(["type", "delta"]);
        match kind.word() {
            b"message_start" => {
                self.is_thinking_told = false;
                digest.message_begins();
            }
            b"content_block_delta" => {
                let [kind, text, thinking] = delta.fields(["type", "text", "thinking"]);
                match kind.word() {
                    b"text_delta" => digest.text_delta(&text.text().unwrap_or_default()),
                    b"thinking_delta" => {
                        self.is_thinking_told = true;
                        digest.reasoning(&thinking.text().unwrap_or_default(), true);
                    }
                    _ => digest.progress(),
                }
            }
            _ => {}
        }
    }
}

/// A command or an agent that runs beside the turn. One that runs in the background outlives it.
fn task_started(line: Line, digest: &mut Digest) {
    let [task, is_background, what] = line.fields(["task_id", "is_backgrounded", "description"]);
    digest.progress();
    if let (Some(true), Some(task)) = (is_background.flag(), task.text()) {
        digest.background_begins(&task, &what.text().unwrap_or("a command".into()), true);
    }
}

/// Handles the rate limit of a subscription. Only a rejection is reported.
fn rate_limit(line: Line, digest: &mut Digest) {
    let [info] = line.fields(["rate_limit_info"]);
    let [status, kind, resets_at] = info.fields(["status", "rateLimitType", "resetsAt"]);
    if status.is("rejected") {
        if let Some(reset) = resets_at.whole().and_then(Reset::at_epoch) {
            digest.trouble.reset = Some(reset);
        }
        let kind = kind.text().map(|kind| format!(" ({kind})")).unwrap_or_default();
        digest.warning(&format!("the limit of the subscription is reached{kind}"));
    }
}

fn words_of(errors: Json, error: Json, result: Json) -> Option<String> {
    let listed: Vec<String> = errors
        .items()
        .take(10)
        .filter_map(|one| one.text().or_else(|| one.field("message").text()).map(|text| text.into_owned()))
        .collect();
    if !listed.is_empty() {
        return Some(listed.join("; "));
    }
    let single = error.field("message").text().or(error.text()).or(result.text())?;
    (!single.is_empty()).then(|| single.into_owned())
}

fn warn_of_denials(denials: Json, digest: &mut Digest) {
    for denied in denials.items().take(10) {
        let tool = denied.field("tool_name").text().unwrap_or("a tool".into());
        digest.warning(&format!("{tool} was denied permission"));
    }
}

fn report_session(session: Json, digest: &mut Digest) {
    if let Some(session) = session.text() {
        digest.session(&session);
    }
}

fn is_free(usage: Option<Usage>) -> bool {
    usage.is_none_or(|usage| usage.input_tokens == 0 && usage.output_tokens == 0)
}

/// A sub-agent's message: its tools run, its words are not the answer.
fn tools_of(message: Json, digest: &mut Digest) {
    for part in message.field("content").items() {
        tool_of(part, digest);
    }
}

fn tool_of(part: Json, digest: &mut Digest) {
    let [kind, id, name, input] = part.fields(["type", "id", "name", "input"]);
    if let (true, Some(id)) = (kind.word().ends_with(b"tool_use"), id.text()) {
        digest.tool_start(&id, &name.text().unwrap_or_default(), || input.build());
    }
}

fn results_in(content: Json, digest: &mut Digest) {
    for part in content.items() {
        let [kind, id, is_error, content] = part.fields(["type", "tool_use_id", "is_error", "content"]);
        if let (true, Some(id)) = (kind.word().ends_with(b"tool_result"), id.text()) {
            // A tool of the service's own that failed has a code in place of its output.
            let is_error = is_error.flag() == Some(true) || content.field("error_code").is_present();
            let exit_code = if is_error { text_of(content).as_deref().and_then(exit_code_in) } else { None };
            digest.tool_end(&id, exit_code, is_error, || text_of(content));
        }
    }
}

/// A tool's output: a string, or parts of which some are text.
pub(crate) fn text_of(content: Json) -> Option<String> {
    if let Some(text) = content.text() {
        return Some(text.into_owned());
    }
    let parts: Vec<_> = content.items().filter_map(|part| part.field("text").text()).collect();
    (!parts.is_empty()).then(|| parts.concat())
}

/// The code of a shell tool that failed: "Exit code 3" before its output (Claude), "Exit Code: 3" in a list of facts behind it
/// (Qwen).
fn exit_code_in(output: &str) -> Option<i64> {
    let is_code = |line: &&str| line.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("exit code"));
    let line = if output.starts_with("Command: ") {
        output.lines().rfind(is_code)
    } else {
        output.lines().find(is_code)
    };
    line?[9..].trim_start_matches(':').trim().parse().ok()
}
