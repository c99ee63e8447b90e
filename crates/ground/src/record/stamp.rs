//! PURE: times as text that people read and `ls` sorts.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn epoch_ms(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// "2026-11-22T14:25:58.123Z".
pub fn utc(epoch_ms: u64) -> String {
    let (days, ms) = (epoch_ms / 86_400_000, epoch_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}.{:03}Z", ms / 1000 % 60, ms % 1000)
}

/// The date this many days after 1970-01-01. Years are counted from March, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_795_357_558_123, "2026-11-22T14:25:58.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }
}
