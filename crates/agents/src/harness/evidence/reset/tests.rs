use crate::harness::evidence::reset::*;

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

/// The time that these words mean at `now` on a machine in Berlin.
fn heard(words: &str, now: &str) -> Option<String> {
    let at = Reset::parse(words)?.resolve(now.parse().unwrap(), &zone("Europe/Berlin"))?;
    Some(at.to_string())
}

#[test]
fn a_date_in_figures_is_read_with_and_without_its_zone() {
    let now = "2026-12-20T08:00:00Z";
    for (when, expected) in [
        ("2026-12-20 18:43:13", "2026-12-20T17:43:13Z"),
        ("2026-12-20 18:43", "2026-12-20T17:43:00Z"),
        ("2026-12-20 18:43:13 UTC", "2026-12-20T18:43:13Z"),
        ("2026-12-20 18:43:13Z", "2026-12-20T18:43:13Z"),
        ("2026-12-20 18:43:13 +08:00", "2026-12-20T10:43:13Z"),
        ("2026-12-20 18:43:13+0800", "2026-12-20T10:43:13Z"),
        ("2026-12-20 18:43:13 +0800.", "2026-12-20T10:43:13Z"),
        ("2026-12-20T18:43:13", "2026-12-20T17:43:13Z"),
        ("2026-12-20T18:43:13+08:00", "2026-12-20T10:43:13Z"),
        ("midnight UTC", "2026-12-21T00:00:00Z"),
        ("tomorrow at 3am", "2026-12-21T02:00:00Z"),
        ("Dec 20, 2026 18:43:13 GMT", "2026-12-20T18:43:13Z"),
        ("20 Dec 2026 18:43:13 UTC", "2026-12-20T18:43:13Z"),
        ("20th December at 6:43 pm", "2026-12-20T17:43:00Z"),
        ("6 pm", "2026-12-20T17:00:00Z"),
        ("1am Pacific time", "2026-12-20T09:00:00Z"),
        (": 2026-12-20 18:43:13 UTC", "2026-12-20T18:43:13Z"),
        ("6pm KST", "2026-12-20T09:00:00Z"),
    ] {
        let words = format!("Usage limit reached for 5 hour. Your limit will reset at {when}");
        assert_eq!(heard(&words, now).as_deref(), Some(expected), "{when}");
    }
}

#[test]
fn a_moment_may_be_about_a_span_or_behind_other_words() {
    let now = "2026-12-20T08:00:00Z";
    for (words, expected) in [
        ("Usage limit reached, try again in about an hour", Some("2026-12-20T09:00:00Z")),
        ("Usage limit reached. It resets in a day and 2 hours", Some("2026-12-21T10:00:00Z")),
        ("usage limit hit. Next reset: 20 Dec 2026 18:43 UTC", Some("2026-12-20T18:43:00Z")),
        ("usage limit reached, available again on Monday at 9am", Some("2026-12-21T08:00:00Z")),
        ("quota exceeded, retry after Sun, 20 Dec 2026 18:43:13 GMT", Some("2026-12-20T18:43:13Z")),
        ("retry-after: 2026-12-20T18:43:13Z", Some("2026-12-20T18:43:13Z")),
        ("usage limit exceeded, try again tomorrow at noon UTC", Some("2026-12-21T12:00:00Z")),
        ("You will regain access on 2026-12-21 at 00:00 UTC.", Some("2026-12-21T00:00:00Z")),
        ("usage limit reached. Limit resets at: 2026-12-20 18:43:13 UTC", Some("2026-12-20T18:43:13Z")),
        ("Please try again in a few minutes", None),
        ("the connection was reset: a stranger hung up", None),
    ] {
        assert_eq!(heard(words, now).as_deref(), expected, "{words}");
    }
}

