//! PURE: the last lines that a program printed before it fell silent: what it waits for, as a rule.

use super::failure::without_colors;
use crate::harness::clip::clip_to;
use std::collections::VecDeque;

const MAX_LINES: usize = 3;
const MAX_LINE_BYTES: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct LastLines(VecDeque<String>);

impl LastLines {
    pub(crate) fn add(&mut self, line: &str) {
        let plain = without_colors(line);
        let plain = plain.trim_matches(|letter: char| letter.is_whitespace() || letter.is_control());
        if plain.is_empty() {
            return;
        }
        if self.0.len() >= MAX_LINES {
            self.0.pop_front();
        }
        self.0.push_back(clip_to(plain, MAX_LINE_BYTES).into_owned());
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The lines as one quotation.
    pub(crate) fn told(&self) -> Option<String> {
        let lines: Vec<&str> = self.0.iter().map(String::as_str).collect();
        (!lines.is_empty()).then(|| format!("{:?}", lines.join(" / ")))
    }

    /// Those of a whole text.
    pub(crate) fn of(text: &str) -> LastLines {
        let mut last = LastLines::default();
        text.lines().for_each(|line| last.add(line));
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_quoted_without_colours_and_blanks() {
        let text = "one\n\u{1b}[31mtwo\u{1b}[0m\r\n\n  \nthree\nDo you trust this? [y/N] ";
        assert_eq!(LastLines::of(text).told().unwrap(), r#""two / three / Do you trust this? [y/N]""#);
        assert_eq!(LastLines::of(" \n").told(), None);
    }
}
