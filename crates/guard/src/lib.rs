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
mod failure;
mod group;
mod handover;
mod host_end;
mod inner;
mod lifeline;
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
mod watch;

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
