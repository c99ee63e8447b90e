//! Random numbers, and the names and keys made of them. All random values come from this module.
//!
//! | function | use | source |
//! |---|---|---|
//! | [`key`], [`secret`] | values that must not be guessed | the system; `None` when it has no random numbers |
//! | [`name`], [`uuid`] | unique names | the seeds of the standard library's maps |
//! | [`fraction`] | scattering waits | the same |
//!
//! The standard library asks the system once for each thread, for a key of 128 bits. Each new map counts it up and hashes with
//! it. So a name costs no system call.

use crate::hex::hex;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Unpredictable bytes.
pub fn secret<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).ok().map(|()| bytes)
}

/// `N` unpredictable bytes as hexadecimal digits.
pub fn key<const N: usize>() -> Option<String> {
    secret::<N>().map(|bytes| hex(&bytes))
}

/// `N` unique bytes as hexadecimal digits.
pub fn name<const N: usize>() -> String {
    hex(&unique::<N>())
}

/// A random UUID.
pub fn uuid() -> String {
    let mut bytes = unique::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A number from 0 to 1, random enough to scatter waits.
pub fn fraction() -> f64 {
    (seed() >> 11) as f64 / (1u64 << 53) as f64
}

fn unique<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for few in bytes.chunks_mut(8) {
        few.copy_from_slice(&seed().to_ne_bytes()[..few.len()]);
    }
    bytes
}

fn seed() -> u64 {
    // Each RandomState has its own seed.
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_have_their_length_and_come_once() {
        assert_eq!(name::<3>().len(), 6);
        let key_of_16 = key::<16>().unwrap();
        assert_eq!(key_of_16.len(), 32);
        assert_ne!(key::<16>().unwrap(), key_of_16);
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        assert_ne!(seed(), seed(), "what stands in for the system's own differs too");
    }

    #[test]
    fn a_uuid_says_that_it_is_random() {
        let id = uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]), "{id}");
        assert_ne!(id, uuid());
    }

    #[test]
    fn fractions_lie_between_0_and_1_and_differ() {
        let (left, right) = (fraction(), fraction());
        assert!((0.0..1.0).contains(&left) && (0.0..1.0).contains(&right));
        assert_ne!(left, right);
    }
}
