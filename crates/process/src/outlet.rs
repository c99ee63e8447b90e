//! Passes a run's output to its reader, its record and the host's own descriptors. A stream is not read while one of them has no
//! room for it.

use super::echo::Echoing;
use super::sink::Sink;
use super::stream::Stream;
use ground::line::LineTooLong;
use ground::record::{Channel, Record};
use std::future::{pending, poll_fn};
use std::task::{Context, Poll, Waker};

fn channel_of(stream: Stream) -> Channel {
    match stream {
        Stream::Stdout => Channel::Stdout,
        Stream::Stderr => Channel::Stderr,
    }
}

pub(super) struct Outlet {
    sink: Option<Box<dyn Sink>>,
    record: Option<Record>,
    echo: Option<Echoing>,
    pub is_paused: bool,
}

impl Outlet {
    pub(super) fn new(record: Option<Record>, echo: Option<Echoing>) -> Self {
        Outlet { sink: None, record, echo, is_paused: false }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), LineTooLong> {
        if let Some(record) = &mut self.record {
            record.push(channel_of(stream), bytes);
        }
        if let Some(echo) = &mut self.echo {
            echo.push(stream, bytes);
        }
        match self.sink.as_mut().filter(|sink| sink.takes(stream)) {
            Some(sink) => sink.push(stream, bytes),
            None => Ok(()),
        }
    }

    /// The stream ended.
    pub(crate) fn end(&mut self, stream: Stream) -> Result<(), LineTooLong> {
        match self.sink.as_mut().filter(|sink| sink.takes(stream)) {
            Some(sink) => sink.end(stream),
            None => Ok(()),
        }
    }

    /// A later reader takes over.
    pub(super) fn attach(&mut self, sink: Box<dyn Sink>) {
        self.sink = Some(sink);
    }

    /// Nothing more comes to the reader.
    pub(super) fn finish(&mut self) {
        if let Some(mut sink) = self.sink.take() {
            sink.finish();
        }
    }

    /// Drops a reader that panicked, without another call to it.
    pub(super) fn abandon(&mut self) {
        self.sink = None;
    }

    pub(super) fn take_record(&mut self) -> Option<Record> {
        self.record.take()
    }

    pub(super) fn take_echo(&mut self) -> Option<Echoing> {
        self.echo.take()
    }

    /// Whether this stream must not be read, because its reader, its echo or the record (which takes both streams) has no
    /// room.
    pub(super) fn holds(&self, stream: Stream) -> bool {
        self.is_paused
            && (self.sink.as_ref().is_some_and(|sink| sink.takes(stream))
                || self.record.as_ref().is_some_and(Record::holds)
                || self.echo.as_ref().is_some_and(|echo| echo.holds(stream)))
    }

    pub(super) fn is_full(&mut self) -> bool {
        self.poll_room(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Room in all of them.
    pub(super) async fn room(&mut self) {
        if self.sink.is_none() && self.record.is_none() && self.echo.is_none() {
            return pending().await;
        }
        poll_fn(|context| self.poll_room(context)).await;
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // All are polled, because each has to register the waker.
        let in_sink = self.sink.as_mut().map_or(Poll::Ready(()), |sink| sink.poll_room(context));
        let in_record = self.record.as_mut().map_or(Poll::Ready(()), |record| record.poll_room(context));
        let in_echo = self.echo.as_mut().map_or(Poll::Ready(()), |echo| echo.poll_room(context));
        if [in_sink, in_record, in_echo].iter().all(Poll::is_ready) { Poll::Ready(()) } else { Poll::Pending }
    }
}
