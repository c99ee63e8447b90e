//! The guard: a program of a few kilobytes that outlives the host and controls a program's whole process tree. It has no C
//! library and no allocator.
//!
//! ```text
//! host --lifeline (socket pair)--> outer guard --fork--> inner guard --vfork+exec--> program --> ...
//! ```
//!
//! Both guards are subreapers. Whatever the program's descendants do (sessions of their own, double forks), an orphan becomes a
//! child of the inner guard, or of the outer one when the inner is gone. A guard signals only its own unreaped children, whose
//! pids can't belong to other processes. Both guards wait for a child's end (signalfd), the lifeline and the host (pidfd). The
//! inner guard also waits for the outer (pidfd).
//!
//! A program of the same user may send a guard any signal and change its limits. So all that a guard needs at the end is open
//! from the start (its list of children, the descriptors that it waits for), and none of its calls depends on a limit. Debuggers
//! are forbidden. A guard that was stopped is woken: the inner by the outer, the outer by the host, and both by the kernel when a
//! process that they watch dies, and by a timer at the latest.
//!
//! The inner guard does the work: it reads the request, starts the program, carries out commands and reports. The outer guard
//! only watches it, and sends the last report of a tree that ended by itself. The outer kills the remaining processes when the
//! inner ends in any way but its own, or when the host is gone and the inner does not finish. After the program has been started,
//! neither holds its pipes. Neither waits without a limit for anything but the events above, so the end of a tree is bounded in
//! time.
//!
//! build.rs compiles this crate a second time, as a binary with `--cfg guard_program`. The library embeds that binary and shares
//! the format of the lifeline with the host. Its other modules are compiled for lints and for rust-analyzer only.
#![no_std]
#![cfg_attr(guard_program, no_main)]
// Keeps the compiler from turning the loops of memory.rs into calls of memcpy, that is, of themselves.
#![cfg_attr(guard_program, no_builtins)]
#![cfg(target_os = "linux")]

mod children;
mod group;
mod host_end;
mod inner;
#[cfg_attr(not(guard_program), expect(dead_code, reason = "the compiler calls them in the program only"))]
mod memory;
mod namespace;
mod number;
mod outer;
mod program;
pub mod protocol;
mod sandbox;
mod syscall;
mod trial;
mod waiter;

use protocol::{CALL_DEATH_SIGNAL, STAGE_SUPERVISE};

/// The descriptor of the guard's end of the lifeline, where the host places it.
const LIFELINE: isize = 3;
/// Descriptor number of the folder that the guard begins in.
const FOLDER: isize = 4;

/// The program, as bytes of an ELF file without dependencies.
#[cfg(not(guard_program))]
pub static PROGRAM: &[u8] = include_bytes!(env!("SHEEPDOG_GUARD"));

// The kernel enters with the stack pointer at argc and no return address; the ABI wants 16-byte alignment before a call.
#[cfg(all(guard_program, target_arch = "x86_64"))]
core::arch::global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym main);
#[cfg(all(guard_program, target_arch = "aarch64"))]
core::arch::global_asm!(".globl _start", "_start:", "mov x29, xzr", "mov x30, xzr", "bl {main}", "brk 1", main = sym main);

/// Runs the guard. It never returns.
pub extern "C" fn main() -> ! {
    outer::run()
}

const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;

/// A process that may signal a guard may also stop it. When a process that the guard watches dies meanwhile, the kernel sends
/// SIGCONT.
fn wake_when_the_parent_dies() -> Result<(), Failure> {
    let set = syscall::prctl(PR_SET_PDEATHSIG, syscall::SIGCONT);
    check(STAGE_SUPERVISE, CALL_DEATH_SIGNAL, set).map(drop)
}

/// Forbids debuggers: one of the same user could stop a guard for ever.
fn forbid_debuggers() {
    syscall::prctl(PR_SET_DUMPABLE, 0);
}

/// The descriptors that both guards watch.
#[derive(Clone, Copy)]
struct Watch {
    /// Readable when a child has ended.
    children: isize,
    /// Readable when the host has ended.
    host: isize,
    /// Readable when the outer guard has ended.
    outer: isize,
}

fn say(frame: &protocol::Frame) {
    // A host that is gone or does not read is not waited for.
    syscall::send(LIFELINE, frame.bytes());
}

/// The reason why nothing was started.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    /// The purpose of the call; 0: nothing failed.
    pub stage: u32,
    /// The call, of `CALL_*`.
    pub call: u32,
    /// The negative errno.
    pub result: isize,
}

/// The result of a call that must not fail.
pub(crate) fn check(stage: u32, call: u32, result: isize) -> Result<isize, Failure> {
    if result < 0 { Err(Failure { stage, call, result }) } else { Ok(result) }
}

fn report_error(origin: u8, failure: Failure) {
    say(&protocol::Frame::new(protocol::FRAME_SPAWN_ERROR, origin)
        .u32(failure.stage)
        .u32(failure.result.unsigned_abs() as u32)
        .u32(failure.call));
}

#[cfg(guard_program)]
#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo) -> ! {
    // No known path leads here. Exiting makes the other guard clean up.
    syscall::exit(70)
}

/// The prebuilt core library refers to this function in its unwind tables. It is never called.
#[cfg(guard_program)]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
