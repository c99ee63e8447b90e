//! A search for texts in a stream of pieces, over their borders. PURE.

use bytes::Bytes;
use memchr::memmem;

/// A text to be found, and what takes its place.
#[derive(Clone)]
pub(crate) struct Needle {
    pub text: Vec<u8>,
    /// `None`: the text must not pass.
    pub replacement: Option<Vec<u8>>,
}

/// A text was found that must not pass. Nothing of it was handed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found;

/// Searches pieces as they come. An end of a piece that may be the beginning of a text is held back until more is known.
pub(crate) struct Search {
    needles: Vec<Needle>,
    held: Vec<u8>,
}

impl Search {
    pub(crate) fn new(needles: Vec<Needle>) -> Search {
        Search { needles, held: Vec::new() }
    }

    pub(crate) fn push(&mut self, piece: Bytes) -> Result<Bytes, Found> {
        if self.needles.is_empty() {
            return Ok(piece);
        }
        let text = if self.held.is_empty() {
            piece
        } else {
            let mut text = std::mem::take(&mut self.held);
            text.extend_from_slice(&piece);
            Bytes::from(text)
        };
        let open_at = text.len() - self.open_end(&text);
        let (passed, done) = self.replace(&text, open_at)?;
        self.held = text.slice(done.max(open_at)..).to_vec();
        Ok(passed)
    }

    /// The bytes that were held back: nothing more comes.
    pub(crate) fn end(&mut self) -> Result<Bytes, Found> {
        let text = Bytes::from(std::mem::take(&mut self.held));
        Ok(self.replace(&text, text.len())?.0)
    }

    /// The part of the text before `open_at`, with replacements, and where it ends. A text that begins before it may end behind it.
    fn replace(&self, text: &Bytes, open_at: usize) -> Result<(Bytes, usize), Found> {
        let (mut passed, mut at) = (Vec::new(), 0);
        while let Some((start, needle)) = self.next(text.get(at..).unwrap_or_default()) {
            if at + start >= open_at {
                // A longer one may begin here, or before.
                break;
            }
            let Some(replacement) = &needle.replacement else { return Err(Found) };
            passed.extend_from_slice(text.get(at..at + start).unwrap_or_default());
            passed.extend_from_slice(replacement);
            at += start + needle.text.len();
        }
        let rest = text.slice(at..open_at.max(at));
        if at == 0 {
            return Ok((rest, open_at));
        }
        passed.extend_from_slice(&rest);
        Ok((passed.into(), open_at.max(at)))
    }

    /// The first text that occurs, and where.
    fn next(&self, text: &[u8]) -> Option<(usize, &Needle)> {
        let first = |needle: &Needle| memmem::find(text, &needle.text);
        let found = self.needles.iter().filter_map(|needle| Some((first(needle)?, needle)));
        // If two begin at one place, the longer one is meant.
        found.min_by_key(|(start, needle)| (*start, usize::MAX - needle.text.len()))
    }

    /// How many bytes at the end may be the beginning of a text.
    fn open_end(&self, text: &[u8]) -> usize {
        let longest = self.needles.iter().map(|needle| needle.text.len() - 1).max().unwrap_or_default();
        let is_open = |length: &usize| {
            let end = text.get(text.len() - length..).unwrap_or_default();
            self.needles.iter().any(|needle| needle.text.len() > *length && needle.text.starts_with(end))
        };
        (1..=longest.min(text.len())).rev().find(is_open).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replacing(pairs: &[(&str, &str)]) -> Search {
        let needle = |(text, other): &(&str, &str)| Needle {
            text: text.as_bytes().to_vec(),
            replacement: Some(other.as_bytes().to_vec()),
        };
        Search::new(pairs.iter().map(needle).collect())
    }

    fn refusing(text: &str) -> Search {
        Search::new(vec![Needle { text: text.as_bytes().to_vec(), replacement: None }])
    }

    fn all(search: &mut Search, pieces: &[&str]) -> Result<String, Found> {
        let mut passed = Vec::new();
        for piece in pieces {
            passed.extend_from_slice(&search.push(Bytes::copy_from_slice(piece.as_bytes()))?);
        }
        passed.extend_from_slice(&search.end()?);
        Ok(String::from_utf8(passed).unwrap())
    }

    #[test]
    fn a_text_is_found_over_the_borders_of_pieces() {
        for (pieces, expected) in [
            (&["a KEY b"][..], "a *** b"),
            (&["a K", "E", "Y b"], "a *** b"),
            (&["KEKEY"], "KE***"),
            (&["KEYKEY", "KE"], "******KE"),
            (&["", "KE", ""], "KE"),
            (&["nothing"], "nothing"),
        ] {
            assert_eq!(all(&mut replacing(&[("KEY", "***")]), pieces).unwrap(), expected, "{pieces:?}");
        }
        assert_eq!(all(&mut replacing(&[("KEY", "1"), ("KEYS", "2")]), &["KEYS KEY"]).unwrap(), "2 1");
        assert_eq!(all(&mut replacing(&[]), &["KEY"]).unwrap(), "KEY");
        // One that begins with another, in pieces.
        let both = [("KEY", "1"), ("KEYSTONE", "2")];
        for (pieces, expected) in [
            (&["KEY", "STONE."][..], "2."),
            (&["aKEYST", "ONEKEY"], "a21"),
            (&["KEYST", "KEY"], "1ST1"),
            (&["KEY"], "1"),
        ] {
            assert_eq!(all(&mut replacing(&both), pieces).unwrap(), expected, "{pieces:?}");
        }
    }

    #[test]
    fn nothing_of_a_refused_text_passes() {
        let mut search = refusing("KEY");
        assert_eq!(search.push("a KE".into()).unwrap(), "a ");
        assert_eq!(search.push("Y".into()), Err(Found));
        let mut prefixed =
            Search::new(["KEY", "KEYS"].map(|text| Needle { text: text.into(), replacement: None }).into());
        assert_eq!(prefixed.push("a KEY".into()).unwrap(), "a ");
        assert_eq!(prefixed.end(), Err(Found));
    }

    #[test]
    fn only_what_may_begin_a_text_waits() {
        let mut search = replacing(&[("KEY", "***")]);
        assert_eq!(search.push("data: {}\n\n".into()).unwrap(), "data: {}\n\n");
        assert_eq!(search.push("data: K".into()).unwrap(), "data: ");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "[KEYab]{0,40}", cuts in prop::collection::vec(0usize..40, 0..5)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut from = 0;
            let pieces: Vec<&str> = cuts.iter().map(|to| { let piece = &text[from..*to]; from = *to; piece }).collect();
            let passed = all(&mut replacing(&[("KEY", "---")]), &pieces).unwrap();
            prop_assert_eq!(passed, text.replace("KEY", "---"));
            prop_assert_eq!(all(&mut refusing("KEY"), &pieces).is_err(), text.contains("KEY"));
            let both = all(&mut replacing(&[("KEY", "-"), ("KEYab", "+")]), &pieces).unwrap();
            prop_assert_eq!(both, text.replace("KEYab", "+").replace("KEY", "-"));
        }
    }
}
