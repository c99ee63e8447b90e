//! The host's own stdout and stderr, written by threads that may block.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A pipe with room takes this much without blocking (PIPE_BUF of Linux; other systems round up to a page).
const PIECE: usize = 4096;
/// Pause before a descriptor is asked again that has room but takes nothing.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// A descriptor that somebody reads: a terminal, a pipe, a file. The JavaScript engine may have made it non-blocking, and shares
/// that setting with this copy, so the setting stays as it is.
#[derive(Debug)]
pub struct Screen {
    file: File,
    /// Most bytes of one write.
    piece: usize,
}

impl Screen {
    pub fn new(descriptor: OwnedFd) -> Screen {
        let file = File::from(descriptor);
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Screen { file, piece: if is_file { usize::MAX } else { PIECE } }
    }

    pub fn stdout() -> io::Result<Screen> {
        io::stdout().as_fd().try_clone_to_owned().map(Screen::new)
    }

    pub fn stderr() -> io::Result<Screen> {
        io::stderr().as_fd().try_clone_to_owned().map(Screen::new)
    }

    /// Writes what there is room for, at least one byte: waits this long for the room. 0: there was none. Blocks.
    ///
    /// # Errors
    /// The system's, when the reader is gone.
    pub fn write(&self, bytes: &[u8], patience: Duration) -> io::Result<usize> {
        let until = Instant::now().checked_add(patience);
        let mut written = 0;
        while written < bytes.len() {
            let left = until.map_or(patience, |until| until.saturating_duration_since(Instant::now()));
            if !self.has_room(if written == 0 { left } else { Duration::ZERO })? {
                break;
            }
            let end = bytes.len().min(written.saturating_add(self.piece));
            match (&self.file).write(&bytes[written..end]) {
                Ok(length) => written += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Somebody else was faster.
                Err(error) if error.kind() == ErrorKind::WouldBlock && written == 0 && !left.is_zero() => {
                    std::thread::sleep(ASK_AGAIN);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn has_room(&self, patience: Duration) -> io::Result<bool> {
        let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        let mut asked = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut asked, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
            // An error of the descriptor counts as room: the write says what it is.
            Ok(ready) => Ok(ready > 0),
            Err(nix::errno::Errno::EINTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_full_pipe_takes_nothing_and_says_so_in_time() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let screen = Screen::new(writer.into());
        let much = vec![b'x'; 1 << 20];
        let written = screen.write(&much, Duration::from_secs(30)).expect("some of it");
        assert!((4096..1 << 20).contains(&written), "{written}");
        assert_eq!(screen.write(&much, Duration::from_millis(20)).expect("no room"), 0);
        let mut some = vec![0; written];
        reader.read_exact(&mut some).expect("what was written");
        assert_eq!(screen.write(b"more", Duration::from_secs(30)).expect("room"), 4);
    }

    #[test]
    fn a_pipe_without_a_reader_is_an_error() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let error = Screen::new(writer.into()).write(b"x", Duration::from_secs(30)).expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_takes_everything_at_once() {
        let file = tempfile::tempfile().expect("a file");
        let screen = Screen::new(file.try_clone().expect("a copy").into());
        assert_eq!(screen.write(&[b'x'; 100_000], Duration::ZERO).expect("written"), 100_000);
        assert_eq!(file.metadata().expect("facts").len(), 100_000);
    }
}
