//! Gives the kept output of a run to a reader that comes late.

use super::output::READ_BYTES;
use super::sink::{Missed, Sink};
use super::spec::{Outcome, RunResult};
use super::stream::Stream;
use ground::line::LineTooLong;

/// Gives a sink the kept output of an ended run.
pub(super) fn replay(outcome: &Outcome, sink: &mut dyn Sink) {
    if let Some(result) = &outcome.result
        && let Err(missed) = give_all(result, sink)
    {
        sink.refuse(missed);
    }
    sink.finish();
}

fn give_all(result: &RunResult, sink: &mut dyn Sink) -> Result<(), Missed> {
    check_whole(sink, |stream| result.dropped[stream as usize])?;
    for stream in Stream::BOTH.into_iter().filter(|stream| sink.takes(*stream)).collect::<Vec<_>>() {
        give(sink, stream, result.bytes_of(stream))
            .and_then(|()| sink.end(stream))
            .map_err(|_| Missed::LineTooLong(stream))?;
    }
    Ok(())
}

/// A reader gets the whole output of the streams that it takes, or none of it: a text with a gap is for people.
/// `dropped`: number of bytes of a stream that nobody has any more.
pub(super) fn check_whole(sink: &dyn Sink, dropped: impl Fn(Stream) -> u64) -> Result<(), Missed> {
    for stream in Stream::BOTH.into_iter().filter(|stream| sink.takes(*stream)) {
        let bytes = dropped(stream);
        if bytes > 0 {
            return Err(Missed::Dropped { stream, bytes });
        }
    }
    Ok(())
}

/// In slices as they would have been read: no block is larger than a live one.
pub(super) fn give(sink: &mut dyn Sink, stream: Stream, kept: &[u8]) -> Result<(), LineTooLong> {
    kept.chunks(READ_BYTES).try_for_each(|bytes| sink.push(stream, bytes))
}
