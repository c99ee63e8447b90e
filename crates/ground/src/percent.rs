//! PURE: the escapes of URLs.

use percent_encoding::percent_decode_str;

/// Decodes a part of a URL. Text that is not an escape is kept.
pub fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Does the same as [`decoded`] for data that need not be text.
pub fn decoded_bytes(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
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
