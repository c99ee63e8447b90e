//! PURE: texts for programs with a language of their own. None of them is read: one that may run a program counts as any command.

use super::super::script::{GAP, Word};
use super::super::starter::{ESCAPES, INTERPRETERS, LOADERS, SETTINGS, has};
use super::{AT_RUN_TIME, Commands, FOREIGN, Input};

impl Commands {
    pub(super) fn interpreter(&mut self, name: &str, args: &[Word], input: &Input<'_>, depth: usize) {
        let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let known = INTERPRETERS.iter().find(|(names, ..)| has(names, plain) || has(names, name));
        let Some((_, letters, words, valued)) = known else { return };
        let mut at = 0;
        while let Some(word) = args.get(at) {
            let text = word.text.as_str();
            let option = text.split_once('=').map_or(text, |(option, _)| option);
            let is_code = text.contains("data:") || (plain == "perl" && text.contains(';'));
            if has(words, option) || is_code || (word.splits && text.starts_with(GAP)) {
                return self.lose(FOREIGN);
            }
            let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else { break };
            if option.starts_with('-') {
                let has_value = has(LOADERS, text);
                if has_value && args.get(at + 1).is_some_and(|word| word.text.starts_with("data:")) {
                    return self.lose(FOREIGN);
                }
                at += 1 + usize::from(has_value);
                continue;
            }
            // A module is a file as others are, and often a program of its own name.
            if let Some(module) = option.strip_prefix('m').filter(|_| plain.starts_with("py")) {
                at += usize::from(module.is_empty());
                let Some(word) = args.get(at) else { return };
                let module = Word { text: word.text.trim_start_matches("-m").to_owned(), ..word.clone() };
                if has("timeit code pdb trace cProfile", &module.text) || module.text.starts_with(GAP) {
                    self.lose(FOREIGN);
                }
                let words: Vec<Word> = [module].into_iter().chain(args[at + 1..].iter().cloned()).collect();
                return self.interpreted(&words, input, depth);
            }
            if option.contains(|letter| letters.contains(letter)) {
                return self.lose(FOREIGN);
            }
            at += 1 + usize::from(option.ends_with(|letter| valued.contains(letter)));
        }
        let is_text =
            plain == "powershell" && !args.iter().any(|word| word.text.eq_ignore_ascii_case("-file"));
        if is_text
            || args.is_empty()
            || args.get(at).is_some_and(|word| matches!(word.text.as_str(), "-" | "/dev/stdin"))
        {
            return self.lose(FOREIGN);
        }
        self.interpreted(args.get(at..).unwrap_or_default(), input, depth);
    }

    /// Words of a language of the program's own that may run another.
    pub(super) fn escapes(&mut self, name: &str, args: &[Word], input: &Input<'_>) {
        let signs =
            ESCAPES.iter().filter(|(names, _)| has(names, name)).flat_map(|(_, signs)| signs.split(' '));
        let all = || args.iter().chain(input.bodies.iter().copied());
        let runs =
            |sign: &str| all().any(|word| word.text.contains(sign) || word.text.starts_with("system "));
        let is_stream = |pair: &[Word]| pair[0].text == "-f" && pair[1].text == "-";
        if { signs }.any(runs) || (has("make gmake", name) && args.windows(2).any(is_stream)) {
            self.lose(FOREIGN);
        }
    }

    /// GNU's `e`, as a command and as a flag of `s`.
    pub(super) fn sed(&mut self, args: &[Word]) {
        let runs = |part: &str| {
            let part = part.trim_start_matches(|letter: char| " \t,$!~+{0123456789".contains(letter));
            let mut letters = part.chars();
            match (letters.next(), letters.next()) {
                (Some('e'), None | Some(' ')) => true,
                (Some('s'), Some(sign)) if !sign.is_alphanumeric() => {
                    part[1 + sign.len_utf8()..].rsplit(sign).next().is_some_and(|flags| flags.contains('e'))
                }
                // The command of sed stands behind an address.
                (Some('/'), _) => part
                    .rsplit('/')
                    .next()
                    .is_some_and(|rest| rest.trim_start().starts_with("e ") || rest == "e"),
                _ => false,
            }
        };
        let is_script = |word: &&Word| !word.text.starts_with("--") || word.text.starts_with("--expression");
        let mut scripts =
            args.iter().filter(is_script).map(|word| word.text.trim_start_matches("--expression="));
        if scripts.any(|script| {
            script.contains(GAP) && script.starts_with(GAP) || script.split([';', '\n', '}']).any(runs)
        }) {
            self.lose(FOREIGN);
        }
    }

    pub(super) fn awk(&mut self, args: &[Word]) {
        let runs = |word: &Word| {
            ["system", "|\"", "| \"", "|&", "getline"].iter().any(|part| word.text.contains(part))
        };
        let programs = self.behind_options(args, 0, Some("-F -v -f -i -e -l -E"));
        if args.iter().any(runs) || programs.iter().any(|at| args[*at].has_gap()) {
            self.lose(FOREIGN);
        }
    }

    pub(super) fn git(&mut self, args: &[Word], depth: usize) {
        for (at, word) in args.iter().enumerate() {
            if word.text.starts_with("--config-env") {
                self.lose(AT_RUN_TIME);
            }
            // A transport that is a command: `ext::sh -c rm% x`.
            if let Some((_, text)) = word.text.split_once("ext::") {
                self.text(&text.replace("% ", "\\ "), depth + 1);
                self.text(&text.replace("% ", " "), depth + 1);
            }
            let next = args.get(at + 1).map_or("", |word| word.text.as_str());
            let is_of = |subcommand: &str| args.iter().any(|word| word.text == subcommand);
            let is_setting = |key: &str| SETTINGS.iter().any(|part| key.contains(part));
            if word.text == "-u" && is_of("clone") {
                self.text(next, depth + 1);
            }
            if let Some(pager) = word.text.strip_prefix("-O").filter(|_| is_of("grep")) {
                self.text(pager, depth + 1);
            }
            if is_of("config") && word.text.contains('.') && is_setting(&word.text.to_ascii_lowercase()) {
                self.text(next.trim_start_matches('!'), depth + 1);
            }
            // The value of an alias, in `git config alias.x '!rm x'`.
            if let Some(text) = word.text.strip_prefix('!') {
                self.text(text, depth + 1);
            }
            if word.text.to_ascii_lowercase().starts_with("alias.") {
                let value = args.get(at + 1).map_or("", |word| &word.text);
                self.texts.push(format!("git {value}"));
            }
            let value = if word.text == "-c" || word.text == "--config" {
                args.get(at + 1).map(|word| word.text.as_str())
            } else {
                word.text.strip_prefix("--config=")
            };
            let Some((key, value)) = value.and_then(|value| value.split_once('=')) else { continue };
            let key = key.to_ascii_lowercase();
            if key.starts_with("alias.") {
                match value.strip_prefix('!') {
                    Some(text) => self.text(text, depth + 1),
                    None => self.texts.push(format!("git {value}")),
                }
            } else if is_setting(&key) {
                self.text(value.trim_start_matches('!'), depth + 1);
            }
        }
        if let Some(at) = args.iter().position(|word| word.text == "foreach") {
            for start in self.behind_options(&args[at + 1..], 0, None) {
                self.joined(&args[at + 1 + start..], depth);
            }
        }
    }
}
