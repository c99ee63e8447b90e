//! PURE: the grammar of JSON, along the tokens of a line.

/// Checks the grammar and pairs the brackets. A closing quote is always the token behind its opening one.
///
/// `at`: where the line's tokens lie; `partner` is filled with the place of each opening bracket's closing one; `open` is scratch.
pub(super) fn pair(line: &[u8], at: &[u32], partner: &mut Vec<u32>, open: &mut Vec<u32>) -> Option<()> {
    partner.clear();
    partner.resize(at.len(), 0);
    open.clear();
    if at.is_empty() {
        return is_primitive(line.trim_ascii()).then_some(());
    }
    // The next token, and the place behind what was read so far.
    let (mut token, mut end) = (0, 0);
    'value: loop {
        let place = *at.get(token)? as usize;
        let byte = *line.get(place)?;
        let gap = line.get(end..place)?;
        match byte {
            b'"' if is_blank(gap) => {
                end = *at.get(token + 1)? as usize + 1;
                token += 2;
            }
            b'{' | b'[' if is_blank(gap) => {
                open.push(token as u32);
                token += 1;
                end = place + 1;
                if !closes_at_once(line, at, token, end, byte)? {
                    if byte == b'{' {
                        (token, end) = key(line, at, token, end)?;
                    }
                    continue 'value;
                }
            }
            b',' | b'}' | b']' if is_primitive(gap.trim_ascii()) => end = place,
            _ => return None,
        }
        // Behind a value: the next one, or the end of what holds it.
        loop {
            let Some(&outer) = open.last() else {
                return (token == at.len() && is_blank(&line[end..])).then_some(());
            };
            let outer = outer as usize;
            let opening = line[at[outer] as usize];
            let place = *at.get(token)? as usize;
            is_blank(line.get(end..place)?).then_some(())?;
            end = place + 1;
            match (line[place], opening) {
                (b',', opening) => {
                    token += 1;
                    if opening == b'{' {
                        (token, end) = key(line, at, token, end)?;
                    }
                    continue 'value;
                }
                (closing, opening) if closing == opening + CLOSING => {
                    *partner.get_mut(outer)? = token as u32;
                    token += 1;
                    open.pop();
                }
                _ => return None,
            }
        }
    }
}

/// From an opening bracket to its closing one.
const CLOSING: u8 = b'}' - b'{';

/// Whether the object or array that opens with `byte` before `end` closes with the token `next`.
#[inline]
fn closes_at_once(line: &[u8], at: &[u32], next: usize, end: usize, byte: u8) -> Option<bool> {
    let next = *at.get(next)? as usize;
    Some(*line.get(next)? == byte + CLOSING && is_blank(line.get(end..next)?))
}

/// Past the name whose quote is `token`, and its colon: the next token, and the place behind the colon.
#[inline]
fn key(line: &[u8], at: &[u32], token: usize, end: usize) -> Option<(usize, usize)> {
    let [quote, key_end, colon] = *at.get(token..)?.first_chunk::<3>()?;
    let [quote, key_end, colon] = [quote as usize, key_end as usize, colon as usize];
    let is_named = line[quote] == b'"' && is_blank(line.get(end..quote)?);
    let is_followed = line[colon] == b':' && is_blank(line.get(key_end + 1..colon)?);
    (is_named && is_followed).then_some((token + 3, colon + 1))
}

#[inline]
fn is_blank(gap: &[u8]) -> bool {
    gap.is_empty() || gap.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

fn is_primitive(text: &[u8]) -> bool {
    match text.first() {
        Some(b't') => text == b"true",
        Some(b'f') => text == b"false",
        Some(b'n') => text == b"null",
        Some(_) => number(text, 0) == Some(text.len()),
        None => false,
    }
}

/// Past the number that begins at `at`, by JSON's grammar.
#[inline]
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let mut to = from;
        while text.get(to).is_some_and(u8::is_ascii_digit) {
            to += 1;
        }
        to
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    let whole = at;
    at = digits(at);
    if at == whole || (text[whole] == b'0' && at > whole + 1) {
        return None;
    }
    if text.get(at) == Some(&b'.') {
        let fraction = at + 1;
        at = digits(fraction);
        if at == fraction {
            return None;
        }
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = at;
        at = digits(exponent);
        if at == exponent {
            return None;
        }
    }
    Some(at)
}
