//! PURE: when a usage limit ends, in the words of the CLIs and of the services behind them.
//!
//! | said | means |
//! |---|---|
//! | `"resets_at":1777936568`, `usage limit reached\|1749924000`, `x-codex-primary-reset-at: ...` | seconds since 1970 (or milliseconds) |
//! | `try again in 2 days 17 hours 14 minutes`, `quota will reset after 12h22m44s`, `retry-after: 20` | so long from now |
//! | `resets 7pm (Europe/Berlin)`, `Access resets at 10:57 PM GMT-3` | the next time that a clock there shows this |
//! | `try again at Sep 29th, 2026 12:55 AM`, `resets Dec 5 at 10am (UTC)`, `resets Mon 9:00am` | that day |
//!
//! A clock without a zone is in the zone that the CLI uses. Where a clock shows a time twice, the later one is meant: a turn that
//! resumes too early is refused again.

use ground::retry::{span, value_behind, wait_in};
use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp};
use std::time::Duration;

/// A clock that shows a time which has just passed means that one: the words were rounded, or took a while to get here.
const GRACE: SignedDuration = SignedDuration::from_mins(10);
/// A clock shows no seconds: the limit ends somewhere in that minute.
const ROUNDED: SignedDuration = SignedDuration::from_mins(1);
/// A date further away than this is not the reset of a limit.
const FURTHEST: SignedDuration = SignedDuration::from_hours(24 * 400);

/// When a limit ends, as it was said.
#[derive(Clone, Debug, PartialEq)]
pub enum Reset {
    After(Duration),
    At(Timestamp),
    Clock { zone: Option<TimeZone>, day: Option<Day>, time: Time },
}

/// The day of a clock's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Day {
    Date {
        year: Option<i16>,
        month: i8,
        day: i8,
    },
    Weekday(Weekday),
    /// So many days after today.
    After(i8),
}

/// Names of a moment that a machine tells.
const FIELDS: [&str; 8] = [
    "resets_at",
    "reset_at",
    "resetsat",
    "reset-at",
    "limit reached|",
    "unified-reset",
    "requests-reset",
    "tokens-reset",
];

/// Phrases before a moment or a span of time, the most reliable first.
const PHRASES: [&str; 15] = [
    "try again at",
    "try again on",
    "try again after",
    "resets",
    "reset at",
    "reset on",
    "reset in",
    "reset after",
    "reset:",
    "available again",
    "retry after",
    "retry-after",
    "regain access",
    "try again",
    "until",
];

impl Reset {
    /// The reset time in a message, if it has one.
    pub fn parse(words: &str) -> Option<Reset> {
        // Some put a narrow space before the half of the day, and points into it.
        let words = words.to_ascii_lowercase().replace(['\u{202f}', '\u{a0}'], " ");
        let words = words.replace("a.m.", "am").replace("p.m.", "pm");
        let behind = |sign: &&str| {
            let length = sign.len();
            words.match_indices(*sign).find_map(|(at, _)| Words(value_behind(&words[at + length..])).reset())
        };
        let told = FIELDS.iter().find_map(behind);
        told.or_else(|| wait_in(&words).map(Reset::After)).or_else(|| PHRASES.iter().find_map(behind))
    }

    /// Seconds since 1970, or milliseconds.
    pub fn at_epoch(number: i64) -> Option<Reset> {
        // No clock was at 1 G seconds, nor is at 100 G, where milliseconds begin to be meant.
        let millis = if number < 100_000_000_000 { number.checked_mul(1000)? } else { number };
        (number >= 1_000_000_000).then(|| Timestamp::from_millisecond(millis).ok().map(Reset::At)).flatten()
    }

    /// The moment, for who hears it now. `local`: the zone of the CLI's clock. May have passed; `None`: no moment is meant.
    pub fn resolve(&self, now: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let at = match self {
            Reset::After(wait) => now.checked_add(SignedDuration::try_from(*wait).ok()?).ok()?,
            Reset::At(at) => *at,
            Reset::Clock { zone, day, time } => {
                let zone = zone.as_ref().unwrap_or(local);
                let today = now.to_zoned(zone.clone()).date();
                let moment = |date: Date| shown(zone, date.to_datetime(*time));
                match day {
                    None => next(now, moment(today)?, || moment(today.tomorrow().ok()?))?,
                    Some(Day::After(days)) => moment(today.checked_add(Span::new().days(*days)).ok()?)?,
                    Some(Day::Weekday(weekday)) => {
                        let days = today.weekday().until(*weekday);
                        let date = today.checked_add(Span::new().days(days)).ok()?;
                        next(now, moment(date)?, || moment(date.checked_add(Span::new().days(7)).ok()?))?
                    }
                    Some(Day::Date { year: Some(year), month, day }) => {
                        moment(Date::new(*year, *month, *day).ok()?)?
                    }
                    Some(Day::Date { year: None, month, day }) => {
                        let date = |year| Date::new(year, *month, *day).ok();
                        next(now, moment(date(today.year())?)?, || moment(date(today.year() + 1)?))?
                    }
                }
            }
        };
        (at.duration_since(now) <= FURTHEST).then_some(at)
    }
}

