//! A search for texts in a stream of pieces, over their borders. PURE.

use bytes::Bytes;
use ground::words::Words;
use std::collections::HashMap;
use std::sync::Arc;

/// A text to be found, and what takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Needle {
    pub text: Vec<u8>,
    /// `None`: the text must not pass.
    pub replacement: Option<Vec<u8>>,
}

/// A text was found that must not pass. Nothing of it was handed on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found;

/// All texts that are searched for at once: the time is that of the bytes alone. Of two that begin at one place the longer one is meant.
#[derive(Debug)]
pub(crate) struct Texts {
    words: Words,
    replacements: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Texts {
    pub(crate) fn new(needles: impl IntoIterator<Item = Needle>) -> Arc<Texts> {
        let replacements: HashMap<_, _> =
            needles.into_iter().map(|needle| (needle.text, needle.replacement)).collect();
        Arc::new(Texts { words: Words::new(replacements.keys().cloned()), replacements })
    }

    /// These, and one more.
    pub(crate) fn with(&self, needle: Needle) -> Arc<Texts> {
        let own = self
            .replacements
            .iter()
            .map(|(text, replacement)| Needle { text: text.clone(), replacement: replacement.clone() });
        Texts::new(own.chain([needle]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// A whole text with its replacements; `None` if there are none, or if the text must not pass.
    pub(crate) fn replaced(&self, text: &[u8]) -> Option<Vec<u8>> {
        let found = self.words.find(text, true);
        if found.words.is_empty() {
            return None;
        }
        let (passed, _) = self.pass(&Bytes::copy_from_slice(text), true).ok()?;
        Some(passed.into())
    }

    /// The part of the text that is decided, with replacements, and where it ends.
    fn pass(&self, text: &Bytes, is_end: bool) -> Result<(Bytes, usize), Found> {
        let found = self.words.find(text, is_end);
        let part = |from, to| text.get(from..to).unwrap_or_default();
        if found.words.is_empty() {
            return Ok((text.slice(..found.decided), found.decided));
        }
        let (mut passed, mut at) = (Vec::with_capacity(text.len()), 0);
        for word in found.words {
            let replacement = self.replacements.get(part(word.start, word.end)).and_then(Option::as_ref);
            let Some(replacement) = replacement else { return Err(Found) };
            passed.extend_from_slice(part(at, word.start));
            passed.extend_from_slice(replacement);
            at = word.end;
        }
        passed.extend_from_slice(part(at, found.decided));
        Ok((passed.into(), found.decided))
    }
}

/// Searches pieces as they come. An end of a piece that may be the beginning of a text is held back until more is known.
pub(crate) struct Search {
    texts: Arc<Texts>,
    held: Vec<u8>,
}

impl Search {
    pub(crate) fn new(texts: Arc<Texts>) -> Search {
        Search { texts, held: Vec::new() }
    }

    pub(crate) fn push(&mut self, piece: Bytes) -> Result<Bytes, Found> {
        if self.texts.is_empty() {
            return Ok(piece);
        }
        let text = if self.held.is_empty() {
            piece
        } else {
            let mut text = std::mem::take(&mut self.held);
            text.extend_from_slice(&piece);
            Bytes::from(text)
        };
        let (passed, decided) = self.texts.pass(&text, false)?;
        self.held = text.slice(decided..).to_vec();
        Ok(passed)
    }

    /// The bytes that were held back: nothing more comes.
    pub(crate) fn end(&mut self) -> Result<Bytes, Found> {
        let text = Bytes::from(std::mem::take(&mut self.held));
        Ok(self.texts.pass(&text, true)?.0)
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
        Search::new(Texts::new(pairs.iter().map(needle)))
    }

    fn refusing(text: &str) -> Search {
        Search::new(Texts::new([Needle { text: text.as_bytes().to_vec(), replacement: None }]))
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
        let refusals = ["KEY", "KEYS"].map(|text| Needle { text: text.into(), replacement: None });
        let mut prefixed = Search::new(Texts::new(refusals));
        assert_eq!(prefixed.push("a KEY".into()).unwrap(), "a ");
        assert_eq!(prefixed.end(), Err(Found));
    }

    #[test]
    fn only_what_may_begin_a_text_waits() {
        let mut search = replacing(&[("KEY", "***")]);
        assert_eq!(search.push("data: {}\n\n".into()).unwrap(), "data: {}\n\n");
        assert_eq!(search.push("data: K".into()).unwrap(), "data: ");
    }

    #[test]
    fn the_time_is_that_of_the_bytes_whatever_the_texts() {
        // An answer that repeats one secret, beside others that begin alike.
        let repeated = "sk-ant-api03-AAAAAAAA".repeat(100_000);
        let took = |texts: usize| {
            let others = (0..texts).map(|number| Needle {
                text: format!("sk-ant-api03-AAAAAAAB{number}").into(),
                replacement: Some(b"-".into()),
            });
            let own = Needle { text: "sk-ant-api03-AAAAAAAA".into(), replacement: Some(b"+".into()) };
            let mut search = Search::new(Texts::new(others.chain([own])));
            let begin = std::time::Instant::now();
            let mut passed = 0;
            for piece in Bytes::from(repeated.clone()).chunks(400_000) {
                passed += search.push(Bytes::copy_from_slice(piece)).unwrap().len();
            }
            assert_eq!(passed + search.end().unwrap().len(), 100_000);
            begin.elapsed()
        };
        // A search of the rest for each text and each hit took minutes here.
        let (one, many) = (took(1), took(1000));
        assert!(many < one * 20 + std::time::Duration::from_secs(1), "{one:?} {many:?}");
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
