//! PURE: the limits on an agent's silence and duration. The time is passed in.
//!
//! | state                                  | what ends it                                                     |
//! |----------------------------------------|------------------------------------------------------------------|
//! | no event yet                           | `start`                                                          |
//! | silent, no tool open                   | `idle`, once more as long if the tree is busy                    |
//! | silent, a tool open                    | `tool_idle`, once more as long if the tree is busy               |
//! | its end of turn was read               | [`LINGER`] after the last sign of work                           |
//! | printing without progress              | [`MAX_IDLE_LINES`] lines or [`MAX_IDLE_STEPS`] empty model calls, in no less than [`NO_PROGRESS`] |
//! | any                                    | `total`                                                          |
//!
//! While a slow consumer holds the reading up, silence is not counted. Times are those of a clock that rests while this process is
//! stopped ([`Clock::on_stopped`]); only `total` counts that time too.

use ground::error::{Error, ErrorCode};
use ground::os::WallLimit;
use std::time::{Duration, Instant};

/// For an agent that does not end by itself after its end of turn.
pub const LINGER: Duration = Duration::from_secs(3);
/// Chatter is no loop before it has gone on for so long.
pub const NO_PROGRESS: Duration = Duration::from_secs(10);
pub const MAX_IDLE_LINES: u64 = 1000;
pub const MAX_IDLE_STEPS: u64 = 30;

/// Time limits of an attempt. `None` switches a limit off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockLimits {
    /// Longest silence before the first event.
    pub start: Option<Duration>,
    /// Longest silence while no tool is open.
    pub idle: Option<Duration>,
    /// Longest silence while a tool is open.
    pub tool_idle: Option<Duration>,
    /// Longest duration of an attempt.
    pub total: Option<Duration>,
}

impl ClockLimits {
    /// The error of a deadline that has passed before the start, which is a limit of zero. `refused` begins its message.
    pub(crate) fn passed(&self, refused: &str) -> Option<Error> {
        let limits = [
            (ErrorCode::AgentTimedOut, "timeoutMs", self.total),
            (ErrorCode::AgentIdle, "startTimeoutMs", self.start),
            (ErrorCode::AgentIdle, "idleTimeoutMs", self.idle),
            (ErrorCode::AgentIdle, "toolIdleTimeoutMs", self.tool_idle),
        ];
        Error::of_passed(refused, &limits)
    }
}

impl Default for ClockLimits {
    fn default() -> Self {
        ClockLimits {
            start: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(300)),
            tool_idle: Some(Duration::from_secs(900)),
            total: Some(Duration::from_secs(1800)),
        }
    }
}

/// CPU time and I/O of the process tree at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub at: Instant,
    pub cpu: Duration,
    pub io_bytes: u64,
}

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Due {
    Nothing,
    /// Measure the process tree, for [`Clock::on_sample`].
    Sample,
    /// The silence limit `limit` ran out.
    Idle {
        limit: Duration,
    },
    /// The silence may last as long again, because the process tree is busy.
    Extend {
        limit: Duration,
    },
    TimedOut {
        limit: Duration,
    },
    Lingers,
    NoProgress,
}

/// One attempt's clocks.
#[derive(Debug)]
pub struct Clock {
    limits: ClockLimits,
    whole: WallLimit,
    /// Start of the silence: when the last byte was read, or when reading resumed after a pause.
    heard: Instant,
    pub(crate) has_heard: bool,
    pub(crate) in_tool: bool,
    progressed: Instant,
    ended: Option<Instant>,
    is_held: bool,
    is_extended: bool,
    first: Option<Sample>,
    second: Option<Sample>,
}

/// The facts about new output that the clocks need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub in_tool: bool,
    pub progressed: bool,
    pub ended: bool,
    /// An event was read, and no other text alone: a CLI that asks something prints that before its first event.
    pub has_events: bool,
}

impl Clock {
    pub fn new(limits: ClockLimits, now: Instant) -> Self {
        Clock {
            limits,
            whole: WallLimit::new(now),
            heard: now,
            has_heard: false,
            in_tool: false,
            progressed: now,
            ended: None,
            is_held: false,
            is_extended: false,
            first: None,
            second: None,
        }
    }

