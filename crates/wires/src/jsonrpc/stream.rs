//! The source and the sink of a connection's bytes, and their implementation for tokio's streams.

use bytes::{Bytes, BytesMut};
use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The source of the peer's bytes. `None` is the end.
pub trait ByteSource: Send + 'static {
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Bytes>>> + Send;
}

/// The sink for the bytes that are sent to the peer.
pub trait ByteSink: Send + 'static {
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = io::Result<()>> + Send;
}

/// Reads up to 64 KiB at once from a tokio stream.
pub struct StreamSource<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R> StreamSource<R> {
    const READ: usize = 64 << 10;

    pub fn new(stream: R) -> Self {
        StreamSource { stream, buffer: BytesMut::new() }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> ByteSource for StreamSource<R> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.buffer.reserve(Self::READ);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        Ok((read > 0).then(|| self.buffer.split().freeze()))
    }
}

pub struct StreamSink<W>(pub W);

impl<W: AsyncWrite + Unpin + Send + 'static> ByteSink for StreamSink<W> {
    async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        self.0.write_all(&bytes).await?;
        self.0.flush().await
    }
}