#[test]
fn moments_are_read_in_the_words_of_each_cli() {
    let now = "2026-11-22T14:00:00Z";
    let cases = [
        // claude-code, over the years.
        ("You've hit your limit \u{b7} resets 7pm (Europe/Berlin)", "2026-11-22T18:00:00Z"),
        ("You've hit your session limit \u{b7} resets 3pm (America/Bogota)", "2026-11-22T20:00:00Z"),
        ("You've hit your session limit \u{b7} resets 4:10am", "2026-11-23T03:10:00Z"),
        ("5-hour limit reached \u{2219} resets 12am", "2026-11-22T23:00:00Z"),
        ("5-hour limit reached \u{2219} resets 12pm", "2026-11-23T11:00:00Z"),
        ("Limit reached \u{b7} resets 5pm (Etc/Unknown) \u{b7} /upgrade to Max", "2026-11-22T16:00:00Z"),
        (
            "You've hit your weekly limit \u{b7} resets Dec 5 at 10am (America/New_York)",
            "2026-12-05T15:00:00Z",
        ),
        ("You've hit your weekly limit \u{b7} resets Oct 9, 10:30am (UTC)", "2027-10-09T10:30:00Z"),
        ("Claude usage limit reached. Your limit will reset at 1pm (Etc/GMT+5).", "2026-11-22T18:00:00Z"),
        ("Claude AI usage limit reached|1795357800", "2026-11-22T14:30:00Z"),
        ("Claude AI usage limit reached|1795357800000", "2026-11-22T14:30:00Z"),
        // codex.
        (
            "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 5 days 22 hours 11\nminutes.",
            "2026-11-28T12:11:00Z",
        ),
        ("You've hit your usage limit. Try again at 3:51 PM.", "2026-11-22T14:51:00Z"),
        ("You've hit your usage limit ... or try again at Nov 29th, 2026 12:55 AM.", "2026-11-28T23:55:00Z"),
        ("You've hit your usage limit... or try again at Aug 20, 2027, 7:38 AM", "2027-08-20T05:38:00Z"),
        (
            r#"Codex error: {"type":"error","error":{"type":"usage_limit_reached","resets_at":1795357800,"resets_in_seconds":13872}}"#,
            "2026-11-22T14:30:00Z",
        ),
        (r#"{\"error\":{\"resets_in_seconds\":90}}"#, "2026-11-22T14:01:30Z"),
        ("Rate limit reached for gpt-5. Please try again in 1.898s. Visit", "2026-11-22T14:00:01.898Z"),
        // gemini.
        (
            "You have exhausted your capacity on this model. Your quota will reset after 12h22m44s.",
            "2026-11-23T02:22:44Z",
        ),
        ("Usage limit reached for gemini-3-flash. Access resets at 10:57 PM GMT-3.", "2026-11-23T01:57:00Z"),
        ("Access resets at 11:00\u{202f}AM GMT+5:30.", "2026-11-23T05:30:00Z"),
        (r#""retryDelay": "51820.6s""#, "2026-11-23T04:23:40.6Z"),
        // copilot, and services behind opencode and pi.
        ("Please try again in 1 hour and 5 minutes.", "2026-11-22T15:05:00Z"),
        ("retry-after: 20", "2026-11-22T14:00:20Z"),
        ("retry-after-ms: 1500", "2026-11-22T14:00:01.5Z"),
        ("anthropic-ratelimit-requests-reset: 2026-11-22T15:00:00Z", "2026-11-22T15:00:00Z"),
        ("anthropic-ratelimit-unified-reset: 1795357800", "2026-11-22T14:30:00Z"),
        ("your premium requests reset on Dec 1", "2026-11-30T23:00:00Z"),
        ("resets Mon 9:00am", "2026-11-23T08:00:00Z"),
        ("resets Sun, 9:00am (UTC)", "2026-11-29T09:00:00Z"),
        ("resets at 19:30", "2026-11-22T18:30:00Z"),
        ("resets 9am PT", "2026-11-22T17:00:00Z"),
    ];
    for (words, moment) in cases {
        assert_eq!(heard(words, now).as_deref(), Some(moment), "{words}");
    }
}

#[test]
fn other_words_say_nothing() {
    for words in [
        "try again later",
        "read ECONNRESET",
        "connection reset by peer",
        "the connection resets",
        "resets 7",
        "resets 13pm",
        "resets 25:00",
        "resets 12:345",
        "reset after 3 failed attempts",
        "resets 7pm (Nowhere/At_All)",
        "resets Feb 30 at 7am",
        "resets_at: 5",
        "the limit resets every 5h and every week",
        "",
    ] {
        assert_eq!(heard(words, "2026-11-22T14:00:00Z"), None, "{words}");
    }
}

#[test]
fn a_time_that_has_just_passed_is_meant_and_one_long_over_is_tomorrow_s() {
    let words = "resets 7pm (UTC)";
    assert_eq!(heard(words, "2026-11-22T19:00:05Z").as_deref(), Some("2026-11-22T19:00:00Z"));
    assert_eq!(heard(words, "2026-11-22T19:10:00Z").as_deref(), Some("2026-11-22T19:00:00Z"));
    assert_eq!(heard(words, "2026-11-22T19:11:00Z").as_deref(), Some("2026-11-23T19:00:00Z"));
    assert_eq!(
        heard("resets_at: 1700000000", "2026-11-22T14:00:00Z").as_deref(),
        Some("2023-11-14T22:13:20Z")
    );
    let soon = "try again at Jan 1 12:30 AM";
    assert_eq!(heard(soon, "2026-12-31T22:00:00Z").as_deref(), Some("2026-12-31T23:30:00Z"));
}

#[test]
fn who_was_refused_in_the_minute_that_a_clock_showed_comes_again_at_its_end() {
    let try_at = |words: &str, now: &str| {
        let (reset, now) = (Reset::parse(words).unwrap(), now.parse().unwrap());
        reset.try_at(reset.resolve(now, &TimeZone::UTC).unwrap(), now).to_string()
    };
    assert_eq!(try_at("resets 7pm", "2026-11-22T18:59:00Z"), "2026-11-22T19:00:00Z");
    assert_eq!(try_at("resets 7pm", "2026-11-22T19:00:05Z"), "2026-11-22T19:01:00Z");
    assert_eq!(try_at("resets 7pm", "2026-11-22T19:01:00Z"), "2026-11-22T19:00:00Z");
    assert_eq!(try_at("resets_at: 1795374000", "2026-11-22T19:00:05Z"), "2026-11-22T19:00:00Z");
}

#[test]
fn the_day_of_a_change_of_the_clocks_has_its_own_length() {
    // In spring 2:30 is not shown in Berlin: an hour later it is 3:30.
    assert_eq!(
        heard("resets 2:30am (Europe/Berlin)", "2026-03-28T23:30:00Z").as_deref(),
        Some("2026-03-29T01:30:00Z")
    );
    assert_eq!(heard("resets 7am", "2026-03-28T23:30:00Z").as_deref(), Some("2026-03-29T05:00:00Z"));
    // In autumn it is shown twice: the later one is meant.
    assert_eq!(heard("resets 2:30am", "2026-10-24T23:30:00Z").as_deref(), Some("2026-10-25T01:30:00Z"));
    assert_eq!(heard("resets 7am", "2026-10-24T21:30:00Z").as_deref(), Some("2026-10-25T06:00:00Z"));
    // "in" is a span, whatever the clocks do.
    assert_eq!(heard("try again in 24h", "2026-10-24T21:30:00Z").as_deref(), Some("2026-10-25T21:30:00Z"));
}

#[test]
fn what_is_said_to_be_years_away_is_no_reset() {
    assert_eq!(heard("resets_at: 99999999999", "2026-11-22T14:00:00Z"), None);
    assert_eq!(heard("try again in 99999999999999999999 days", "2026-11-22T14:00:00Z"), None);
    assert_eq!(heard("try again in 500 days", "2026-11-22T14:00:00Z"), None);
}

#[test]
fn finds_how_long_to_wait() {
    let wait = |words| retry_after_in(words).map(|wait| wait.as_millis());
    assert_eq!(wait("429: Please retry in 32.5s."), Some(32_500));
    assert_eq!(wait("Retry-After: 7"), Some(7000));
    assert_eq!(wait("try again in 20 seconds"), Some(20_000));
    assert_eq!(wait("try again in 2 minutes"), Some(120_000));
    assert_eq!(wait("try again later"), None);
    assert_eq!(wait("resets 7pm"), None);
}

#[test]
fn nothing_that_can_be_said_makes_it_panic() {
    let pieces = [
        "resets",
        "at",
        "7pm",
        "99",
        ":",
        "(",
        "Europe/Berlin",
        "dec",
        "32",
        "\u{202f}",
        "in",
        "h",
        "1795357800",
        "|",
        ".",
    ];
    let mut seed = 7usize;
    for _ in 0..20_000 {
        let mut words = String::from("try again ");
        for _ in 0..6 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            words.push_str(pieces[(seed >> 33) % pieces.len()]);
            if seed >> 40 & 1 == 0 {
                words.push(' ');
            }
        }
        heard(&words, "2026-11-22T14:00:00Z");
    }
}
