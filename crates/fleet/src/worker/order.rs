//! The orders to a worker's owner.

pub(super) enum Order {
    Close,
    Stop,
}
