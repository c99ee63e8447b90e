//! PURE: the data that waits for the disk, in its original order.

use std::mem::take;

crate::named! {
    /// The file that a piece belongs to. Its name is that of the channel in `times`, too.
    pub enum Channel {
        Stdout = "stdout",
        Stderr = "stderr",
        /// Whole lines of JSON.
        Events = "events.jsonl",
        /// Entries for `times`, such as `pid 42`.
        Note = "times",
    }
}

/// A run is held back once this many bytes wait.
pub(super) const FULL: usize = 4 << 20;
/// Most bytes that may wait. The margin above `FULL` takes what a run reads at its end without regard to slow readers.
const MOST: usize = 16 << 20;
/// Added to each piece's length to account for the piece itself.
const PIECE: usize = 16;

/// A piece of data. Its bytes are in [`Batch::bytes`], one piece after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub channel: Channel,
    /// Time since the start of the record.
    pub ms: u64,
    pub length: usize,
    /// Bytes of the channel that were left out right before this piece.
    pub left_out: u64,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    pub pieces: Vec<Piece>,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    batch: Batch,
    left_out: [u64; 4],
    /// Weight of the data that the writer has taken and not yet written.
    in_flight: usize,
}

impl Buffer {
    /// Adds a piece. Data that does not fit is left out and counted.
    pub(super) fn push(&mut self, channel: Channel, ms: u64, bytes: &[u8]) {
        if self.weight() + bytes.len() > MOST {
            self.left_out[channel as usize] += bytes.len() as u64;
            return;
        }
        let left_out = take(&mut self.left_out[channel as usize]);
        self.batch.bytes.extend_from_slice(bytes);
        // Data of the same millisecond is joined into one piece, so that a program that prints byte by byte does not create many.
        if let Some(last) = self.batch.pieces.last_mut()
            && (last.channel, last.ms, left_out) == (channel, ms, 0)
            && channel != Channel::Note
        {
            last.length += bytes.len();
            return;
        }
        self.batch.pieces.push(Piece { channel, ms, length: bytes.len(), left_out });
    }

    /// Data that was left out at the very end gets a piece of its own.
    pub(super) fn close(&mut self, ms: u64) {
        for channel in Channel::ALL {
            let left_out = take(&mut self.left_out[channel as usize]);
            if left_out > 0 {
                self.batch.pieces.push(Piece { channel, ms, length: 0, left_out });
            }
        }
    }

    fn weight(&self) -> usize {
        self.in_flight + self.batch.bytes.len() + self.batch.pieces.len() * PIECE
    }

    pub(super) fn is_full(&self) -> bool {
        self.weight() >= FULL
    }

    /// Whether there is enough data for an early flush.
    pub(super) fn is_large(&self) -> bool {
        self.batch.bytes.len() >= FULL / 4
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.pieces.is_empty()
    }

    pub(super) fn take(&mut self) -> Batch {
        self.in_flight = self.weight();
        take(&mut self.batch)
    }

    /// The data that was taken has been written or given up.
    pub(super) fn written(&mut self) {
        self.in_flight = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_one_millisecond_are_one_and_their_order_is_kept() {
        let mut buffer = Buffer::default();
        for (channel, ms, text) in [
            (Channel::Stdout, 1, "a"),
            (Channel::Stdout, 1, "b"),
            (Channel::Stderr, 1, "c"),
            (Channel::Stdout, 1, "d"),
            (Channel::Stdout, 2, "e"),
        ] {
            buffer.push(channel, ms, text.as_bytes());
        }
        let batch = buffer.take();
        assert_eq!(batch.bytes, b"abcde");
        let lengths: Vec<_> = batch.pieces.iter().map(|piece| (piece.channel, piece.length)).collect();
        let (out, err) = (Channel::Stdout, Channel::Stderr);
        assert_eq!(lengths, [(out, 2), (err, 1), (out, 1), (out, 1)]);
    }

    #[test]
    fn what_does_not_fit_is_counted_where_it_is_missing() {
        let mut buffer = Buffer::default();
        buffer.push(Channel::Stdout, 1, &vec![b'x'; MOST - 100]);
        assert!(buffer.is_full());
        buffer.push(Channel::Stdout, 1, &[b'y'; 200]);
        buffer.push(Channel::Stderr, 1, b"short");
        let batch = buffer.take();
        assert_eq!(batch.pieces.len(), 2);
        buffer.push(Channel::Stdout, 2, &[b'z'; 300]);
        buffer.written();
        assert!(!buffer.is_full());
        buffer.push(Channel::Stdout, 3, b"again");
        let piece = buffer.take().pieces[0];
        assert_eq!((piece.left_out, piece.length), (500, 5), "until it is written, what was taken counts");
        buffer.push(Channel::Events, 4, &vec![0; MOST + 1]);
        buffer.close(5);
        assert_eq!(buffer.take().pieces[0].left_out, MOST as u64 + 1);
    }
}
