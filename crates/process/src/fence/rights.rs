//! The rights of a thread that opens paths in a program's place: those of the program. In a sandbox, root has no capabilities.

use nix::errno::Errno;
use nix::libc::{self, c_int};

/// `_LINUX_CAPABILITY_VERSION_3`, which has two words of 32 capabilities.
const VERSION: u32 = 0x2008_0522;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`: files are opened whatever their mode.
const BY_ANY_MODE: u32 = 1 << 1 | 1 << 2;

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    thread: c_int,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up, for this thread and for good, the capabilities that pass over the modes of files. Others stay: by them this process may look
/// at the program.
pub(super) fn give_up() -> Result<(), Errno> {
    let mut header = Header { version: VERSION, thread: 0 };
    let mut own = [Capabilities::default(); 2];
    // SAFETY: the kernel fills in two structures of this layout. The call itself concerns this thread alone.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, own.as_mut_ptr()) })?;
    let [low, _] = &mut own;
    if (low.effective | low.permitted) & BY_ANY_MODE == 0 {
        return Ok(());
    }
    low.effective &= !BY_ANY_MODE;
    low.permitted &= !BY_ANY_MODE;
    // SAFETY: the kernel reads two structures of this layout.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, own.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn effective(of: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{of}/status")).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).expect("capabilities");
        u64::from_str_radix(line.trim(), 16).expect("a number")
    }

    #[test]
    fn a_thread_gives_up_what_passes_over_modes_and_others_keep_it() {
        let before = effective("thread-self");
        let within = std::thread::spawn(|| {
            give_up().expect("fewer rights");
            effective("thread-self")
        });
        let (within, mask) = (within.join().expect("a thread"), u64::from(BY_ANY_MODE));
        assert_eq!((within & mask, within | mask), (0, before | mask));
        assert_eq!(effective("thread-self"), before);
    }
}
