//! PURE names of a fleet: what a queue, an id, a key or a prefix may be called, and the names of stored objects.
//!
//! Ids and queues may have any characters. Where an engine allows letters only, another character is written as `=` and two
//! hexadecimal digits.

use ground::error::Error;
use ground::hex::hex;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Longest id, queue, key or name, in bytes: an engine has a bound for them.
pub const MAX_NAME_BYTES: usize = 200;
/// A longer path of an artifact is replaced by its digest.
const MAX_PATH_BYTES: usize = 1000;

/// The highest class; its lane is asked first.
pub const MAX_PRIORITY: u8 = 9;
/// Priority of a job that does not set one.
pub const DEFAULT_PRIORITY: u8 = 4;
pub const DEFAULT_QUEUE: &str = "default";
/// Prefix of a fleet that does not set one.
pub const DEFAULT_PREFIX: &str = "sd";

/// Refuses an empty name, and one that is too long.
pub fn check_name(path: &str, name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        let problem = format!("expected a name of 1 to {MAX_NAME_BYTES} bytes, got {} bytes", name.len());
        return Err(Error::invalid_option(path, problem));
    }
    Ok(())
}

pub fn is_prefix(text: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    !text.is_empty() && text.len() <= 32 && text.bytes().all(is_letter)
}

/// The object that names the last job of an agent's session. It is no job's own object: those have a number there.
pub fn session_object(provider: &str, session: &str) -> String {
    format!("session/{provider}/{}", escape(session))
}

/// The object of an artifact of an attempt.
pub fn artifact_object(id: &str, attempt: u32, path: &str) -> String {
    if path.len() > MAX_PATH_BYTES {
        return format!("{}/{attempt}//long/{}", escape(id), digest(path));
    }
    format!("{}/{attempt}/{path}", escape(id))
}

/// The object with the spec of a job that is too long for its message.
pub fn spec_object(id: &str) -> String {
    format!("{}/0//spec", escape(id))
}

/// The id of the job that an object belongs to.
pub fn job_of_object(name: &str) -> Option<String> {
    unescape(name.split('/').next()?)
}

pub(crate) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Letters, digits, `-` and `_` stay; every other byte is written as `=` and its hexadecimal digits.
pub(crate) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "={byte:02x}");
        }
    }
    escaped
}

pub(crate) fn unescape(name: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(name.len()), name.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'=' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_replaced_by_its_digest() {
        let path = "d/".repeat(2000);
        let object = artifact_object("a", 1, &path);
        assert!(object.len() < 200, "{object}");
        assert_ne!(object, artifact_object("a", 1, &"e/".repeat(2000)));
        assert_eq!(spec_object("a"), "a/0//spec");
    }

    #[test]
    fn an_object_names_its_job() {
        for id in ["a", "ä/1", "a.b", "=0a", "session"] {
            assert_eq!(job_of_object(&artifact_object(id, 1, "x/y")).as_deref(), Some(id));
        }
    }

    #[test]
    fn a_prefix_has_few_letters() {
        assert!(is_prefix("team-2"));
        for wrong in ["", "Team", "a.b", "a b", "a_b"] {
            assert!(!is_prefix(wrong), "{wrong}");
        }
    }
}
