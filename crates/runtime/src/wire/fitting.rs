//! PURE arithmetic of frames: the length of a text as JSON, the places where it can be cut, and the parts kept of a long text.

use ground::line::left_out;
/// Longest serialised frame that is sent, in bytes. Some clients refuse 1 MiB, and the server can't tell which.
pub const MAX_FRAME_BYTES: usize = 1_000_000;

/// Text of one streamed frame. Small enough that a queue of them is short, large enough that framing costs nothing.
pub const STREAM_TEXT_BYTES: usize = 192 << 10;

/// Bytes that a character takes inside a JSON string, as serde_json writes it.
fn escaped_width(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// Bytes that a text takes inside a JSON string, quotes not counted.
pub fn escaped_len(text: &str) -> usize {
    let short_escapes = |byte: u8| matches!(byte, b'"' | b'\\' | 8 | 12 | b'\n' | b'\r' | b'\t');
    text.bytes()
        .map(|byte| {
            if short_escapes(byte) {
                2
            } else if byte < 0x20 {
                6
            } else {
                1
            }
        })
        .sum()
}

/// The longest start of a text that takes at most `budget` bytes as JSON; at least one character, so that cutting ends.
pub fn split_at_budget(text: &str, budget: usize) -> (&str, &str) {
    // No character takes more than six bytes for each of its own: most texts that may fit need no counting character by character.
    if text.len() <= budget {
        let escaped = text.bytes().filter(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\').count();
        if text.len() + 5 * escaped <= budget {
            return (text, "");
        }
    }
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += escaped_width(character);
        if used > budget && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// The pieces of a text, each at most `budget` bytes as JSON. An empty text has no pieces.
pub fn pieces(text: &str, budget: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, remainder) = split_at_budget(rest, budget);
        rest = remainder;
        Some(piece)
    })
}

/// Head and tail of a text with a line between that says what is missing; `true` when something is.
pub fn head_and_tail(text: &str, budget: usize) -> (String, bool) {
    // As JSON no text is shorter than it is.
    if text.len() <= budget && escaped_len(text) <= budget {
        return (text.to_owned(), false);
    }
    let notice_room = 64;
    let half = budget.saturating_sub(notice_room) / 2;
    let (head, _) = split_at_budget(text, half.max(1));
    let mut used = 0;
    let mut start = text.len();
    for (at, character) in text.char_indices().rev() {
        used += escaped_width(character);
        if used > half || at < head.len() {
            break;
        }
        start = at;
    }
    (format!("{head}\n{}\n{}", left_out(start - head.len()), &text[start..]), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_json(text: &str) -> usize {
        serde_json::to_string(text).unwrap().len() - 2
    }

    #[test]
    fn the_length_is_the_one_that_serde_writes() {
        let all: String = (0..0x250).filter_map(char::from_u32).chain("é漢🐑".chars()).collect();
        assert_eq!(escaped_len(&all), as_json(&all));
    }

    #[test]
    fn rule_3_pieces_fit_the_budget_and_lose_nothing() {
        for text in ["plain text ".repeat(200), "\u{1}".repeat(900), "🐑é\"\\\n".repeat(300)] {
            let cut: Vec<&str> = pieces(&text, 100).collect();
            assert_eq!(cut.concat(), text);
            assert!(cut.iter().all(|piece| as_json(piece) <= 100), "{cut:?}");
        }
        assert_eq!(pieces("", 10).count(), 0);
        assert_eq!(
            pieces("🐑🐑", 1).collect::<Vec<_>>(),
            ["🐑", "🐑"],
            "a budget that is too small still ends"
        );
    }

    #[test]
    fn rule_3_of_too_much_the_head_and_the_tail_are_kept() {
        let text = format!("first{}last", "x".repeat(10_000));
        let (kept, truncated) = head_and_tail(&text, 500);
        assert!(truncated && kept.starts_with("first") && kept.ends_with("last"), "{kept}");
        assert!(as_json(&kept) <= 500, "{}", as_json(&kept));
        assert_eq!(head_and_tail("short", 500), ("short".to_owned(), false));
    }
}
