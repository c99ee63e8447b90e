//! PURE: the wait that a service asks for in the words of its error.

use std::time::Duration;

/// Phrases before a wait, the most reliable first. A number without a unit counts in units of this many milliseconds.
const SIGNS: [(&str, f64); 13] = [
    ("resets_in_seconds", 1e3),
    ("reset_after_seconds", 1e3),
    ("reset-after-seconds", 1e3),
    ("retry-after-ms", 1.0),
    ("retryafterms", 1.0),
    ("retry-after", 1e3),
    ("retry_after", 1e3),
    ("retry after", 1e3),
    ("retryafter", 1e3),
    ("retrydelay", 1e3),
    ("retry in", 1e3),
    ("retrying in", 1e3),
    ("try again in", 1e3),
];

/// The wait that a message asks for: "retry-after: 5", "Please retry in 32.5s", `"retryDelay": "21s"`.
pub fn wait_in(message: &str) -> Option<Duration> {
    let words = message.to_ascii_lowercase();
    SIGNS.iter().find_map(|(sign, unit)| {
        words
            .match_indices(sign)
            .find_map(|(at, _)| span(value_behind(&words[at + sign.len()..]), Some(*unit)))
    })
}

/// The text behind a phrase, without the signs and small words that may stand before its value.
pub fn value_behind(text: &str) -> &str {
    const FILLERS: [&str; 8] = ["at", "on", "in", "after", "is", "about", "around", "approximately"];
    let mut text = trimmed(text);
    for filler in FILLERS.iter().cycle().take(2 * FILLERS.len()) {
        let rest = text.strip_prefix(filler).filter(|rest| rest.starts_with([' ', ':']));
        text = rest.map_or(text, trimmed);
    }
    text
}

fn trimmed(text: &str) -> &str {
    text.trim_start_matches(|letter: char| letter.is_whitespace() || ":=\"'|\\~".contains(letter))
}

/// Numbers with their units at the beginning of the text, which is in lower case: "1 hour and 5 minutes". A single number without a
/// unit is of so many milliseconds.
pub fn span(mut text: &str, bare: Option<f64>) -> Option<Duration> {
    let mut millis = None;
    loop {
        text = text.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
        if let (Some(_), Some(rest)) = (millis, text.strip_prefix("and ")) {
            text = rest.trim_start();
        }
        // "an hour"
        let article = ["an ", "a "].into_iter().find_map(|article| text.strip_prefix(article));
        let (digits, rest) = match article {
            Some(rest) => ("1", rest),
            None => taken(text, |letter| letter.is_ascii_digit() || letter == '.'),
        };
        let Ok(number) = digits.trim_end_matches('.').parse::<f64>() else { break };
        let rest = if digits.ends_with('.') { rest } else { rest.trim_start() };
        let (unit, rest) = taken(rest, |letter| letter.is_ascii_alphabetic());
        let unit = match unit {
            "ms" | "milliseconds" | "millis" => 1.0,
            "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
            "m" | "min" | "mins" | "minute" | "minutes" => 60e3,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600e3,
            "d" | "day" | "days" => 86_400e3,
            "w" | "week" | "weeks" => 604_800e3,
            // The beginning of a date or of a time on a clock is no number of seconds.
            _ if rest.starts_with(['-', '/', ':']) => break,
            _ => match bare.filter(|_| millis.is_none() && article.is_none()) {
                Some(bare) => return Duration::try_from_secs_f64(number * bare / 1e3).ok(),
                None => break,
            },
        };
        millis = Some(millis.unwrap_or(0.0) + number * unit);
        text = rest;
    }
    Duration::try_from_secs_f64(millis? / 1e3).ok()
}

/// The longest beginning of these letters, and the rest.
fn taken(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|letter| !is_part(letter)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_read_in_the_words_of_each_service() {
        for (words, millis) in [
            ("Rate limit reached for gpt-5. Please try again in 1.2s. Visit https://x.", Some(1200)),
            ("Rate limit reached for gpt-5 on requests per day. Please try again in 6m0s.", Some(360_000)),
            (r#"{"error":{"details":[{"@type":"RetryInfo","retryDelay":"1.3s"}]}}"#, Some(1300)),
            ("You exceeded your current quota. Please retry in 21.95s.", Some(21_950)),
            ("retry-after: 5", Some(5000)),
            ("retry-after-ms: 1500", Some(1500)),
            ("try again in about an hour", Some(3_600_000)),
            ("try again in 5 days 22 hours 11\nminutes.", Some(511_860_000)),
            ("please try again after 1 seconds", None),
            ("try again later", None),
            ("try again in a few minutes", None),
            ("retry after Sun, 20 Dec 2026 18:43:13 GMT", None),
            ("retry after 2026-12-20 18:43", None),
            ("retry after 18:43", None),
        ] {
            assert_eq!(wait_in(words).map(|wait| wait.as_millis()), millis, "{words}");
        }
    }
}
