//! The guard: a few kilobytes that outlive the host and hold a program's whole tree. No C library, no allocator.
//!
//! ```text
//! host --lifeline (socket pair)--> outer guard --fork--> inner guard --vfork+exec--> program --> ...
//! ```
//!
//! Both guards are subreapers: whatever the program's descendants do (sessions of their own, double forks), an orphan
//! becomes a child of the inner guard, and when that one is gone, of the outer. A guard signals only its own unreaped
//! children, whose pids nobody else can have. Both wait for: a child's end (signalfd), the lifeline, the host
//! (pidfd), and the inner one for the outer (pidfd).
//!
//! A program of the same user may send a guard any signal and change its limits. So everything that a guard needs at the end is
//! open from the start (its list of children, what it waits with), nothing that it calls asks for a limit, debuggers are
//! forbidden, and a guard that was stopped is woken: the inner by the outer, the outer by the host, both by the kernel when what
//! they watch dies.
//!
//! The inner guard does the work: it reads the request, starts the program, obeys commands, reports. The outer one only
//! watches it: when the inner ends any way but its own, or the host is gone and the inner does not finish, the outer
//! kills what is left. After the program has been started neither holds its pipes. Neither ever waits without bound for
//! anything but the events above, so the end of a tree is bounded in time.
//!
//! build.rs compiles this crate a second time, as a binary with `--cfg guard_program`. The library embeds that binary and shares
//! the format of the lifeline with the host. Its other modules are compiled for lints and for rust-analyzer only.
#![no_std]
#![cfg_attr(guard_program, no_main)]
// The loops of memory.rs must not be compiled to calls of memcpy, that is, of themselves.
#![cfg_attr(guard_program, no_builtins)]
#![cfg(target_os = "linux")]

mod children;
mod inner;
#[cfg_attr(not(guard_program), expect(dead_code, reason = "the compiler calls them in the program only"))]
mod memory;
mod namespace;
mod outer;
mod program;
pub mod protocol;
mod sandbox;
mod syscall;
mod waiter;

/// Where the host puts its end of the conversation.
const LIFELINE: isize = 3;

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

/// Whoever may signal a guard may stop it. When what it watches dies meanwhile, the kernel wakes it; awake it needs no more.
fn wake_when_the_parent_dies() {
    syscall::prctl(PR_SET_PDEATHSIG, syscall::SIGCONT);
}

/// A debugger of the same user could hold a guard still for ever.
fn forbid_debuggers() {
    syscall::prctl(PR_SET_DUMPABLE, 0);
}

/// What both guards look at.
#[derive(Clone, Copy)]
struct Watch {
    /// Readable when a child has ended.
    children: isize,
    /// Of the host.
    host: isize,
    /// Of the outer guard.
    outer: isize,
}

fn say(frame: &protocol::Frame) {
    // A host that is gone or does not read is no reason to wait.
    syscall::send(LIFELINE, frame.bytes());
}

fn report_error(origin: u8, stage: u32, result: isize) {
    say(&protocol::Frame::new(protocol::FRAME_SPAWN_ERROR, origin)
        .u32(stage)
        .u32(result.unsigned_abs() as u32));
}

#[cfg(guard_program)]
#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo) -> ! {
    // Not reached by any known path; ending makes the other guard clean up.
    syscall::exit(70)
}

/// The prebuilt core library names it in its unwind tables; nothing unwinds here.
#[cfg(guard_program)]
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
