//! Gives the kept output of a run to a reader that comes late.

use super::output::READ_BYTES;
use super::sink::Sink;
use super::spec::Outcome;
use super::stream::Stream;
use ground::line::LineTooLong;

/// Gives a sink the kept output of an ended run.
pub(super) fn replay(outcome: &Outcome, sink: &mut dyn Sink) {
    if let Some(result) = &outcome.result {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if sink.takes(stream)
                && give(sink, stream, result.bytes_of(stream)).and_then(|()| sink.end(stream)).is_err()
            {
                sink.fail(stream);
            }
        }
    }
    sink.finish();
}

/// In slices as they would have been read: no block is larger than a live one.
pub(super) fn give(sink: &mut dyn Sink, stream: Stream, kept: &[u8]) -> Result<(), LineTooLong> {
    kept.chunks(READ_BYTES).try_for_each(|bytes| sink.push(stream, bytes))
}
