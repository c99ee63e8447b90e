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
    pieces: Pieces<B>,
    search: Search,
    text: Arc<Mutex<AskedText>>,
    /// A placeholder was found. The rest is not sent.
    leaks: Arc<AtomicBool>,
    /// The program sends the body when it is told to.
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The body that is looked at. Long work is done in parts, between which other tasks of this process have their turn.
struct Pieces<B> {
    inner: B,
    state: State,
    /// Bytes since the last turn of others.
    bytes: usize,
}

/// How far a body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unread,
    UnderWay,
    Over,
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Pieces<B> {
    /// Bytes that are looked at without a pause: about a millisecond of work.
    const MOST: usize = 256 * 1024;

    fn new(inner: B) -> Pieces<B> {
        Pieces { inner, state: State::Unread, bytes: 0 }
    }

    /// The next piece that the search lets pass. `look` is shown each piece before it, and the end of the inner body as `None`.
    /// An error without a cause: the search has found something that may not pass, and the body is over.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        search: &mut Search,
        mut look: impl FnMut(Option<&[u8]>),
    ) -> Poll<Option<Result<Frame<Bytes>, Option<BodyError>>>> {
        while self.state != State::Over {
            if self.bytes >= Self::MOST {
                self.bytes = 0;
                // This task is woken again behind the others.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.state = State::UnderWay;
            let passed = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => {
                    // Trailers are of one connection.
                    let Ok(piece) = frame.into_data() else { continue };
                    self.bytes = self.bytes.saturating_add(piece.len());
                    look(Some(&piece));
                    search.push(piece)
                }
                Some(Err(error)) => {
                    self.state = State::Over;
                    return Poll::Ready(Some(Err(Some(error.into()))));
                }
                None => {
                    self.state = State::Over;
                    look(None);
                    search.end()
                }
            };
            match passed {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(Found) => {
                    self.state = State::Over;
                    return Poll::Ready(Some(Err(None)));
                }
            }
        }
        Poll::Ready(None)
    }

    /// Whether nothing comes any more. The end of the inner body is not that: bytes of it may be held back.
    fn is_end(&self) -> bool {
        match self.state {
            State::Unread => self.inner.is_end_stream(),
            State::UnderWay => false,
            State::Over => true,
        }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Asked<B> {
    pub(crate) fn new(
        inner: B,
        search: Search,
        text: Arc<Mutex<AskedText>>,
        leaks: Arc<AtomicBool>,
    ) -> Asked<B> {
        Asked { pieces: Pieces::new(inner), search, text, leaks, waits: None }
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
        let Asked { pieces, search, text, leaks, .. } = &mut *self;
        let passed = ready!(pieces.poll(context, search, |piece| {
            if let Some(piece) = piece {
                lock(text).push(piece);
            }
        }));
        let leaked = || {
            leaks.store(true, Ordering::Release);
            "the body holds a placeholder of another host".into()
        };
        Poll::Ready(passed.map(|passed| passed.map_err(|error| error.unwrap_or_else(leaked))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        // Asked for once, before the first piece.
        self.pieces.inner.size_hint()
    }
}

/// The body of an answer, in which secrets are hidden, and whose tokens are counted.
pub(crate) struct Answered<B = Incoming> {
    pieces: Pieces<B>,
    search: Search,
    passing: Option<Passing>,
    _exchange: Option<Exchange>,
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Answered<B> {
    pub(crate) fn new(
        inner: B,
        search: Search,
        passing: Option<Passing>,
        exchange: Option<Exchange>,
    ) -> Answered<B> {
        Answered { pieces: Pieces::new(inner), search, passing, _exchange: exchange }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Answered { pieces, search, passing, .. } = &mut *self;
        let passed = ready!(pieces.poll(context, search, |piece| match (&mut *passing, piece) {
            (Some(passing), Some(piece)) => passing.push(piece),
            (Some(passing), None) => passing.end(true),
            (None, _) => {}
        }));
        // A secret is replaced, and never refused.
        Poll::Ready(
            passed.and_then(|passed| passed.map_or_else(|error| error.map(Err), |frame| Some(Ok(frame)))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_end()
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
