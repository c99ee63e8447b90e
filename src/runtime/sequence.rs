//! PURE order of what arrives over sockets that break: each message once, in order, whatever the wire did.

use std::collections::BTreeMap;

/// What is kept of messages that came before their turn.
const MAX_EARLY: usize = 1024;

/// What a message with a number is.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// These are due now, in this order.
    Due(Vec<T>),
    /// Was here before.
    Duplicate,
    /// Waits for others.
    Early,
    /// Too many wait: the wire has lost something; a new socket has to bring it.
    Lost,
}

#[derive(Debug)]
pub struct Sequence<T> {
    received: u64,
    early: BTreeMap<u64, T>,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Sequence { received: 0, early: BTreeMap::new() }
    }
}

impl<T> Sequence<T> {
    /// The last number up to which nothing is missing.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Messages wait for one that is missing.
    pub fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    pub fn arrive(&mut self, seq: u64, message: T) -> Arrival<T> {
        if seq <= self.received || self.early.contains_key(&seq) {
            return Arrival::Duplicate;
        }
        if seq != self.received + 1 {
            if self.early.len() >= MAX_EARLY {
                return Arrival::Lost;
            }
            self.early.insert(seq, message);
            return Arrival::Early;
        }
        self.received = seq;
        let mut due = vec![message];
        while let Some(next) = self.early.remove(&(self.received + 1)) {
            self.received += 1;
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
                if let Arrival::Due(due) = sequence.arrive(seq, seq) {
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
            assert_eq!(sequence.arrive(seq, ()), Arrival::Early);
        }
        assert_eq!(sequence.arrive(9999, ()), Arrival::Lost);
    }
}
