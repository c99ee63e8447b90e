//! The sandbox: rules that the kernel enforces for the program and everything it starts, and that no process inside can lift.
//! Landlock covers files, TCP ports, signals and abstract sockets. A seccomp filter covers the ways around those. All privileges
//! are dropped, because the powers of root are not limited to files.
//!
//! The host decides on the rules (crates/process/src/guard/plan) and writes them in the kernel's own structures. This module applies
//! them in the program's own process, as the last steps before it becomes the program. A failure ends the start.

use crate::failure::Failure;
use crate::lifeline::LIFELINE;
use crate::protocol::{
    CALL_ADD_RULE, CALL_CAPSET, CALL_CREATE_RULESET, CALL_NO_NEW_PRIVS, CALL_OPENAT, CALL_RECEIVE,
    CALL_RESTRICT_SELF, CALL_SECCOMP, CALL_SECCOMP_MODE, CALL_SENDMSG, FRAME_LISTENER, Frame, ORIGIN_INNER,
    PATH_IS_NO_LINK, PATH_WITHOUT_LINKS, SANDBOX_ASKS, SANDBOX_FLAGS_AT, SANDBOX_HEAD_BYTES, STAGE_SANDBOX,
    STAGE_SANDBOX_PATH, Strings, u32_at, u64_at,
};
use crate::syscall::{self, number, plain};

/// The number is the same on both architectures.
const LANDLOCK_CREATE_RULESET: usize = 444;
const LANDLOCK_ADD_RULE: usize = 445;
const LANDLOCK_RESTRICT_SELF: usize = 446;

/// Size of `struct landlock_ruleset_attr`. An older kernel accepts a longer struct when the part that it does not know is zero.
const RULESET_BYTES: usize = 24;
const RULE_PATH_BENEATH: usize = 1;
const RULE_NET_PORT: usize = 2;
const CONNECT_TCP: u64 = 2;

/// The rights that apply to a file: execute, write, read, truncate, and ioctl. The kernel refuses a rule for a file with other
/// rights.
const FILE_RIGHTS: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;

const O_PATH: usize = 0o10000000;
#[cfg(target_arch = "x86_64")]
const O_NOFOLLOW: usize = 0o400000;
#[cfg(target_arch = "aarch64")]
const O_NOFOLLOW: usize = 0o100000;

const EINVAL: isize = -22;
const ELOOP: isize = -40;
const ENAMETOOLONG: isize = -36;
/// The longest name of a file, with NUL.
const NAME_BYTES: usize = 256;
const ENOMEM: isize = -12;
const EMFILE: isize = -24;
const ENFILE: isize = -23;
const PR_CAPBSET_DROP: usize = 24;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
/// More than any kernel has. An unknown capability gives EINVAL.
const CAPABILITIES: usize = 64;
const CAPABILITY_VERSION: u32 = 0x2008_0522;

const PR_SET_SECCOMP: usize = 22;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const SECCOMP_MODE_FILTER: usize = 2;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_NEW_LISTENER: usize = 1 << 3;
/// Signals that do not end the program do not interrupt a call that the host decides about (from Linux 5.19 on). Otherwise a connection
/// would be made twice.
const SECCOMP_WAIT_KILLABLE: usize = 1 << 5;

/// The kernel's struct, without padding.
#[repr(C, packed)]
struct PathBeneath {
    rights: u64,
    directory: i32,
}

#[repr(C)]
struct Filter {
    instructions: u16,
    first: *const u8,
}

/// Restricts the calling process for good. `section` is empty when no sandbox is requested; `paths` begins with the sandbox's
/// paths.
pub(crate) fn enter(section: &[u8], paths: &mut Strings) -> Result<(), Failure> {
    if section.is_empty() {
        return Ok(());
    }
    let ruleset = plain(LANDLOCK_CREATE_RULESET, section.as_ptr() as usize, RULESET_BYTES, 0, 0);
    let ruleset = check(CALL_CREATE_RULESET, ruleset)?;
    let filter_at = add_rules(section, paths, ruleset)?;
    drop_capabilities()?;
    // Required for a process without root. It also keeps programs inside from gaining privileges by setuid.
    check(CALL_NO_NEW_PRIVS, syscall::prctl(PR_SET_NO_NEW_PRIVS, 1))?;
    check(CALL_RESTRICT_SELF, plain(LANDLOCK_RESTRICT_SELF, ruleset as usize, 0, 0, 0))?;
    syscall::close(ruleset);
    let Some(instructions @ [_, ..]) = section.get(filter_at..) else { return Ok(()) };
    let filter = Filter { instructions: (instructions.len() / 8) as u16, first: instructions.as_ptr() };
    let filter = &raw const filter as usize;
    if u32_at(section, SANDBOX_FLAGS_AT).is_some_and(|flags| flags & SANDBOX_ASKS != 0) {
        return ask_host(filter);
    }
    let set = plain(number::PRCTL, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter, 0);
    check(CALL_SECCOMP_MODE, set).map(drop)
}

/// Installs the filter and sends its listener to the host. Only the host has the listener: when the host ends, the calls that the filter
/// asks about fail.
fn ask_host(filter: usize) -> Result<(), Failure> {
    let install = |flags| plain(number::SECCOMP, SECCOMP_SET_MODE_FILTER, flags, filter, 0);
    let mut listener = install(SECCOMP_NEW_LISTENER | SECCOMP_WAIT_KILLABLE);
    if listener == EINVAL {
        listener = install(SECCOMP_NEW_LISTENER);
    }
    let listener = check(CALL_SECCOMP, listener)?;
    let sent = syscall::send_descriptor(LIFELINE, Frame::new(FRAME_LISTENER, ORIGIN_INNER).bytes(), listener);
    syscall::close(listener);
    check(CALL_SENDMSG, sent).map(drop)
}

