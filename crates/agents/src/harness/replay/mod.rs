//! PURE: events and verdict of a recorded run.

pub mod file;
pub mod record;

use crate::harness::event::AgentEvent;
use crate::harness::event::excerpt::Excerpt;
use crate::harness::provider::Provider;
use crate::harness::verdict::result::TurnResult;
use crate::harness::verdict::transcript::Transcript;
use crate::harness::verdict::{Ending, Evidence, Fault, verdict};
use std::io::Read;

/// The recorded output and end of a run.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    pub stdout: &'a [u8],
    pub stderr: &'a str,
    pub ending: Ending,
}

/// Bytes that are read before their events are moved to the excerpt.
const READ_BYTES: usize = 256 << 10;

/// Events and verdict read from a recording.
pub struct Replay {
    /// The events. Of very many only the beginning and the end are kept, with a warning between.
    pub events: Vec<AgentEvent>,
    pub result: TurnResult,
    pub fault: Option<Fault>,
}

/// Reads a recording as if its run had just ended.
pub fn replay(provider: Provider, recording: &Recording) -> Replay {
    let (mut transcript, mut events) = (Transcript::new(provider, true, None), Excerpt::default());
    // Reading from memory cannot fail.
    let _ = feed(&mut transcript, recording.stdout, &mut events);
    judge(provider, transcript, events, recording.stderr, &recording.ending)
}

/// Reads to the end.
pub(super) fn feed(
    transcript: &mut Transcript,
    mut from: impl Read,
    events: &mut Excerpt,
) -> std::io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                transcript.feed(&buffer[..length]);
                events.extend(transcript.digest.take_events());
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ends the transcript and makes the verdict.
pub(super) fn judge(
    provider: Provider,
    mut transcript: Transcript,
    mut events: Excerpt,
    stderr: &str,
    ending: &Ending,
) -> Replay {
    transcript.finish();
    events.extend(transcript.digest.take_events());
    let digest = &transcript.digest;
    let verdict = verdict(&Evidence {
        provider,
        digest,
        ending,
        stop: None,
        stderr,
        unanswered: None,
        resume: None,
        may_resume: true,
    });
    let result = TurnResult::of(provider, &mut transcript.digest, verdict.recovered);
    Replay { events: events.into_events(), result, fault: verdict.fault }
}
