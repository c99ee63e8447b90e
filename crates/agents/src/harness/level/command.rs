//! PURE: the commands that a text runs, also by way of programs that start others: `sudo -u me rm x`, `bash -c "rm x"`,
//! `find -exec rm {} +`, `git -C . push`. What a program reads in a language of its own (`python -c`), and what is known at
//! run time only, may be any command.

mod foreign;
mod opened;
mod shell;

use self::shell::is_stream;
use super::glob::{command_matches, may_match};
use super::script::{GAP, Script, Simple, Unread, Word, is_assignment, leaves_folders};
use super::starter::{
    COMMANDS, GIT_VALUES, JOINERS, RUNNERS, SHELLS, STARTERS, TEXTS, has, has_value, without_operators,
};

/// Commands within commands.
const MAX_DEPTH: usize = 12;
/// Bytes of all readings of one text, behind the first.
const MAX_READ: usize = 4 * 1024 * 1024;
const MAX_OPTIONS: usize = 256;

const LOST: Unread = "it starts too many commands";
const AT_RUN_TIME: Unread = "a part of it is known at run time only";
const FOREIGN: Unread = "a part of it is no text of a shell";

/// A text with all commands that it runs. Rules that allow and rules that deny ask the same reading.
pub(crate) struct Commands {
    raw: String,
    texts: Vec<String>,
    /// Bytes that were read so far.
    read: usize,
    /// Why some of it can't be known.
    unread: Option<Unread>,
    /// Whether a shell would take it.
    is_whole: bool,
    knows_folders: bool,
}

/// Why a pattern counts as found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Command,
    /// It can't be ruled out.
    Unread(Unread),
}

impl Commands {
    pub(crate) fn read(text: &str) -> Commands {
        let raw = text.trim().to_owned();
        let texts = vec![raw.clone()];
        let knows_folders = leaves_folders(&raw);
        let mut commands = Commands { raw, texts, read: 0, unread: None, is_whole: true, knows_folders };
        match Script::read(text, knows_folders) {
            Ok(script) => commands.script(&script, 0),
            Err(why) => {
                commands.is_whole = false;
                commands.lose(why);
            }
        }
        commands
    }

    /// Whether the pattern means the whole text, and no more than it says. A text with a part that can't be read, such as
    /// `python -c ...`, is meant by its own words only, never by a star.
    pub(crate) fn are(&self, pattern: &str) -> bool {
        let is_known = self.unread.is_none() || !pattern.contains(['*', '?']);
        self.is_whole && is_known && !self.raw.contains(GAP) && command_matches(pattern, &self.raw)
    }

    /// Whether the pattern means one of the commands, or may mean one.
    pub(crate) fn contain(&self, pattern: &str) -> Option<Found> {
        let is_found = self.texts.iter().any(|text| may_match(pattern.trim(), text));
        is_found.then_some(Found::Command).or_else(|| self.unread.map(Found::Unread))
    }

