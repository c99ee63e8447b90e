//! Repairs the JSON that models write. PURE.

/// Repairs the object or array at the beginning of the text; returns it with the number of bytes that were read. Repaired faults
/// are commas before a closing bracket, comments, bare control characters in strings, and Python's True, False and None. The
/// object is `None` when its end is missing or a bracket does not match: missing content is never invented.
pub(super) fn repair(text: &str) -> (Option<String>, usize) {
    let mut rest = text;
    let mended = mend(&mut rest);
    (mended, text.len() - rest.len())
}

fn mend(rest: &mut &str) -> Option<String> {
    let mut out = String::new();
    let mut open = Vec::new();
    loop {
        let first = rest.chars().next()?;
        let mut length = first.len_utf8();
        match first {
            '{' | '[' => {
                open.push(if first == '{' { '}' } else { ']' });
                out.push(first);
            }
            '}' | ']' => {
                if open.pop() != Some(first) {
                    return None;
                }
                let end = out.trim_end().len();
                out.truncate(end);
                if out.ends_with(',') {
                    out.pop();
                }
                out.push(first);
                if open.is_empty() {
                    *rest = &rest[length..];
                    return Some(out);
                }
            }
            '"' => length = copy_string(rest, &mut out)?,
            '/' if rest.starts_with("//") => length = comment(rest, rest.find('\n')?)?,
            '/' if rest.starts_with("/*") => length = comment(rest, rest.find("*/")? + 2)?,
            'A'..='Z' | 'a'..='z' => {
                length = rest.find(|character: char| !character.is_ascii_alphanumeric())?;
                out.push_str(match &rest[..length] {
                    "True" => "true",
                    "False" => "false",
                    "None" => "null",
                    word => word,
                });
            }
            _ => out.push(first),
        }
        *rest = &rest[length..];
    }
}

/// The length of a comment. With half a pair of quotes it may be a text whose own quote was lost.
fn comment(text: &str, length: usize) -> Option<usize> {
    (text[..length].matches('"').count().is_multiple_of(2)).then_some(length)
}

/// Copies the string at the beginning of the text and escapes its control characters. Returns the number of bytes read.
fn copy_string(text: &str, out: &mut String) -> Option<usize> {
    out.push('"');
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                return Some(at + 1);
            }
            '\\' => {
                out.push('\\');
                out.push(characters.next()?.1);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn mended(text: &str) -> Option<Value> {
        ground::json::read(&repair(text).0?).ok()
    }

    #[test]
    fn mends_the_usual_faults() {
        let text = "{\n  // first\n  \"a\": [1, 2, /* two */ ],\n  \"b\": True, \"c\": None,\n}";
        assert_eq!(mended(text).unwrap(), serde_json::json!({ "a": [1, 2], "b": true, "c": null }));
    }

    #[test]
    fn never_touches_the_inside_of_a_string_but_for_bare_control_characters() {
        let text = "{\"a\": \"True, // no comment ,} \\\" 'x'\", \"b\": \"two\nlines\ttab\u{1}\"}";
        let value = mended(text).unwrap();
        assert_eq!(value["a"], "True, // no comment ,} \" 'x'");
        assert_eq!(value["b"], "two\nlines\ttab\u{1}");
    }

    #[test]
    fn makes_nothing_up() {
        for text in
            ["{\"a\": [1, 2", "{\"a\": \"cut", "{\"a\": 1]", "[1, 2}", "", "{ // open", "{ /* open", "{\"a\\"]
        {
            assert_eq!(repair(text).0, None, "{text}");
        }
    }

    #[test]
    fn tells_where_the_value_ends() {
        let (mended, read) = repair("{\"é\": 1,} and more }");
        assert_eq!((mended.as_deref(), read), (Some("{\"é\": 1}"), "{\"é\": 1,}".len()));
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "[\\[\\]{}\",:/*\\\\a1é\n ]{0,80}") {
            let (_, read) = repair(&text);
            prop_assert!(text.is_char_boundary(read));
        }
    }
}
