//! PURE: the heads of compound commands.

use super::{End, Reader, UNCLOSED, Unread};

impl Reader<'_> {
    /// The name of a coprocess, which a compound command follows.
    pub(super) fn skip_name(&mut self) -> Result<(), Unread> {
        const BEGINS: [&str; 9] = ["{", "while", "until", "if", "case", "for", "select", "[[", "time"];
        let start = self.at;
        if matches!(self.peek(), None | Some('\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')) {
            return Ok(());
        }
        self.word()?;
        self.skip_blanks();
        let behind = self.at;
        let is_name = self.peek() == Some('(') || BEGINS.iter().any(|word| self.takes(word));
        self.at = if is_name { behind } else { start };
        Ok(())
    }

    pub(super) fn case(&mut self) -> Result<(), Unread> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if !self.takes("in") {
            return Err("\"case\" without \"in\"");
        }
        loop {
            self.skip_lines()?;
            if self.takes("esac") {
                return Ok(());
            }
            if self.peek() == Some('(') {
                self.at += 1;
            }
            loop {
                self.skip_blanks();
                match self.peek() {
                    Some(')') => break,
                    Some('|') => self.at += 1,
                    None | Some('\n' | ';' | '&' | '(' | '<' | '>') => return Err(UNCLOSED),
                    Some(_) => drop(self.word()?),
                }
            }
            self.at += 1;
            if self.list(End::Case)? {
                return Ok(());
            }
        }
    }

    /// `[[ ... ]]`: only its substitutions run something.
    pub(super) fn condition(&mut self) -> Result<(), Unread> {
        loop {
            self.skip_lines()?;
            if self.takes("]]") {
                return Ok(());
            }
            match self.peek() {
                None => return Err(UNCLOSED),
                Some(';' | '&' | '|' | '(' | ')' | '<' | '>') => self.at += 1,
                Some(_) => drop(self.word()?),
            }
        }
    }

    /// `for NAME in WORDS`, up to its `do`.
    pub(super) fn head_of_loop(&mut self) -> Result<(), Unread> {
        loop {
            self.skip_blanks();
            if self.looks("do") && self.takes("do") {
                return Ok(());
            }
            match self.peek() {
                None | Some('\n' | ';') => return Ok(()),
                Some('(') if self.is_arithmetic(self.at + 1) => self.arithmetic_command()?,
                Some('&' | '|' | '(' | ')' | '<' | '>') => return Err("a loop that is not understood"),
                Some(_) => drop(self.word()?),
            }
        }
    }
}
