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
    // The next token, the place behind what was read so far, and the bracket of what holds the next value; 0 if nothing does.
    let (mut token, mut end, mut holder) = (0, 0, 0);
    loop {
        let place = *at.get(token)? as usize;
        match *line.get(place)? {
            b'"' if is_blank(line, end, place) => {
                end = *at.get(token + 1)? as usize + 1;
                token += 2;
            }
            byte @ (b'{' | b'[') if is_blank(line, end, place) => {
                open.push(token as u32);
                (token, end, holder) = (token + 1, place + 1, byte);
                if !closes_at_once(line, at, token, end, byte)? {
                    if byte == b'{' {
                        (token, end) = key(line, at, token, end)?;
                    }
                    continue;
                }
            }
            b',' | b'}' | b']' if is_primitive(line.get(end..place)?.trim_ascii()) => end = place,
            _ => return None,
        }
        // Behind a value: the next one, or the end of what holds it.
        loop {
            if holder == 0 {
                return (token == at.len() && is_blank(line, end, line.len())).then_some(());
            }
            let place = *at.get(token)? as usize;
            is_blank(line, end, place).then_some(())?;
            let byte = *line.get(place)?;
            (token, end) = (token + 1, place + 1);
            if byte == b',' {
                if holder == b'{' {
                    (token, end) = key(line, at, token, end)?;
                }
                break;
            }
            (byte == holder + CLOSING).then_some(())?;
            *partner.get_mut(open.pop()? as usize)? = token as u32 - 1;
            holder = open.last().map_or(0, |&outer| line[at[outer as usize] as usize]);
        }
    }
}

/// From an opening bracket to its closing one.
const CLOSING: u8 = b'}' - b'{';

/// Whether the object or array that opens with `byte` before `end` closes with the token `next`.
#[inline]
fn closes_at_once(line: &[u8], at: &[u32], next: usize, end: usize, byte: u8) -> Option<bool> {
    let next = *at.get(next)? as usize;
    Some(*line.get(next)? == byte + CLOSING && is_blank(line, end, next))
}

/// Past the name whose quote is `token`, and its colon: the next token, and the place behind the colon.
#[inline]
fn key(line: &[u8], at: &[u32], token: usize, end: usize) -> Option<(usize, usize)> {
    let [quote, key_end, colon] = *at.get(token..)?.first_chunk::<3>()?;
    let [quote, key_end, colon] = [quote as usize, key_end as usize, colon as usize];
    let is_named = line[quote] == b'"' && is_blank(line, end, quote);
    let is_followed = line[colon] == b':' && is_blank(line, key_end + 1, colon);
    (is_named && is_followed).then_some((token + 3, colon + 1))
}

/// Whether there is nothing between these places but white space.
#[inline]
fn is_blank(line: &[u8], from: usize, to: usize) -> bool {
    let is_space = |gap: &[u8]| gap.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    from == to || line.get(from..to).is_some_and(is_space)
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
