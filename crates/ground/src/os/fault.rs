//! A call that the system refused: which call, for which file, and the system's answer. Every message about a refusal is made from one, so
//! that it states what was seen before what may be the cause.

use crate::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A system call that the system refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name of the system call.
    pub call: &'static str,
    pub file: Option<PathBuf>,
    /// The system's number; 0: the reason is not the system's.
    pub errno: i32,
    reason: String,
}

impl Fault {
    pub fn of(call: &'static str, file: Option<&Path>, error: &io::Error) -> Fault {
        let errno = error.raw_os_error().unwrap_or(0);
        Fault { call, file: file.map(Path::to_owned), errno, reason: error.to_string() }
    }

    pub fn of_errno(call: &'static str, file: Option<&Path>, errno: i32) -> Fault {
        Fault::of(call, file, &io::Error::from_raw_os_error(errno))
    }

    /// Takes the error of a call, for `map_err`.
    pub fn in_call(call: &'static str) -> impl Fn(io::Error) -> Fault {
        move |error| Fault::of(call, None, &error)
    }

    /// Takes the error of a call on this file, for `map_err`.
    pub fn on<'a>(call: &'static str, file: &'a Path) -> impl Fn(io::Error) -> Fault + 'a {
        move |error| Fault::of(call, Some(file), &error)
    }

    /// The same, for a sentence that begins with the file: `PATH: REASON (CALL)`.
    pub fn by_file(&self) -> String {
        let file = self.file.as_deref().unwrap_or(Path::new("")).display();
        format!("{file}: {} ({})", self.reason, self.call)
    }

    /// Adds the fields of the fault to an error: `errno` and `syscall`.
    pub fn mark(&self, error: Error) -> Error {
        // `ioctl(TIOCSCTTY)` is a call of ioctl.
        let name = self.call.split('(').next().unwrap_or(self.call);
        error.with("errno", self.errno).with("syscall", name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.call)?;
        if let Some(file) = &self.file {
            write!(formatter, " {}", file.display())?;
        }
        write!(formatter, ": {}", self.reason)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_the_call_the_file_and_the_answer() {
        let fault = Fault::of_errno("open", Some(Path::new("/x y")), 13);
        assert_eq!(fault.to_string(), "open /x y: Permission denied (os error 13)");
        assert_eq!(fault.by_file(), "/x y: Permission denied (os error 13) (open)");
        let fault = Fault::of("read", None, &io::Error::other("cut short"));
        assert_eq!((fault.to_string().as_str(), fault.errno), ("read: cut short", 0));
    }
}
