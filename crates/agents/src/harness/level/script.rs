//! PURE: the simple commands of a text that a shell is to read: behind separators, within compound commands, and in
//! substitutions of every kind. Text that is known at run time only is a [`GAP`] in its word.
//!
//! The reader follows bash. Where shells differ, it finds the commands of both readings. Quotes and expansions are read in
//! `expansion`.

mod compound;
mod expansion;

/// Stands for any text, also for none and for several words.
pub(super) const GAP: char = '\0';

/// Commands within commands. Deeper ones count as not readable, so that no text can use up the stack.
const MAX_DEPTH: usize = 24;
/// Words and expansions of one text. More count as not readable, so that no text takes long.
const MAX_STEPS: usize = 200_000;

/// Letters of one pattern such as `@(...)`. A longer one counts as not readable.
const MAX_PARENTHESIS: usize = 4096;

/// Why a text could not be read.
pub(super) type Unread = &'static str;
const TOO_LONG: Unread = "it is too long or too deep";
const UNCLOSED: Unread = "a quote or a bracket is not closed";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Word {
    /// Without quotes and backslashes, with gaps.
    pub(super) text: String,
    pub(super) is_quoted: bool,
    /// A gap of it is not quoted, so that it may be several words, options among them.
    pub(super) splits: bool,
}

/// One program with its arguments.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// Texts that it gets on stdin: the place of a here-document in [`Script::bodies`].
    pub(super) bodies: Vec<usize>,
    /// It reads a file on stdin.
    pub(super) reads_file: bool,
    /// It reads what another command prints.
    pub(super) is_piped: bool,
    /// In how many substitutions it stands.
    nesting: usize,
}

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    /// Here-documents and here-strings.
    pub(super) bodies: Vec<Word>,
    /// `$HOME` and `$PWD` are names of folders, because nothing in the text sets them.
    knows_folders: bool,
    /// In how many substitutions the reader is.
    nesting: usize,
    /// A pipe leads to the next command.
    is_piped: bool,
    steps: usize,
}

impl Script {
    pub(super) fn read(text: &str, knows_folders: bool) -> Result<Script, Unread> {
        let text: Vec<char> = text.chars().collect();
        let mut script = Script { knows_folders, ..Script::default() };
        Reader { text: &text, at: 0, depth: 0, script: &mut script, pending: Vec::new() }.list(End::Text)?;
        // A pattern that is too long may be in the last word.
        if script.steps > MAX_STEPS { Err(TOO_LONG) } else { Ok(script) }
    }
}

/// The end of a list of commands.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Text,
    Parenthesis,
    /// `;;` and its like, or `esac`.
    Case,
}

/// A here-document whose lines are still to come.
struct Pending {
    delimiter: String,
    is_quoted: bool,
    strips_tabs: bool,
    body: usize,
}

struct Reader<'a> {
    text: &'a [char],
    at: usize,
    depth: usize,
    script: &'a mut Script,
    pending: Vec<Pending>,
}

/// Unquoted brackets of a word that are open, by their places in its text.
#[derive(Default)]
struct Brackets {
    squares: Vec<usize>,
    /// With whether a sign was found that makes several words of them.
    braces: Vec<(usize, bool)>,
}

