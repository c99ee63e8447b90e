//! PURE. Selects the lines that are JSON objects of a wanted type. Most other lines are rejected without parsing.

use crate::json::{Index, Line};
use crate::line::without_mark;
use memchr::{memchr, memmem, memrchr};

/// Picks the JSON objects out of blocks of lines.
#[derive(Debug)]
pub struct JsonFilter {
    types: Option<Vec<String>>,
    /// Texts of which a line with a wanted type contains at least one. `None` when a wanted name can be written in too many ways.
    needles: Option<Vec<memmem::Finder<'static>>>,
    /// Lines that are no objects are passed on as well, for a reader that is told of them.
    passes_others: bool,
}

impl JsonFilter {
    /// Selects objects whose top-level `type` is in the list, or all objects when there is no list.
    pub fn new(types: Option<Vec<String>>) -> Self {
        let needles = types.as_ref().and_then(|types| {
            let plain =
                |name: &String| name.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\/".contains(&byte));
            types.iter().all(plain).then(|| {
                let mut needles: Vec<_> = types
                    .iter()
                    .map(|name| memmem::Finder::new(&format!("\"{name}\"")).into_owned())
                    .collect();
                // An escape is the only other way to write such a name, or the word `type` itself.
                needles.push(memmem::Finder::new("\\u").into_owned());
                needles
            })
        });
        JsonFilter { types, needles, passes_others: false }
    }

    /// The same, and lines that are no objects are passed on among the others.
    pub fn passing_others(mut self) -> Self {
        self.passes_others = true;
        self
    }

    /// Appends the wanted lines of a block to `wanted`, each ended by `\n`. Returns the number of lines that are no objects.
    pub fn select(&self, block: &[u8], wanted: &mut Vec<u8>) -> u64 {
        if self.passes_others {
            return crate::line::lines_of(block).map(|line| self.pass(line, wanted)).sum();
        }
        match &self.needles {
            None => crate::line::lines_of(block).for_each(|line| self.select_line(line, wanted)),
            Some(needles) => {
                let mut candidates: Vec<(usize, usize)> = Vec::new();
                for needle in needles {
                    let mut from = 0;
                    while let Some(at) = block.get(from..).and_then(|rest| needle.find(rest)) {
                        let start = memrchr(b'\n', &block[..from + at]).map_or(0, |border| border + 1);
                        let end = memchr(b'\n', &block[from + at..])
                            .map_or(block.len(), |length| from + at + length);
                        candidates.push((start, end));
                        from = end + 1;
                    }
                }
                candidates.sort_unstable();
                candidates.dedup();
                for (start, end) in candidates {
                    self.select_line(&block[start..end], wanted);
                }
            }
        }
        crate::line::lines_of(block).filter(|line| !self.may_be_object(line)).count() as u64
    }

    /// One line, and whether it is no object.
    fn pass(&self, line: &[u8], wanted: &mut Vec<u8>) -> u64 {
        if self.may_be_object(line) {
            self.select_line(line, wanted);
            return 0;
        }
        wanted.extend_from_slice(crate::text::decode(line.strip_suffix(b"\r").unwrap_or(line)).as_bytes());
        wanted.push(b'\n');
        1
    }

    /// Whether a line looks like an object, or is blank. What is passed on is parsed by JavaScript, which sees whether it is one.
    fn may_be_object(&self, line: &[u8]) -> bool {
        match without_mark(line).trim_ascii() {
            [] => true,
            [b'{', ..] if self.types.is_none() => true,
            [b'{', .., b'}'] => true,
            _ => false,
        }
    }

    fn select_line(&self, line: &[u8], wanted: &mut Vec<u8>) {
        let line = without_mark(line.strip_suffix(b"\r").unwrap_or(line));
        if line.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return;
        }
        let text = crate::text::decode(line);
        if let Some(types) = &self.types {
            // JSON.parse takes a line with bare control characters or unknown escapes no more than this.
            let mut index = Index::default();
            let found = index.read(text.trim_ascii().as_bytes()).filter(Line::is_strict);
            let kind = found.as_ref().and_then(|line| line.text("type"));
            if !kind.is_some_and(|kind| types.iter().any(|name| *name == kind)) {
                return;
            }
        }
        wanted.extend_from_slice(text.as_bytes());
        wanted.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn select(types: Option<&[&str]>, block: &str) -> String {
        let types = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
        let mut wanted = Vec::new();
        JsonFilter::new(types).select(block.as_bytes(), &mut wanted);
        String::from_utf8(wanted).expect("text")
    }

