//! Bodies that are looked at as they pass.

use crate::caller::Exchange;
use crate::meter::Passing;
use crate::meter::asked::AskedText;
use crate::search::{Found, Search};
use bytes::Bytes;
use ground::lock::lock;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// A host that says nothing about a body that waits gets it after this time, as clients do it.
const EXPECTS_WITHIN: Duration = Duration::from_secs(1);

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request, which may hold no placeholder of another host.
pub(crate) struct Asked<B = Incoming> {
    inner: B,
    search: Search,
    text: Arc<Mutex<AskedText>>,
    /// A placeholder was found. The rest is not sent.
    leaks: Arc<AtomicBool>,
    state: State,
    turn: Turn,
    /// The program sends the body when it is told to.
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// Long work is done in parts, between which other tasks of this process have their turn.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    /// Bytes that are looked at without a pause: about a millisecond of work.
    const MOST: usize = 256 * 1024;

    fn add(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes);
    }

    /// Whether it is the turn of others. This task is woken again behind them.
    fn is_over(&mut self, context: &Context<'_>) -> bool {
        let is_over = self.0 >= Turn::MOST;
        if is_over {
            self.0 = 0;
            context.waker().wake_by_ref();
        }
        is_over
    }
}

/// How far a body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unread,
    UnderWay,
    Over,
}

impl State {
    /// Whether nothing comes any more. The end of the inner body is not that: bytes of it may be held back.
    fn is_end(self, inner: &impl Body) -> bool {
        match self {
            State::Unread => inner.is_end_stream(),
            State::UnderWay => false,
            State::Over => true,
        }
    }
}

impl<B> Asked<B> {
    pub(crate) fn new(
        inner: B,
        search: Search,
        text: Arc<Mutex<AskedText>>,
        leaks: Arc<AtomicBool>,
    ) -> Asked<B> {
        Asked { inner, search, text, leaks, state: State::Unread, turn: Turn::default(), waits: None }
    }

    /// Nothing of the body is asked for before the host says so, or has been silent for a while. When it has answered otherwise, the
    /// program is given time to leave.
    pub(crate) fn wait_for(&mut self, go: oneshot::Receiver<()>) {
        self.waits = Some(Box::pin(async {
            if let Ok(Err(_)) = timeout(EXPECTS_WITHIN, go).await {
                sleep(EXPECTS_WITHIN).await;
            }
        }));
    }

    /// The body is over. The rest that was held back, which may be a placeholder.
    fn end(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        self.state = State::Over;
        match self.search.end() {
            Ok(rest) => (!rest.is_empty()).then(|| Ok(Frame::data(rest))),
            Err(Found) => Some(Err(self.leak())),
        }
    }

    fn leak(&mut self) -> BodyError {
        self.state = State::Over;
        self.leaks.store(true, Ordering::Release);
        "the body holds a placeholder of another host".into()
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Body for Asked<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(waits) = &mut self.waits {
            ready!(waits.as_mut().poll(context));
            self.waits = None;
        }
        while self.state != State::Over {
            if self.turn.is_over(context) {
                return Poll::Pending;
            }
            self.state = State::UnderWay;
            let piece = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    // Trailers are of one connection.
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(self.end()),
            };
            self.turn.add(piece.len());
            lock(&self.text).push(&piece);
            match self.search.push(piece) {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(Found) => return Poll::Ready(Some(Err(self.leak()))),
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.state.is_end(&self.inner)
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for once, before the first piece.
        self.inner.size_hint()
    }
}

/// The body of an answer, in which secrets are hidden, and whose tokens are counted.
pub(crate) struct Answered<B = Incoming> {
    inner: B,
    search: Search,
    passing: Option<Passing>,
    state: State,
    turn: Turn,
    _exchange: Option<Exchange>,
}

impl<B> Answered<B> {
    pub(crate) fn new(
        inner: B,
        search: Search,
        passing: Option<Passing>,
        exchange: Option<Exchange>,
    ) -> Answered<B> {
        Answered { inner, search, passing, state: State::Unread, turn: Turn::default(), _exchange: exchange }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while self.state != State::Over {
            if self.turn.is_over(context) {
                return Poll::Pending;
            }
            self.state = State::UnderWay;
            let piece = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.state = State::Over;
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => {
                    self.state = State::Over;
                    if let Some(passing) = &mut self.passing {
                        passing.end(true);
                    }
                    // A secret is replaced, and never refused.
                    let rest = self.search.end().unwrap_or_default();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
            };
            self.turn.add(piece.len());
            if let Some(passing) = &mut self.passing {
                passing.push(&piece);
            }
            match self.search.push(piece) {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(Found) => self.state = State::Over,
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.state.is_end(&self.inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Needle, Texts};
    use http_body_util::{Full, StreamBody};

    /// The bytes that a server or client of HTTP gets: it stops where the body says that it ends.
    fn sent(mut body: impl Body<Data = Bytes, Error = BodyError> + Unpin) -> Result<Vec<u8>, BodyError> {
        let mut bytes = Vec::new();
        while !body.is_end_stream() {
            match Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(Some(frame)) => bytes.extend_from_slice(&frame?.into_data().unwrap()),
                Poll::Ready(None) => break,
                Poll::Pending => unreachable!("the whole body is there"),
            }
        }
        Ok(bytes)
    }

    fn search(replacement: Option<&str>) -> Search {
        Search::new(Texts::new([Needle { text: b"KEY".into(), replacement: replacement.map(Into::into) }]))
    }

    fn asked(text: &'static str) -> Result<Vec<u8>, BodyError> {
        sent(Asked::new(Full::from(text), search(None), Arc::default(), Arc::default()))
    }

    #[test]
    fn a_long_body_gives_others_their_turn() {
        let pieces = 8;
        let frames = (0..pieces).map(|_| Ok::<_, BodyError>(Frame::data(Bytes::from(vec![b'x'; 100_000]))));
        let inner = StreamBody::new(futures_util::stream::iter(frames));
        let mut body = Answered::new(inner, search(Some("***")), None, None);
        let (mut passed, mut turns) = (0, 0);
        while passed < pieces * 100_000 {
            match Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(frame) => passed += frame.unwrap().unwrap().into_data().unwrap().len(),
                Poll::Pending => turns += 1,
            }
        }
        assert_eq!(turns, 2);
    }

    #[test]
    fn a_body_that_ends_like_the_beginning_of_a_secret_is_whole() {
        for text in ["a=dog K", "KE", "", "words"] {
            assert_eq!(
                sent(Answered::new(Full::from(text), search(Some("***")), None, None)).unwrap(),
                text.as_bytes()
            );
            assert_eq!(asked(text).unwrap(), text.as_bytes());
        }
        assert!(asked("a KEY").is_err());
        let is_bodiless = Asked::new(Full::<Bytes>::default(), search(None), Arc::default(), Arc::default());
        assert!(is_bodiless.is_end_stream(), "no length is sent for it");
    }
}
