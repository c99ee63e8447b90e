//! A log of the events and decisions of runs, turns and sessions, written to stderr for bug reports: `SHEEPDOG_LOG=debug`.
//!
//! A run, turn or session logs with [`debug`] or [`trace`] under one of the targets [`RUN`], [`TURN`], [`SESSION`] and with its
//! own [`number`]. Off, which is the default, a log statement costs the load of one atomic: no argument is evaluated. When the
//! log is on ([`install`]), a [`Teller`] formats a line and hands it to the `pen`. Only the pen's thread waits for stderr: a
//! reader that is gone or blocked costs lines, never the time of a run.
//!
//! **No foreign text**: log statements contain numbers, fixed words and codes of errors. The output of a program, the answers of
//! an agent and the values of a caller (prompts, arguments, paths) are never logged, so a line can't contain a secret.
//!
//! Other crates in the addon use `tracing` too, for HTTP headers among other things. Events without one of these targets are
//! ignored.

mod line;
mod pen;

pub use tracing::{debug, trace};

use line::Line;
use pen::Pen;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Prefix of every target of this package. No module path begins with it.
const OURS: &str = "sheepdog ";
pub const RUN: &str = "sheepdog run";
pub const TURN: &str = "sheepdog turn";
pub const SESSION: &str = "sheepdog session";

const VARIABLE: &str = "SHEEPDOG_LOG";

/// A number for a run, turn or session, unique within the process.
pub fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Reads the environment once, when the addon is loaded. If the system refuses the log's thread, the addon works without a log.
pub fn install() {
    let Some(wanted) = std::env::var_os(VARIABLE) else { return };
    let level = level_of(&wanted.to_string_lossy());
    if level == Ok(None) {
        return;
    }
    let Ok(pen) = Pen::start(std::io::stderr()) else { return };
    pen.finish_at_exit();
    match level {
        Ok(Some(level)) => {
            let _ = tracing::subscriber::set_global_default(Teller { level, pen });
        }
        Ok(None) => {}
        // The variable's value is not logged either.
        Err(()) => {
            pen.write(format!("{VARIABLE}: expected \"debug\", \"trace\" or \"off\"; nothing is logged\n"))
        }
    }
}

/// `None`: the log is off.
fn level_of(wanted: &str) -> Result<Option<Level>, ()> {
    match wanted.trim().to_ascii_lowercase().as_str() {
        "" | "off" => Ok(None),
        "debug" => Ok(Some(Level::DEBUG)),
        "trace" => Ok(Some(Level::TRACE)),
        _ => Err(()),
    }
}

struct Teller {
    level: Level,
    pen: Pen,
}

impl Subscriber for Teller {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with(OURS) && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level.into())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.pen.write(line.text(SystemTime::now(), event.metadata().target()));
    }

    // This package uses no spans.

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::mpsc;
    use std::time::Duration;

    struct Sheet(mpsc::Sender<String>);

    impl io::Write for Sheet {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn teller(level: Level) -> (Teller, mpsc::Receiver<String>) {
        let (sent, written) = mpsc::channel();
        (Teller { level, pen: Pen::start(Sheet(sent)).unwrap() }, written)
    }

    #[test]
    fn what_is_wanted_is_one_of_three_words() {
        assert_eq!(level_of(" Debug "), Ok(Some(Level::DEBUG)));
        assert_eq!(level_of("trace"), Ok(Some(Level::TRACE)));
        assert_eq!([level_of(""), level_of("off")], [Ok(None), Ok(None)]);
        assert_eq!(level_of("1"), Err(()));
    }

    #[test]
    fn an_owner_is_heard_and_other_crates_are_not() {
        let (teller, written) = teller(Level::DEBUG);
        tracing::subscriber::with_default(teller, || {
            tracing::debug!(secret = "hunter2", "a header of some crate's");
            trace!(target: RUN, id = 1, "too fine");
            debug!(target: RUN, id = 7, code = 3, signal = None::<i32>, word = "idle", "exited");
        });
        let line = written.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(line.ends_with("Z sheepdog run 7: exited code=3 word=idle\n"), "{line}");
        assert!(written.try_recv().is_err());
    }

    #[test]
    fn every_owner_has_a_number_of_its_own() {
        assert_ne!(number(), number());
    }
}
