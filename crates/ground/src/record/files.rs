//! The files of a record, on the writer's thread: secrets are redacted, sizes are capped, and every piece gets its line in
//! `times`.
//!
//! The recorded program may be able to write to the record's folder. So the folder is held by its descriptor (`os::HeldFolder`),
//! and no file is opened by a path. Files are opened for each flush and closed after it, so a record costs a run one descriptor.
//! A file has to be the one that the first flush created. Any other file in its place ends the record with an error.

use super::buffer::{Batch, Channel, Piece};
use super::folder::write_json;
use super::spec::RecordFacts;
use crate::keep::Tail;
use crate::line::left_out;
use crate::os::{FileIdentity, HeldFolder};
use crate::redaction::Redactor;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

/// Bytes kept of the end of a channel's output past the cap. They are written when the run is over.
const TAIL_BYTES: usize = 1 << 20;
/// Longest `times` file. Past it the output goes on without times.
const MAX_TIMES_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct Files {
    folder: Arc<HeldFolder>,
    redactor: Redactor,
    /// The output files by channel. The entry of `Note` is the `times` file itself.
    outputs: [Output; 4],
    max_bytes: u64,
    left_out: u64,
    problem: Option<String>,
    /// A hook that tests run before each write to the disk.
    #[cfg(test)]
    pub(super) disk: Option<fn() -> io::Result<()>>,
}

#[derive(Debug)]
struct Output {
    redactor: Redactor,
    written: u64,
    tail: Tail,
    /// Bytes past the cap, including those of the tail.
    cut: u64,
    /// Text to be appended by this flush.
    text: Vec<u8>,
    /// Identity of the file, once it was created.
    file: Option<FileIdentity>,
}

impl Files {
    pub(super) fn new(folder: Arc<HeldFolder>, redactor: Redactor, max_bytes: u64) -> Self {
        let output = || Output {
            redactor: redactor.clone(),
            written: 0,
            tail: Tail::new(TAIL_BYTES),
            cut: 0,
            text: Vec::new(),
            file: None,
        };
        Files {
            folder,
            outputs: [output(), output(), output(), output()],
            redactor,
            max_bytes,
            left_out: 0,
            problem: None,
            #[cfg(test)]
            disk: None,
        }
    }

    /// Appends a batch. A failure is remembered, and nothing more is written except the end.
    pub(super) fn append(&mut self, batch: &Batch) {
        let mut at = 0;
        let mut times = String::new();
        for piece in &batch.pieces {
            let bytes = &batch.bytes[at..at + piece.length];
            at += piece.length;
            self.left_out += piece.left_out;
            self.take(piece, bytes, &mut times);
        }
        self.flush(&times);
    }

    fn take(&mut self, piece: &Piece, bytes: &[u8], times: &mut String) {
        let (name, ms) = (piece.channel.as_str(), piece.ms);
        if piece.channel == Channel::Note {
            let words = self.redactor.redact(&String::from_utf8_lossy(bytes));
            let _ = writeln!(times, "{ms} {words}");
            return;
        }
        let max_bytes = self.max_bytes;
        let output = &mut self.outputs[piece.channel as usize];
        if piece.left_out > 0 {
            let _ = writeln!(times, "{ms} lost {name} {}", piece.left_out);
        }
        let clean = output.redactor.push(bytes);
        let length = output.take(&clean, max_bytes);
        // Events contain their own times.
        if length > 0 && piece.channel != Channel::Events {
            let _ = writeln!(times, "{ms} {name} {length}");
        }
    }

    fn flush(&mut self, times: &str) {
        if self.problem.is_some() {
            for output in &mut self.outputs {
                self.left_out += output.text.len() as u64;
                output.text.clear();
            }
            return;
        }
        if let Err(error) = self.write(times) {
            self.problem = Some(self.unwritten(&error));
        }
    }

    /// Writes the output first, so that `times` never refers to more than there is.
    fn write(&mut self, times: &str) -> io::Result<()> {
        #[cfg(test)]
        if let Some(disk) = self.disk {
            disk()?;
        }
        for channel in [Channel::Stdout, Channel::Stderr, Channel::Events] {
            let output = &mut self.outputs[channel as usize];
            if !output.text.is_empty() {
                append(&self.folder, channel.as_str(), &mut output.file, &output.text)?;
                output.text.clear();
            }
        }
        let own = &mut self.outputs[Channel::Note as usize];
        if !times.is_empty() && own.written < MAX_TIMES_BYTES {
            own.written += times.len() as u64;
            append(&self.folder, "times", &mut own.file, times.as_bytes())?;
        }
        Ok(())
    }

    /// Writes `end.json`, including the outcome of the record itself.
    pub(super) fn end(&mut self, mut end: Value, ms: u64) -> RecordFacts {
        let mut times = String::new();
        for channel in [Channel::Stdout, Channel::Stderr, Channel::Events] {
            let max_bytes = self.max_bytes;
            let output = &mut self.outputs[channel as usize];
            let rest = output.redactor.flush();
            let length = output.take(&rest, max_bytes);
            if length > 0 && channel != Channel::Events {
                let _ = writeln!(times, "{ms} {} {length}", channel.as_str());
            }
            let (cut, length) = output.append_tail(channel == Channel::Events);
            if cut > 0 {
                self.left_out += cut;
                let _ = writeln!(
                    times,
                    "{ms} lost {} {cut}\n{ms} {} {length}",
                    channel.as_str(),
                    channel.as_str()
                );
            }
        }
        self.flush(&times);
        self.redactor.redact_json(&mut end);
        if let Value::Object(fields) = &mut end {
            fields.insert("record".to_owned(), serde_json::json!(self.facts()));
        }
        if let Err(error) = write_json(&self.folder, "end.json", &end) {
            let problem = self.unwritten(&error);
            self.problem.get_or_insert(problem);
        }
        self.facts()
    }

