//! The program's end of a connection, as the server of HTTP reads and writes it.
//!
//! The library that speaks HTTP is stricter than clients and origins are, and does not tell what happens on the connection while it
//! waits. So this stream stands between them:
//!
//! - Characters of a request's target that browsers encode, and other clients don't, are encoded.
//! - An answer that the library gives by itself, to a head that it can't read, gets a line that says why, and is reported.
//! - While the host is silent, the end of the program's half is no end, as long as the program has its socket. When it has left,
//!   the connection ends, and with it the work of the host.
//! - Interim answers of the host are passed on.

use ground::lock::lock;
use ground::os::peer_has_left;
use hyper::body::Body;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use wires::http::MAX_HEADER_LINES;

/// Bytes of a message's head: the library's limit.
pub(crate) const MOST_HEAD: &str = "400 KB";
/// How often it is looked whether a silent program is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a program may still send, to a connection that is closed.
const LINGERS_FOR: Duration = Duration::from_secs(1);
/// Bytes of interim answers that wait for a program that does not read. More are left out.
const MOST_INTERIM: usize = 64 * 1024;
/// Read at once, in a head.
const PIECE: usize = 8192;

/// Both addresses of a connection, as this process sees them.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub own: SocketAddr,
    pub peer: SocketAddr,
}

impl Ends {
    pub(crate) fn of(stream: &tokio::net::TcpStream) -> io::Result<Ends> {
        Ok(Ends { own: stream.local_addr()?, peer: stream.peer_addr()? })
    }
}

type OnUnreadable = Box<dyn Fn(&str) + Send + Sync>;

/// State that the stream shares with the requests on it.
pub(crate) struct Caller {
    ends: Ends,
    state: Mutex<State>,
    /// Cancelled when the connection is over.
    over: CancellationToken,
    _over: DropGuard,
    on_unreadable: OnUnreadable,
}

struct State {
    part: Part,
    /// A request was handed over since the head of the last one began.
    is_called: bool,
    /// A request is under way.
    is_open: bool,
    /// Interim answers that are to be written.
    interim: Vec<u8>,
    reader: Option<Waker>,
}

/// The part of a message that is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The first line. `words`: spaces so far.
    Line { words: u8 },
    /// The other lines. `at_start`: of a line.
    Lines { at_start: bool },
    /// A body of so many bytes.
    Body(u64),
    /// A body whose end the library finds.
    Open,
    /// Another protocol.
    Tunnel,
}

const BEGINNING: Part = Part::Line { words: 0 };

/// A request under way, until its answer is over.
pub(crate) struct Exchange {
    caller: Arc<Caller>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = lock(&self.caller.state);
        state.is_open = false;
        if state.part == Part::Open {
            state.part = BEGINNING;
        }
    }
}

