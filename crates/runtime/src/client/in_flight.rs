//! PURE state of the request that a client waits for: its clocks, and why it was stopped.
//!
//! | clock | what is due |
//! |---|---|
//! | `timeout` since the request was sent, `idle_timeout` since the runtime's last message | [`Due::Stop`]: tell the runtime to
//! cancel |
//! | [`END_AFTER_STOP_WITHIN`] since the request was stopped | [`Due::Tell`]: report the outcome to the caller; the runtime's
//! terminal is still awaited |

use super::event::{ClientRequest, RequestMessage};
use ground::error::{Error, ErrorCode};
use ground::os::WallLimit;
use std::time::{Duration, Instant};

/// Longest time that a stopped request may take to end. After it the caller gets the outcome anyway.
const END_AFTER_STOP_WITHIN: Duration = Duration::from_secs(10);

/// The action that the clocks of a request ask for.
#[derive(Clone, Debug)]
pub(super) enum Due {
    Stop(Error),
    Tell(Error),
    /// No action before this time.
    At(Option<Instant>),
}

pub(super) struct InFlight {
    pub(super) number: u64,
    pub(super) request_id: String,
    /// True for a prompt, false for commands.
    pub(super) is_prompt: bool,
    whole: WallLimit,
    timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    last_heard: Instant,
    stopped: Option<(Error, Instant)>,
    told: bool,
}

impl InFlight {
    pub(super) fn new(number: u64, request_id: String, request: &ClientRequest, now: Instant) -> InFlight {
        InFlight {
            number,
            request_id,
            is_prompt: matches!(request.message, RequestMessage::Invocation(_)),
            whole: WallLimit::new(now),
            timeout: request.timeout,
            idle_timeout: request.idle_timeout,
            last_heard: now,
            stopped: None,
            told: false,
        }
    }

    /// This process was stopped for so long. The times that are passed in leave that out; only `timeout` counts it too.
    pub(super) fn on_stopped(&mut self, gap: Duration, now: Instant) {
        self.whole.on_stopped(gap, now);
    }

    /// The runtime sent a message about this request.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// Ends the request with this error, whatever the runtime sends afterwards. False when it was stopped before: the first
    /// reason is kept.
    pub(super) fn stop(&mut self, error: Error, now: Instant) -> bool {
        let first = self.stopped.is_none();
        if first {
            self.stopped = Some((error, now));
        }
        first
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether the caller has the outcome already. Only the runtime's terminal is still awaited then.
    pub(super) fn is_told(&self) -> bool {
        self.told
    }

    /// The outcome for the caller when the request ends with `ended`. `None`: the caller has had its outcome.
    pub(super) fn outcome<T>(self, ended: Result<T, Error>) -> Option<Result<T, Error>> {
        match (self.told, self.stopped) {
            (true, _) => None,
            (false, Some((error, _))) => Some(Err(error)),
            (false, None) => Some(ended),
        }
    }

    /// `listening`: every message of the runtime has been read.
    pub(super) fn on_clock(&mut self, now: Instant, listening: bool) -> Due {
        if let Some((error, since)) = &self.stopped {
            let until = *since + END_AFTER_STOP_WITHIN;
            if self.told {
                return Due::At(None);
            }
            if now < until {
                return Due::At(Some(until));
            }
            self.told = true;
            return Due::Tell(error.clone());
        }
        let deadline = self.timeout.and_then(|limit| self.whole.end(limit));
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Due::Stop(Error::new(ErrorCode::RuntimeTimedOut, "the request took too long"));
        }
        let mut wake = deadline;
        if let Some(limit) = self.idle_timeout
            && let Some(until) = self.last_heard.checked_add(limit)
        {
            // While the client does not read, the runtime's silence means nothing.
            if now >= until && listening {
                let error = Error::new(ErrorCode::RuntimeIdle, "the runtime was silent for too long")
                    .with("idleTimeoutMs", limit.as_millis() as u64);
                return Due::Stop(error);
            }
            let look = until.max(now + Duration::from_millis(10));
            wake = Some(wake.map_or(look, |wake| wake.min(look)));
        }
        Due::At(wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(timeout: u64, idle_timeout: u64, now: Instant) -> InFlight {
        let limit = |millis| (millis > 0).then(|| Duration::from_millis(millis));
        let request = ClientRequest {
            message: RequestMessage::Invocation(Box::default()),
            timeout: limit(timeout),
            idle_timeout: limit(idle_timeout),
        };
        InFlight::new(1, "id".into(), &request, now)
    }

    fn code(due: &Due) -> Option<ErrorCode> {
        match due {
            Due::Stop(error) | Due::Tell(error) => Some(error.code()),
            Due::At(_) => None,
        }
    }

    #[test]
    fn the_whole_and_the_silence_have_clocks_of_their_own() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut flight = request(1000, 100, start);
        assert!(matches!(flight.on_clock(after(50), true), Due::At(Some(at)) if at == after(100)));
        flight.heard(after(90));
        assert_eq!(code(&flight.on_clock(after(180), true)), None);
        assert_eq!(code(&flight.on_clock(after(200), false)), None, "we are the ones who do not read");
        assert_eq!(code(&flight.on_clock(after(200), true)), Some(ErrorCode::RuntimeIdle));
        assert_eq!(code(&flight.on_clock(after(1000), false)), Some(ErrorCode::RuntimeTimedOut));
        assert!(matches!(request(0, 0, start).on_clock(after(1_000_000), true), Due::At(None)));
    }

    #[test]
    fn the_first_reason_stands_and_is_told_once_however_late_the_runtime_is() {
        let start = Instant::now();
        let mut flight = request(0, 0, start);
        assert!(flight.stop(Error::new(ErrorCode::RuntimeAborted, "a"), start));
        assert!(!flight.stop(Error::new(ErrorCode::RuntimeTimedOut, "b"), start));
        assert!(
            matches!(flight.on_clock(start, true), Due::At(Some(at)) if at == start + END_AFTER_STOP_WITHIN)
        );
        assert_eq!(
            code(&flight.on_clock(start + END_AFTER_STOP_WITHIN, true)),
            Some(ErrorCode::RuntimeAborted)
        );
        assert!(
            flight.is_told() && matches!(flight.on_clock(start + END_AFTER_STOP_WITHIN, true), Due::At(None))
        );
        assert!(flight.outcome(Ok(())).is_none());
        let mut prompt = request(0, 0, start);
        prompt.stop(Error::new(ErrorCode::RuntimeAborted, "a"), start);
        assert_eq!(prompt.outcome(Ok(())).unwrap().unwrap_err().code(), ErrorCode::RuntimeAborted);
    }
}