    /// The clock of an agent that was heard before.
    pub fn running(limits: ClockLimits, now: Instant) -> Self {
        Clock { has_heard: true, ..Clock::new(limits, now) }
    }

    /// Bytes came. Whether the agent is elsewhere than before: in a tool or not, at its end or not.
    pub fn on_heard(&mut self, heard: Heard, now: Instant) -> bool {
        let is_elsewhere = (self.in_tool, self.ended.is_some()) != (heard.in_tool, heard.ended);
        self.has_heard |= heard.has_events;
        self.in_tool = heard.in_tool;
        if heard.progressed {
            self.progressed = now;
        }
        self.ended = match (heard.ended, self.ended) {
            (false, _) => None,
            (true, Some(at)) if !heard.progressed => Some(at),
            (true, _) => Some(now),
        };
        self.listen_anew(now);
        is_elsewhere
    }

    /// A slow consumer has paused the reading, or lets it go on.
    pub fn on_held(&mut self, is_held: bool, now: Instant) {
        if self.is_held && !is_held {
            self.listen_anew(now);
        }
        self.is_held = is_held;
    }

    /// This process was stopped for so long. The times that are passed in leave that out; only `total` counts it too.
    pub fn on_stopped(&mut self, gap: Duration, now: Instant) {
        self.whole.on_stopped(gap, now);
    }

    /// The limit of the whole attempt, if it is over.
    fn timed_out(&self, now: Instant) -> Option<Duration> {
        self.limits.total.filter(|limit| self.whole.end(*limit).is_some_and(|end| now >= end))
    }

    fn listen_anew(&mut self, now: Instant) {
        self.heard = now;
        self.is_extended = false;
        self.first = None;
        self.second = None;
    }

    /// Takes the sample that [`Due::Sample`] asked for.
    pub fn on_sample(&mut self, sample: Sample) {
        if self.first.is_none() {
            self.first = Some(sample);
        } else {
            self.second = Some(sample);
        }
    }

    fn silence_limit(&self) -> Option<Duration> {
        match (self.is_held, self.has_heard, self.in_tool) {
            (true, _, _) => None,
            (_, false, _) => self.limits.start,
            (_, true, true) => self.limits.tool_idle,
            (_, true, false) => self.limits.idle,
        }
    }

    /// Time between the first look at the tree and the end of a silence limit.
    fn look(limit: Duration) -> Duration {
        (limit / 4).min(Duration::from_secs(10))
    }

    /// When [`Clock::due`] is to be asked next.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let total = self.limits.total.and_then(|limit| self.whole.end(limit));
        let linger = self.ended.and_then(|at| at.checked_add(LINGER));
        let silence = self.silence_limit().filter(|_| self.ended.is_none()).and_then(|limit| {
            let end = self.heard.checked_add(limit)?;
            if self.first.is_some() { Some(end) } else { end.checked_sub(Self::look(limit)) }
        });
        [total, linger, silence].into_iter().flatten().min().map(|at| at.max(now))
    }

    /// The action that is due now. `idle_lines` and `idle_steps` count from the last progress.
    pub fn due(&mut self, now: Instant, idle_lines: u64, idle_steps: u64) -> Due {
        if self.ended.is_some_and(|at| now.saturating_duration_since(at) >= LINGER) {
            return Due::Lingers;
        }
        if let Some(limit) = self.timed_out(now) {
            return Due::TimedOut { limit };
        }
        if self.chatter(now, idle_lines, idle_steps) {
            return Due::NoProgress;
        }
        match self.silence_limit() {
            Some(limit) if self.ended.is_none() => self.due_of_silence(limit, now),
            _ => Due::Nothing,
        }
    }

    /// The action that is due while bytes come without a pause, so that the timer is never polled.
    pub fn due_in_flood(&self, now: Instant, idle_lines: u64, idle_steps: u64) -> Due {
        match self.timed_out(now) {
            Some(limit) if self.ended.is_none() => Due::TimedOut { limit },
            _ if self.chatter(now, idle_lines, idle_steps) => Due::NoProgress,
            _ => Due::Nothing,
        }
    }

    /// Whether it prints without progress.
    fn chatter(&self, now: Instant, idle_lines: u64, idle_steps: u64) -> bool {
        let is_loop = idle_steps >= MAX_IDLE_STEPS || (idle_lines >= MAX_IDLE_LINES && !self.in_tool);
        is_loop && self.ended.is_none() && now.saturating_duration_since(self.progressed) >= NO_PROGRESS
    }

    fn due_of_silence(&mut self, limit: Duration, now: Instant) -> Due {
        let silence = now.saturating_duration_since(self.heard);
        if silence + Self::look(limit) < limit {
            return Due::Nothing;
        }
        let Some(first) = self.first else { return Due::Sample };
        if silence < limit {
            return Due::Nothing;
        }
        if self.is_extended {
            return Due::Idle { limit };
        }
        let Some(second) = self.second else { return Due::Sample };
        if !is_busy(first, second) {
            return Due::Idle { limit };
        }
        self.heard = now;
        self.is_extended = true;
        Due::Extend { limit }
    }
}

