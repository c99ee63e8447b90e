//! PURE: looks at one line of JSON without building it.
//!
//! An agent's line may repeat a whole message to carry one word (pi does, with every delta), so nothing is built or copied. One
//! pass makes an [`Index`] of the positions of the tokens (`token.rs`), and the grammar is checked along it (`grammar.rs`).
//! Every bracket gets the position of its partner, so that unwanted values are skipped at once. A [`Json`] is a place in the
//! line: it can be asked for a text, a number or fields. A value of an unexpected type counts as absent, because no type of a
//! recorded line is trusted. Looking needs no recursion, so no nesting is too deep.

use super::escape::{is_strict, unescape};
use super::grammar;
use super::pieces::has_mark;
use super::strict::strict;
use super::token::{self, Unusual};
use crate::line::without_mark;
use crate::text::decode;
use serde_json::{Number, Value};
use std::borrow::Cow;

/// Deepest nesting of a value that is built. Values are dropped and written by recursion.
pub const MAX_DEPTH: usize = 500;

/// The positions of the tokens of a line. One index is reused for all lines.
#[derive(Debug, Default)]
pub struct Index {
    /// Positions of each quote, and of each bracket, colon and comma outside of strings.
    at: Vec<u32>,
    /// For each opening bracket, at its place in `at`: the place of the closing one.
    partner: Vec<u32>,
    open: Vec<u32>,
}

/// A line that is one whole JSON object.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a>(Tokens<'a>);

/// A line and the positions of its tokens.
#[derive(Clone, Copy, Debug)]
struct Tokens<'a> {
    line: &'a [u8],
    at: &'a [u32],
    partner: &'a [u32],
    unusual: Unusual,
}

const NO_TOKENS: &Tokens<'static> =
    &Tokens { line: &[], at: &[], partner: &[], unusual: Unusual { has_code: false, has_wide: false } };

/// One whole JSON value inside a line; empty when absent.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a> {
    text: &'a [u8],
    tokens: &'a Tokens<'a>,
    /// The value's first token.
    token: usize,
}

impl Default for Json<'_> {
    fn default() -> Self {
        Json { text: &[], tokens: NO_TOKENS, token: 0 }
    }
}

impl Index {
    /// The line, if it is one JSON object and nothing else.
    pub fn read<'a>(&'a mut self, line: &'a [u8]) -> Option<Line<'a>> {
        self.read_few(line, usize::MAX)
    }

    /// The same for a line of at most so many tokens: quotes, and brackets, colons and commas outside of strings. Memory for a
    /// longer one, which may be ten times its length, is not taken.
    pub fn read_few<'a>(&'a mut self, line: &'a [u8], most: usize) -> Option<Line<'a>> {
        let line = without_mark(line);
        if line.first() != Some(&b'{') {
            return None;
        }
        self.tokens(line, most).map(Line)
    }

    /// The line, if it is one JSON value of any type and nothing else.
    pub(super) fn value<'a>(&'a mut self, text: &'a [u8]) -> Option<Line<'a>> {
        self.tokens(without_mark(text).trim_ascii(), usize::MAX).map(Line)
    }

    fn tokens<'a>(&'a mut self, line: &'a [u8], most: usize) -> Option<Tokens<'a>> {
        self.at.clear();
        let unusual = token::find(line, &mut self.at, most)?;
        grammar::pair(line, &self.at, &mut self.partner, &mut self.open)?;
        Some(Tokens { line, at: &self.at, partner: &self.partner, unusual })
    }
}

