//! One answer, read as it passes: how many tokens it used so far. PURE.

use super::scan::{Beginning, Events, Part, Scan, beginning};
use super::text::Text;
use super::usage::{Facts, Tokens, Told};

/// Bytes of text that are taken for one token. English has a little more, code a little less.
const BYTES_A_TOKEN: u64 = 4;
/// A server whose tokens would have so many bytes of text has not counted them.
const MOST_BYTES_A_TOKEN: u64 = 64;

enum Form {
    /// Nothing but spaces came.
    Unknown,
    /// JSON: one value, a list, or one a line. Some servers name the type of another form, so the beginning decides.
    Values,
    Events(Events),
    Other,
}

/// The messages in an answer that passes: mostly one.
pub(crate) struct Answer {
    form: Form,
    scan: Scan<Facts>,
    /// Those before the last one.
    over: Vec<Message>,
    last: Message,
    is_error: bool,
    /// All text in it, while no model's answer is found.
    text: Text,
    bytes: u64,
}

/// One message of a model.
#[derive(Default)]
pub(crate) struct Message {
    is_model: bool,
    pub id: Option<String>,
    pub model: Option<String>,
    tokens: Option<Tokens>,
    is_final: bool,
    is_final_at_end: bool,
    /// Bytes of the model's text.
    text: u64,
}

/// The tokens of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    /// The answer did not say them all.
    pub is_estimated: bool,
}

impl Answer {
    pub(crate) fn new(content_type: &str) -> Answer {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let is_events = kind.eq_ignore_ascii_case("text/event-stream");
        Answer {
            form: if is_events { Form::Events(Events::default()) } else { Form::Unknown },
            scan: Scan::new(Facts::default()),
            over: Vec::new(),
            last: Message::default(),
            is_error: false,
            text: Text::default(),
            bytes: 0,
        }
    }

    /// Whether a piece told something new.
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        if !self.is_model() {
            self.text.push(piece);
        }
        if let Form::Unknown = self.form {
            match beginning(piece) {
                None => return false,
                Some(Beginning::Value) => self.form = Form::Values,
                Some(Beginning::Events) => self.form = Form::Events(Events::default()),
                Some(Beginning::Other) => self.form = Form::Other,
            }
        }
        match &mut self.form {
            Form::Values => self.scan.push(piece),
            Form::Events(events) => events.push(piece, |part| match part {
                Part::Data(data) => self.scan.push(data),
                Part::End => self.scan.close(),
            }),
            Form::Unknown | Form::Other => {}
        }
        self.take()
    }

    /// Nothing more comes. `is_whole`: it came to its end.
    pub(crate) fn end(&mut self, is_whole: bool) {
        self.scan.close();
        self.take();
        self.last.is_final |= is_whole && self.last.is_final_at_end;
    }

    fn take(&mut self) -> bool {
        let all = std::mem::take(&mut self.scan.reader.told);
        let is_news = all.iter().any(|told| told.is_model);
        all.into_iter().for_each(|told| self.on_told(told));
        is_news
    }

    fn on_told(&mut self, told: Told) {
        self.is_error |= told.is_error;
        if !told.is_model {
            return;
        }
        if let (Some(known), Some(id)) = (&self.last.id, &told.id)
            && known != id
        {
            self.last.is_final |= self.last.is_final_at_end;
            self.over.push(std::mem::take(&mut self.last));
        }
        self.last.on_told(told);
    }

    /// Whether it is, or has, a model's answer.
    pub(crate) fn is_model(&self) -> bool {
        self.last.is_model
    }

    /// Whether the server says that it failed.
    pub(crate) fn is_error(&self) -> bool {
        self.is_error
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of text in an answer that is no model's as far as it could be read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.text.bytes()
    }

    /// The messages that others came behind.
    pub(crate) fn take_over(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.over)
    }

    pub(crate) fn last(&self) -> &Message {
        &self.last
    }
}

impl Message {
    fn on_told(&mut self, told: Told) {
        self.is_model = true;
        self.id = told.id.or(self.id.take());
        self.model = told.model.or(self.model.take());
        self.text = self.text.saturating_add(told.text);
        if let Some(tokens) = told.tokens {
            self.tokens = Some(tokens.max(self.tokens.unwrap_or_default()));
        }
        self.is_final |= told.is_final;
        self.is_final_at_end |= told.is_final_at_end;
    }