/// Whether a tree works rather than waits: a tenth of a processor, or as much reading and writing as no idle program does.
fn is_busy(first: Sample, second: Sample) -> bool {
    let time = second.at.saturating_duration_since(first.at);
    let cpu = second.cpu.saturating_sub(first.cpu);
    cpu >= (time / 10).max(Duration::from_millis(20))
        || second.io_bytes.saturating_sub(first.io_bytes) >= 1 << 20
}

#[cfg(test)]
mod tests {
    use crate::harness::clock::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn heard() -> Heard {
        Heard { progressed: true, has_events: true, ..Heard::default() }
    }

    #[test]
    fn time_that_this_process_was_stopped_counts_for_the_total_alone() {
        let start = Instant::now();
        let limits =
            ClockLimits { idle: Some(3 * SECOND), total: Some(20 * SECOND), ..ClockLimits::default() };
        let mut clock = Clock::new(limits, start);
        clock.on_heard(heard(), start);
        clock.on_stopped(15 * SECOND, start);
        assert_eq!(clock.due(start + SECOND, 0, 0), Due::Nothing);
        clock.on_heard(heard(), start + 4 * SECOND);
        assert_eq!(clock.due(start + 5 * SECOND, 0, 0), Due::TimedOut { limit: 20 * SECOND });
    }

    fn sample(at: Instant, cpu_ms: u64) -> Sample {
        Sample { at, cpu: Duration::from_millis(cpu_ms), io_bytes: 0 }
    }

    #[test]
    fn each_state_has_its_own_limit() {
        let start = Instant::now();
        let cases = [(None, 60), (Some(heard()), 300), (Some(Heard { in_tool: true, ..heard() }), 900)];
        for (input, seconds) in cases {
            let mut clock = Clock::new(ClockLimits::default(), start);
            if let Some(input) = input {
                clock.on_heard(input, start);
            }
            let end = start + SECOND * seconds;
            assert_eq!(clock.deadline(start), Some(end - SECOND * 10));
            assert_eq!(clock.due(end - SECOND * 10, 0, 0), Due::Sample);
            clock.on_sample(sample(end - SECOND * 10, 0));
            assert_eq!(clock.due(end - SECOND, 0, 0), Due::Nothing);
            assert_eq!(clock.due(end, 0, 0), Due::Sample);
            clock.on_sample(sample(end, 500));
            assert_eq!(clock.due(end, 0, 0), Due::Idle { limit: SECOND * seconds });
        }
    }

