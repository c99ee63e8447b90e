//! PURE: shells that a program opens where it is given no command, such as `sudo -s`, `ssh host` and `chroot /`. They read stdin.

use super::super::script::Word;
use super::super::starter::{OPENERS, OPENING_WORDS, OPERANDS, RUNNERS, STARTERS, has};
use super::{AT_RUN_TIME, Commands, Input};

impl Commands {
    pub(super) fn opened(&mut self, name: &str, args: &[Word], input: &Input<'_>, depth: usize) {
        let has_input = !input.bodies.is_empty() || (input.is_piped && !input.reads_file);
        if !has_input || !self.opens(name, args) {
            return;
        }
        if input.bodies.is_empty() {
            self.lose(AT_RUN_TIME);
        }
        input.bodies.iter().for_each(|body| self.text(&body.text, depth + 1));
    }

    fn opens(&mut self, name: &str, args: &[Word]) -> bool {
        let has_letter = |letters: [char; 2]| {
            args.iter().any(|word| match word.text.strip_prefix('-') {
                Some(long) if long.starts_with('-') => has("--shell --login", &word.text),
                Some(cluster) => cluster.contains(letters),
                None => false,
            })
        };
        match name {
            "sudo" | "doas" if !has_letter(['s', 'i']) => return false,
            "systemd-run" if !has_letter(['S', 'S']) => return false,
            "docker" | "podman" | "nerdctl" if !args.iter().any(|word| word.text == "run") => return false,
            // The command is the value of an option, which is read elsewhere.
            "su" | "runuser" | "script" | "nix-shell" | "newgrp" => {
                let gives = |word: &Word| {
                    let option = word.text.split('=').next().unwrap_or_default();
                    has("--command --session-command --run --", option)
                        || (!option.starts_with("--") && option.starts_with('-') && option.contains('c'))
                };
                return !args.iter().any(gives);
            }
            _ => {}
        }
        let starter = STARTERS.iter().find(|(names, ..)| has(names, name));
        for (_, operands, valued) in OPENERS.iter().filter(|(names, ..)| has(names, name)) {
            let valued = valued.or(starter.and_then(|(.., valued)| *valued));
            if self.lacks_command(args, *operands, valued) {
                return true;
            }
        }
        OPENING_WORDS.iter().filter(|(names, _)| has(names, name)).any(|(_, opening)| {
            args.iter().position(|word| has(opening, &word.text)).is_some_and(|at| {
                // Nothing but operands and options of the shell itself follows.
                !args[at..].iter().any(|word| has("-- -c --command", &word.text))
            })
        })
    }

    /// Whether nothing may be left behind the options and so many operands.
    fn lacks_command(&mut self, args: &[Word], operands: usize, valued: Option<&str>) -> bool {
        let end = Word { text: "end".to_owned(), ..Word::default() };
        let args: Vec<Word> = args.iter().cloned().chain([end]).collect();
        self.behind_options(&args, operands, valued).contains(&(args.len() - 1))
    }

    /// Reads what follows `--` of a program that is in no table, as in `own --flag -- rm x`. If it can't be read, nothing is lost.
    pub(super) fn behind_dashes(&mut self, name: &str, args: &[Word], input: &Input<'_>, depth: usize) {
        let is_known = STARTERS.iter().any(|(names, ..)| has(names, name))
            || RUNNERS.iter().any(|(names, ..)| has(names, name))
            || has(OPERANDS, name);
        let Some(at) = args.iter().position(|word| word.text == "--").filter(|_| !is_known) else { return };
        self.perhaps(|commands| commands.words(&args[at + 1..], input, depth + 1));
    }
}
