//! Reading from a guard's lifeline.

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Reads bytes, and a descriptor that came with them.
pub(super) fn receive(
    socket: &UnixStream,
    bytes: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> io::Result<usize> {
    let mut control = nix::cmsg_space!([i32; 1]);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(received) = part {
            for number in received {
                // SAFETY: the kernel has just given this process the descriptor.
                *descriptor = Some(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
    Ok(message.bytes)
}
