//! PURE: quotes, and what a shell puts in place of a part of a word.

use super::{
    Brackets, End, FOLDERS, GAP, MAX_PARENTHESIS, MAX_STEPS, Reader, Simple, UNCLOSED, Unread, Word,
};

impl Brackets {
    /// Puts a gap in place of the word's text from here on.
    fn expand(&mut self, start: Option<usize>, word: &mut Word, splits: bool) {
        let Some(start) = start else { return };
        while self.squares.pop_if(|at| *at > start).is_some() {}
        while self.braces.pop_if(|(at, _)| *at > start).is_some() {}
        word.text.truncate(start);
        word.gap(splits);
    }
}

impl Reader<'_> {
    pub(super) fn single(&mut self, word: &mut Word) -> Result<(), Unread> {
        self.at += 1;
        word.is_quoted = true;
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|letter| *letter == '\'').ok_or(UNCLOSED)?;
        word.text.extend(&rest[..length]);
        self.at += length + 1;
        Ok(())
    }

    /// Text in which only `$`, backquotes and backslashes mean something, up to `end` or to the end of all.
    pub(super) fn quoted(&mut self, word: &mut Word, end: Option<char>) -> Result<(), Unread> {
        loop {
            match self.peek() {
                None if end.is_none() => return Ok(()),
                None => return Err(UNCLOSED),
                letter if letter == end => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => {
                    let next = self.text.get(self.at + 1).copied();
                    match next {
                        Some('\n') => {}
                        Some(letter @ ('$' | '`' | '"' | '\\')) => word.text.push(letter),
                        _ => {
                            word.text.push('\\');
                            word.text.extend(next);
                        }
                    }
                    self.at = (self.at + 2).min(self.text.len());
                }
                Some('$' | '`') => self.expansion(word, true)?,
                Some(letter) => {
                    self.at += 1;
                    word.text.push(letter);
                }
            }
        }
    }

    /// `*`, `?`, `[...]` and `{a,b}`, which become names of files, or several words. What stands between brackets is read as any
    /// other text, because a part of it may be quoted, or run a command.
    pub(super) fn pattern(&mut self, letter: char, word: &mut Word, brackets: &mut Brackets) {
        self.at += 1;
        match letter {
            '*' | '?' => return word.gap(false),
            '[' => brackets.squares.push(word.text.len()),
            '{' => brackets.braces.push((word.text.len(), false)),
            ']' => {
                let inside = brackets.squares.last().map_or("", |start| &word.text[start + 1..]);
                // Such a bracket is the first letter of those that it closes.
                if !matches!(inside, "" | "!" | "^") {
                    let start = brackets.squares.pop();
                    return brackets.expand(start, word, false);
                }
            }
            '}' => {
                let brace = brackets.braces.pop();
                if let Some((start, true)) = brace {
                    return brackets.expand(Some(start), word, true);
                }
            }
            // The signs between the texts of a brace: `{a,b}` and `{1..3}`.
            sign => {
                if let Some((_, expands)) = brackets.braces.last_mut() {
                    *expands |= sign == ',' || word.text.ends_with('.');
                }
            }
        }
        word.text.push(letter);
    }

    /// Place of the parenthesis that closes one.
    pub(super) fn end_of_parenthesis(&mut self) -> Option<usize> {
        // The text counts as not readable already. Each parenthesis of a long row of them would search as far again.
        if self.script.steps > MAX_STEPS {
            return None;
        }
        let mut depth = 1;
        for (at, letter) in self.text.iter().enumerate().skip(self.at) {
            if at - self.at > MAX_PARENTHESIS {
                self.script.steps = MAX_STEPS + 1;
                return None;
            }
            match *letter {
                ')' => depth -= 1,
                '(' => depth += 1,
                _ => {}
            }
            if depth == 0 {
                return Some(at);
            }
        }
        None
    }

    /// Whether what begins with the second of two parentheses here is arithmetic: it ends with two.
    pub(super) fn is_arithmetic(&mut self, second: usize) -> bool {
        self.text.get(second) == Some(&'(') && self.end_of_arithmetic(second + 1).is_some()
    }

    pub(super) fn end_of_arithmetic(&mut self, start: usize) -> Option<usize> {
        let (mut depth, mut at) = (0_usize, start);
        loop {
            match self.text.get(at)? {
                '\\' => at += 1,
                quote @ ('\'' | '"') => {
                    at += 1 + self.text[at + 1..].iter().position(|letter| letter == quote)?
                }
                '(' => depth += 1,
                ')' if depth == 0 => return (self.text.get(at + 1) == Some(&')')).then_some(at),
                ')' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
    }

    /// `((...))`. A shell that has no such command runs what is inside, so that is read too.
    pub(super) fn arithmetic_command(&mut self) -> Result<(), Unread> {
        let Some(end) = self.end_of_arithmetic(self.at + 2) else { return Err(UNCLOSED) };
        let inside = self.text[self.at + 2..end].to_vec();
        let before = self.script.commands.len();
        if self.within(&inside, |reader| reader.list(End::Text)).is_err() {
            self.script.commands.truncate(before);
            self.within(&inside, |reader| reader.quoted(&mut Word::default(), None))?;
        }
        let added = self.script.commands.split_off(before);
        let nesting = self.script.nesting;
        let is_known = |simple: &Simple| {
            simple.nesting > nesting || simple.words.first().is_some_and(|word| !word.text.contains(GAP))
        };
        self.script.commands.extend(added.into_iter().filter(is_known));
        self.at = end + 2;
        Ok(())
    }

    /// Reads an expansion, which begins with `$` or a backquote.
    pub(super) fn expansion(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Unread> {
        if self.peek() == Some('`') {
            return self.backquotes(word, in_quotes);
        }
        self.at += 1;
        match self.peek() {
            Some('(') if self.is_arithmetic(self.at + 1) => {
                let Some(end) = self.end_of_arithmetic(self.at + 2) else { return Err(UNCLOSED) };
                let inside = self.text[self.at + 2..end].to_vec();
                self.within(&inside, |reader| reader.quoted(&mut Word::default(), None))?;
                self.at = end + 2;
                word.gap(false);
            }
            Some('(') => {
                self.at += 1;
                self.substituted(|reader| reader.list(End::Parenthesis))?;
                word.gap(!in_quotes);
            }
            Some('{') => {
                self.at += 1;
                self.deeper(|reader| reader.parameter(in_quotes))?;
                word.gap(!in_quotes);
            }
            Some('\'') if !in_quotes => self.escaped(word)?,
            // A text that is translated is read as any other in these quotes.
            Some('"') if !in_quotes => {}
            Some('?' | '#' | '$') => {
                self.at += 1;
                word.text.push('0');
            }
            Some(letter) if letter.is_ascii_digit() || "@*-!".contains(letter) => {
                self.at += 1;
                word.gap(!in_quotes || letter == '@');
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
                let start = self.at;
                while self.peek().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                    self.at += 1;
                }
                let name: String = self.text[start..self.at].iter().collect();
                if self.script.knows_folders && FOLDERS.contains(&name.as_str()) {
                    word.text.push('$');
                    word.text.push_str(&name);
                } else {
                    word.gap(!in_quotes);
                }
            }
            _ => word.text.push('$'),
        }
        Ok(())
    }

    /// The rest of `${...}`.
    pub(super) fn parameter(&mut self, in_quotes: bool) -> Result<(), Unread> {
        let mut ignored = Word::default();
        loop {
            match self.peek() {
                None => return Err(UNCLOSED),
                Some('}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => self.at = (self.at + 2).min(self.text.len()),
                Some('\'') if !in_quotes => self.single(&mut ignored)?,
                Some('"') => {
                    self.at += 1;
                    self.deeper(|reader| reader.quoted(&mut ignored, Some('"')))?;
                }
                Some('$' | '`') => self.expansion(&mut ignored, in_quotes)?,
                Some('<' | '>') if self.is_process() => {
                    self.at += 2;
                    self.substituted(|reader| reader.list(End::Parenthesis))?;
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// `$'...'`: a letter by its number is a gap.
    pub(super) fn escaped(&mut self, word: &mut Word) -> Result<(), Unread> {
        self.at += 1;
        word.is_quoted = true;
        loop {
            let letter = self.peek().ok_or(UNCLOSED)?;
            self.at += 1;
            match letter {
                '\'' => return Ok(()),
                '\\' => {
                    self.at = (self.at + 1).min(self.text.len());
                    // All digits that may belong to the number.
                    while self.peek().is_some_and(|digit| digit.is_ascii_hexdigit()) {
                        self.at += 1;
                    }
                    word.text.push(GAP);
                }
                letter => word.text.push(letter),
            }
        }
    }

    pub(super) fn backquotes(&mut self, word: &mut Word, in_quotes: bool) -> Result<(), Unread> {
        self.at += 1;
        let mut inside = Vec::new();
        loop {
            let letter = self.peek().ok_or(UNCLOSED)?;
            self.at += 1;
            match letter {
                '`' => break,
                '\\' => {
                    let next = self.peek().ok_or(UNCLOSED)?;
                    self.at += 1;
                    // A line goes on before the text of the command is read.
                    if next == '\n' {
                        continue;
                    }
                    if !(matches!(next, '`' | '\\' | '$') || in_quotes && next == '"') {
                        inside.push('\\');
                    }
                    inside.push(next);
                }
                letter => inside.push(letter),
            }
        }
        self.substituted(|reader| reader.within(&inside, |reader| reader.list(End::Text)))?;
        word.gap(!in_quotes);
        Ok(())
    }
}
