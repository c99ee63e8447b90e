//! PURE: finds the positions of the tokens of a line of JSON, 64 bytes at a step.
//!
//! For each block, three masks mark quotes, backslashes and the other characters of the grammar. Arithmetic on the masks finds
//! the escaped quotes and the insides of strings; only tokens are examined one by one. On x86-64 the masks come from AVX2 if
//! the processor has it, else from SSE2, which every one has; elsewhere from a plain loop.

#[cfg(target_arch = "x86_64")]
use std::arch::is_x86_feature_detected;

const BLOCK: usize = 64;
/// Number of blocks between two looks at how many tokens were found.
const STRETCH: usize = 256;

/// The bytes of a line that most lines lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusual {
    /// An escape of the form `\uXXXX`.
    pub(crate) has_code: bool,
    /// Not all of it is ASCII.
    pub(crate) has_wide: bool,
}

/// Appends the places of all quotes that are not escaped, and of all `{}[]:,` outside of strings. `None`: a string does not end, or
/// there are more than `most` of them.
pub(crate) fn find(line: &[u8], places: &mut Vec<u32>, most: usize) -> Option<Unusual> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { wide::find(line, places, most) };
    }
    scan(line, places, most, masks, before_and_at)
}

/// `masks` and `parity` are those of the processor; inlined into a function that is compiled for it.
#[inline(always)]
fn scan(
    line: &[u8],
    places: &mut Vec<u32>,
    most: usize,
    masks: impl Fn(&[u8; BLOCK]) -> Masks,
    parity: impl Fn(u64) -> u64,
) -> Option<Unusual> {
    let mut carry = Carry::default();
    let (blocks, rest) = line.as_chunks::<BLOCK>();
    let mut base = 0;
    for stretch in blocks.chunks(STRETCH) {
        for block in stretch {
            push(carry.tokens(masks(block), block, &parity), base, places);
            base += BLOCK as u32;
        }
        if places.len() > most {
            return None;
        }
    }
    if !rest.is_empty() {
        let mut block = [b' '; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        push(carry.tokens(masks(&block), &block, &parity), base, places);
    }
    let unusual = Unusual { has_code: carry.has_code, has_wide: carry.wide != 0 };
    (carry.in_string == 0 && places.len() <= most).then_some(unusual)
}

/// State that passes from one block to the next.
#[derive(Default)]
struct Carry {
    /// All ones inside of a string.
    in_string: u64,
    /// Whether the block's first byte is escaped.
    is_escaped: bool,
    has_code: bool,
    wide: u32,
}

#[derive(Clone, Copy)]
struct Masks {
    quotes: u64,
    backslashes: u64,
    grammar: u64,
    /// Zero: all is ASCII.
    wide: u32,
}

impl Carry {
    #[inline(always)]
    fn tokens(&mut self, masks: Masks, block: &[u8; BLOCK], parity: impl Fn(u64) -> u64) -> u64 {
        self.wide |= masks.wide;
        let escaped = if masks.backslashes == 0 && !self.is_escaped {
            0
        } else {
            self.escaped(masks.backslashes, block)
        };
        let quotes = masks.quotes & !escaped;
        let inside = parity(quotes) ^ self.in_string;
        self.in_string = ((inside as i64) >> 63) as u64;
        (masks.grammar & !inside) | quotes
    }

    /// The bytes behind a backslash that is not itself escaped.
    fn escaped(&mut self, backslashes: u64, block: &[u8; BLOCK]) -> u64 {
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
        let mut rest = escaped;
        while rest != 0 {
            self.has_code |= block[rest.trailing_zeros() as usize] == b'u';
            rest &= rest - 1;
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

/// Positions that are written at a step, whether needed or not: a block has few tokens or many.
const STRIDE: usize = 8;

#[inline(always)]
fn push(mut tokens: u64, base: u32, places: &mut Vec<u32>) {
    let (known, new) = (places.len(), tokens.count_ones() as usize);
    places.reserve(BLOCK + STRIDE);
    let spare = places.spare_capacity_mut();
    let mut written = 0;
    while written < new {
        let Some(slots) = spare.get_mut(written..written + STRIDE) else { return };
        for slot in slots {
            slot.write(base.wrapping_add(tokens.trailing_zeros()));
            tokens &= tokens.wrapping_sub(1);
        }
        written += STRIDE;
    }
    // SAFETY: the capacity was reserved, and the first `new` slots of it were written.
    unsafe { places.set_len(known + new) };
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
    let mut masks = Masks { quotes: 0, backslashes: 0, grammar: 0, wide: 0 };
    let quote = _mm_set1_epi8(b'"' as i8);
    let backslash = _mm_set1_epi8(b'\\' as i8);
    let case = _mm_set1_epi8(0x20);
    let mut any = _mm_set1_epi8(0);
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
        any = _mm_or_si128(any, bytes);
        masks.quotes |= u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, quote)) as u16) << shift;
        masks.backslashes |= u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, backslash)) as u16) << shift;
        // With this bit set "[" is "{", and "]" is "}".
        let folded = _mm_or_si128(bytes, case);
        let brackets = _mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close));
        let marks = _mm_or_si128(_mm_cmpeq_epi8(bytes, colon), _mm_cmpeq_epi8(bytes, comma));
        masks.grammar |= u64::from(_mm_movemask_epi8(_mm_or_si128(brackets, marks)) as u16) << shift;
    }
    masks.wide = _mm_movemask_epi8(any) as u32;
    masks
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use crate::json::token::{BLOCK, Masks, Unusual, scan};
    use std::arch::x86_64::{
        __m256i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8, _mm256_cmpeq_epi8,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8,
    };

    #[target_feature(enable = "avx2,pclmulqdq,bmi1,popcnt")]
    pub(super) fn find(line: &[u8], places: &mut Vec<u32>, most: usize) -> Option<Unusual> {
        scan(line, places, most, |block| masks(block), |bits| parity(bits))
    }

    /// Times all ones, without carries.
    #[target_feature(enable = "avx2,pclmulqdq,bmi1,popcnt")]
    #[inline]
    fn parity(bits: u64) -> u64 {
        let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1));
        _mm_cvtsi128_si64(product) as u64
    }

    #[target_feature(enable = "avx2,pclmulqdq,bmi1,popcnt")]
    #[inline]
    pub(super) fn masks(block: &[u8; BLOCK]) -> Masks {
        // SAFETY: both halves lie in the block, and the load needs no alignment.
        let halves = unsafe {
            [
                _mm256_loadu_si256(block.as_ptr().cast::<__m256i>()),
                _mm256_loadu_si256(block.as_ptr().add(BLOCK / 2).cast::<__m256i>()),
            ]
        };
        let quote = _mm256_set1_epi8(b'"' as i8);
        let backslash = _mm256_set1_epi8(b'\\' as i8);
        let case = _mm256_set1_epi8(0x20);
        let [open, close, colon, comma] = [
            _mm256_set1_epi8(b'{' as i8),
            _mm256_set1_epi8(b'}' as i8),
            _mm256_set1_epi8(b':' as i8),
            _mm256_set1_epi8(b',' as i8),
        ];
        let mut masks = Masks { quotes: 0, backslashes: 0, grammar: 0, wide: 0 };
        for (half, shift) in [(halves[0], 0), (halves[1], 32)] {
            let bits = |found: __m256i| u64::from(_mm256_movemask_epi8(found) as u32) << shift;
            masks.quotes |= bits(_mm256_cmpeq_epi8(half, quote));
            masks.backslashes |= bits(_mm256_cmpeq_epi8(half, backslash));
            // With this bit set "[" is "{", and "]" is "}".
            let folded = _mm256_or_si256(half, case);
            let brackets = _mm256_or_si256(_mm256_cmpeq_epi8(folded, open), _mm256_cmpeq_epi8(folded, close));
            let marks = _mm256_or_si256(_mm256_cmpeq_epi8(half, colon), _mm256_cmpeq_epi8(half, comma));
            masks.grammar |= bits(_mm256_or_si256(brackets, marks));
        }
        masks.wide = _mm256_movemask_epi8(_mm256_or_si256(halves[0], halves[1])) as u32;
        masks
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn masks(block: &[u8; BLOCK]) -> Masks {
    plain_masks(block)
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn plain_masks(block: &[u8; BLOCK]) -> Masks {
    let mut masks = Masks { quotes: 0, backslashes: 0, grammar: 0, wide: 0 };
    for (at, byte) in block.iter().enumerate() {
        let bit = 1 << at;
        match byte {
            b'"' => masks.quotes |= bit,
            b'\\' => masks.backslashes |= bit,
            b'{' | b'}' | b'[' | b']' | b':' | b',' => masks.grammar |= bit,
            0x80.. => masks.wide = 1,
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
    fn slowly(line: &[u8]) -> (Vec<u32>, Option<Unusual>) {
        let (mut places, mut in_string, mut is_escaped) = (Vec::new(), false, false);
        let mut has_code = false;
        for (at, byte) in line.iter().enumerate() {
            let was_escaped = std::mem::take(&mut is_escaped);
            has_code |= was_escaped && *byte == b'u';
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
        let unusual = Unusual { has_code, has_wide: !line.is_ascii() };
        (places, (!in_string).then_some(unusual))
    }

    proptest! {
        #[test]
        fn finds_what_a_slow_look_finds(line in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(b'u'), Just(b'{'), Just(b']'), Just(b','), any::<u8>()], 0..400)) {
            let (mut places, mut narrow) = (Vec::new(), Vec::new());
            let ends = find(&line, &mut places, usize::MAX);
            prop_assert_eq!((places.clone(), ends), slowly(&line));
            for most in [places.len().saturating_sub(1), places.len()] {
                let fits = ends.filter(|_| most == places.len());
                prop_assert_eq!(find(&line, &mut Vec::new(), most), fits);
            }
            let ends = scan(&line, &mut narrow, usize::MAX, masks, before_and_at);
            prop_assert_eq!((narrow, ends), slowly(&line));
        }

        #[test]
        fn the_masks_are_the_same_on_every_processor(block in proptest::array::uniform32(any::<u8>())) {
            let mut whole = [0; BLOCK];
            whole[..32].copy_from_slice(&block);
            whole[32..].copy_from_slice(&block);
            let (quick, plain) = (masks(&whole), plain_masks(&whole));
            let bits = |masks: Masks| (masks.quotes, masks.backslashes, masks.grammar, masks.wide != 0);
            prop_assert_eq!(bits(quick), bits(plain));
        }
    }
}
