//! The thread that writes the log and waits for stderr's reader.

use crate::os::at_exit;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that may wait for a slow reader. Further lines are left out and counted. About a megabyte.
const MOST_LINES: usize = 8192;
/// Pause before the next write to a full pipe that another of its users made non-blocking.
const FULL_PIPE: Duration = Duration::from_millis(5);
/// Longest time that the end of this process waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(250);

/// The state that the log's thread shares with the callers.
#[derive(Default)]
struct WriterState {
    /// Lines handed over and not yet written.
    waiting: AtomicU64,
    left_out: AtomicU64,
    /// The reader is gone for good.
    is_closed: AtomicBool,
}

pub(super) struct Pen {
    lines: SyncSender<String>,
    state: Arc<WriterState>,
}

impl Pen {
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Pen> {
        let (lines, received) = sync_channel(MOST_LINES);
        let state = Arc::new(WriterState::default());
        let state_of_thread = state.clone();
        thread::Builder::new()
            .name("sheepdog-log".to_owned())
            .spawn(move || run(out, &received, &state_of_thread))?;
        Ok(Pen { lines, state })
    }

    /// Hands a line over. Never waits.
    pub(super) fn write(&self, line: String) {
        self.state.waiting.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.state.waiting.fetch_sub(1, Ordering::AcqRel);
            self.state.left_out.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Makes the end of this process wait for the last lines, so that the log of the last run is complete.
    pub(super) fn finish_at_exit(&self) {
        if OWN.set(self.state.clone()).is_ok() {
            at_exit(wait_for_last_lines);
        }
    }
}

/// The state of the pen that the end of this process waits for.
static OWN: OnceLock<Arc<WriterState>> = OnceLock::new();

extern "C" fn wait_for_last_lines() {
    let ends = Instant::now() + LAST_LINES;
    let has_some = |state: &Arc<WriterState>| {
        state.waiting.load(Ordering::Acquire) > 0 && !state.is_closed.load(Ordering::Acquire)
    };
    while OWN.get().is_some_and(has_some) && Instant::now() < ends {
        thread::sleep(Duration::from_millis(1));
    }
}

fn run(mut out: impl Write, lines: &Receiver<String>, state: &WriterState) {
    for line in lines {
        let mut written = write_whole(&mut out, line.as_bytes());
        let left_out = state.left_out.swap(0, Ordering::AcqRel);
        if left_out > 0 && written.is_ok() {
            let note = format!("sheepdog: {left_out} lines are missing here, because stderr was not read\n");
            written = write_whole(&mut out, note.as_bytes());
        }
        state.waiting.fetch_sub(1, Ordering::AcqRel);
        if written.is_err() {
            state.is_closed.store(true, Ordering::Release);
            return;
        }
    }
}

fn write_whole(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(FULL_PIPE),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A reader that does not read until it is allowed to, and then reads in pieces. Its pipe is full now and then.
    struct SlowReader {
        allowed: mpsc::Receiver<()>,
        taken: mpsc::Sender<Vec<u8>>,
        asked: usize,
    }

    impl Write for SlowReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.asked += 1;
            if self.asked % 1000 == 1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let _ = self.allowed.recv();
            let taken = &bytes[..bytes.len().min(4096)];
            self.taken.send(taken.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(taken.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_costs_lines_and_nobodys_time() {
        let (allow, allowed) = mpsc::channel();
        let (taken, takes) = mpsc::channel();
        let pen = Pen::start(SlowReader { allowed, taken, asked: 0 }).unwrap();
        // This loop would hang here if writing waited.
        for number in 0..MOST_LINES + 10 {
            pen.write(format!("{number}\n"));
        }
        drop(allow);
        drop(pen);
        let text = String::from_utf8(takes.iter().flatten().collect()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let left_out: usize = lines
            .iter()
            .filter_map(|line| line.strip_prefix("sheepdog: ")?.split(' ').next()?.parse::<usize>().ok())
            .sum();
        let told = lines.iter().filter(|line| line.parse::<usize>().is_ok()).count();
        assert!((9..=10).contains(&left_out), "{left_out}");
        assert_eq!(told + left_out, MOST_LINES + 10);
        assert_eq!(lines[0], "0");
    }

    #[test]
    fn a_reader_that_is_gone_ends_it() {
        let (allow, allowed) = mpsc::channel();
        let (taken, takes) = mpsc::channel();
        drop((allow, takes));
        let pen = Pen::start(SlowReader { allowed, taken, asked: 0 }).unwrap();
        for _ in 0..3 * MOST_LINES {
            pen.write("nobody\n".to_owned());
        }
    }
}
