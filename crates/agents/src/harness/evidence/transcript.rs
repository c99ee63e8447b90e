//! PURE: converts bytes of stdout to events. Lines end at `\n` only and may come in any pieces. A line longer than
//! [`MAX_LINE_BYTES`] is left out with a warning, so that memory stays bounded for any output.

use super::digest::Digest;
use crate::harness::event::{AgentEvent, Usage};
use crate::harness::provider::{Provider, Reader};
use ground::json::{Index, keep_halves};
use memchr::{memchr, memmem};

/// Longest line that is read.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// One run's stdout, as far as it has come.
pub struct Transcript {
    reader: Box<dyn Reader>,
    digest: Digest,
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

    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    pub fn digest_mut(&mut self) -> &mut Digest {
        &mut self.digest
    }

    pub fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    pub fn take_events(&mut self) -> Vec<AgentEvent> {
        self.digest.take_events()
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
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    digest.line_seen();
    // A piece of an answer may end within a character.
    let is_piece = memmem::find(line, b"elta").is_some();
    let kept = if is_piece { keep_halves(line) } else { line.into() };
    let line = &*kept;
    let is_event = index.read(line).is_some_and(|line| reader.line(line, digest));
    if is_event {
        digest.event_seen();
    } else {
        digest.noise(line);
    }
}