    fn unwritten(&self, error: &io::Error) -> String {
        format!("{} could not be written: {error}", self.folder.path().display())
    }

    fn facts(&self) -> RecordFacts {
        RecordFacts {
            folder: self.folder.path().to_string_lossy().into_owned(),
            left_out_bytes: self.left_out,
            problem: self.problem.clone(),
        }
    }
}

/// Appends to a file, which is created the first time.
fn append(folder: &HeldFolder, name: &str, made: &mut Option<FileIdentity>, bytes: &[u8]) -> io::Result<()> {
    let mut file = match *made {
        Some(identity) => folder.append_to(name, identity)?,
        None => {
            let file = folder.create(name)?;
            *made = Some(FileIdentity::of(&file)?);
            file
        }
    };
    file.write_all(bytes)
}

impl Output {
    /// Takes the bytes that there is room for; the rest goes into the tail. Returns how many are to be appended.
    fn take(&mut self, bytes: &[u8], max_bytes: u64) -> usize {
        let room = usize::try_from(max_bytes.saturating_sub(self.written)).unwrap_or(usize::MAX);
        // Once something was left out, all further output goes into the tail.
        let now = if self.cut > 0 { 0 } else { bytes.len().min(room) };
        self.text.extend_from_slice(&bytes[..now]);
        self.written += now as u64;
        let rest = &bytes[now..];
        self.cut += rest.len() as u64;
        self.tail.push(rest);
        now
    }

    /// Appends the end of the output that was cut, from the beginning of a line on, after a line that says how much is missing.
    /// Returns the missing and the appended number of bytes.
    fn append_tail(&mut self, is_json: bool) -> (u64, usize) {
        if self.cut == 0 {
            return (0, 0);
        }
        let tail = std::mem::replace(&mut self.tail, Tail::new(TAIL_BYTES)).into_linear();
        let is_whole = self.cut == tail.len() as u64;
        let from = if is_whole && !is_json {
            0
        } else {
            tail.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1)
        };
        let kept = &tail[from..];
        let missing = self.cut - kept.len() as u64;
        let before = self.text.len();
        if missing > 0 {
            self.text.extend_from_slice(b"\n");
            if !is_json {
                self.text.extend_from_slice(left_out(missing).as_bytes());
                self.text.push(b'\n');
            }
        }
        self.text.extend_from_slice(kept);
        (missing, self.text.len() - before)
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffer::Buffer;
    use super::*;
    use crate::os::ContainedFolders;
    use serde_json::json;
    use std::fs::read_to_string;
    use std::path::Path;

    fn batch(pieces: &[(Channel, u64, &str)]) -> Batch {
        let mut buffer = Buffer::default();
        for (channel, ms, text) in pieces {
            buffer.push(*channel, *ms, text.as_bytes());
        }
        buffer.take()
    }

    fn files(folder: &Path, secret: &str, max_bytes: u64) -> Files {
        let folder = HeldFolder::make(folder, &ContainedFolders::default()).unwrap();
        Files::new(Arc::new(folder), Redactor::new([secret]), max_bytes)
    }

    #[test]
    fn every_piece_has_its_time_and_a_secret_is_found_over_the_borders_of_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), "hunter2", 1000);
        files.append(&batch(&[
            (Channel::Stdout, 1, "one hun"),
            (Channel::Stderr, 2, "e"),
            (Channel::Note, 2, "pid 4"),
        ]));
        files.append(&batch(&[(Channel::Stdout, 3, "ter2 two\n")]));
        let facts = files.end(json!({"say": ["hunter2"]}), 9);
        let read = |name: &str| read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("stdout"), "one [REDACTED] two\n");
        assert_eq!(read("times"), "1 stdout 4\n2 stderr 1\n2 pid 4\n3 stdout 15\n");
        assert!(read("end.json").contains("[REDACTED]") && !read("end.json").contains("hunter2"));
        assert_eq!((facts.left_out_bytes, facts.problem), (0, None));
    }

    #[test]
    fn past_the_cap_the_end_is_kept_and_what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path(), "", 10);
        let flood = format!("{}\n", "x".repeat(999)).repeat(2000);
        files.append(&batch(&[(Channel::Stdout, 1, "head 1234\n"), (Channel::Stdout, 2, &flood)]));
        files.append(&batch(&[(Channel::Stdout, 3, "the end\n")]));
        let facts = files.end(json!({}), 4);
        let text = read_to_string(folder.path().join("stdout")).unwrap();
        assert!(text.starts_with("head 1234\n\n[... ") && text.ends_with("\nthe end\n"));
        let kept = text.len() - text.find("...]\n").unwrap() - 5;
        assert_eq!(facts.left_out_bytes, (flood.len() + 8 - kept) as u64);
        assert!(kept <= TAIL_BYTES && kept > TAIL_BYTES - 2000);
        let times = read_to_string(folder.path().join("times")).unwrap();
        assert!(times.contains(&format!("4 lost stdout {}\n", facts.left_out_bytes)), "{times}");
    }

    #[test]
    fn a_folder_that_is_gone_is_a_problem_that_is_told_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(&folder.path().join("gone"), "", 1000);
        std::fs::remove_dir(folder.path().join("gone")).unwrap();
        files.append(&batch(&[(Channel::Stdout, 1, "text")]));
        files.append(&batch(&[(Channel::Stdout, 1, "more")]));
        let facts = files.end(json!({}), 2);
        assert!(facts.problem.unwrap().contains("could not be written"));
        assert!(facts.left_out_bytes >= 4);
    }
}