impl Caller {
    pub(crate) fn new(ends: Ends, on_unreadable: OnUnreadable) -> Arc<Caller> {
        let over = CancellationToken::new();
        let state =
            State { part: BEGINNING, is_called: false, is_open: false, interim: Vec::new(), reader: None };
        Arc::new(Caller {
            ends,
            state: Mutex::new(state),
            _over: over.clone().drop_guard(),
            over,
            on_unreadable,
        })
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// Cancelled when the connection is over.
    pub(crate) fn over(&self) -> CancellationToken {
        self.over.clone()
    }

    pub(crate) fn end(&self) {
        self.over.cancel();
    }

    /// A request was read. To be called before anything more is read.
    pub(crate) fn begin(self: &Arc<Caller>, request: &Request<impl Body>) -> Exchange {
        let mut state = lock(&self.state);
        (state.is_called, state.is_open) = (true, true);
        state.part = match request.body().size_hint().exact() {
            _ if request.method() == Method::CONNECT => Part::Tunnel,
            Some(0) => BEGINNING,
            Some(length) => Part::Body(length),
            None => Part::Open,
        };
        Exchange { caller: self.clone() }
    }

    /// The host's interim answer is written before anything else.
    pub(crate) fn pass_interim(&self, status: StatusCode, headers: &HeaderMap) {
        let mut head = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for (name, value) in headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        let mut state = lock(&self.state);
        if state.interim.len() + head.len() <= MOST_INTERIM {
            state.interim.extend_from_slice(&head);
        }
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }
}

/// The stream of a caller.
pub(crate) struct CallerStream<S> {
    caller: Arc<Caller>,
    inner: S,
    /// Bytes that were read, and not looked at.
    raw: Vec<u8>,
    /// Bytes that were looked at, and not handed over.
    ready: Vec<u8>,
    /// Bytes to be written before all others.
    first: Vec<u8>,
    is_ended: bool,
    look: Option<Pin<Box<Sleep>>>,
    /// Set when the own half has ended.
    lingers: Option<Pin<Box<Sleep>>>,
}

impl<S> CallerStream<S> {
    pub(crate) fn new(caller: Arc<Caller>, inner: S) -> CallerStream<S> {
        let (raw, ready, first) = (Vec::new(), Vec::new(), Vec::new());
        CallerStream { caller, inner, raw, ready, first, is_ended: false, look: None, lingers: None }
    }
}

/// A byte of a target. Browsers encode these characters, and the library takes them in no other form.
fn encode(byte: u8, target: &mut Vec<u8>) {
    match byte {
        b'"' | b'<' | b'>' | b'`' => target.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        _ => target.push(byte),
    }
}

/// A text as it stands in a target.
pub(crate) fn encoded_target(text: &str) -> String {
    let mut target = Vec::with_capacity(text.len());
    text.bytes().for_each(|byte| encode(byte, &mut target));
    String::from_utf8_lossy(&target).into_owned()
}

/// Looks at bytes of a head, which go into `ready`, until its end. Returns how many those were.
fn take_head(state: &mut State, raw: &[u8], ready: &mut Vec<u8>) -> usize {
    for (at, byte) in raw.iter().enumerate() {
        match state.part {
            Part::Line { words: 0 } if matches!(byte, b'\r' | b'\n') => ready.push(*byte),
            Part::Line { .. } if *byte == b'\n' => {
                state.part = Part::Lines { at_start: true };
                ready.push(*byte);
            }
            Part::Line { words } => {
                state.is_called = false;
                let words = words.max(1).saturating_add(u8::from(*byte == b' '));
                state.part = Part::Line { words };
                if words > 1 {
                    encode(*byte, ready);
                } else {
                    ready.push(*byte);
                }
            }
            Part::Lines { at_start } => {
                ready.push(*byte);
                if at_start && *byte == b'\n' {
                    return at + 1;
                }
                state.part = Part::Lines { at_start: *byte == b'\n' || (at_start && *byte == b'\r') };
            }
            Part::Body(_) | Part::Open | Part::Tunnel => return at,
        }
    }
    raw.len()
}

/// The line for a head that the library refused, by the beginning of its own answer.
fn unreadable(answer: &[u8]) -> Option<(&'static str, String)> {
    let head = answer.strip_prefix(b"HTTP/1.1 ")?;
    if !answer.windows(21).any(|part| part == b"\r\ncontent-length: 0\r\n") {
        return None;
    }
    Some(match head.first_chunk::<3>()? {
        b"400" => ("400 Bad Request", "the request's head is no HTTP that can be passed on".to_owned()),
        b"414" => ("414 URI Too Long", "the request's target is longer than 64 KB".to_owned()),
        b"431" => (
            "431 Request Header Fields Too Large",
            format!(
                "the request has more than {MAX_HEADER_LINES} header lines, or a head of more than {MOST_HEAD}"
            ),
        ),
        _ => return None,
    })
}

impl<S: AsyncRead + AsyncWrite + Unpin> CallerStream<S> {
    /// The program's half has ended: that is told when nothing is under way, or when the program has left.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            {
                let state = lock(&self.caller.state);
                if !state.is_open || matches!(state.part, Part::Body(_)) {
                    return Poll::Ready(Ok(()));
                }
            }
            if let Some(look) = &mut self.look {
                ready!(look.as_mut().poll(context));
            }
            if peer_has_left(self.caller.ends.own, self.caller.ends.peer) {
                return Poll::Ready(Ok(()));
            }
            self.look = Some(Box::pin(sleep(LOOK_EVERY)));
        }
    }

    /// Reads and forgets what the program still sends. A socket that is closed with unread bytes is reset, and the program loses an answer
    /// that came before the end of its request.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if lock(&self.caller.state).part == Part::Tunnel {
            return Poll::Ready(Ok(()));
        }
        let lingers = self.lingers.get_or_insert_with(|| Box::pin(sleep(LINGERS_FOR)));
        let mut piece = [0; PIECE];
        while lingers.as_mut().poll(context).is_pending() {
            let mut read = ReadBuf::new(&mut piece);
            if ready!(Pin::new(&mut self.inner).poll_read(context, &mut read)).is_err()
                || read.filled().is_empty()
            {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads what the program sends next: a head into `raw`, at most so many bytes of a body into the buffer. True: the buffer
    /// has some of it.
    fn poll_raw(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        body: Option<usize>,
    ) -> Poll<io::Result<bool>> {
        let mut piece = [0; PIECE];
        let mut read = match body {
            None => ReadBuf::new(&mut piece),
            Some(most) => {
                let most = most.min(buffer.remaining());
                ReadBuf::new(buffer.initialize_unfilled_to(most))
            }
        };
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut read))?;
        let length = read.filled().len();
        if length == 0 {
            self.is_ended = true;
        } else if body.is_none() {
            self.raw.extend_from_slice(read.filled());
        } else {
            buffer.advance(length);
            lock(&self.caller.state).after_body(length);
            return Poll::Ready(Ok(true));
        }
        Poll::Ready(Ok(false))
    }

    /// Writes what comes before all else.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.first.is_empty() {
                std::mem::swap(&mut self.first, &mut lock(&self.caller.state).interim);
            }
            if self.first.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, &self.first))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.first.drain(..written);
        }
    }

    /// Puts a line of ours in the place of the library's own answer.
    fn replace(&mut self, answer: &[u8]) -> bool {
        if lock(&self.caller.state).is_called {
            return false;
        }
        let Some((status, line)) = unreadable(answer) else { return false };
        (self.caller.on_unreadable)(&line);
        let body = format!("sheepdog: {line}\n");
        let length = body.len();
        self.first = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes();
        true
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for CallerStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // An interim answer waits for nothing that the program sends.
        if let Poll::Ready(Err(error)) = this.poll_first(context) {
            return Poll::Ready(Err(error));
        }
        let _ = Pin::new(&mut this.inner).poll_flush(context);
        loop {
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !this.ready.is_empty() {
                let length = this.ready.len().min(buffer.remaining());
                buffer.put_slice(this.ready.get(..length).unwrap_or_default());
                this.ready.drain(..length);
                return Poll::Ready(Ok(()));
            }
            let part = {
                let mut state = lock(&this.caller.state);
                state.reader = Some(context.waker().clone());
                state.part
            };
            if this.is_ended {
                return this.poll_end(context);
            }
            let is_head = matches!(part, Part::Line { .. } | Part::Lines { .. });
            let most = match part {
                Part::Line { .. } | Part::Lines { .. } => PIECE,
                Part::Body(length) => usize::try_from(length).unwrap_or(usize::MAX),
                Part::Open | Part::Tunnel => usize::MAX,
            };
            if this.raw.is_empty() {
                if ready!(this.poll_raw(context, buffer, (!is_head).then_some(most)))? {
                    return Poll::Ready(Ok(()));
                }
                if this.is_ended {
                    continue;
                }
            }
            let mut state = lock(&this.caller.state);
            let taken = if is_head {
                take_head(&mut state, &this.raw, &mut this.ready)
            } else {
                let length = this.raw.len().min(most);
                this.ready.extend_from_slice(this.raw.get(..length).unwrap_or_default());
                state.after_body(length);
                length
            };
            this.raw.drain(..taken);
        }
    }
}

impl State {
    fn after_body(&mut self, length: usize) {
        if let Part::Body(left) = self.part {
            let left = left.saturating_sub(length as u64);
            self.part = if left == 0 { BEGINNING } else { Part::Body(left) };
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CallerStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_first(context))?;
        if this.replace(bytes) {
            let _ = this.poll_first(context);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut this.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if lock(&this.caller.state).is_called {
            ready!(this.poll_first(context))?;
            return Pin::new(&mut this.inner).poll_write_vectored(context, buffers);
        }
        let first = buffers.iter().find(|buffer| !buffer.is_empty());
        Pin::new(this).poll_write(context, first.map_or(&[], |first| first))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_first(context))?;
        Pin::new(&mut this.inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingers.is_none() {
            ready!(this.poll_first(context))?;
            ready!(Pin::new(&mut this.inner).poll_shutdown(context))?;
        }
        this.poll_linger(context)
    }
}

#[cfg(test)]
#[path = "caller_tests.rs"]
mod tests;