    #[test]
    fn picks_objects_of_the_wanted_top_level_type() {
        let block = concat!(
            "{\"type\":\"result\",\"n\":1}\n",
            "{\"type\":\"delta\",\"inner\":{\"type\":\"result\"}}\n",
            "{\"type\":\"delta\",\"text\":\"say \\\"result\\\"\"}\n",
            "  {\"n\":2, \"type\" : \"result\"}\r\n",
            "{\"type\":\"res\\u0075lt\"}\n",
            "{\"type\":\"a\",\"type\":\"result\"}\n",
            "{\"type\":[\"result\"]}\n",
            "{\"type\":\"result\"} trailing\n",
            "{\"type\":\"result\"\n",
            "[{\"type\":\"result\"}]\n",
            "\"result\"\n",
        );
        assert_eq!(
            select(Some(&["result"]), block),
            "{\"type\":\"result\",\"n\":1}\n  {\"n\":2, \"type\" : \"result\"}\n{\"type\":\"res\\u0075lt\"}\n{\"type\":\"a\",\"type\":\"result\"}\n"
        );
    }

    #[test]
    fn counts_the_lines_that_are_no_objects() {
        let count = |types: Option<&[&str]>, block: &str| {
            let types = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
            JsonFilter::new(types).select(block.as_bytes(), &mut Vec::new())
        };
        let block = "{\"type\":\"a\"}\n{\"type\":\"b\"}\nwords\n[1]\n\n  \n{\"torn\": \n {} \r\n{\n";
        assert_eq!(count(Some(&["a"]), block), 4);
        // JavaScript counts the torn ones, which it is given.
        assert_eq!(count(None, block), 2);
    }

    #[test]
    fn a_byte_order_mark_before_an_object_is_neither_part_of_it_nor_noise() {
        let block = "\u{feff}{\"type\":\"a\"}\r\n\u{feff}words\n";
        for types in [None, Some(&["a"][..])] {
            assert_eq!(select(types, block), "{\"type\":\"a\"}\n", "{types:?}");
            let names = types.map(|types| types.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(JsonFilter::new(names).select(block.as_bytes(), &mut Vec::new()), 1);
        }
    }

    #[test]
    fn without_types_takes_every_line_that_may_be_an_object() {
        assert_eq!(select(None, "{\"a\":1}\n123\nnull\n[[[[\n\n {}\n"), "{\"a\":1}\n {}\n");
    }

    #[test]
    fn a_name_that_can_be_written_in_many_ways_is_found_in_all() {
        assert_eq!(select(Some(&["a/b"]), "{\"type\":\"a\\/b\"}\n{\"type\":\"a/b\"}\n").lines().count(), 2);
        assert_eq!(select(Some(&["é"]), "{\"type\":\"\\u00e9\"}\n{\"type\":\"é\"}\n").lines().count(), 2);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_text_like_any_other() {
        let block = "{\"type\":\"x\",\"text\":\"\\ud83d\"}\n";
        assert_eq!(select(Some(&["x"]), block), block);
    }

    #[test]
    fn what_json_parse_takes_is_taken() {
        for line in [
            r#"{"\ud83d":1,"type":"x"}"#,
            r#"{"type":1e400,"type":"x"}"#,
            r#"{"type":"\udc00","type":"x"}"#,
            r#"{"type":[1],"n":-1e999,"type":"x"}"#,
        ] {
            let block = format!("{line}\n");
            assert_eq!(select(Some(&["x"]), &block), block);
        }
        assert_eq!(select(Some(&["x"]), "{\"type\":\"x\",\"type\":\"\\ud83d\"}\n{\"type\":[120]}\n"), "");
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let line = format!("{{\"type\":\"x\",\"a\":{}{}}}\n", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(select(Some(&["x"]), &line).len(), line.len());
        assert_eq!(select(Some(&["x"]), &format!("{{\"type\":\"x\",\"a\":{}", "[".repeat(200_000))), "");
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser_that_knows_no_short_cut(lines in prop::collection::vec("[ {}\\[\\]\"\\\\:,tabu0-9yperes-]{0,40}|\\{\"type\":\"(a|b|c)\"\\}", 0..8)) {
            let block: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let expected: String = lines.iter().filter(|line| {
                crate::json::read_own::<serde_json::Value>(line).ok()
                    .is_some_and(|value| value.get("type").is_some_and(|name| name == "a" || name == "b"))
            }).map(|line| format!("{line}\n")).collect();
            prop_assert_eq!(select(Some(&["a", "b"]), &block), expected);
        }
    }
}