/// Words after which another command begins, or nothing at all.
const RESERVED: [&str; 14] =
    ["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "{", "}", "coproc", "time"];

/// Variables that hold the name of a folder.
const FOLDERS: [&str; 2] = ["HOME", "PWD"];

/// Whether the text uses these variables only, and never sets them.
pub(super) fn leaves_folders(text: &str) -> bool {
    FOLDERS.iter().all(|name| {
        text.match_indices(name).all(|(at, _)| text[..at].ends_with('$') || text[..at].ends_with("${"))
            && !text.contains(&format!("${{{name}:"))
            && !text.contains(&format!("${{{name}="))
    })
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn looks(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(offset, letter)| self.text.get(self.at + offset) == Some(&letter))
    }

    /// Passes the word over, if it comes next without quotes.
    fn takes(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let is_next =
            self.looks(word) && self.text.get(end).is_none_or(|next| " \t\r\n;&|()<>".contains(*next));
        if is_next {
            self.at = end;
        }
        is_next
    }

    fn step(&mut self) -> Result<(), Unread> {
        self.script.steps += 1;
        if self.script.steps > MAX_STEPS { Err(TOO_LONG) } else { Ok(()) }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Unread>) -> Result<T, Unread> {
        self.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(TOO_LONG);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// As [`Reader::deeper`], for the commands of a substitution.
    fn substituted<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Unread>) -> Result<T, Unread> {
        self.script.nesting += 1;
        let value = self.deeper(read);
        self.script.nesting -= 1;
        value
    }

    /// Passes over blanks, a comment, and a line feed behind a backslash.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.looks("\\\n") => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Whether the list ended with `esac`.
    fn list(&mut self, end: End) -> Result<bool, Unread> {
        loop {
            self.skip_blanks();
            match self.peek() {
                None if end == End::Text => return Ok(false),
                None => return Err(UNCLOSED),
                Some(')') if end == End::Parenthesis => {
                    self.at += 1;
                    return Ok(false);
                }
                Some(')') => return Err("a parenthesis is closed that was not opened"),
                Some('\n') => self.line_feed()?,
                Some(';') if end == End::Case && (self.looks(";;") || self.looks(";&")) => {
                    self.at += if self.looks(";;&") { 3 } else { 2 };
                    return Ok(false);
                }
                Some('&') if self.looks("&>") => self.simple()?,
                Some(sign @ (';' | '&' | '|')) => {
                    let is_pipe = sign == '|' && !self.looks("||");
                    self.at += if self.looks("||") || self.looks("|&") { 2 } else { 1 };
                    self.script.is_piped = is_pipe;
                }
                Some('(') if self.is_arithmetic(self.at + 1) => self.arithmetic_command()?,
                Some('(') => {
                    self.at += 1;
                    self.deeper(|reader| reader.list(End::Parenthesis))?;
                }
                Some(_) if end == End::Case && self.takes("esac") => return Ok(true),
                Some(_) => self.command()?,
            }
        }
    }

    fn command(&mut self) -> Result<(), Unread> {
        self.step()?;
        if self.takes("case") {
            return self.deeper(Self::case);
        }
        if self.takes("[[") {
            return self.condition();
        }
        if self.takes("for") || self.takes("select") {
            return self.head_of_loop();
        }
        if self.takes("function") {
            self.skip_blanks();
            self.word()?;
            self.skip_parameters();
            return Ok(());
        }
        let start = self.at;
        if let Some(word) = RESERVED.into_iter().find(|word| self.takes(word)) {
            self.skip_blanks();
            if word == "coproc" {
                self.skip_name()?;
            }
            // With other options `time` is a program.
            if word == "time" && !self.takes("-p") && self.peek() == Some('-') {
                self.at = start;
                return self.simple();
            }
            return Ok(());
        }
        self.simple()
    }

    /// `()` behind the name of a function.
    fn skip_parameters(&mut self) -> bool {
        let start = self.at;
        self.skip_blanks();
        if self.peek() == Some('(') {
            self.at += 1;
            self.skip_blanks();
            if self.peek() == Some(')') {
                self.at += 1;
                return true;
            }
        }
        self.at = start;
        false
    }

    fn skip_lines(&mut self) -> Result<(), Unread> {
        self.skip_blanks();
        while self.peek() == Some('\n') {
            self.line_feed()?;
            self.skip_blanks();
        }
        Ok(())
    }

    fn simple(&mut self) -> Result<(), Unread> {
        let is_piped = std::mem::take(&mut self.script.is_piped);
        let mut simple = Simple { is_piped, ..Simple::default() };
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if !self.looks("&>") => break,
                Some('&') => self.redirection(&mut simple)?,
                Some('<' | '>') if !self.is_process() => self.redirection(&mut simple)?,
                Some('(') if simple.words.len() == 1 && self.skip_parameters() => return Ok(()),
                Some('(') => return Err("a parenthesis behind a word"),
                Some(_) => {
                    let word = self.word()?;
                    // `2>f`, and `{name}>f`
                    let is_variable = word.text.starts_with('{') && word.text.ends_with('}');
                    let is_descriptor = matches!(self.peek(), Some('<' | '>'))
                        && !word.is_quoted
                        && (is_variable || word.text.chars().all(|letter| letter.is_ascii_digit()));
                    if !is_descriptor {
                        simple.words.push(word);
                    }
                }
            }
        }
        simple.nesting = self.script.nesting;
        self.script.commands.push(simple);
        Ok(())
    }

    /// `<(` or `>(`.
    fn is_process(&self) -> bool {
        self.looks("<(") || self.looks(">(")
    }

    fn redirection(&mut self, simple: &mut Simple) -> Result<(), Unread> {
        const SIGNS: [&str; 12] = ["<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">|", ">&", ">", "&>>", "&>"];
        let Some(sign) = SIGNS.into_iter().find(|sign| self.looks(sign)) else { return Err(UNCLOSED) };
        self.at += sign.len();
        self.skip_blanks();
        if matches!(self.peek(), None | Some('\n' | ';' | '|' | ')' | '&')) {
            return Err("a redirection without a file");
        }
        let target = self.word()?;
        match sign {
            "<<<" => {
                simple.bodies.push(self.script.bodies.len());
                self.script.bodies.push(target);
            }
            "<<" | "<<-" => {
                let body = self.script.bodies.len();
                simple.bodies.push(body);
                self.script.bodies.push(Word::default());
                let (delimiter, is_quoted) = (target.text, target.is_quoted);
                self.pending.push(Pending { delimiter, is_quoted, strips_tabs: sign == "<<-", body });
            }
            // A target that is known at run time only, such as a process substitution, does not count as a file.
            "<" | "<>" => simple.reads_file |= !target.text.starts_with(GAP),
            _ => {}
        }
        Ok(())
    }

    /// The end of a line; the here-documents that it announced follow.
    fn line_feed(&mut self) -> Result<(), Unread> {
        self.at += 1;
        for pending in std::mem::take(&mut self.pending) {
            let mut body = Vec::new();
            while self.at < self.text.len() {
                let rest = &self.text[self.at..];
                let length = rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len());
                self.at += (length + 1).min(rest.len());
                let mut line = &rest[..length];
                while pending.strips_tabs && line.first() == Some(&'\t') {
                    line = &line[1..];
                }
                if line.iter().copied().eq(pending.delimiter.chars()) {
                    break;
                }
                body.extend_from_slice(line);
                body.push('\n');
            }
            let mut word = Word { is_quoted: true, ..Word::default() };
            if pending.is_quoted {
                word.text = body.iter().collect();
            } else {
                self.within(&body, |reader| reader.quoted(&mut word, None))?;
            }
            self.script.bodies[pending.body] = word;
        }
        Ok(())
    }

    /// Reads another text, whose commands are found too.
    fn within<T>(
        &mut self,
        text: &[char],
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Unread>,
    ) -> Result<T, Unread> {
        self.step()?;
        if self.depth >= MAX_DEPTH {
            return Err(TOO_LONG);
        }
        let depth = self.depth + 1;
        read(&mut Reader { text, at: 0, depth, script: self.script, pending: Vec::new() })
    }

    fn word(&mut self) -> Result<Word, Unread> {
        self.step()?;
        let mut word = Word::default();
        let mut brackets = Brackets::default();
        let start = self.at;
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' if !self.is_process() => break,
                '<' | '>' => {
                    self.at += 2;
                    self.substituted(|reader| reader.list(End::Parenthesis))?;
                    word.gap(true);
                }
                '(' if is_assignment(&word.text) && word.text.ends_with('=') => {
                    self.list_of_values(&mut word)?
                }
                '(' if self.at > start && "?*+@!".contains(self.text[self.at - 1]) => {
                    self.at += 1;
                    self.at = self.end_of_parenthesis().ok_or(UNCLOSED)? + 1;
                    word.gap(false);
                }
                '(' => break,
                '\'' => self.single(&mut word)?,
                '"' => {
                    self.at += 1;
                    word.is_quoted = true;
                    self.deeper(|reader| reader.quoted(&mut word, Some('"')))?;
                }
                '\\' => {
                    self.at += 1;
                    if let Some(letter) = self.peek().filter(|letter| *letter != '\n') {
                        word.is_quoted = true;
                        word.text.push(letter);
                    }
                    self.at += 1;
                }
                '$' | '`' => self.expansion(&mut word, false)?,
                '~' if self.at == start => {
                    self.at += 1;
                    word.gap(false);
                }
                '*' | '?' | '[' | ']' | '{' | '}' | ',' | '.' => {
                    self.pattern(letter, &mut word, &mut brackets);
                }
                GAP => {
                    self.at += 1;
                    word.gap(true);
                }
                letter => {
                    self.at += 1;
                    word.text.push(letter);
                }
            }
        }
        self.at = self.at.min(self.text.len());
        if self.at == start { Err("a sign in an unexpected place") } else { Ok(word) }
    }

    /// `NAME=(...)`.
    fn list_of_values(&mut self, word: &mut Word) -> Result<(), Unread> {
        self.at += 1;
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(')') => break,
                None | Some(';' | '&' | '|' | '(' | '<' | '>') => return Err(UNCLOSED),
                Some(_) => drop(self.deeper(Self::word)?),
            }
        }
        self.at += 1;
        word.gap(false);
        Ok(())
    }
}

impl Word {
    fn gap(&mut self, splits: bool) {
        self.text.push(GAP);
        self.splits |= splits;
    }

    pub(super) fn has_gap(&self) -> bool {
        self.text.contains(GAP)
    }
}

/// `NAME=value`, `NAME+=value`, `NAME[index]=value`.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once(['[', GAP]).map_or(name, |(name, _)| name);
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
