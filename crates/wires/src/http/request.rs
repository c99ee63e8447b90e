//! A request as a plain value, so that it can be sent again.

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use ground::os::read_piece;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Size of the pieces in which a file is read and sent.
const FILE_CHUNK_BYTES: usize = 64 << 10;

/// The body of a request.
#[derive(Clone, Default)]
pub enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    File(FileBody),
}

/// A callback that gets the bytes that pass.
pub type Witness = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The first `len` bytes of an open file, streamed from disk. A file that has become shorter is [`HttpError::File`].
#[derive(Clone)]
pub struct FileBody {
    pub file: Arc<File>,
    pub len: u64,
    /// Called with each piece as it is sent, in order.
    pub witness: Option<Witness>,
}

/// A request to make. The module documentation explains the timeouts.
#[derive(Clone)]
pub struct Request {
    pub method: &'static str,
    pub url: String,
    /// Names and values. A name may occur more than once.
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// `None`: no limit.
    pub response_timeout: Option<Duration>,
    /// `None`: no limit.
    pub idle_timeout: Option<Duration>,
}

impl Request {
    pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

    pub fn new(method: &'static str, url: impl Into<String>) -> Self {
        Request {
            method,
            url: url.into(),
            headers: Vec::new(),
            body: Body::Empty,
            response_timeout: Some(Self::RESPONSE_TIMEOUT),
            idle_timeout: Some(Self::IDLE_TIMEOUT),
        }
    }

    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }
}

/// Streams the file's bytes from its beginning, and reports each piece that was taken. An error of the file is stored in
/// `failure`, because reqwest's own error does not show that the file caused it.
pub(super) fn file_stream(
    body: FileBody,
    taken: Arc<watch::Sender<u64>>,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    stream::try_unfold(0, move |offset| {
        let (taken, body) = (taken.clone(), body.clone());
        async move {
            // The next piece is requested, so the one before has been taken.
            taken.send_modify(|bytes| *bytes = offset);
            if offset == body.len {
                return Ok(None);
            }
            let left = usize::try_from(body.len - offset).unwrap_or(usize::MAX);
            let piece = read_piece(&body.file, offset, FILE_CHUNK_BYTES.min(left)).await?;
            if piece.is_empty() {
                let problem = "the file became shorter while it was sent";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
            }
            if let Some(witness) = body.witness {
                witness(&piece);
            }
            let next = offset + piece.len() as u64;
            Ok(Some((piece, next)))
        }
    })
}