/// Adds the rules. Returns the offset of the filter.
fn add_rules(section: &[u8], paths: &mut Strings, ruleset: isize) -> Result<usize, Failure> {
    let broken = || Failure { stage: STAGE_SANDBOX, call: CALL_RECEIVE, result: syscall::EPROTO };
    let count = |at| u32_at(section, at).ok_or_else(broken);
    let (path_count, port_count) = (count(RULESET_BYTES)?, count(RULESET_BYTES + 4)?);
    let mut at = SANDBOX_HEAD_BYTES;
    for _ in 0..port_count {
        let rule = [CONNECT_TCP, u64_at(section, at).ok_or_else(broken)?];
        let added = plain(LANDLOCK_ADD_RULE, ruleset as usize, RULE_NET_PORT, rule.as_ptr() as usize, 0);
        check(CALL_ADD_RULE, added)?;
        at += 8;
    }
    for index in 0..path_count {
        let rights = u64_at(section, at).ok_or_else(broken)?;
        let path = paths.next().ok_or_else(broken)?;
        add_path(ruleset, path, rights, STAGE_SANDBOX_PATH | index << 16)?;
        at += 8;
    }
    Ok(at)
}

fn add_path(ruleset: isize, path: &[u8], rights: u64, stage: u32) -> Result<(), Failure> {
    let opened = open_path(path, rights);
    if opened < 0 {
        // When the system has no resources left, the path is not to blame.
        let is_want = matches!(opened, ENOMEM | EMFILE | ENFILE);
        let stage = if is_want { STAGE_SANDBOX } else { stage };
        return Err(Failure { stage, call: CALL_OPENAT, result: opened });
    }
    let rights = rights & !(PATH_WITHOUT_LINKS | PATH_IS_NO_LINK);
    let add = |rights| {
        let rule = PathBeneath { rights, directory: opened as i32 };
        plain(LANDLOCK_ADD_RULE, ruleset as usize, RULE_PATH_BENEATH, &raw const rule as usize, 0)
    };
    let mut result = add(rights);
    if result == EINVAL {
        // The path is not a directory.
        result = add(rights & FILE_RIGHTS);
    }
    syscall::close(opened);
    // The path was opened, so a refusal now is the kernel's, whatever the path.
    check(CALL_ADD_RULE, result).map(drop)
}

/// Opens a path. Follows no link where the request forbids it, because a program in an earlier sandbox may have made the link.
fn open_path(path: &[u8], rights: u64) -> isize {
    if rights & PATH_WITHOUT_LINKS != 0 {
        return open_without_links(path);
    }
    if rights & PATH_IS_NO_LINK == 0 {
        return syscall::open(syscall::AT_FDCWD, path, O_PATH);
    }
    open_no_link(syscall::AT_FDCWD, path)
}

/// Opens the last name of a path, which must not be a link.
fn open_no_link(directory: isize, path: &[u8]) -> isize {
    let opened = syscall::open(directory, path, O_PATH | O_NOFOLLOW);
    // With O_PATH, a link itself may have been opened.
    if opened >= 0 && syscall::is_link(opened) {
        syscall::close(opened);
        return ELOOP;
    }
    opened
}

/// Opens a path name by name, each below the one that is held: none may be a link. openat2(2) can do so in one call, but some
/// containers refuse it.
fn open_without_links(path: &[u8]) -> isize {
    let start: &[u8] = if path.starts_with(b"/") { b"/\0" } else { b".\0" };
    let mut held = syscall::open(syscall::AT_FDCWD, start, O_PATH);
    let names = path.split(|byte| matches!(*byte, b'/' | 0)).filter(|name| !name.is_empty());
    for name in names {
        let mut text = [0; NAME_BYTES];
        if name.len() >= text.len() {
            syscall::close(held);
            return ENAMETOOLONG;
        }
        for (place, byte) in text.iter_mut().zip(name) {
            *place = *byte;
        }
        if held < 0 {
            break;
        }
        let next = open_no_link(held, &text);
        syscall::close(held);
        held = next;
    }
    held
}

/// Drops all capabilities for good. Root would regain them from the bounding set by executing a program, so that set is cleared.
/// A process that may not change the set has none to regain, because no new privileges are granted afterwards.
fn drop_capabilities() -> Result<(), Failure> {
    let mut capability = 0;
    while capability < CAPABILITIES && syscall::prctl(PR_CAPBSET_DROP, capability) >= 0 {
        capability += 1;
    }
    // Kernels without ambient capabilities return EINVAL.
    plain(number::PRCTL, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0);
    // 0 stands for the calling thread. The sets are effective, permitted and inheritable, twice 32 bits each.
    let (head, sets) = ([CAPABILITY_VERSION, 0], [0u32; 6]);
    let set = plain(number::CAPSET, head.as_ptr() as usize, sets.as_ptr() as usize, 0, 0);
    check(CALL_CAPSET, set).map(drop)
}

fn check(call: u32, result: isize) -> Result<isize, Failure> {
    crate::failure::check(STAGE_SANDBOX, call, result)
}
