//! PURE: where the tokens of a line of JSON lie, 64 bytes at a step.
//!
//! For each block three masks tell quotes, backslashes and the rest of the grammar's characters. Which quotes are escaped, and
//! what lies inside of strings, follows from the masks by arithmetic; only what is a token is looked at one by one. On x86-64
//! the masks come from SSE2, which every such processor has; elsewhere from a plain loop.

const BLOCK: usize = 64;

/// Appends the places of all quotes that are not escaped, and of all `{}[]:,` outside of strings. `false`: a string does not end.
pub fn find(line: &[u8], places: &mut Vec<u32>) -> bool {
    let mut carry = Carry::default();
    let mut blocks = line.chunks_exact(BLOCK);
    let mut base = 0;
    for block in &mut blocks {
        if let Ok(block) = block.try_into() {
            push(carry.tokens(masks(block)), base, places);
        }
        base += BLOCK as u32;
    }
    let rest = blocks.remainder();
    let mut block = [b' '; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    push(carry.tokens(masks(&block)), base, places);
    carry.in_string == 0
}

/// What one block tells the next.
#[derive(Default)]
struct Carry {
    /// All ones inside of a string.
    in_string: u64,
    /// Whether the block's first byte is escaped.
    is_escaped: bool,
}

#[derive(Clone, Copy)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    grammar: u64,
}

impl Carry {
    #[inline]
    fn tokens(&mut self, masks: Masks) -> u64 {
        let escaped =
            if masks.backslashes == 0 && !self.is_escaped { 0 } else { self.escaped(masks.backslashes) };
        let quotes = masks.quotes & !escaped;
        let inside = before_and_at(quotes) ^ self.in_string;
        self.in_string = ((inside as i64) >> 63) as u64;
        (masks.grammar & !inside) | quotes
    }

    /// The bytes behind a backslash that is not itself escaped.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = u64::from(self.is_escaped);
        let mut left = backslashes & !escaped;
        self.is_escaped = false;
        while left != 0 {
            let at = left.trailing_zeros();
            if at == 63 {
                self.is_escaped = true;
                break;
            }
            escaped |= 2 << at;
            // The backslash and what it escapes are done with.
            left &= !(3 << at);
        }
        escaped
    }
}

/// Each bit: the parity of the bits up to and with it.
#[inline]
fn before_and_at(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[inline]
fn push(mut tokens: u64, base: u32, places: &mut Vec<u32>) {
    places.reserve(BLOCK);
    while tokens != 0 {
        places.push(base + tokens.trailing_zeros());
        tokens &= tokens - 1;
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn masks(block: &[u8; BLOCK]) -> Masks {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { sse2_masks(block) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn sse2_masks(block: &[u8; BLOCK]) -> Masks {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let mut masks = Masks { quotes: 0, backslashes: 0, grammar: 0 };
    let quote = _mm_set1_epi8(b'"' as i8);
    let backslash = _mm_set1_epi8(b'\\' as i8);
    let case = _mm_set1_epi8(0x20);
    let [open, close, colon, comma] = [
        _mm_set1_epi8(b'{' as i8),
        _mm_set1_epi8(b'}' as i8),
        _mm_set1_epi8(b':' as i8),
        _mm_set1_epi8(b',' as i8),
    ];
    for (step, part) in block.chunks_exact(16).enumerate() {
        // SAFETY: the part is 16 bytes long, and the load needs no alignment.
        let bytes = unsafe { _mm_loadu_si128(part.as_ptr().cast::<__m128i>()) };
        let shift = step * 16;
        masks.quotes |= u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote)) as u16) << shift;
        masks.backslashes |= u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, backslash)) as u16) << shift;
        // With this bit set "[" is "{", and "]" is "}".
        let folded = _mm_or_si128(bytes, case);
        let brackets = _mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close));
        let marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, colon), _mm_cmpeq_epi8(bytes, comma));
        masks.grammar |= u64::from(_mm_movemask_epi8(_mm_or_si128(brackets, marks)) as u16) << shift;
    }
    masks
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn masks(block: &[u8; BLOCK]) -> Masks {
    plain_masks(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_masks(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks { quotes: 0, backslashes: 0, grammar: 0 };
    for (at, byte) in block.iter().enumerate() {
        let bit = 1 << at;
        match byte {
            b'"' => masks.quotes |= bit,
            b'\\' => masks.backslashes |= bit,
            b'{' | b'}' | b'[' | b']' | b':' | b',' => masks.grammar |= bit,
            _ => {}
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One byte at a time.
    fn slowly(line: &[u8]) -> (Vec<u32>, bool) {
        let (mut places, mut in_string, mut is_escaped) = (Vec::new(), false, false);
        for (at, byte) in line.iter().enumerate() {
            let was_escaped = std::mem::take(&mut is_escaped);
            match byte {
                b'\\' => is_escaped = !was_escaped,
                b'"' if !was_escaped => {
                    in_string = !in_string;
                    places.push(at as u32);
                }
                b'{' | b'}' | b'[' | b']' | b':' | b',' if !in_string => places.push(at as u32),
                _ => {}
            }
        }
        (places, !in_string)
    }

    proptest! {
        #[test]
        fn finds_what_a_slow_look_finds(line in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(b'{'), Just(b']'), Just(b','), any::<u8>()], 0..400)) {
            let mut places = Vec::new();
            let ends = find(&line, &mut places);
            prop_assert_eq!((places, ends), slowly(&line));
        }

        #[test]
        fn the_masks_are_the_same_on_every_processor(block in proptest::array::uniform32(any::<u8>())) {
            let mut whole = [0; BLOCK];
            whole[..32].copy_from_slice(&block);
            whole[32..].copy_from_slice(&block);
            let (quick, plain) = (masks(&whole), plain_masks(&whole));
            prop_assert_eq!((quick.quotes, quick.backslashes, quick.grammar), (plain.quotes, plain.backslashes, plain.grammar));
        }
    }
}