    #[test]
    fn a_busy_tree_gets_one_extension_and_output_gives_it_back() {
        let start = Instant::now();
        let mut clock = Clock::new(ClockLimits::default(), start);
        clock.on_heard(heard(), start);
        clock.on_sample(sample(start + SECOND * 290, 0));
        clock.on_sample(sample(start + SECOND * 300, 3000));
        assert_eq!(clock.due(start + SECOND * 300, 0, 0), Due::Extend { limit: SECOND * 300 });
        assert_eq!(clock.due(start + SECOND * 599, 0, 0), Due::Nothing);
        assert_eq!(clock.due(start + SECOND * 600, 0, 0), Due::Idle { limit: SECOND * 300 });
        clock.on_heard(heard(), start + SECOND * 599);
        assert_eq!(clock.due(start + SECOND * 889, 0, 0), Due::Sample);
    }

    #[test]
    fn a_held_reading_is_no_silence() {
        let start = Instant::now();
        let mut clock = Clock::new(ClockLimits { total: None, ..ClockLimits::default() }, start);
        clock.on_held(true, start);
        assert_eq!(clock.deadline(start), None);
        assert_eq!(clock.due(start + SECOND * 5000, 0, 0), Due::Nothing);
        clock.on_held(false, start + SECOND * 5000);
        assert_eq!(clock.due(start + SECOND * 5001, 0, 0), Due::Nothing);
    }

    #[test]
    fn an_agent_that_lingers_after_its_end_of_turn_is_given_a_short_grace() {
        let start = Instant::now();
        let mut clock = Clock::new(ClockLimits::default(), start);
        clock.on_heard(Heard { ended: true, ..heard() }, start);
        assert_eq!(clock.deadline(start), Some(start + LINGER));
        // Chatter does not prolong it, work does.
        clock.on_heard(Heard { ended: true, ..Heard::default() }, start + SECOND);
        assert_eq!(clock.due(start + LINGER, 0, 0), Due::Lingers);
        clock.on_heard(Heard { ended: true, ..heard() }, start + SECOND);
        assert_eq!(clock.due(start + LINGER, 0, 0), Due::Nothing);
        assert_eq!(clock.due(start + LINGER + SECOND, 0, 0), Due::Lingers);
    }

    #[test]
    fn chatter_without_progress_ends_but_a_short_flood_does_not() {
        let start = Instant::now();
        let mut clock = Clock::new(ClockLimits::default(), start);
        clock.on_heard(heard(), start);
        assert_eq!(clock.due(start + SECOND, 1_000_000, 0), Due::Nothing);
        assert_eq!(clock.due(start + NO_PROGRESS, MAX_IDLE_LINES, 0), Due::NoProgress);
        assert_eq!(clock.due(start + NO_PROGRESS, 60, MAX_IDLE_STEPS), Due::NoProgress);
        clock.on_heard(Heard { in_tool: true, ..Heard::default() }, start + NO_PROGRESS);
        assert_eq!(clock.due(start + NO_PROGRESS, MAX_IDLE_LINES, 0), Due::Nothing, "a tool may print");
    }

    #[test]
    fn a_flood_holds_up_no_clock_that_counts_in_it() {
        let start = Instant::now();
        let mut clock = Clock::new(ClockLimits { total: Some(SECOND * 20), ..ClockLimits::default() }, start);
        clock.on_heard(heard(), start);
        assert_eq!(clock.due_in_flood(start + SECOND * 19, MAX_IDLE_LINES - 1, 0), Due::Nothing);
        assert_eq!(clock.due_in_flood(start + SECOND * 19, MAX_IDLE_LINES, 0), Due::NoProgress);
        assert_eq!(clock.due_in_flood(start + SECOND * 20, 0, 0), Due::TimedOut { limit: SECOND * 20 });
        clock.on_heard(Heard { ended: true, ..heard() }, start + SECOND * 20);
        assert_eq!(clock.due_in_flood(start + SECOND * 21, 0, 0), Due::Nothing, "its turn is over");
    }

    #[test]
    fn a_clock_that_is_off_never_ends_anything() {
        let start = Instant::now();
        let mut clock =
            Clock::new(ClockLimits { start: None, idle: None, tool_idle: None, total: None }, start);
        assert_eq!(clock.deadline(start), None);
        assert_eq!(clock.due(start + SECOND * 1_000_000, 0, 0), Due::Nothing);
    }
}
