//! PURE: the error of a sandbox's path.

use super::no_sandbox::no_sandbox_by;
use ground::error::Error;
use ground::os::Fault;
use nix::libc::{ELOOP, ENOENT, ENOTDIR};

/// The error of a sandbox's path that can't be opened.
pub(super) fn path_error(option: &str, fault: &Fault) -> Error {
    if !is_of_the_path(fault.errno) {
        return no_sandbox_by(fault, &format!("the path of {option} can't be opened"));
    }
    let cause = match fault.errno {
        ELOOP => {
            "it is a symbolic link, or behind one, and a program in an earlier sandbox could have made it: name the target of the link"
        }
        _ => "each path of a sandbox must exist",
    };
    Error::invalid_option(option, format!("{}: {cause}", fault.by_file()))
}

/// Whether the path of an option is at fault, and not the machine.
fn is_of_the_path(errno: i32) -> bool {
    matches!(errno, ENOENT | ENOTDIR | ELOOP)
}