impl Line<'_> {
    pub fn json(&self) -> Json<'_> {
        Json { text: self.0.line, tokens: &self.0, token: 0 }
    }

    /// Whether [`keep_halves`](super::keep_halves) may find anything in it.
    pub fn may_have_halves(&self) -> bool {
        let Unusual { has_code, has_wide } = self.0.unusual;
        has_code || (has_wide && has_mark(self.0.line))
    }

    /// Whether each string has only escapes and characters that JSON knows. Everything else was checked when the line was read.
    pub fn is_strict(&self) -> bool {
        let strings = self.0.at.iter().map(|at| *at as usize).filter(|&at| self.0.byte(at) == b'"');
        let mut quotes = strings;
        std::iter::from_fn(|| Some((quotes.next()?, quotes.next()?)))
            .all(|(from, to)| is_strict(self.0.line.get(from + 1..to).unwrap_or_default()))
    }

    /// The text of a field whose name may be written with escapes.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.json().members().filter(|(key, _)| unescape(key) == name).last()?.1.text()
    }

    /// Builds the value.
    pub(super) fn build(&self) -> Value {
        self.json().build()
    }

    /// How deep the value is nested.
    pub(super) fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut depth = 0_usize;
        for &at in self.0.at {
            match self.0.byte(at as usize) {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }

    /// The wanted fields, in the order of `names`.
    #[inline(always)]
    pub fn fields<const N: usize>(&self, names: [&str; N]) -> [Json<'_>; N] {
        self.json().fields(names)
    }
}

impl<'a> Tokens<'a> {
    #[inline]
    fn place(&self, token: usize) -> usize {
        self.at.get(token).map_or(self.line.len(), |at| *at as usize)
    }

    #[inline]
    fn byte(&self, place: usize) -> u8 {
        self.line.get(place).copied().unwrap_or_default()
    }

    /// The value behind the byte `end`, whose first token is `token` if it has one; the token behind it, and that token's byte.
    #[inline]
    fn value_at(&'a self, end: usize, token: usize) -> Option<(Json<'a>, usize, u8)> {
        let rest = self.at.get(token..)?;
        let first = *rest.first()? as usize;
        let (range, next, behind) = match self.byte(first) {
            b'"' => {
                let [_, last, behind] = *rest.first_chunk::<3>()?;
                (first..last as usize + 1, token + 2, behind as usize)
            }
            b'{' | b'[' => {
                let partner = *self.partner.get(token)? as usize;
                (first..self.place(partner) + 1, partner + 1, self.place(partner + 1))
            }
            _ => {
                let text = self.line.get(end..first)?.trim_ascii();
                return Some((Json { text, tokens: self, token }, token, self.byte(first)));
            }
        };
        let text = self.line.get(range)?;
        Some((Json { text, tokens: self, token }, next, self.byte(behind)))
    }
}

impl<'a> Json<'a> {
    /// Whether there is no such value, not even null.
    pub fn is_absent(self) -> bool {
        self.text.is_empty()
    }

    pub fn is_present(self) -> bool {
        !self.text.is_empty() && self.text != b"null"
    }

    /// The fields of this object; all absent when it is none. Of two with one name the last counts.
    // Inlined, the names are constants: comparing one is comparing a number.
    #[inline(always)]
    pub fn fields<const N: usize>(self, names: [&str; N]) -> [Json<'a>; N] {
        let mut found = [Json::default(); N];
        for (key, value) in self.members() {
            if let Some(index) = names.iter().position(|name| key == name.as_bytes()) {
                found[index] = value;
            }
        }
        found
    }

