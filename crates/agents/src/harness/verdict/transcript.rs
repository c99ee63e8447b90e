//! PURE: converts bytes of stdout to events. Lines end at `\n` only and may come in any pieces. A line longer than
//! [`MAX_LINE_BYTES`] is left out with a warning, so that memory stays bounded for any output.

use crate::harness::clip::torn;
use crate::harness::event::Usage;
use crate::harness::evidence::digest::Digest;
use crate::harness::provider::{Provider, Reader};
use ground::json::{Index, Line, keep_halves};
use memchr::memchr;
use memchr::memmem::Finder;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Longest line that is read.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// Between two messages on one line.
static JOINT: LazyLock<Finder> = LazyLock::new(|| Finder::new(b"}{"));
/// In the name of each message that brings a piece of an answer.
static PIECE: LazyLock<Finder> = LazyLock::new(|| Finder::new(b"elta"));

/// One run's stdout, as far as it has come.
pub struct Transcript {
    pub reader: Box<dyn Reader>,
    pub digest: Digest,
    index: Index,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    is_skipping: bool,
}

impl Transcript {
    /// `detail`: whether events are built. `before`: what the session had used, for providers that count on.
    pub fn new(provider: Provider, detail: bool, before: Option<Usage>) -> Self {
        Transcript {
            reader: (provider.descriptor().reader)(before),
            digest: Digest::new(detail).knowing(provider.descriptor().words),
            index: Index::default(),
            rest: Vec::new(),
            is_skipping: false,
        }
    }

    /// Reads what came next on stdout.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, next) = (&bytes[..end], &bytes[end + 1..]);
            bytes = next;
            if std::mem::take(&mut self.is_skipping) {
                continue;
            }
            if self.rest.is_empty() {
                read(&mut *self.reader, line, &mut self.index, &mut self.digest);
            } else {
                let mut whole = std::mem::take(&mut self.rest);
                whole.extend_from_slice(line);
                read(&mut *self.reader, &whole, &mut self.index, &mut self.digest);
                // The buffer is kept for the next line, unless this one was out of the ordinary.
                if whole.capacity() <= 1 << 20 {
                    whole.clear();
                    self.rest = whole;
                }
            }
        }
        if self.is_skipping {
            return;
        }
        if self.rest.len() + bytes.len() > MAX_LINE_BYTES {
            self.rest = Vec::new();
            self.is_skipping = true;
            self.digest.warning("a line of output was longer than 64 MiB and was left out");
        } else {
            self.rest.extend_from_slice(bytes);
        }
    }

    /// The end of stdout: a last line without its line feed is read too.
    pub fn read_rest(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        read(&mut *self.reader, &rest, &mut self.index, &mut self.digest);
        self.digest.output_ended();
    }

    /// As [`Transcript::read_rest`], and nothing more comes: tells the agent's end of turn.
    pub fn finish(&mut self) {
        self.read_rest();
        self.digest.close();
    }
}

fn read(reader: &mut dyn Reader, line: &[u8], index: &mut Index, digest: &mut Digest) {
    let mut next = line.trim_ascii();
    while !next.is_empty() {
        let whole = index.read(next);
        if whole.as_ref().is_some_and(|whole| !whole.may_have_halves()) {
            return message(reader, whole, next, digest);
        }
        let (line, behind) = if whole.is_some() { (next, &b""[..]) } else { first_message(next) };
        next = behind;
        let kept = halves_of_pieces(line);
        let is_read = whole.is_some() && matches!(kept, Cow::Borrowed(_));
        let whole = if is_read { whole } else { index.read(&kept) };
        message(reader, whole, &kept, digest);
    }
}

fn message(reader: &mut dyn Reader, whole: Option<Line>, line: &[u8], digest: &mut Digest) {
    digest.idle.lines += 1;
    let is_whole = whole.is_some();
    if whole.is_some_and(|line| reader.line(line, digest)) {
        digest.event_seen();
    } else {
        digest.noise(line);
        if let Some(warning) = (!is_whole).then(|| torn(line)).flatten() {
            digest.warning(&warning);
        }
    }
}

/// A piece of an answer may end within a character.
fn halves_of_pieces(line: &[u8]) -> Cow<'_, [u8]> {
    if PIECE.find(line).is_some() { keep_halves(line) } else { line.into() }
}

/// The first message of a line that is not one whole message, and what is behind it. Writers that share a stdout may lose the line
/// feed between two messages.
fn first_message(line: &[u8]) -> (&[u8], &[u8]) {
    let may_be_joined = line.starts_with(b"{") && JOINT.find(line).is_some();
    let length = if may_be_joined { ground::json::read_first::<IgnoredAny>(line) } else { None };
    match length {
        Some((_, length)) if line[length..].starts_with(b"{") => line.split_at(length),
        _ => (line, b""),
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::AgentEvent;
    use crate::harness::verdict::transcript::*;

    fn texts(stdout: &str) -> (Vec<String>, usize) {
        let mut transcript = Transcript::new(Provider::Codex, true, None);
        transcript.feed(stdout.as_bytes());
        transcript.finish();
        let events = transcript.digest.take_events();
        let said = events.iter().filter_map(|event| match event {
            AgentEvent::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        let noise = events.iter().filter(|event| matches!(event, AgentEvent::Noise { .. })).count();
        (said.collect(), noise)
    }

    #[test]
    fn messages_that_lost_the_line_feed_between_them_are_all_read() {
        let said = |text: &str| {
            format!(
                r#"{{"type":"item.completed","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}"#
            )
        };
        let [one, two, three] = ["one }{ still one", "two", "three"].map(said);
        let all = vec!["one }{ still one".to_owned(), "two".to_owned(), "three".to_owned()];
        assert_eq!(texts(&format!("{one}{two}{three}\n")), (all, 0));
        assert_eq!(texts(&format!("{one}\n")), (vec!["one }{ still one".to_owned()], 0));
        // A line with a text behind its message is noise.
        assert_eq!(texts(&format!("{two} done\n")), (Vec::new(), 1));
        assert_eq!(texts(&format!("{two}{{cut\n")), (vec!["two".to_owned()], 1));
    }

    #[test]
    fn a_message_that_cannot_be_read_is_a_warning() {
        let warnings = |line: &str| {
            let mut transcript = Transcript::new(Provider::Codex, true, None);
            transcript.feed(format!("{line}\n").as_bytes());
            transcript.finish();
            transcript.digest.warnings.len()
        };
        assert_eq!(warnings(r#"{"type":"item.completed","item":{"id":"i","type":"agent_me"#), 1);
        assert_eq!(warnings(r#"{"type":"item.completed","item":{}} and more"#), 1);
        for line in [r#"{"type":"of.another.version"}"#, r#"{"level":"info","#, "{", "progress {\"type\":"] {
            assert_eq!(warnings(line), 0, "{line}");
        }
    }
}
