//! A run's stdout and stderr, and the times of their last output.

use super::output::{Ask, Output, READ_BUFFER};
use super::replay::{check_whole, give};
use super::sink::{Missed, Sink};
use super::stream::Stream;
use ground::keep::Keep;
use ground::line::LineTooLong;
use ground::os::Pipe;
use std::future::pending;
use std::io;
use std::time::Instant;

/// The result of a read.
pub(super) enum Read {
    Nothing,
    /// The read was interrupted and has to be repeated.
    Interrupted,
    /// Bytes were accepted, or refused because of a line that is too long.
    Something(Result<(), LineTooLong>),
    Ended,
}

/// Both streams of a run.
pub(super) struct Outputs {
    stdout: Output,
    stderr: Output,
    pub first: Option<Instant>,
    pub last: Option<Instant>,
}

impl Outputs {
    /// `limit`: bytes that are kept of each.
    pub(super) fn new(stdout: Option<Pipe>, stderr: Option<Pipe>, limit: usize) -> Self {
        let output = |pipe| Output::new(pipe, Keep::new(limit));
        Outputs { stdout: output(stdout), stderr: output(stderr), first: None, last: None }
    }

    fn of(&self, stream: Stream) -> &Output {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }

    /// Bytes that were read so far.
    pub(super) fn total(&self, stream: Stream) -> u64 {
        self.of(stream).keep.total()
    }

    pub(super) fn is_open(&self, stream: Stream) -> bool {
        self.of(stream).pipe.is_some()
    }

    /// Whether anything may still come.
    pub(super) fn are_open(&self) -> bool {
        Stream::BOTH.into_iter().any(|stream| self.is_open(stream))
    }

    /// Whether text waits in a pipe.
    pub(super) fn wait(&self) -> bool {
        let pipes = [&self.stdout, &self.stderr].into_iter().filter_map(|output| output.pipe.as_ref());
        pipes.into_iter().any(Pipe::has_bytes)
    }

    /// One of the streams that may be read has something, or has ended.
    pub(super) async fn readable(&self, may_read: [bool; 2]) {
        let ready = async |output: &Output, may_read: bool| match &output.pipe {
            Some(pipe) if may_read => {
                pipe.readable().await;
            }
            _ => pending().await,
        };
        tokio::select! {
            () = ready(&self.stdout, may_read[0]) => {}
            () = ready(&self.stderr, may_read[1]) => {}
        }
    }

    /// One read, which `take` is given.
    pub(super) fn read(
        &mut self,
        stream: Stream,
        ask: Ask,
        take: impl FnOnce(&[u8], Instant) -> Result<(), LineTooLong>,
    ) -> Read {
        // The steps that follow a read may read again, so the buffer is returned first.
        READ_BUFFER.with_borrow_mut(|buffer| {
            let output = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            let bytes = match output.read(buffer, ask) {
                Ok(bytes) if !bytes.is_empty() => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Read::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Read::Interrupted,
                Ok(_) | Err(_) => return Read::Ended,
            };
            let now = Instant::now();
            self.first.get_or_insert(now);
            self.last = Some(now);
            Read::Something(take(bytes, now))
        })
    }

    /// False when it was closed before.
    pub(super) fn close(&mut self, stream: Stream) -> bool {
        let output = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        output.pipe.take().is_some()
    }

    /// Gives a new sink the earlier output.
    pub(super) fn catch_up(&self, sink: &mut dyn Sink) -> Result<(), Missed> {
        check_whole(sink, |stream| self.of(stream).keep.dropped())?;
        let mut caught_up = Ok(());
        for stream in Stream::BOTH.into_iter().filter(|stream| sink.takes(*stream)).collect::<Vec<_>>() {
            let output = self.of(stream);
            let given = give(sink, stream, &output.keep.whole().unwrap_or_default());
            let ended = if output.pipe.is_none() { given.and_then(|()| sink.end(stream)) } else { given };
            if ended.is_err() {
                caught_up = Err(Missed::LineTooLong(stream));
            }
        }
        caught_up
    }

    /// Takes the kept output of both streams, at the end of the run.
    pub(super) fn take_kept(&mut self) -> [Keep; 2] {
        [&mut self.stdout, &mut self.stderr].map(|output| std::mem::replace(&mut output.keep, Keep::new(1)))
    }
}
