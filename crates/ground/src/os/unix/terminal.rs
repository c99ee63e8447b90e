//! Pseudo-terminals: the host holds one end, the program the other.

use super::super::fault::Fault;
use super::super::terminal_size::TerminalSize;
use crate::lock::lock;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::sys::stat::Mode;
use nix::sys::termios::{InputFlags, SetArg, tcgetattr, tcsetattr};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

/// The host's end. While it is open, the program's end does not hang up.
#[derive(Debug)]
pub struct Terminal {
    host: OwnedFd,
    /// Without an open end of the program, the host would read the end of the output: also when the program, which has closed its
    /// own descriptors, opens /dev/tty later.
    program: Mutex<Option<OwnedFd>>,
}

/// The character for the end of input, unless the program has set another one: Ctrl-D.
const END_OF_INPUT: u8 = 4;
/// The longest name is "/dev/pts/" and a number; macOS has longer ones.
const NAME_BYTES: usize = 128;

impl Terminal {
    /// Opens both ends. The program's end is not a controlling terminal yet.
    pub fn open(size: TerminalSize) -> Result<(Terminal, OwnedFd), Fault> {
        let refused = |call, file: Option<&Path>| {
            let file = file.map(Path::to_owned);
            move |errno: Errno| Fault::of_errno(call, file.as_deref(), errno as i32)
        };
        let multiplexer = Path::new("/dev/ptmx");
        // SAFETY: a call without pointers.
        let master = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
        let master = Errno::result(master).map_err(refused("open", Some(multiplexer)))?;
        // SAFETY: the system has just given us this descriptor, nobody else owns it.
        let host = unsafe { OwnedFd::from_raw_fd(master) };
        let terminal = Terminal { host, program: Mutex::default() };
        // SAFETY: calls on a descriptor that lives.
        Errno::result(unsafe { libc::grantpt(master) }).map_err(refused("grantpt", Some(multiplexer)))?;
        // SAFETY: as above.
        Errno::result(unsafe { libc::unlockpt(master) }).map_err(refused("unlockpt", Some(multiplexer)))?;
        terminal.resize(size).map_err(Fault::on("ioctl(TIOCSWINSZ)", multiplexer))?;
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let path = terminal.path().map_err(Fault::on("ptsname", multiplexer))?;
        let shown = Path::new(OsStr::from_bytes(path.to_bytes()));
        let program = open(path.as_c_str(), flags, Mode::empty()).map_err(refused("open", Some(shown)))?;
        edit_as_utf8(&program).map_err(refused("tcsetattr", Some(shown)))?;
        *lock(&terminal.program) = Some(program.try_clone().map_err(Fault::on("fcntl", shown))?);
        Ok((terminal, program))
    }

    /// The path of the program's end.
    pub fn path(&self) -> io::Result<CString> {
        let mut name = [0; NAME_BYTES];
        name_of(self.host.as_raw_fd(), &mut name)?;
        CStr::from_bytes_until_nul(&name).map(CStr::to_owned).map_err(io::Error::other)
    }

    /// From here on the output ends when nothing has the program's end open any more.
    pub fn expect_end(&self) {
        *lock(&self.program) = None;
    }

    /// Sets the size. The system sends SIGWINCH to the program's foreground group.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let size = libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptor lives for the call, which reads one winsize.
        let set = unsafe { libc::ioctl(self.host.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        Errno::result(set).map(drop).map_err(io::Error::from)
    }

    /// The character that currently means end of input. `None` when line mode is off and echo is on: the character would only be
    /// echoed. When both are off, the program reads single keys by itself and gets the character.
    pub fn end_of_input(&self) -> Option<u8> {
        // SAFETY: zeroed bytes are a valid termios, which the call only writes to.
        let mut settings: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: descriptor and structure live for the call.
        if unsafe { libc::tcgetattr(self.host.as_raw_fd(), &mut settings) } != 0 {
            return Some(END_OF_INPUT);
        }
        let is_set = |flag| settings.c_lflag & flag != 0;
        if is_set(libc::ECHO) && !is_set(libc::ICANON) {
            return None;
        }
        settings.c_cc.get(libc::VEOF).copied().filter(|character| *character != 0).or(Some(END_OF_INPUT))
    }

    /// Another descriptor of the host's end.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        self.host.try_clone()
    }
}

/// The line discipline erases whole characters, not bytes.
fn edit_as_utf8(program: &OwnedFd) -> nix::Result<()> {
    let mut settings = tcgetattr(program)?;
    settings.input_flags.insert(InputFlags::IUTF8);
    tcsetattr(program, SetArg::TCSANOW, &settings)
}

#[cfg(target_os = "linux")]
fn name_of(master: i32, name: &mut [u8; NAME_BYTES]) -> io::Result<()> {
    // SAFETY: the system writes at most this many bytes, including a NUL.
    match unsafe { libc::ptsname_r(master, name.as_mut_ptr().cast(), NAME_BYTES - 1) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(not(target_os = "linux"))]
fn name_of(master: i32, name: &mut [u8; NAME_BYTES]) -> io::Result<()> {
    // The name is in memory that the next call overwrites.
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _held = crate::lock::lock(&ONE_AT_A_TIME);
    // SAFETY: the descriptor lives; what is returned is null, or text that stays as it is until the lock is given back.
    let found = unsafe { libc::ptsname(master) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    let found = unsafe { CStr::from_ptr(found) };
    for (place, byte) in name.iter_mut().zip(found.to_bytes()) {
        *place = *byte;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn the_erase_key_takes_a_whole_character() {
        let (terminal, program) = Terminal::open(TerminalSize::default()).expect("a terminal");
        let mut host = File::from(terminal.try_clone().expect("a descriptor"));
        for erased in ["é", "€", "😀"] {
            host.write_all(format!("{erased}\x7fx\n").as_bytes()).expect("typed");
            let mut line = [0; 16];
            let length =
                (&File::from(program.try_clone().expect("a descriptor"))).read(&mut line).expect("a line");
            assert_eq!(&line[..length], b"x\n", "{erased}");
        }
    }

    #[test]
    fn what_is_typed_ends_by_the_character_that_the_terminal_says() {
        let (terminal, program) = Terminal::open(TerminalSize::default()).expect("a terminal");
        let end = terminal.end_of_input().expect("a character");
        assert_eq!(end, END_OF_INPUT);
        let mut host = File::from(terminal.try_clone().expect("a descriptor"));
        host.write_all(&[b'h', b'i', b'\n', end]).expect("typed");
        let mut program = File::from(program);
        let mut typed = String::new();
        program.read_to_string(&mut typed).expect("an end");
        assert_eq!(typed, "hi\n");
        program.write_all(b"shown\n").expect("printed");
        drop(program);
        // The terminal echoes the input.
        let mut shown = [0; b"hi\r\nshown\r\n".len()];
        host.read_exact(&mut shown).expect("text");
        assert_eq!(String::from_utf8_lossy(&shown), "hi\r\nshown\r\n");
        let path = terminal.path().expect("a name").into_string().expect("text");
        std::fs::write(path, "again\n").expect("the end can be opened again");
        let mut again = [0; b"again\r\n".len()];
        host.read_exact(&mut again).expect("text of the second opening");
        terminal.expect_end();
        assert!(host.read(&mut [0; 1]).is_err(), "an end without the program's");
    }
}
