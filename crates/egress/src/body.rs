//! Bodies that are looked at as they pass.

use crate::meter::Passing;
use crate::meter::answer::AskedText;
use crate::search::{Found, Search};
use bytes::Bytes;
use ground::lock::lock;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::error::Error;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The body of a request, which may hold no placeholder of another host.
pub(crate) struct Asked {
    inner: Incoming,
    search: Search,
    text: Arc<Mutex<AskedText>>,
    /// A placeholder was found. The rest is not sent.
    leaks: Arc<AtomicBool>,
    is_over: bool,
}

impl Asked {
    pub(crate) fn new(
        inner: Incoming,
        search: Search,
        text: Arc<Mutex<AskedText>>,
        leaks: Arc<AtomicBool>,
    ) -> Asked {
        Asked { inner, search, text, leaks, is_over: false }
    }
}

impl Body for Asked {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.is_over {
            let piece = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    // Trailers are of one connection.
                    Err(_) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    self.is_over = true;
                    let rest = self.search.end();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
            };
            lock(&self.text).push(&piece);
            match self.search.push(piece) {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Err(Found) => {
                    self.is_over = true;
                    self.leaks.store(true, Ordering::Release);
                    return Poll::Ready(Some(Err("the body holds a placeholder of another host".into())));
                }
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        // Nothing is held back before the first piece.
        self.is_over || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer, in which secrets are hidden, and whose tokens are counted.
pub(crate) struct Answered {
    inner: Incoming,
    search: Search,
    passing: Option<Passing>,
    is_over: bool,
}

impl Answered {
    pub(crate) fn new(inner: Incoming, search: Search, passing: Option<Passing>) -> Answered {
        Answered { inner, search, passing, is_over: false }
    }
}

impl Body for Answered {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.is_over {
            let piece = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => piece,
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error.into())));
                }
                None => {
                    self.is_over = true;
                    if let Some(passing) = &mut self.passing {
                        passing.end(true);
                    }
                    let rest = self.search.end();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
            };
            if let Some(passing) = &mut self.passing {
                passing.push(&piece);
            }
            match self.search.push(piece) {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                // A secret is replaced, and never refused.
                Err(Found) => self.is_over = true,
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.inner.is_end_stream()
    }
}
