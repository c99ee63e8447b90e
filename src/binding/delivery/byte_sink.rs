//! Delivers the bytes of a run's stdout to JavaScript as they come.

use super::multiplexer::Channel;
use ground::line::LineTooLong;
use process::{Missed, Sink, Stream};
use std::task::{Context, Poll};

/// Sends the bytes of stdout to a channel.
pub(in crate::binding) struct ByteSink(Channel);

impl ByteSink {
    pub(in crate::binding) fn new(channel: Channel) -> Self {
        ByteSink(channel)
    }
}

impl Sink for ByteSink {
    fn takes(&self, stream: Stream) -> bool {
        stream == Stream::Stdout
    }

    fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        self.0.send_bytes(stream, bytes.to_vec());
        Ok(())
    }

    fn end(&mut self, _: Stream) -> Result<(), LineTooLong> {
        Ok(())
    }

    fn refuse(&mut self, why: Missed) {
        self.0.end_with(Some(why));
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_room(context)
    }

    fn finish(&mut self) {
        self.0.end();
    }
}
