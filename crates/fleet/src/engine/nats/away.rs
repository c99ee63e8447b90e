//! PURE: the error for a server that does not answer.

use ground::error::{Error, ErrorCode};
use std::fmt::Display;

pub(super) fn away(why: impl Display) -> Error {
    let message = format!("the nats-server does not answer ({why}): is it running?");
    Error::new(ErrorCode::FleetUnreachable, message)
}
