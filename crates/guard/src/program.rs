//! Reads the rest of the request, and starts the program.

use crate::failure::{Failure, check};
use crate::lifeline::LIFELINE;
use crate::protocol::{
    CALL_CGROUP_PROCS, CALL_CHDIR, CALL_CLONE, CALL_CONTROL_TERMINAL, CALL_DEATH_SIGNAL, CALL_EXECVE,
    CALL_GETPPID, CALL_MMAP, CALL_RECEIVE, CALL_SETPGID, FLAG_CGROUP_REQUIRED, FLAG_LENT_TERMINAL,
    FLAG_TERMINAL, FLAG_TRIAL, Header, SCRIPT_SAMPLE_BYTES, STAGE_CGROUP, STAGE_CHDIR, STAGE_EXEC,
    STAGE_FORK, STAGE_REQUEST, STAGE_SUPERVISE, STAGE_TERMINAL, Strings, begins_as_text,
};
use crate::watch::PR_SET_PDEATHSIG;
use crate::{group, sandbox, syscall};
use core::ptr;

/// Longest path of a cgroup, with NUL.
const CGROUP_BYTES: usize = 512;
pub(crate) type Cgroup = [u8; CGROUP_BYTES];
const STACK_BYTES: usize = 16 << 10;
/// A shell for scripts without an interpreter line, as in execvp.
const SHELL: &[u8] = b"/bin/sh\0";

/// The input of the program's process, and the place for its failure if it can't become the program. It is in memory that both
/// processes share until then.
struct Plan<'a> {
    program: &'a [u8],
    directory: &'a [u8],
    cgroup: &'a [u8],
    is_in_cgroup: bool,
    /// Flags of the request.
    flags: u32,
    /// The group that the terminal of the host signals, which the program joins. 0: it leads a session of its own.
    lent_group: isize,
    /// One free place, then the arguments, then a null pointer.
    arguments: *mut *const u8,
    variables: *const *const u8,
    /// The sandbox section. Empty: no sandbox.
    sandbox: &'a [u8],
    sandbox_paths: Strings<'a>,
    parent: isize,
    failure: Failure,
}

pub(crate) struct Started {
    pub pid: isize,
    /// Path of the run's own cgroup, with NUL. Empty: the program is in none.
    pub cgroup: Cgroup,
}

/// Reads the strings that follow the header, and starts the program. Frees all memory that it uses.
pub(crate) fn start(header: &Header) -> Result<Started, Failure> {
    let body_bytes = header.body_bytes as usize;
    let pointers = header.arguments as usize + header.variables as usize + 3;
    let pointers_at = body_bytes.next_multiple_of(16);
    let stack_at = (pointers_at + pointers * size_of::<*const u8>()).next_multiple_of(16);
    let total = stack_at + STACK_BYTES;
    let memory = check(STAGE_REQUEST, CALL_MMAP, syscall::map_memory(total))? as usize;
    // SAFETY: the mapping is `total` bytes long, zeroed, and known to nobody else; the three parts do not overlap, and
    // pointers_at is aligned for pointers because the mapping is by a page.
    let started = unsafe {
        let body = core::slice::from_raw_parts_mut(memory as *mut u8, body_bytes);
        let table = core::slice::from_raw_parts_mut((memory + pointers_at) as *mut *const u8, pointers);
        receive(body).and_then(|()| spawn(header, body, table, memory + total))
    };
    // SAFETY: body, table and stack are not used any more: the other process has its own memory by now, or has ended.
    unsafe { syscall::unmap_memory(memory, total) };
    started
}

/// Waits for the host to send all of it. The host may be slow; when it is gone, the wait ends.
fn receive(body: &mut [u8]) -> Result<(), Failure> {
    let mut rest = body;
    while !rest.is_empty() {
        let length = syscall::receive_waiting(LIFELINE, rest);
        if length == syscall::EAGAIN || length == syscall::EINTR {
            continue;
        }
        if length <= 0 {
            return Err(Failure { stage: STAGE_REQUEST, call: CALL_RECEIVE, result: length });
        }
        rest = rest.get_mut(length as usize..).unwrap_or(&mut []);
    }
    Ok(())
}