    /// Bytes of all readings.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.texts.iter().map(String::len).sum()
    }

    fn lose(&mut self, why: Unread) {
        if why == LOST {
            self.unread = Some(why);
        }
        self.unread.get_or_insert(why);
    }

    /// Whether so much more may be read, so many commands within others. What is too much once is so for all that follows.
    fn takes(&mut self, bytes: usize, depth: usize) -> bool {
        self.read = self.read.saturating_add(bytes);
        if depth > MAX_DEPTH || self.read > MAX_READ {
            self.lose(LOST);
        }
        !self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.unread == Some(LOST)
    }

    /// A text for a shell.
    fn text(&mut self, text: &str, depth: usize) {
        if depth > 0 && text.contains(GAP) {
            return self.lose(AT_RUN_TIME);
        }
        if !self.takes(text.len(), depth) {
            return;
        }
        match Script::read(text, self.knows_folders) {
            Ok(script) => self.script(&script, depth),
            Err(why) => self.lose(why),
        }
    }

    fn script(&mut self, script: &Script, depth: usize) {
        for Simple { words, bodies, reads_file, is_piped, .. } in &script.commands {
            let bodies = bodies.iter().filter_map(|body| script.bodies.get(*body)).collect();
            self.words(words, &Input { bodies, reads_file: *reads_file, is_piped: *is_piped }, depth);
        }
    }

    fn words(&mut self, words: &[Word], input: &Input<'_>, depth: usize) {
        self.command(words, input, depth);
        // A subscript may hold blanks: `a[ 1 ]=x rm x`.
        let ends_subscript =
            |word: &Word| !word.is_quoted && (word.text.contains("]=") || word.text.contains("]+="));
        for (at, _) in words.iter().enumerate().filter(|(_, word)| ends_subscript(word)) {
            self.command(&words[at + 1..], input, depth);
        }
    }

    fn command(&mut self, words: &[Word], input: &Input<'_>, depth: usize) {
        if !self.takes(words.len(), depth) {
            return;
        }
        let mut words = words;
        while let Some((first, rest)) = words.split_first() {
            if is_assignment(&first.text) {
                self.variable(first, depth);
            } else if first.is_quoted
                || !matches!(first.text.as_str(), "!" | "{" | "}" | "then" | "do" | "if")
            {
                break;
            }
            words = rest;
        }
        let Some((program, args)) = words.split_first() else { return };
        let name = program.text.rsplit('/').next().unwrap_or_default().to_owned();
        self.add(&program.text, args);
        self.add(&name, args);
        self.add(name.strip_suffix(".exe").unwrap_or(&name), args);
        if let Some(subcommand) = name.strip_prefix("git-") {
            self.add(&format!("git {subcommand}"), args);
        }
        if name.contains(GAP) || (program.splits && program.has_gap()) {
            return self.lose(AT_RUN_TIME);
        }
        self.subcommands(&name, args);
        self.started(&name, args, input, depth);
        self.quoted_texts(args, depth);
    }

    /// Words that read as several commands: texts for programs that are in no table. Where one does not read so, it is no loss.
    fn quoted_texts(&mut self, args: &[Word], depth: usize) {
        let is_text =
            |word: &&Word| word.is_quoted && word.text.contains(|sign| ";&|\n\r($`<>".contains(sign));
        for word in args.iter().filter(is_text) {
            self.perhaps(|commands| commands.text(&word.text, depth + 1));
        }
    }

    /// Reads what may be no command at all: what can't be read is no loss, and a variable of another language no command.
    fn perhaps(&mut self, read: impl FnOnce(&mut Self)) {
        let (before, known) = (self.unread, self.texts.len());
        read(self);
        if !self.is_lost() {
            self.unread = before;
        }
        let found = self.texts.split_off(known);
        self.texts.extend(found.into_iter().filter(|text| !text.starts_with(GAP)));
    }

    fn add(&mut self, program: &str, args: &[Word]) {
        let mut text = program.to_owned();
        for word in args {
            text.push(' ');
            text.push_str(&word.text);
        }
        if self.takes(text.len(), 0) && self.texts.last() != Some(&text) {
            self.texts.push(text);
        }
    }

    /// The same command without the options before its subcommand.
    fn subcommands(&mut self, program: &str, args: &[Word]) {
        for start in self.behind_options(args, 0, (program == "git").then_some(GIT_VALUES)) {
            if start > 0 {
                self.add(program, &args[start..]);
            }
        }
    }

    /// Places behind options and operands. A word behind an option may be its value, or not; `valued` names the options that
    /// have one, where that is known.
    fn behind_options(&mut self, args: &[Word], operands: usize, valued: Option<&str>) -> Vec<usize> {
        let mut open = vec![(0, operands)];
        let mut places = Vec::new();
        let mut next = 0;
        while let Some(&(at, left)) = open.get(next) {
            next += 1;
            if open.len() > MAX_OPTIONS {
                self.lose(LOST);
                break;
            }
            let Some(word) = args.get(at) else { continue };
            let text = word.text.as_str();
            let mut push = |place: (usize, usize)| {
                if !open.contains(&place) {
                    open.push(place);
                }
            };
            if text == "--" {
                push((at + 1, left));
            } else if text.starts_with(['-', '+']) && text.len() > 1 {
                let has_value = valued.and_then(|known| has_value(known, text));
                if has_value != Some(true) {
                    push((at + 1, left));
                }
                if has_value != Some(false) && !text.contains('=') {
                    push((at + 2, left));
                }
            } else {
                if word.splits || text.starts_with(GAP) || text.contains('=') {
                    push((at + 1, left));
                }
                match left.checked_sub(1) {
                    Some(left) => push((at + 1, left)),
                    None if !places.contains(&at) => places.push(at),
                    None => {}
                }
            }
        }
        places
    }

    fn started(&mut self, name: &str, args: &[Word], input: &Input<'_>, depth: usize) {
        self.values(name, args, depth);
        match name {
            "eval" => return self.joined(args, depth),
            "ssh" => {
                for start in self.behind_options(args, 1, None) {
                    self.joined(&args[start..], depth);
                }
            }
            "trap" => {
                let handler = args.iter().find(|word| word.text != "--");
                return handler.into_iter().for_each(|word| self.text(&word.text, depth + 1));
            }
            "alias" => {
                let values = args.iter().filter_map(|word| word.text.split_once('='));
                return values.for_each(|(_, value)| self.text(value, depth + 1));
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                return args.iter().for_each(|word| self.variable(word, depth));
            }
            // It says where a program is.
            "command" if args.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) => return,
            "at" | "batch" => self.lose(FOREIGN),
            "crontab" if args.iter().all(is_stream) => self.lose(FOREIGN),
            "bind" | "hash" if args.iter().any(|word| matches!(word.text.as_str(), "-x" | "-p")) => {
                self.lose(FOREIGN);
            }
            "script" => {
                if let Some(at) = args.iter().position(|word| word.text == "--") {
                    self.joined(&args[at + 1..], depth);
                }
            }
            "." | "source" => {
                self.file(args.first());
                self.interpreted(args, input, depth);
            }
            "find" | "gfind" | "fd" | "fdfind" => self.found(args, input, depth),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(args),
            "sed" | "gsed" => self.sed(args),
            "git" => self.git(args, depth),
            _ => {}
        }
        if has(SHELLS, name) {
            self.shell(args, input, depth);
        }
        self.interpreter(name, args, input, depth);
        self.escapes(name, args, input);
        self.opened(name, args, input, depth);
        self.behind(name, args, input, depth);
        self.behind_dashes(name, args, input, depth);
    }

    /// The words behind the options of a program that starts others.
    fn behind(&mut self, name: &str, args: &[Word], input: &Input<'_>, depth: usize) {
        // The loader of programs, and machines in place of this one.
        let name = if name.starts_with("ld-") || name.starts_with("qemu-") { "ld.so" } else { name };
        if let Some((_, operands, valued)) = STARTERS.iter().find(|(names, ..)| has(names, name)) {
            let args = if name.ends_with("xargs") { replaced(args) } else { args.to_vec() };
            for start in self.behind_options(&args, *operands, *valued) {
                if self.is_lost() {
                    break;
                }
                self.inner(name, &args[start..], input, depth);
            }
        }
        for (_, words, operands) in RUNNERS.iter().filter(|(names, ..)| has(names, name)) {
            let first = args.iter().position(|word| words.is_empty() || has(words, &word.text));
            let Some(first) = first else { continue };
            let from = first + usize::from(!words.is_empty());
            if args.len() - from > MAX_OPTIONS {
                self.lose(LOST);
            }
            let begins = self.behind_options(&args[from..], *operands, None);
            for start in (from..args.len()).take(MAX_OPTIONS) {
                if self.is_lost() {
                    break;
                }
                if begins.contains(&(start - from)) || !args[start].text.starts_with(GAP) {
                    self.inner(name, &args[start..], input, depth);
                }
            }
        }
    }

    /// The words behind a program that runs them.
    fn inner(&mut self, name: &str, words: &[Word], input: &Input<'_>, depth: usize) {
        if name != "parallel" {
            return self.given(name, words.to_vec(), input, depth);
        }
        // Its inputs follow.
        let words: Vec<_> = words.iter().take_while(|word| !word.text.starts_with(":::")).cloned().collect();
        // A brace is the place of an input, or part of a text.
        let is_place = |word: &Word| word.text.contains('{');
        if words.iter().any(is_place) {
            let fill = |word: &Word| if is_place(word) { Word::any() } else { word.clone() };
            self.given(name, words.iter().map(fill).collect(), input, depth);
        }
        self.given(name, words, input, depth);
    }

    fn given(&mut self, name: &str, mut words: Vec<Word>, input: &Input<'_>, depth: usize) {
        if matches!(name, "xargs" | "gxargs" | "parallel") {
            words.push(Word::any());
        }
        // These give their words to a shell.
        if has(JOINERS, name) {
            let is_text = |word: &&Word| word.text.contains(|sign: char| " \t\n;|&$`{(<>".contains(sign));
            for word in words.iter().filter(is_text) {
                self.text(&word.text, depth + 1);
            }
        }
        self.words(&words, input, depth + 1);
    }

    fn joined(&mut self, words: &[Word], depth: usize) {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        self.text(&texts.join(" "), depth + 1);
    }

    /// `NAME=value`, as the environment of a program.
    fn variable(&mut self, word: &Word, depth: usize) {
        let Some((name, value)) = word.text.split_once('=') else { return };
        // Some shells and programs read the value of any name anew.
        let value_alone = Word { text: value.to_owned(), ..word.clone() };
        if name.starts_with("GIT_CONFIG_") {
            self.lose(FOREIGN);
        } else if matches!(name, "BASH_ENV" | "ENV") && value_alone.has_gap() {
            self.lose(AT_RUN_TIME);
        } else if COMMANDS.iter().any(|part| name.contains(part)) {
            self.text(value.trim_start_matches(['|', '-', '!']), depth + 1);
        } else if value.contains("$(") || value.contains('`') {
            self.quoted_texts(&[value_alone], depth);
        }
    }

    /// Values of options that are a text for a shell.
    fn values(&mut self, name: &str, args: &[Word], depth: usize) {
        for (_, options) in TEXTS.iter().filter(|(names, _)| has(names, name)) {
            for (at, word) in args.iter().enumerate() {
                let text = word.text.as_str();
                let next = args.get(at + 1).map(|word| word.text.as_str());
                let value = options.split(' ').find_map(|option| {
                    // Letters of several short options may share a dash.
                    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
                    let rest = match letters.filter(|_| option.len() == 2) {
                        Some(letters) => letters.split_once(&option[1..])?.1,
                        None => text.strip_prefix(option)?,
                    };
                    match rest {
                        "" => next,
                        rest if option.starts_with("--") => rest.strip_prefix('='),
                        rest => Some(rest),
                    }
                });
                let value = value.map(|value| value.rsplit_once("exec=").map_or(value, |(_, value)| value));
                match value {
                    // An option of ssh, such as ProxyCommand.
                    Some(value) if name.starts_with('s') && options == &"-o" => {
                        let setting = value.split_once(['=', ' ']);
                        let command =
                            setting.filter(|(key, _)| key.to_ascii_lowercase().ends_with("command"));
                        if let Some((_, command)) = command {
                            self.text(command, depth + 1);
                        }
                    }
                    // The words of such a text are arguments of env once more: variables, then a program.
                    Some(value) if name == "env" => {
                        for value in [value, &without_operators(value)] {
                            self.text(&format!("env {value}"), depth + 1);
                        }
                    }
                    Some(value) => self.text(value.trim_start_matches([':', '!']), depth + 1),
                    None => {}
                }
            }
        }
    }

    /// `find -exec`, `fd -x`.
    fn found(&mut self, args: &[Word], input: &Input<'_>, depth: usize) {
        const OPTIONS: &str = "-exec -execdir -ok -okdir -x -X --exec --exec-batch";
        for (at, _) in args.iter().enumerate().filter(|(_, word)| has(OPTIONS, &word.text)) {
            if self.is_lost() {
                break;
            }
            let words = args[at + 1..].iter().take_while(|word| word.text != ";" && word.text != "+");
            let words: Vec<Word> = words.map(|word| word.with_gaps("{}")).chain([Word::any()]).collect();
            self.words(&words, input, depth + 1);
        }
    }
}

/// The input that a program reads on stdin.
struct Input<'a> {
    bodies: Vec<&'a Word>,
    reads_file: bool,
    is_piped: bool,
}

impl Word {
    /// With gaps in place of what the program puts there.
    fn with_gaps(&self, place: &str) -> Word {
        Word { text: self.text.replace(place, &GAP.to_string()), ..self.clone() }
    }

    fn any() -> Word {
        Word { text: GAP.to_string(), is_quoted: false, splits: true }
    }
}

/// The words of xargs, whose place for an input is `{}`, or what `-I` names.
fn replaced(args: &[Word]) -> Vec<Word> {
    let at = args.iter().position(|word| word.text.starts_with("-I") || word.text.starts_with("-J"));
    let place = at.and_then(|at| match &args[at].text[2..] {
        "" => args.get(at + 1).map(|word| word.text.as_str()),
        place => Some(place),
    });
    let places = [place.filter(|place| !place.is_empty()), Some("{}")];
    let behind = at.map_or(0, |at| at + 2).min(args.len());
    let (options, words) = args.split_at(behind);
    let words = words
        .iter()
        .map(|word| places.iter().flatten().fold(word.clone(), |word, place| word.with_gaps(place)));
    options.iter().cloned().chain(words).collect()
}