    pub fn field(self, name: &str) -> Json<'a> {
        let [field] = self.fields([name]);
        field
    }

    /// The field at the end of a path such as `cache.read`.
    pub fn at(self, path: &str) -> Json<'a> {
        path.split('.').fold(self, |value, name| value.field(name))
    }

    pub fn is_object(self) -> bool {
        self.text.first() == Some(&b'{')
    }

    /// The string, unescaped; borrowed when there is nothing to unescape. Half a surrogate pair becomes U+FFFD.
    pub fn text(self) -> Option<Cow<'a, str>> {
        self.is_text().then(|| unescape(self.word()))
    }

    pub fn is_text(self) -> bool {
        self.text.len() >= 2 && self.text[0] == b'"'
    }

    /// Whether this is the string `expected`, which holds nothing that JSON escapes.
    pub fn is(self, expected: &str) -> bool {
        self.is_text() && self.word() == expected.as_bytes()
    }

    /// The string as it stands between its quotes, for a `match` over names that need no escape.
    pub fn word(self) -> &'a [u8] {
        if self.is_text() { &self.text[1..self.text.len() - 1] } else { b"" }
    }

    fn number(self) -> Option<f64> {
        let first = self.text.first()?;
        if !(first.is_ascii_digit() || *first == b'-') {
            return None;
        }
        std::str::from_utf8(self.text).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
    }

    /// A count: a number that is not negative.
    pub fn count(self) -> Option<u64> {
        // Fast path for most counts, without a float.
        if self.text.len() <= 15 && !self.text.is_empty() && self.text.iter().all(u8::is_ascii_digit) {
            return Some(self.text.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0')));
        }
        self.amount().map(|number| number as u64)
    }

    /// An amount, as of money: a number that is not negative, whole or not.
    pub fn amount(self) -> Option<f64> {
        self.number().filter(|number| *number >= 0.0)
    }

    /// A whole number, such as an exit code or a status.
    pub fn whole(self) -> Option<i64> {
        self.number().filter(|number| number.fract() == 0.0).map(|number| number as i64)
    }

    pub fn flag(self) -> Option<bool> {
        match self.text {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The items of this array; none when it is no array.
    pub fn items(self) -> Items<'a> {
        let is_array = self.text.first() == Some(&b'[');
        let token = if is_array { self.token } else { usize::MAX };
        Items {
            array: self,
            token,
            is_done: !is_array || self.text[1..self.text.len() - 1].trim_ascii().is_empty(),
        }
    }

    /// Names and values of this object; none when it is no object.
    pub(crate) fn members(self) -> Members<'a> {
        Members { object: self, token: if self.is_object() { self.token + 1 } else { usize::MAX } }
    }

    /// The values of this object, whatever their names; none when it is no object.
    pub fn values(self) -> impl Iterator<Item = Json<'a>> {
        self.members().map(|(_, value)| value)
    }

    /// The value as it stands, as text.
    pub fn raw(self) -> Cow<'a, str> {
        decode(self.text)
    }

    /// Builds the value, with the replacements of [`read`](super::read).
    pub fn build(self) -> Value {
        strict(self.text).unwrap_or_else(|_| self.build_below(0))
    }

    /// `depth`: how many values hold this one.
    fn build_below(self, depth: usize) -> Value {
        match self.text.first() {
            None => Value::Null,
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Value::String(self.raw().into_owned()),
            Some(b'{') => {
                let fields = self.members();
                let built =
                    fields.map(|(key, value)| (unescape(key).into_owned(), value.build_below(depth + 1)));
                Value::Object(built.collect())
            }
            Some(b'[') => Value::Array(self.items().map(|item| item.build_below(depth + 1)).collect()),
            Some(b'"') => Value::String(unescape(self.word()).into_owned()),
            Some(_) => {
                strict(self.text).unwrap_or_else(|_| self.largest().map_or(Value::Null, Value::Number))
            }
        }
    }

    /// The float next to a number that no float can hold.
    fn largest(self) -> Option<Number> {
        let sign = if self.text.first() == Some(&b'-') { -1.0 } else { 1.0 };
        Number::from_f64(f64::MAX.copysign(sign))
    }
}

/// See [`Json::items`].
pub struct Items<'a> {
    array: Json<'a>,
    /// The bracket or comma before the next item.
    token: usize,
    is_done: bool,
}

impl<'a> Iterator for Items<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        if self.is_done {
            return None;
        }
        let tokens = self.array.tokens;
        let (value, next, behind) = tokens.value_at(tokens.place(self.token) + 1, self.token + 1)?;
        self.is_done = behind != b',';
        self.token = next;
        Some(value)
    }
}

pub(crate) struct Members<'a> {
    object: Json<'a>,
    /// The quote before the next name; past all tokens when there is none.
    token: usize,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], Json<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], Json<'a>)> {
        let tokens = self.object.tokens;
        let [quote, key_end, colon] = *tokens.at.get(self.token..)?.first_chunk::<3>()?;
        // An object without fields ends here.
        if tokens.byte(quote as usize) != b'"' {
            return None;
        }
        let key = tokens.line.get(quote as usize + 1..key_end as usize)?;
        let (value, next, behind) = tokens.value_at(colon as usize + 1, self.token + 3)?;
        self.token = if behind == b',' { next + 1 } else { usize::MAX };
        Some((key, value))
    }
}

#[cfg(test)]
mod tests;
