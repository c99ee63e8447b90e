//! Delivers the lines of a run to JavaScript, or the JSON objects among them.

use super::multiplexer::Channel;
use ground::json_filter::JsonFilter;
use ground::line::{LineFramer, LineTooLong};
use process::{Missed, Sink, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// The lines that a reader receives.
#[derive(Clone, Debug)]
pub(in crate::binding) enum Selection {
    /// All lines of both streams.
    Lines,
    /// The JSON objects of stdout; only those of the listed types, if there is a list.
    /// `passes_others`: the other lines come too.
    Json { types: Option<Vec<String>>, skipped: Skipped, passes_others: bool },
}

/// A count of lines that are no JSON objects, which the sink and the run's handle share.
#[derive(Clone, Debug, Default)]
pub(in crate::binding) struct Skipped(Arc<AtomicU64>);

impl Skipped {
    pub(in crate::binding) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn add(&self, lines: u64) {
        if lines > 0 {
            self.0.fetch_add(lines, Ordering::AcqRel);
        }
    }
}

/// Sends the lines of a run to a channel.
pub(in crate::binding) struct LineSink {
    framers: StreamFramers,
    filter: Option<(JsonFilter, Skipped)>,
    channel: Channel,
}

impl LineSink {
    pub(in crate::binding) fn new(selection: Selection, max_line_bytes: usize, channel: Channel) -> Self {
        let filter = match selection {
            Selection::Lines => None,
            Selection::Json { types, skipped, passes_others: false } => {
                Some((JsonFilter::new(types), skipped))
            }
            Selection::Json { types, skipped, passes_others: true } => {
                Some((JsonFilter::new(types).passing_others(), skipped))
            }
        };
        LineSink { framers: StreamFramers::new(max_line_bytes), filter, channel }
    }
}

/// Appends whole lines, or those of them that the filter selects.
fn select(filter: Option<&(JsonFilter, Skipped)>, block: &[u8], text: &mut Vec<u8>) {
    match filter {
        None => text.extend_from_slice(block),
        Some((filter, skipped)) => skipped.add(filter.select(block, text)),
    }
}

impl Sink for LineSink {
    fn takes(&self, stream: Stream) -> bool {
        self.filter.is_none() || stream == Stream::Stdout
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        let LineSink { framers, filter, channel } = self;
        let mut text = Vec::new();
        let pushed = framers.of(stream).push(bytes, |block| select(filter.as_ref(), block, &mut text));
        channel.send_lines(stream, text);
        pushed
    }

    fn end(&mut self, stream: Stream) -> Result<(), LineTooLong> {
        let LineSink { framers, filter, channel } = self;
        let mut text = Vec::new();
        let ended = framers.of(stream).end(|block| select(filter.as_ref(), block, &mut text));
        channel.send_lines(stream, text);
        ended
    }

    fn refuse(&mut self, why: Missed) {
        self.channel.end_with(Some(why));
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.channel.poll_room(context)
    }

    fn finish(&mut self) {
        self.channel.end();
    }
}

/// One framer for each stream.
#[derive(Debug)]
struct StreamFramers {
    stdout: LineFramer,
    stderr: LineFramer,
}

impl StreamFramers {
    fn new(limit: usize) -> Self {
        StreamFramers { stdout: LineFramer::new(limit), stderr: LineFramer::new(limit) }
    }

    fn of(&mut self, stream: Stream) -> &mut LineFramer {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}
