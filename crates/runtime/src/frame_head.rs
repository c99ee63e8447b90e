//! PURE: reads the heads of a client's WebSocket frames in the bytes that pass. The length of a message is known from them before
//! memory is allocated for it, and so is how many of the bytes are message content.

/// Follows one socket's bytes.
#[derive(Debug, Default)]
pub(super) struct FrameHeads {
    head: [u8; 14],
    have: usize,
    /// Bytes of the current frame's payload that are still to come.
    left: u64,
    is_control: bool,
}

/// Counts for a block of bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Sum of the lengths that the heads of data frames announced.
    pub(super) announced: u64,
    /// Payload bytes of data frames.
    pub(super) data: u64,
}

impl FrameHeads {
    pub(super) fn see(&mut self, mut bytes: &[u8]) -> Seen {
        let mut seen = Seen::default();
        while !bytes.is_empty() {
            if self.left > 0 {
                let some = self.left.min(bytes.len() as u64);
                self.left -= some;
                if !self.is_control {
                    seen.data += some;
                }
                // `some` is at most the length of the slice.
                bytes = &bytes[some as usize..];
                continue;
            }
            self.head[self.have] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if self.have >= 2 && self.have == head_bytes(self.head[1]) {
                self.is_control = self.head[0] & 0x08 != 0;
                self.left = payload_bytes(&self.head);
                self.have = 0;
                if !self.is_control {
                    seen.announced += self.left;
                }
            }
        }
        seen
    }
}

fn head_bytes(second: u8) -> usize {
    let length = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    2 + length + if second & 0x80 != 0 { 4 } else { 0 }
}

fn payload_bytes(head: &[u8; 14]) -> u64 {
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit));
    match head[1] & 0x7f {
        126 => number(&head[2..4]),
        127 => number(&head[2..10]),
        short => u64::from(short),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(first: u8, payload: u64) -> Vec<u8> {
        let mut bytes = match payload {
            0..126 => vec![first, 0x80 | payload as u8],
            126..65_536 => [vec![first, 0x80 | 126], (payload as u16).to_be_bytes().to_vec()].concat(),
            _ => [vec![first, 0x80 | 127], payload.to_be_bytes().to_vec()].concat(),
        };
        bytes.extend_from_slice(&[0; 4]);
        bytes.resize(bytes.len() + payload as usize, 0x81);
        bytes
    }

    #[test]
    fn a_length_is_known_from_its_head_alone() {
        let mut heads = FrameHeads::default();
        let head = &frame(0x81, 70_000)[..14];
        assert_eq!(heads.see(&head[..13]), Seen::default());
        assert_eq!(heads.see(&head[13..]), Seen { announced: 70_000, data: 0 });
    }

    proptest! {
        #[test]
        fn however_the_bytes_come_data_is_told_from_the_rest(
            frames in prop::collection::vec((any::<bool>(), 0u64..70_000), 1..6),
            cuts in prop::collection::vec(0usize..200_000, 0..12),
        ) {
            let frames = frames.into_iter().map(|(ping, bytes)| if ping { (0x89, bytes % 126) } else { (0x01, bytes) });
            let frames: Vec<(u8, u64)> = frames.collect();
            let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| frame(*first, *payload)).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let mut heads = FrameHeads::default();
            let mut all = Seen::default();
            for pair in cuts.windows(2) {
                let seen = heads.see(&bytes[pair[0]..pair[1]]);
                all = Seen { announced: all.announced + seen.announced, data: all.data + seen.data };
            }
            let data: u64 = frames.iter().filter(|(first, _)| *first == 1).map(|(_, payload)| payload).sum();
            prop_assert_eq!(all, Seen { announced: data, data });
        }
    }
}