impl Reset {
    /// When it is worth another try, `at` being when it was said to end: who came in the minute that a clock showed, and was refused,
    /// comes again at the end of it.
    pub fn try_at(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        let since = now.duration_since(at);
        let is_rounded = matches!(self, Reset::Clock { .. }) && !since.is_negative() && since < ROUNDED;
        if is_rounded { at.checked_add(ROUNDED).unwrap_or(at) } else { at }
    }
}

/// The wait that a message asks for, if it is a span of time: "retry-after: 5", "Please retry in 32.5s".
pub fn retry_after_in(words: &str) -> Option<Duration> {
    match Reset::parse(words)? {
        Reset::After(wait) => Some(wait),
        Reset::At(_) | Reset::Clock { .. } => None,
    }
}

/// The zone that a program goes by whose variable TZ this is.
pub fn zone_of(variable: Option<&str>) -> TimeZone {
    let name = variable.map(|name| name.trim_start_matches(':')).filter(|name| !name.is_empty());
    let named = name.and_then(|name| TimeZone::get(name).or_else(|_| TimeZone::posix(name)).ok());
    named.unwrap_or_else(TimeZone::system)
}

/// When a clock there shows this.
fn shown(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    zone.to_ambiguous_timestamp(time).later().ok()
}

/// `moment`, or the next one like it when `moment` is long past.
fn next(now: Timestamp, moment: Timestamp, later: impl FnOnce() -> Option<Timestamp>) -> Option<Timestamp> {
    if now.duration_since(moment) <= GRACE { Some(moment) } else { later() }
}

/// The text that is left to read, in lower case.
#[derive(Clone, Copy)]
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn reset(self) -> Option<Reset> {
        self.epoch()
            .or_else(|| self.instant())
            .or_else(|| self.date_and_time())
            .or_else(|| self.clock())
            .or_else(|| span(self.0, None).map(Reset::After))
    }

    fn skip(&mut self, also: &[char]) {
        self.0 = self.0.trim_start_matches(|letter: char| letter.is_whitespace() || also.contains(&letter));
    }

    /// The longest beginning of these letters, taken off.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|letter| !is_part(letter)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn number<Number: std::str::FromStr>(&mut self) -> Option<Number> {
        self.take(|letter| letter.is_ascii_digit()).parse().ok()
    }

    fn epoch(mut self) -> Option<Reset> {
        let digits = self.take(|letter| letter.is_ascii_digit());
        (digits.len() >= 10).then(|| Reset::at_epoch(digits.parse().ok()?)).flatten()
    }

    /// A date in figures, and a time behind it: "2026-12-20 18:43:13 +0800". Without a zone it is that of the CLI.
    fn date_and_time(mut self) -> Option<Reset> {
        let read = |format| BrokenDownTime::parse_prefix(format, self.0).ok();
        let (date, length) = read("%Y-%m-%d").or_else(|| read("%Y/%m/%d"))?;
        let year = date.year().filter(|year| *year >= 1970);
        let day = Day::Date { year, month: date.month()?, day: date.day()? };
        self.0 = self.0[length..].strip_prefix(['t', ' ', ','])?;
        self.skip(&[]);
        self.0 = self.0.strip_prefix("at ").unwrap_or(self.0);
        let time = self.time()?;
        if let Some(rest) = self.0.strip_prefix('.') {
            self.0 = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        }
        Some(Reset::Clock { zone: self.zone()?, day: Some(day), time })
    }

    /// A timestamp in machine format.
    fn instant(mut self) -> Option<Reset> {
        let text = self.take(|letter| letter.is_ascii_alphanumeric() || "-:.+".contains(letter));
        text.trim_end_matches('.').to_ascii_uppercase().parse().ok().map(Reset::At)
    }

    /// A time on a clock, with its day before it where there is one, and its zone behind it.
    fn clock(mut self) -> Option<Reset> {
        let day = self.relative_day().or_else(|| self.day());
        self.skip(&[',']);
        if let Some(rest) = self.0.strip_prefix("at ") {
            self = Words(rest.trim_start());
        }
        let time = match self.time() {
            Some(time) => time,
            // A day alone begins at midnight.
            None if day.is_some() => Time::midnight(),
            None => return None,
        };
        let zone = self.zone()?;
        Some(Reset::Clock { zone, day, time })
    }

    fn day(&mut self) -> Option<Day> {
        const MONTHS: [&str; 12] =
            ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
        const WEEKDAYS: [(&str, Weekday); 7] = [
            ("mon", Weekday::Monday),
            ("tue", Weekday::Tuesday),
            ("wed", Weekday::Wednesday),
            ("thu", Weekday::Thursday),
            ("fri", Weekday::Friday),
            ("sat", Weekday::Saturday),
            ("sun", Weekday::Sunday),
        ];
        let mut words = *self;
        // "20 December"
        let first: Option<i8> = words.ordinal();
        words.skip(&['.']);
        let name = words.take(|letter| letter.is_ascii_alphabetic());
        let name = name.get(..3)?;
        if let Some((_, weekday)) = WEEKDAYS.iter().find(|(known, _)| *known == name && first.is_none()) {
            words.skip(&[',']);
            *self = words;
            // "Mon, Dec 5": the date says it.
            return self.day().or(Some(Day::Weekday(*weekday)));
        }
        let month = MONTHS.iter().position(|known| *known == name)? as i8 + 1;
        words.skip(&['.']);
        let day = first.or_else(|| words.ordinal())?;
        let mut behind = words;
        behind.skip(&[',']);
        let digits = behind.take(|letter| letter.is_ascii_digit());
        let year = if digits.len() == 4 { digits.parse().ok() } else { None };
        *self = if year.is_some() { behind } else { words };
        Some(Day::Date { year, month, day })
    }

    /// The number of a day.
    fn ordinal(&mut self) -> Option<i8> {
        let number = self.number()?;
        for ending in ["st", "nd", "rd", "th"] {
            self.0 = self.0.strip_prefix(ending).unwrap_or(self.0);
        }
        Some(number)
    }

    fn relative_day(&mut self) -> Option<Day> {
        for (word, day) in [("today", Day::After(0)), ("tomorrow", Day::After(1))] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Some(day);
            }
        }
        None
    }

    fn time(&mut self) -> Option<Time> {
        const FORMATS: [&str; 5] = ["%I:%M:%S %p", "%I:%M %p", "%I %p", "%H:%M:%S", "%H:%M"];
        for (word, hour) in [("midnight", 0), ("noon", 12)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Time::new(hour, 0, 0, 0).ok();
            }
        }
        FORMATS.iter().find_map(|format| {
            let (told, length) = BrokenDownTime::parse_prefix(format, self.0).ok()?;
            let (rest, is_half) = (&self.0[length..], format.ends_with("%p"));
            if rest.starts_with(|next: char| next.is_ascii_digit() || is_half && next.is_ascii_alphabetic()) {
                return None;
            }
            self.0 = rest;
            told.to_time().ok()
        })
    }

    /// `Some(None)`: the CLI's own. `None`: one that nobody knows, so that the time means nothing.
    fn zone(mut self) -> Option<Option<TimeZone>> {
        self.skip(&[]);
        let is_quoted = self.0.starts_with('(');
        self.skip(&['(']);
        let name = self.take(|letter| letter.is_ascii_alphanumeric() || "/_+-:".contains(letter));
        let name = name.trim_end_matches([':', '-']);
        if let Some(hours) = abbreviated(name) {
            return Some(Some(hours));
        }
        match name.contains('/') && is_quoted {
            // A CLI that does not know its own zone prints this.
            true if name == "etc/unknown" => Some(None),
            true => TimeZone::get(name).ok().map(Some),
            false => Some(None),
        }
    }
}

