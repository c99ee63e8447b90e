//! PURE: data URLs, `data:[type][;base64],data`.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ground::percent;

/// Base64 as browsers read it: padding may be missing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The part after `data:`, when the URL is a data URL.
pub fn data_of(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_at_checked(5)?;
    scheme.eq_ignore_ascii_case("data:").then_some(rest)
}

/// Decodes the part after `data:`. A fragment does not belong to the data.
pub fn read_data(rest: &str) -> Result<Vec<u8>, &'static str> {
    let rest = rest.split('#').next().unwrap_or_default();
    let (kind, data) = rest.split_once(',').ok_or("the data URL has no comma")?;
    let bytes = percent::decoded_bytes(data);
    if !kind.trim_end().to_ascii_lowercase().ends_with(";base64") {
        return Ok(bytes);
    }
    let packed: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(packed).map_err(|_| "the data URL's base64 is wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Vec<u8>, &'static str> {
        read_data(data_of(url).unwrap())
    }

    #[test]
    fn data_is_plain_or_base64() {
        assert_eq!(read("data:,a%20b%FF?x#y").unwrap(), b"a b\xff?x");
        assert_eq!(read("DATA:text/plain;charset=utf-8;base64,aGVs bG8").unwrap(), b"hello");
        assert_eq!(read("data:;base64,aGVsbG8%3D").unwrap(), b"hello");
        read("data:text/plain").unwrap_err();
        read("data:;base64,a*b").unwrap_err();
        assert_eq!((data_of("http://h/data:,x"), data_of("dat")), (None, None));
    }
}
