//! PURE: what a shell runs: a text, a file, or what it reads on stdin.

use super::super::script::{GAP, Word};
use super::{AT_RUN_TIME, Commands, Input};

impl Commands {
    /// A program given to the one that interprets it: `bash /usr/bin/yarn x`. A shell looks for such a file on PATH, too.
    pub(super) fn interpreted(&mut self, words: &[Word], input: &Input<'_>, depth: usize) {
        let Some((program, args)) = words.split_first() else { return };
        let name = program.text.rsplit('/').next().unwrap_or_default();
        if !name.contains(GAP) {
            let program = Word { text: name.to_owned(), splits: false, ..program.clone() };
            let words: Vec<Word> = [program].into_iter().chain(args.iter().cloned()).collect();
            self.words(&words, input, depth + 1);
        } else if !name.contains('.') && name.chars().any(|letter| letter != GAP) {
            // A script by a variable is as usual as one by its name, and most have an ending.
            self.add(name, args);
        }
    }

    /// A file with a script can't be looked into; a program's output can't be known.
    pub(super) fn file(&mut self, word: Option<&Word>) {
        if word.is_none_or(is_stream) {
            self.lose(AT_RUN_TIME);
        }
    }

    pub(super) fn shell(&mut self, args: &[Word], input: &Input<'_>, depth: usize) {
        let (mut has_text, mut has_stdin, mut at) = (false, false, 0);
        while let Some(word) = args.get(at) {
            let text = word.text.as_str();
            if matches!(text, "--version" | "--help") {
                return;
            }
            if word.splits && text.starts_with(GAP) {
                return self.lose(AT_RUN_TIME);
            }
            if !text.starts_with(['-', '+']) || text.len() < 2 {
                break;
            }
            at += 1;
            if let Some(long) = text.strip_prefix("--") {
                if long.is_empty() {
                    break;
                }
                has_text |= long == "command";
                at += usize::from(matches!(long, "rcfile" | "init-file"));
            } else {
                has_text |= text.starts_with('-') && text.contains('c');
                has_stdin |= text.contains('s');
                at += usize::from(text.ends_with(['o', 'O']));
            }
        }
        let rest = args.get(at..).unwrap_or_default();
        match rest.first() {
            Some(text) if has_text => self.text(&text.text, depth + 1),
            file @ Some(_) if !has_stdin => {
                self.file(file);
                self.interpreted(rest, input, depth);
            }
            _ if input.bodies.is_empty() && input.reads_file => {}
            _ if input.bodies.is_empty() => self.lose(AT_RUN_TIME),
            _ => input.bodies.iter().for_each(|body| self.text(&body.text, depth + 1)),
        }
    }
}

pub(super) fn is_stream(word: &Word) -> bool {
    word.text == "-"
        || matches!(word.text.split('/').nth(1), Some("dev" | "proc"))
        || (word.splits && word.text.starts_with(GAP))
}