fn abbreviated(name: &str) -> Option<TimeZone> {
    const REGIONS: [(&str, &str); 9] = [
        ("pacific", "America/Los_Angeles"),
        ("mountain", "America/Denver"),
        ("central", "America/Chicago"),
        ("eastern", "America/New_York"),
        ("ist", "Asia/Kolkata"),
        ("pt", "America/Los_Angeles"),
        ("mt", "America/Denver"),
        ("ct", "America/Chicago"),
        ("et", "America/New_York"),
    ];
    const HOURS: [(&str, i8); 22] = [
        ("utc", 0),
        ("gmt", 0),
        ("z", 0),
        ("est", -5),
        ("edt", -4),
        ("cst", -6),
        ("cdt", -5),
        ("mst", -7),
        ("mdt", -6),
        ("pst", -8),
        ("pdt", -7),
        ("cet", 1),
        ("cest", 2),
        ("jst", 9),
        ("kst", 9),
        ("bst", 1),
        ("eet", 2),
        ("eest", 3),
        ("msk", 3),
        ("sgt", 8),
        ("hkt", 8),
        ("aest", 10),
    ];
    if let Some((_, hours)) = HOURS.iter().find(|(known, _)| *known == name) {
        return Some(TimeZone::fixed(Offset::constant(*hours)));
    }
    if let Some((_, region)) = REGIONS.iter().find(|(known, _)| *known == name) {
        return TimeZone::get(region).ok();
    }
    let offset = name.strip_prefix("utc").or(name.strip_prefix("gmt")).unwrap_or(name);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let figures = offset.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match figures.split_once(':') {
        Some((hours, minutes)) => (hours, minutes.parse::<i32>().ok()?),
        None if figures.len() == 4 => (figures.get(..2)?, figures.get(2..)?.parse::<i32>().ok()?),
        None => (figures, 0),
    };
    let seconds = sign * (hours.parse::<i32>().ok()? * 3600 + minutes * 60);
    Offset::from_seconds(seconds).ok().map(TimeZone::fixed)
}

#[cfg(test)]
mod tests;
