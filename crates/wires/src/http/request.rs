//! A request: values only, so that it can be sent again.

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use ground::os::read_piece;
use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Read and sent of a file at once.
const FILE_CHUNK_BYTES: usize = 64 << 10;

/// What is sent with a request.
#[derive(Clone, Debug, Default)]
pub enum Body {
    #[default]
    Empty,
    Bytes(Bytes),
    File(FileBody),
}

/// Sees what passes.
pub type Witness = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The first `len` bytes of an open file, streamed from disk. A file that is shorter by then is [`HttpError::File`].
#[derive(Clone)]
pub struct FileBody {
    pub file: Arc<File>,
    pub len: u64,
    /// Is shown each piece as it is sent, in order.
    pub witness: Option<Witness>,
}

impl fmt::Debug for FileBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileBody").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A request to make. The clocks: see the module.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    pub url: String,
    /// Names and values; a name may come more than once.
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

/// The file's bytes from its beginning, telling each piece that was taken. What goes wrong with the file is left in `failure`,
/// because reqwest's own error does not say whose fault it was.
pub(super) fn file_stream(
    body: FileBody,
    taken: Arc<watch::Sender<u64>>,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    stream::try_unfold(0, move |offset| {
        let (taken, body) = (taken.clone(), body.clone());
        async move {
            // Asked for the next piece: the one before has been taken.
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
