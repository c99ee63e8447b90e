use super::*;
use proptest::prelude::*;

fn redactor(secrets: &[&str]) -> Redactor {
    Redactor::new(secrets.iter().copied())
}

/// The definition of redaction, as a simple and slow function.
fn naive(secrets: &[String], text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let longest = secrets
            .iter()
            .filter(|secret| !secret.is_empty() && rest.starts_with(secret.as_str()))
            .max_by_key(|secret| secret.len());
        match longest {
            Some(secret) => {
                out.push_str(REDACTED);
                rest = &rest[secret.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

#[test]
fn an_error_is_redacted_with_its_facts_and_causes() {
    use crate::error::ErrorCode;
    let redactor = Redactor::new(["hunter2"]);
    let cause = Error::new(ErrorCode::ConnectionLost, "hunter2 was refused");
    let error = Error::new(ErrorCode::AgentFailed, "no hunter2").with("kind", "hunter2").caused_by(cause);
    let clean = redactor.redact_error(&error);
    assert_eq!(clean.message(), "no [REDACTED]");
    assert_eq!(clean.facts().get("kind"), Some(&Value::from(REDACTED)));
    assert_eq!(clean.cause().map(Error::message), Some("[REDACTED] was refused"));
}

#[test]
fn a_secret_never_shows_itself() {
    let secret = Secret::from("hunter2");
    assert_eq!(format!("{secret} {secret:?}"), "[REDACTED] [REDACTED]");
    assert!(!format!("{:?}", redactor(&["hunter2"])).contains("hunter2"));
    assert_eq!(secret.expose(), "hunter2");
}

#[test]
fn finds_a_secret_that_is_cut_anywhere() {
    let text = "key=sk-123456 end";
    for cut in 0..=text.len() {
        let mut redactor = redactor(&["sk-123456"]);
        let mut out = redactor.push(&text.as_bytes()[..cut]);
        out.extend(redactor.push(&text.as_bytes()[cut..]));
        out.extend(redactor.flush());
        assert_eq!(out, b"key=[REDACTED] end");
    }
}

#[test]
fn the_longest_secret_wins_even_when_a_shorter_one_is_complete() {
    let mut redactor = redactor(&["abc", "abcdef"]);
    assert_eq!(redactor.push_text("xabc"), "x");
    assert_eq!(redactor.push_text("def!"), "[REDACTED]!");
    assert_eq!(redactor.push_text("abcd"), "");
    assert_eq!(redactor.flush_text(), "[REDACTED]d");
}

#[test]
fn lets_through_at_once_what_can_be_no_secret() {
    let mut redactor = redactor(&["sk-secret"]);
    assert_eq!(redactor.push_text("progress 1\n"), "progress 1\n");
    assert_eq!(redactor.push_text("sk-s"), "");
    assert_eq!(redactor.push_text("low"), "sk-slow");
}

#[test]
fn a_secret_is_found_as_it_stands_in_json() {
    let secret = "-----BEGIN \"KEY\"-----\na\\b\u{1}é\n";
    let redactor = redactor(&[secret]);
    let text = serde_json::to_string(&format!("key: {secret}!")).unwrap();
    assert_eq!(redactor.redact(&text), "\"key: [REDACTED]!\"");
    let ascii = text.replace('é', "\\u00e9");
    assert_eq!(redactor.redact(&ascii), "\"key: [REDACTED]!\"");
    assert_eq!(redactor.redact(secret), REDACTED);
}

#[test]
fn a_secret_is_found_as_each_usual_encoder_of_json_writes_it() {
    let redactor = redactor(&["a/b+c=\"é<\n", "k\\"]);
    for form in [
        r#"a/b+c=\"é<\n"#,
        r#"a/b+c=\"\u00e9<\n"#,
        r#"a\/b+c=\"\u00e9<\n"#,
        r#"a\/b+c=\"é<\n"#,
        r#"a/b+c=\"é\u003c\n"#,
        r#"a/b+c\u003d\"é\u003c\n"#,
        r#"a/b\u002Bc=\u0022\u00E9\u003C\n"#,
        r#"a/b+c=\\\"é<\\n"#,
        r#"a/b+c=\\\"\\u00e9<\\n"#,
        r"k\\",
        r"k\\\\",
    ] {
        assert_eq!(redactor.redact(&format!("x{form}y")), "x[REDACTED]y", "{form}");
    }
}

#[test]
fn a_secret_that_is_a_number_in_json_is_found_and_counts_are_left_alone() {
    let redactor = redactor(&["4111111111111111", "1", "200"]);
    let mut value = serde_json::json!({"card": 4_111_111_111_111_111_u64, "of": [1, 200, 4_111]});
    redactor.redact_json(&mut value);
    assert_eq!(value, serde_json::json!({"card": REDACTED, "of": [1, 200, 4_111]}));
}

#[test]
fn a_secret_that_is_torn_over_texts_is_taken_out_of_all_of_them() {
    let redactor = redactor(&["hunter2", "abc"]);
    let pieces = |pieces: &[&str]| {
        redactor.redact_pieces(&pieces.iter().map(|piece| (*piece).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(pieces(&["it is hun", "ter2, abc", ""]), ["it is [REDACTED]", ", [REDACTED]", ""]);
    assert_eq!(pieces(&["h", "unte", "r2hunter", "2"]), ["[REDACTED]", "", "[REDACTED]", ""]);
    assert_eq!(pieces(&["hun", "ter"]), ["hun", "ter"]);
}

#[test]
fn many_secrets_and_hard_ones_take_one_pass() {
    let started = std::time::Instant::now();
    let mut secrets: Vec<String> = (0..20_000).map(|number| format!("secret-number-{number}")).collect();
    // At each position of the text this secret begins to match, but it never matches whole.
    secrets.push(format!("{}b", "a".repeat(100_000)));
    let mut redactor = Redactor::new(secrets);
    let text = format!("{} secret-number-77 ", "a".repeat(50_000)).repeat(40);
    let mut out = redactor.push(text.as_bytes());
    out.extend(redactor.flush());
    assert_eq!(String::from_utf8(out).unwrap().matches(REDACTED).count(), 40);
    // A quadratic algorithm would take minutes. A linear one takes a hundredth of the limit.
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn an_empty_secret_is_no_secret() {
    let mut redactor = redactor(&["", ""]);
    assert!(redactor.is_empty());
    assert_eq!(redactor.push_text("abc"), "abc");
}

fn secrets() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abé]{0,6}", 0..5)
}

proptest! {
    #[test]
    fn any_split_of_bytes_gives_what_a_whole_replacement_gives(
        secrets in secrets(),
        text in "[abcé]{0,60}",
        cuts in prop::collection::vec(0usize..80, 0..8),
    ) {
        let mut redactor = Redactor::new(secrets.iter().map(String::as_str));
        let longest = secrets.iter().map(String::len).max().unwrap_or(0);
        let expected = naive(&secrets, &text);
        prop_assert_eq!(redactor.redact(&text), expected.as_str());
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.push(0);
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut out = Vec::new();
        for pair in cuts.windows(2) {
            out.extend(redactor.push(&bytes[pair[0]..pair[1]]));
            prop_assert!(redactor.held.len() < longest.max(1));
        }
        out.extend(redactor.flush());
        prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn text_comes_out_in_whole_characters(secrets in secrets(), chunks in prop::collection::vec("[abcé]{0,9}", 0..9)) {
        let mut redactor = Redactor::new(secrets.iter().map(String::as_str));
        let mut out = String::new();
        for chunk in &chunks {
            out.push_str(&redactor.push_text(chunk));
        }
        out.push_str(&redactor.flush_text());
        prop_assert_eq!(out, naive(&secrets, &chunks.concat()));
    }

    #[test]
    fn any_bytes_are_taken(secrets in secrets(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut redactor = Redactor::new(secrets);
        redactor.push(&bytes);
        redactor.flush();
    }
}
