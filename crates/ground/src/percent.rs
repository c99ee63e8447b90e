//! PURE: the escapes of URLs.

/// Decodes a part of a URL. Text that is not an escape is kept.
pub fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decoded_bytes(text)).into_owned()
}

/// Does the same as [`decoded`] for data that need not be text.
pub fn decoded_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let byte = escape.and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| {
            digits
                .bytes()
                .all(|digit| digit.is_ascii_hexdigit())
                .then(|| u8::from_str_radix(digits, 16).ok())?
        });
        match byte {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        for (text, expected) in
            [("s%40cret", "s@cret"), ("50%", "50%"), ("%4", "%4"), ("%+f", "%+f"), ("%é", "%é")]
        {
            assert_eq!(decoded(text), expected);
        }
        assert_eq!(decoded_bytes("%ff%00"), [0xff, 0]);
    }
}
