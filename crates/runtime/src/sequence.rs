//! PURE order of messages that arrive over breaking sockets: each message is handed on once and in order.

use std::collections::BTreeMap;

/// Limits for messages that arrived before their turn: their number and their size.
const MAX_EARLY: usize = 1024;
const MAX_EARLY_BYTES: usize = 16 << 20;

/// The result of a numbered message's arrival.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// These messages are due now, in this order.
    Due(Vec<T>),
    /// The message was received before.
    Duplicate,
    /// The message waits for earlier ones.
    Early,
    /// Too many messages wait: one was lost, and a new socket has to bring it.
    Lost,
}

#[derive(Debug)]
pub struct Sequence<T> {
    received: u64,
    early: BTreeMap<u64, (T, usize)>,
    early_bytes: usize,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Sequence { received: 0, early: BTreeMap::new(), early_bytes: 0 }
    }
}

impl<T> Sequence<T> {
    /// The last number up to which nothing is missing.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether messages wait for a missing one.
    pub fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    /// `bytes`: approximate size of the message in memory.
    pub fn arrive(&mut self, seq: u64, message: T, bytes: usize) -> Arrival<T> {
        if seq <= self.received || self.early.contains_key(&seq) {
            return Arrival::Duplicate;
        }
        if seq != self.received + 1 {
            if self.early.len() >= MAX_EARLY || self.early_bytes + bytes > MAX_EARLY_BYTES {
                return Arrival::Lost;
            }
            self.early_bytes += bytes;
            self.early.insert(seq, (message, bytes));
            return Arrival::Early;
        }
        self.received = seq;
        let mut due = vec![message];
        while let Some((next, bytes)) = self.early.remove(&(self.received + 1)) {
            self.received += 1;
            self.early_bytes -= bytes;
            due.push(next);
        }
        Arrival::Due(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rule_16_each_message_once_and_in_order_whatever_the_wire_did(
            order in proptest::collection::vec(1u64..40, 0..300)
        ) {
            let mut sequence = Sequence::default();
            let mut delivered = Vec::new();
            for seq in order.iter().copied().chain(1..40) {
                if let Arrival::Due(due) = sequence.arrive(seq, seq, 1) {
                    delivered.extend(due);
                }
            }
            prop_assert_eq!(delivered, (1..40).collect::<Vec<_>>());
            prop_assert!(!sequence.has_gap());
            prop_assert_eq!(sequence.received(), 39);
        }
    }

    #[test]
    fn rule_14_a_gap_does_not_hoard_without_end() {
        let mut sequence = Sequence::default();
        for seq in 2..2 + MAX_EARLY as u64 {
            assert_eq!(sequence.arrive(seq, (), 1), Arrival::Early);
        }
        assert_eq!(sequence.arrive(9999, (), 1), Arrival::Lost);
        let mut sequence = Sequence::default();
        for seq in 2..18 {
            assert_eq!(sequence.arrive(seq, (), 1 << 20), Arrival::Early);
        }
        assert_eq!(sequence.arrive(18, (), 1), Arrival::Lost, "few, but long");
        assert!(matches!(sequence.arrive(1, (), 90 << 20), Arrival::Due(due) if due.len() == 17));
        assert_eq!(sequence.arrive(19, (), 1 << 20), Arrival::Early, "there is room again");
    }
}