fn spawn(
    header: &Header,
    body: &[u8],
    table: &mut [*const u8],
    stack_top: usize,
) -> Result<Started, Failure> {
    let broken = || Failure { stage: STAGE_REQUEST, call: CALL_RECEIVE, result: syscall::EPROTO };
    let (sandbox, strings) = body.split_at_checked(header.sandbox_bytes as usize).ok_or_else(broken)?;
    let mut strings = Strings(strings);
    let program = strings.next().ok_or_else(broken)?;
    let directory = strings.next().ok_or_else(broken)?;
    let cgroup = strings.next().ok_or_else(broken)?;
    let kept_cgroup = kept(cgroup).ok_or_else(broken)?;

    let (arguments, variables) =
        table.split_at_mut_checked(header.arguments as usize + 2).ok_or_else(broken)?;
    for place in arguments.iter_mut().skip(1).take(header.arguments as usize) {
        *place = strings.next().ok_or_else(broken)?.as_ptr();
    }
    for place in variables.iter_mut().take(header.variables as usize) {
        *place = strings.next().ok_or_else(broken)?.as_ptr();
    }

    let mut plan = Plan {
        program,
        directory,
        cgroup,
        is_in_cgroup: false,
        flags: header.flags,
        lent_group: match header.flags & FLAG_LENT_TERMINAL {
            0 => 0,
            _ => group::group_of(header.host_pid as isize),
        },
        arguments: arguments.as_mut_ptr(),
        variables: variables.as_ptr(),
        sandbox,
        sandbox_paths: strings,
        parent: syscall::getpid(),
        failure: Failure { stage: 0, call: 0, result: 0 },
    };
    let shared = &raw mut plan;
    // SAFETY: the stack is the tail of the mapping, used by nobody else, and `become_program` expects a Plan, which lives
    // until the other process is done with it: this one does not run before.
    let pid = unsafe { syscall::vfork(stack_top, become_program, shared as usize) };
    check(STAGE_FORK, CALL_CLONE, pid)?;
    // SAFETY: the other process has left this memory; the reads are volatile because the compiler saw nobody write.
    let (failure, is_in_cgroup) = unsafe {
        (
            ptr::read_volatile(&raw const (*shared).failure),
            ptr::read_volatile(&raw const (*shared).is_in_cgroup),
        )
    };
    let cgroup = if is_in_cgroup { kept_cgroup } else { [0; CGROUP_BYTES] };
    if failure.stage == 0 { Ok(Started { pid, cgroup }) } else { Err(failure) }
}

/// A copy of the path, padded with zeros.
fn kept(path: &[u8]) -> Option<[u8; CGROUP_BYTES]> {
    let mut kept = [0; CGROUP_BYTES];
    let places = kept.get_mut(..path.len())?;
    for (place, byte) in places.iter_mut().zip(path) {
        *place = *byte;
    }
    Some(kept)
}

/// Runs in the other process until that becomes the program. Its descriptors are its own, the memory is shared, and the parent
/// waits.
extern "C" fn become_program(plan: usize) -> ! {
    // SAFETY: `spawn` passes its Plan and does not run until this process has left the memory.
    let plan = unsafe { &mut *(plan as *mut Plan) };
    // SAFETY: as above; the lists were built by `spawn`.
    if let Err(failure) = unsafe { attempt(plan) } {
        plan.failure = failure;
        syscall::exit(127)
    }
    syscall::exit(0)
}

