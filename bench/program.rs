//! The watched side of the benchmarks, much faster than any contender, and the observer of deaths. Compiled by `rustc` alone.
//!
//! - `lines BYTES LINE_BYTES EVERY`: JSON lines in big blocks; every EVERYth has the type "result", the others "delta". The
//!   very first line is "head", the very last "tail".
//! - `paced LINES_A_SECOND SECONDS LINE_BYTES`: a JSON line at a time.
//! - `stamped LINES_A_SECOND SECONDS`: a JSON line at a time, which says the moment it was printed at.
//! - `quiet AT_NANOSECONDS`: prints a line at once and one at that moment of the monotonic clock, then is silent. Lines are
//!   the moment they were printed at.
//! - `timers SECONDS`: sleeps a millisecond again and again; prints how late it woke, in nanoseconds: median and 99th
//!   percentile. What the machine itself gives to whoever waits for a moment.
//! - `observe`: pids come by stdin, one a line; prints when each of them died, `PID NANOSECONDS`, once all have.

use std::io::{self, BufRead, Write};
use std::thread::sleep;
use std::time::Duration;

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

#[repr(C)]
struct PollFd {
    descriptor: i32,
    events: i16,
    returned: i16,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn syscall(number: i64, ...) -> i64;
    fn poll(descriptors: *mut PollFd, count: u64, timeout: i32) -> i32;
    fn close(descriptor: i32) -> i32;
}

const CLOCK_MONOTONIC: i32 = if cfg!(target_os = "macos") { 6 } else { 1 };
const SYS_PIDFD_OPEN: i64 = 434;
const POLLIN: i16 = 1;
const BLOCK_BYTES: usize = 256 << 10;

fn now() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` outlives the call.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// A JSON line of exactly so many bytes, its end counted.
fn line(kind: &str, bytes: usize) -> Vec<u8> {
    let start = format!(
        "{{\"type\":\"{kind}\",\"session_id\":\"0f8fad5b-d9cd\",\"index\":4711,\"delta\":{{\"text\":\""
    );
    let end = "\"}}\n";
    let words = "the quick brown fox jumps over the lazy dog, ".bytes().cycle();
    let filler = words.take(bytes.saturating_sub(start.len() + end.len()));
    start.bytes().chain(filler).chain(end.bytes()).collect()
}

fn lines(bytes: usize, line_bytes: usize, every: usize) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let period = line_bytes * every;
    let mut block = Vec::with_capacity(BLOCK_BYTES + period);
    while block.len() < BLOCK_BYTES {
        for index in 1..=every {
            block.extend(line(if index == every { "result" } else { "delta" }, line_bytes));
        }
    }
    output.write_all(&line("head", line_bytes))?;
    let mut left = bytes - 2 * line_bytes;
    while left >= block.len() {
        output.write_all(&block)?;
        left -= block.len();
    }
    output.write_all(&block[..left])?;
    output.write_all(&line("tail", line_bytes))?;
    output.flush()
}

fn paced(lines_a_second: u64, seconds: u64, line_bytes: usize) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let line = line("delta", line_bytes);
    let start = now();
    for index in 0..lines_a_second * seconds {
        let due = start + index * 1_000_000_000 / lines_a_second;
        sleep(Duration::from_nanos(due.saturating_sub(now())));
        output.write_all(&line)?;
        output.flush()?;
    }
    Ok(())
}

fn stamped(lines_a_second: u64, seconds: u64) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let start = now();
    for index in 0..lines_a_second * seconds {
        let due = start + index * 1_000_000_000 / lines_a_second;
        sleep(Duration::from_nanos(due.saturating_sub(now())));
        let line = format!("{{\"type\":\"stamp\",\"at\":\"{}\"}}\n", now());
        output.write_all(line.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

fn quiet(at: u64) -> io::Result<()> {
    println!("{}", now());
    sleep(Duration::from_nanos(at.saturating_sub(now())));
    println!("{}", now());
    sleep(Duration::from_secs(60));
    Ok(())
}

fn timers(seconds: u64) -> io::Result<()> {
    let end = now() + seconds * 1_000_000_000;
    let mut late = Vec::new();
    let mut due = now();
    while due < end {
        due = now() + 1_000_000;
        sleep(Duration::from_millis(1));
        late.push(now().saturating_sub(due));
    }
    late.sort_unstable();
    println!("{} {}", late[late.len() / 2], late[late.len() * 99 / 100]);
    Ok(())
}

fn observe() -> io::Result<()> {
    let mut watched = Vec::new();
    let mut pids = Vec::new();
    // Kept to the end: whoever reads this may be busy, and a full pipe would hold the next observation up.
    let mut deaths = Vec::new();
    for pid in io::stdin().lock().lines() {
        let pid: i64 = pid?.parse().map_err(io::Error::other)?;
        // SAFETY: the call takes two integers and gives a descriptor.
        let descriptor = unsafe { syscall(SYS_PIDFD_OPEN, pid, 0_i64) } as i32;
        if descriptor < 0 {
            deaths.push((pid, 0));
            continue;
        }
        watched.push(PollFd { descriptor, events: POLLIN, returned: 0 });
        pids.push(pid);
    }
    while !watched.is_empty() {
        // SAFETY: the pointer and the count are the vector's.
        unsafe { poll(watched.as_mut_ptr(), watched.len() as u64, -1) };
        let moment = now();
        let mut index = 0;
        while index < watched.len() {
            if watched[index].returned == 0 {
                index += 1;
                continue;
            }
            // SAFETY: the descriptor is open, and leaves the list with this.
            unsafe { close(watched.swap_remove(index).descriptor) };
            deaths.push((pids.swap_remove(index), moment));
        }
    }
    let text: String = deaths.iter().map(|(pid, moment)| format!("{pid} {moment}\n")).collect();
    io::stdout().write_all(text.as_bytes())
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse::<u64>().map_err(io::Error::other);
    match arguments[0].as_str() {
        "lines" => lines(number(1)? as usize, number(2)? as usize, number(3)? as usize),
        "paced" => paced(number(1)?, number(2)?, number(3)? as usize),
        "stamped" => stamped(number(1)?, number(2)?),
        "timers" => timers(number(1)?),
        "quiet" => quiet(number(1)?),
        "observe" => observe(),
        other => Err(io::Error::other(format!("no such behaviour: {other}"))),
    }
}
