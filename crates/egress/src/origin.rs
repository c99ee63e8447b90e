//! The host's end of a connection, as the client of HTTP reads and writes it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A host that answers before it has read the whole request may close its side. Then the rest of the request is thrown away, as a
/// network does with it, and the answer is read: a write that failed is no failure of the request.
pub(crate) struct OriginStream<S> {
    inner: S,
    is_closed: bool,
}

impl<S> OriginStream<S> {
    pub(crate) fn new(inner: S) -> OriginStream<S> {
        OriginStream { inner, is_closed: false }
    }

    /// `fallback`: the result of a write that the host does not read any more.
    fn settle<T>(&mut self, written: Poll<io::Result<T>>, fallback: T) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Err(_)) => {
                self.is_closed = true;
                Poll::Ready(Ok(fallback))
            }
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for OriginStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OriginStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_closed {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.settle(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = buffers.iter().map(|buffer| buffer.len()).sum();
        if self.is_closed {
            return Poll::Ready(Ok(all));
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.settle(written, all)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closed {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        self.settle(flushed, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closed {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// Whether a server that was not spoken to is still there: it may have waited too long.
pub(crate) async fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    tokio::select! {
        biased;
        read = stream.peek(&mut byte) => read.is_ok_and(|length| length > 0),
        () = std::future::ready(()) => true,
    }
}