/// Returns without a failure only in a trial.
///
/// # Safety
/// The plan's two lists end in null pointers, and `arguments` begins with a free place.
unsafe fn attempt(plan: &mut Plan) -> Result<(), Failure> {
    if plan.lent_group == 0 {
        // A session of its own: no terminal of the host's can stop the program, and no signal to its group or session reaches a
        // guard.
        syscall::setsid();
    } else {
        check(STAGE_TERMINAL, CALL_SETPGID, group::join_group(plan.lent_group))?;
    }
    if plan.flags & FLAG_TERMINAL != 0 {
        check(STAGE_TERMINAL, CALL_CONTROL_TERMINAL, syscall::control_terminal(0))?;
    }
    // When the inner guard dies, so does the program: it must not outlive it while the outer guard takes over. The guard has one
    // thread, so "parent thread" and "parent" are the same here. If the guard died before the call, the parent is another
    // process.
    let tied = syscall::prctl(PR_SET_PDEATHSIG, syscall::SIGKILL);
    check(STAGE_SUPERVISE, CALL_DEATH_SIGNAL, tied)?;
    if syscall::getppid() != plan.parent {
        return Err(Failure { stage: STAGE_SUPERVISE, call: CALL_GETPPID, result: syscall::ESRCH });
    }
    if plan.cgroup.len() > 1 {
        let result = join_cgroup(plan.cgroup);
        plan.is_in_cgroup = result >= 0;
        if plan.flags & FLAG_CGROUP_REQUIRED != 0 {
            check(STAGE_CGROUP, CALL_CGROUP_PROCS, result)?;
        }
    }
    if plan.directory.len() > 1 {
        check(STAGE_CHDIR, CALL_CHDIR, syscall::chdir(plan.directory))?;
    }
    syscall::ask_for_usual_turns();
    // The sandbox comes last: the steps before it read and write with the host's rights. Its paths are relative to the working
    // directory.
    sandbox::enter(plan.sandbox, &mut plan.sandbox_paths)?;
    if plan.flags & FLAG_TRIAL != 0 {
        return Ok(());
    }
    // Signal dispositions are the defaults since the guard was started. The mask still blocks the guard's signals, so it is
    // cleared.
    syscall::set_signal_mask(0);
    // SAFETY: the caller's promise; place 0 is free, the arguments begin at place 1.
    let mut result = unsafe { syscall::execve(plan.program, plan.arguments.add(1), plan.variables) };
    if result == syscall::ENOEXEC && is_script(plan.program) {
        // SAFETY: as above; the shell takes the free place, the program's path the name's.
        result = unsafe {
            *plan.arguments = SHELL.as_ptr();
            *plan.arguments.add(1) = plan.program.as_ptr();
            syscall::execve(SHELL, plan.arguments, plan.variables)
        };
    }
    Err(Failure { stage: STAGE_EXEC, call: CALL_EXECVE, result })
}

/// Whether a file that the kernel can't execute is text for a shell, by the rule of shells.
fn is_script(program: &[u8]) -> bool {
    let file = syscall::open(syscall::AT_FDCWD, program, syscall::O_RDONLY);
    let mut start = [0; SCRIPT_SAMPLE_BYTES];
    // A file that may be executed and not read is left to the shell.
    let length = syscall::read(file, &mut start).max(0) as usize;
    syscall::close(file);
    begins_as_text(start.get(..length).unwrap_or(&[]))
}

fn join_cgroup(directory: &[u8]) -> isize {
    let file = open_in(directory, b"cgroup.procs\0");
    if file < 0 {
        return file;
    }
    // 0 stands for the process that writes it.
    let result = syscall::write(file, b"0");
    syscall::close(file);
    result
}

fn is_named(directory: &[u8]) -> bool {
    directory.first().is_some_and(|byte| *byte != 0)
}

/// Makes the kernel send SIGKILL to every process in the cgroup, fork bombs included. Does nothing where the kernel can't (before
/// 5.14), or when there is no cgroup.
pub(crate) fn kill_cgroup(directory: &[u8]) {
    if !is_named(directory) {
        return;
    }
    let file = open_in(directory, b"cgroup.kill\0");
    if file >= 0 {
        syscall::write(file, b"1");
        syscall::close(file);
    }
}

/// Removes the cgroup. The last process has been reaped, but may still be about to leave it. Does nothing when there is none.
pub(crate) fn remove_cgroup(directory: &[u8]) {
    const EBUSY: isize = -16;
    /// Attempts, a millisecond each. Killed processes leave the cgroup when the kernel gets to it, which takes time on a busy
    /// machine. No process waits for the result.
    const MOST_ATTEMPTS: u32 = 5000;
    let mut attempts = 0;
    while is_named(directory) && syscall::rmdir(directory) == EBUSY && attempts < MOST_ATTEMPTS {
        syscall::sleep(1000);
        attempts += 1;
    }
}

fn open_in(directory: &[u8], name: &[u8]) -> isize {
    let directory = syscall::open(syscall::AT_FDCWD, directory, syscall::O_RDONLY | syscall::O_DIRECTORY);
    if directory < 0 {
        return directory;
    }
    let file = syscall::open(directory, name, syscall::O_WRONLY);
    syscall::close(directory);
    file
}
