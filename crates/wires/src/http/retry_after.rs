//! The Retry-After header. PURE.

use std::time::{Duration, SystemTime};

/// Longest wait that a header can ask for. Longer ones are reduced to this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses seconds (also with a fraction, which some servers send) or an HTTP date. A date in the past means no wait.
///
/// `date`: the header Date of the same response, which tells the time of the server's clock. `now`: the time of this machine, if
/// the server's is unknown.
pub fn parse_retry_after(value: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    if let Some(seconds) = number(value) {
        return Some(bounded(seconds));
    }
    let moment = |text: &str| httpdate::parse_http_date(text.trim()).ok();
    let until = moment(value)?;
    Some(until.duration_since(date.and_then(moment).unwrap_or(now)).unwrap_or(Duration::ZERO).min(LONGEST))
}

/// Milliseconds, as some servers send beside Retry-After.
pub(super) fn parse_retry_after_ms(value: &str) -> Option<Duration> {
    number(value).map(|millis| bounded(millis / 1e3))
}

/// Checks the first character, because f64 also parses signs, inf and NaN.
fn number(value: &str) -> Option<f64> {
    let value = value.trim();
    value.starts_with(|first: char| first.is_ascii_digit()).then(|| value.parse().ok()).flatten()
}

fn bounded(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).map_or(LONGEST, |wait| wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    fn parse(value: &str) -> Option<u128> {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        parse_retry_after(value, None, now).map(|wait| wait.as_millis())
    }

    #[test]
    fn a_date_is_read_by_the_clock_of_its_server() {
        for (now, date) in
            [(0, "Sun, 06 Nov 1994 08:49:37 GMT"), (2_000_000_000, "Sunday, 06-Nov-94 08:49:37 GMT")]
        {
            let now = UNIX_EPOCH + Duration::from_secs(now);
            let parsed = |value| parse_retry_after(value, Some(date), now);
            assert_eq!(parsed("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_secs(60)));
            assert_eq!(parsed("7"), Some(Duration::from_secs(7)));
        }
        let parsed = parse_retry_after(
            "Sun, 06 Nov 1994 08:50:37 GMT",
            Some("today"),
            UNIX_EPOCH + Duration::from_secs(784_111_777),
        );
        assert_eq!(parsed, Some(Duration::from_secs(60)));
    }

    #[test]
    fn takes_seconds_and_dates_of_all_three_forms() {
        assert_eq!(parse("120"), Some(120_000));
        assert_eq!(parse(" 0 "), Some(0));
        assert_eq!(parse("1.5"), Some(1500));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60_000));
        assert_eq!(parse("Sunday, 06-Nov-94 08:49:47 GMT"), Some(10_000));
        assert_eq!(parse("Sun Nov  6 08:49:38 1994"), Some(1000));
    }

    #[test]
    fn a_date_that_is_past_means_now() {
        assert_eq!(parse("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
    }

    #[test]
    fn is_bounded_and_ignores_nonsense() {
        assert_eq!(parse("99999999999999999999"), Some(86_400_000));
        assert_eq!(parse("1e400"), Some(86_400_000));
        for nonsense in ["", "soon", "-5", "inf", "NaN", "12s", "1 2"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(value in ".*") {
            parse(&value);
        }
    }
}
