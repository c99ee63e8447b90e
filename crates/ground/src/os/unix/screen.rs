//! Writes to the host's own stdout and stderr. The JavaScript engine may have made them non-blocking, and shares that setting with
//! every copy, so the setting stays as it is.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Pause before a descriptor is asked again that has room but takes nothing.
const ASK_AGAIN: Duration = Duration::from_millis(1);

pub(crate) fn own_output() -> io::Result<File> {
    let copy: OwnedFd = io::stdout().as_fd().try_clone_to_owned()?;
    Ok(copy.into())
}

pub(crate) fn own_problems() -> io::Result<File> {
    let copy: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    Ok(copy.into())
}

/// Writes what there is room for, at least one byte, in pieces of this size: waits this long for the room.
pub(crate) fn write_some(
    mut file: &File,
    piece: usize,
    bytes: &[u8],
    patience: Duration,
) -> io::Result<usize> {
    let until = Instant::now().checked_add(patience);
    let mut written = 0;
    while written < bytes.len() {
        let left = until.map_or(patience, |until| until.saturating_duration_since(Instant::now()));
        if !has_room(file, if written == 0 { left } else { Duration::ZERO })? {
            break;
        }
        let end = bytes.len().min(written.saturating_add(piece));
        match file.write(&bytes[written..end]) {
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

fn has_room(file: &File, patience: Duration) -> io::Result<bool> {
    let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let mut asked = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut asked, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
        // An error of the descriptor counts as room: the write says what it is.
        Ok(ready) => Ok(ready > 0),
        Err(nix::errno::Errno::EINTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::screen::Screen;
    use super::*;
    use std::io::Read;

    fn as_file(writer: io::PipeWriter) -> File {
        OwnedFd::from(writer).into()
    }

    #[test]
    fn a_full_pipe_takes_nothing_and_says_so_in_time() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let screen = Screen::new(as_file(writer));
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
        let error = Screen::new(as_file(writer)).write(b"x", Duration::from_secs(30)).expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_file_takes_everything_at_once() {
        let file = tempfile::tempfile().expect("a file");
        let screen = Screen::new(file.try_clone().expect("a copy"));
        assert_eq!(screen.write(&[b'x'; 100_000], Duration::ZERO).expect("written"), 100_000);
        assert_eq!(file.metadata().expect("facts").len(), 100_000);
    }
}
