//! Converts options: the meaning of milliseconds, and the names of choices. No other module does this.
//!
//! lib/option.ts has checked the types. Each choice has a twin here, because the core does not depend on napi. The conversions
//! between twins are exhaustive, so a choice that one side lacks is a compiler error.

use agents::harness::{self, request};
use napi_derive::napi;
use process;
use serde::Deserialize;
use std::time::Duration;

/// A number of milliseconds from JavaScript.
#[napi(transparent, object_to_js = false)]
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Millis(f64);

impl Millis {
    /// A limit on how long something may take. 0, Infinity and numbers that a clock can't hold mean no limit. Less than 0 is a
    /// deadline that has passed: it becomes zero, with which the core begins nothing.
    pub(super) fn limit(self) -> Option<Duration> {
        if self.0 < 0.0 {
            return Some(Duration::ZERO);
        }
        (self.0 > 0.0).then(|| positive(self.0)).flatten()
    }

    /// How long something lasts: at least zero. Numbers that a clock can't hold mean no end.
    pub(super) fn duration(self) -> Duration {
        if self.0 > 0.0 { positive(self.0).unwrap_or(Duration::MAX) } else { Duration::ZERO }
    }

    /// How long others may go on before they are ended: less than nothing is nothing, and there is no end for Infinity and numbers that a clock
    /// can't hold.
    pub(super) fn grace(self) -> Option<Duration> {
        if self.0 > 0.0 { positive(self.0) } else { Some(Duration::ZERO) }
    }

    /// How often something happens. 0 and less: never.
    pub(super) fn interval(self) -> Option<Duration> {
        (self.0 > 0.0).then(|| positive(self.0)).flatten()
    }
}

/// `None`: more than a clock can hold. Never zero: shorter durations become a nanosecond.
fn positive(millis: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(millis / 1e3).ok().map(|duration| duration.max(Duration::from_nanos(1)))
}

/// Converts a duration to milliseconds for JavaScript.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Sets a value that was given.
pub(super) fn give<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

/// Generates the JavaScript twin of an enum of the core. In JavaScript it is a string.
macro_rules! twin {
    ($module:ident::$name:ident {
        $($(#[$note:meta])* $variant:ident = $text:literal),* $(,)?
    }) => {
        #[napi(string_enum)]
        #[derive(Clone, Copy, serde::Deserialize)]
        pub enum $name { $($(#[$note])* #[napi(value = $text)] #[serde(rename = $text)] $variant,)* }

        impl From<$name> for $module::$name {
            fn from(name: $name) -> Self {
                match name { $($name::$variant => $module::$name::$variant,)* }
            }
        }

        impl From<$module::$name> for $name {
            fn from(value: $module::$name) -> Self {
                match value { $($module::$name::$variant => $name::$variant,)* }
            }
        }
    };
}
pub(super) use twin;

twin!(process::Strays { Kill = "kill", Keep = "keep" });
twin!(process::Encoding { Text = "utf8", Bytes = "buffer" });
twin!(process::Containment { Auto = "auto", Group = "group", Strict = "strict" });
twin!(process::ContainmentLevel {
    Guard = "guard",
    GuardCgroup = "guard+cgroup",
    PidNamespace = "pidns",
    Group = "group",
    Job = "job",
});
twin!(request::Background { Wait = "wait", Leave = "leave" });
twin!(harness::Level { Plan = "plan", Edit = "edit", Ask = "ask", Auto = "auto" });

impl Level {
    pub(super) fn is_edit(self) -> bool {
        matches!(self, Level::Edit)
    }
}

/// The streams that are also written to the host's own.
#[napi(string_enum = "lowercase")]
#[derive(Clone, Copy)]
pub enum EchoStreams {
    Both,
    Stdout,
    Stderr,
}

impl EchoStreams {
    pub(super) fn echo(self) -> process::Echo {
        process::Echo::to_host(match self {
            EchoStreams::Both => &process::Stream::BOTH,
            EchoStreams::Stdout => &[process::Stream::Stdout],
            EchoStreams::Stderr => &[process::Stream::Stderr],
        })
    }
}

/// How the Copilot CLI is reached.
#[napi(string_enum = "lowercase")]
#[derive(Clone, Copy)]
pub enum Transport {
    Stdio,
    Tcp,
    Address,
}

/// The reason why the host ends a run.
#[napi(string_enum = "kebab-case")]
#[derive(Clone, Copy)]
pub enum StopReason {
    Aborted,
    Killed,
    InputFailed,
}

impl From<StopReason> for process::StopReason {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Aborted => process::StopReason::Aborted,
            StopReason::Killed => process::StopReason::Killed,
            StopReason::InputFailed => process::StopReason::InputFailed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_off_at_zero_and_when_endless_and_over_when_it_has_passed() {
        for (millis, limit) in [
            (0.0, None),
            (-0.0, None),
            (f64::INFINITY, None),
            (f64::MAX, None),
            (-1.0, Some(Duration::ZERO)),
            (f64::NEG_INFINITY, Some(Duration::ZERO)),
            (1.5, Some(Duration::from_micros(1500))),
            (f64::MIN_POSITIVE, Some(Duration::from_nanos(1))),
        ] {
            assert_eq!(Millis(millis).limit(), limit, "{millis}");
        }
    }

    #[test]
    fn no_grace_is_none_and_an_endless_one_waits() {
        for (millis, grace) in [
            (0.0, Some(Duration::ZERO)),
            (-1.0, Some(Duration::ZERO)),
            (f64::INFINITY, None),
            (f64::MAX, None),
            (2.0, Some(Duration::from_millis(2))),
        ] {
            assert_eq!(Millis(millis).grace(), grace, "{millis}");
        }
    }

    #[test]
    fn a_duration_that_no_clock_can_hold_is_endless_and_never_nothing() {
        for (millis, duration) in [
            (f64::MAX, Duration::MAX),
            (f64::INFINITY, Duration::MAX),
            (0.0, Duration::ZERO),
            (-1.0, Duration::ZERO),
            (250.0, Duration::from_millis(250)),
        ] {
            assert_eq!(Millis(millis).duration(), duration, "{millis}");
        }
    }

    #[test]
    fn an_interval_of_nothing_never_comes() {
        for (millis, interval) in
            [(0.0, None), (-5.0, None), (f64::INFINITY, None), (15.0, Some(Duration::from_millis(15)))]
        {
            assert_eq!(Millis(millis).interval(), interval, "{millis}");
        }
    }
}