    /// The tokens so far. `asked`: bytes of text in the request, if they are to be guessed from.
    pub(crate) fn spent(&self, asked: Option<u64>) -> Spent {
        let told = self.tokens.unwrap_or_default();
        let asked = asked.unwrap_or(0);
        let (input, output) = (told.input.unwrap_or(0), told.output.unwrap_or(0));
        // Pictures in a request are long, and few tokens: a number above zero is believed.
        let lacks_input = input == 0 && asked > 0;
        let lacks_output = output <= self.text / MOST_BYTES_A_TOKEN && self.text > 0;
        // Before its end the output told is that of an earlier moment.
        let guessed = if lacks_output || !self.is_final { tokens_in(self.text) } else { 0 };
        Spent {
            input: if lacks_input { tokens_in(asked) } else { input },
            cached: told.cached.min(input),
            output: output.max(guessed),
            is_estimated: !self.is_final || lacks_input || lacks_output,
        }
    }
}

/// The estimate for a text of so many bytes.
pub(crate) fn tokens_in(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_A_TOKEN)
}

/// The estimate of a compressed text's bytes.
pub(crate) fn unpacked(bytes: u64) -> u64 {
    // Text is packed to about a quarter.
    bytes.saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = "text/event-stream; charset=utf-8";

    fn stream(events: &[&str]) -> Answer {
        let mut answer = Answer::new(EVENTS);
        for event in events {
            answer.push(format!("data: {event}\n\n").as_bytes());
        }
        answer
    }

    fn whole(kind: &str, text: &str) -> Answer {
        let mut answer = Answer::new(kind);
        answer.push(text.as_bytes());
        answer.end(true);
        answer
    }

    fn spent(input: u64, cached: u64, output: u64, is_estimated: bool) -> Spent {
        Spent { input, cached, output, is_estimated }
    }

    const START: &str = r#"{"type":"message_start","message":{"model":"claude-x","usage":{"input_tokens":100,"cache_read_input_tokens":20,"output_tokens":1}}}"#;
    const DELTA: &str = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"eight by"}}"#;
    const END: &str = r#"{"type":"message_delta","usage":{"output_tokens":42}}"#;

    #[test]
    fn a_stream_is_exact_at_its_end_and_estimated_before() {
        let mut answer = stream(&[START]);
        assert_eq!(answer.last().spent(None), spent(120, 20, 1, true));
        for _ in 0..3 {
            answer.push(format!("data: {DELTA}\n\n").as_bytes());
        }
        assert_eq!(answer.last().spent(None), spent(120, 20, 6, true));
        assert!(answer.push(format!("data: {END}\n\n").as_bytes()));
        assert_eq!(answer.last().spent(None), spent(120, 20, 42, false));
        assert_eq!(answer.last().model.as_deref(), Some("claude-x"));
    }

    #[test]
    fn a_stream_that_says_nothing_of_tokens_is_estimated_at_its_end() {
        let chunk = r#"{"object":"chat.completion.chunk","model":"m","choices":[{"delta":{"content":"twelve bytes"}}]}"#;
        let mut answer = stream(&[chunk, chunk, "[DONE]"]);
        assert_eq!(answer.last().spent(None), spent(0, 0, 6, true));
        answer.end(true);
        assert_eq!(answer.last().spent(Some(40)), spent(10, 0, 6, true));
    }

    #[test]
    fn a_stream_that_counts_in_each_chunk_is_estimated_where_it_breaks_off() {
        let chunk = |usage: &str| {
            format!(r#"{{"choices":[{{"delta":{{"content":"twelve bytes"}}}}],"usage":{usage}}}"#)
        };
        let none = chunk(r#"{"prompt_tokens":0,"completion_tokens":0}"#);
        let mut answer = stream(&[&none, &none]);
        answer.end(false);
        assert_eq!(answer.last().spent(Some(40)), spent(10, 0, 6, true));
        let first = chunk(r#"{"prompt_tokens":5,"completion_tokens":1}"#);
        let mut answer = stream(&[&first, &none]);
        answer.end(false);
        assert_eq!(answer.last().spent(Some(40)), spent(5, 0, 6, true));
        let last = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}"#;
        assert_eq!(stream(&[&first, &none, last]).last().spent(Some(40)), spent(5, 0, 3, false));
    }

    #[test]
    fn a_whole_answer_is_read_at_its_end() {
        let text =
            r#"{"object":"chat.completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        let mut answer = Answer::new("application/json");
        let news = text.as_bytes().chunks(7).filter(|piece| answer.push(piece)).count();
        assert_eq!(news, 1);
        answer.end(true);
        assert_eq!(answer.last().spent(Some(1000)), spent(3, 0, 2, false));
    }

    #[test]
    fn a_list_counts_while_it_comes() {
        let mut list = Answer::new("application/json");
        assert!(list.push(
            br#"[{"candidates":[{}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}},"#,
        ));
        assert_eq!(list.last().spent(None), spent(3, 0, 1, true));
        list.push(br#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}]"#);
        list.end(true);
        assert_eq!(list.last().spent(None), spent(3, 0, 9, false));
    }

    #[test]
    fn an_answer_that_breaks_off_counts_what_came() {
        let mut answer = Answer::new("application/json");
        answer.push(br#"{"type":"message","model":"m","content":[{"type":"text","text":"eight by"}],"usa"#);
        assert!(!answer.is_model(), "its facts are told at its end");
        answer.end(false);
        assert_eq!(answer.last().spent(Some(40)), spent(10, 0, 2, true));
    }

    #[test]
    fn a_usage_that_tells_no_tokens_is_estimated_by_the_text() {
        let text = "x".repeat(400);
        for usage in [
            "{}",
            r#"{"input_tokens":-1000,"output_tokens":-1000}"#,
            r#"{"input_tokens":0,"output_tokens":1}"#,
        ] {
            let answer = whole(
                "application/json",
                &format!(r#"{{"type":"message","content":[{{"text":"{text}"}}],"usage":{usage}}}"#),
            );
            assert_eq!(answer.last().spent(Some(80)), spent(20, 0, 100, true), "{usage}");
        }
    }

    #[test]
    fn the_form_is_known_by_its_beginning_and_not_by_its_type() {
        let value = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
        for text in [
            format!("\u{feff} \n{value}"),
            format!("{value}\n{{}}\n"),
            format!(": hi\n\nevent: x\ndata: {value}\n\n"),
        ] {
            for kind in
                ["", "text/plain", "application/octet-stream", "application/x-ndjson", "application/x-jsonl"]
            {
                assert_eq!(whole(kind, &text).last().spent(None), spent(3, 0, 2, false), "{kind} {text}");
            }
        }
    }

    #[test]
    fn each_line_of_a_batch_is_a_message() {
        let line = |id: &str| {
            format!(
                r#"{{"result":{{"message":{{"type":"message","id":"{id}","usage":{{"input_tokens":3,"output_tokens":2}}}}}}}}"#
            )
        };
        let mut answer = whole("application/x-jsonl", &[line("a"), line("b"), line("c")].join("\n"));
        let over = answer.take_over();
        assert_eq!(
            over.iter().map(|one| one.spent(None)).collect::<Vec<_>>(),
            vec![spent(3, 0, 2, false); 2]
        );
        assert_eq!(answer.last().spent(None), spent(3, 0, 2, false));
        assert_eq!(answer.last().id.as_deref(), Some("c"));
    }

    #[test]
    fn what_is_no_model_s_answer_counts_nothing() {
        for (kind, text) in [
            ("application/json", r#"{"error":{"message":"no"}}"#),
            ("application/json", "torn {"),
            ("text/html", "<html>"),
            (EVENTS, "data: {\"type\":\"ping\"}\n\n"),
            ("application/json", r#"{"input_tokens":5}"#),
        ] {
            assert!(!whole(kind, text).is_model(), "{kind} {text}");
        }
    }

    #[test]
    fn no_length_of_an_event_or_an_answer_is_too_long() {
        let mut answer = Answer::new(EVENTS);
        answer.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"");
        for _ in 0..40 {
            answer.push(&vec![b'x'; 1 << 20]);
        }
        answer.push(
            b"\"}}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2000000},\"model\":\"m\"}\n\n",
        );
        answer.end(true);
        assert_eq!(answer.last().spent(None), spent(1, 0, 2_000_000, false));
    }
}
