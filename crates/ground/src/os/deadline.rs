//! Waiting for an optional deadline.

use std::future::pending;
use tokio::time::Instant;

/// Resolves at the deadline. Stays pending when there is none.
pub async fn sleep_until(deadline: Option<impl Into<Instant>>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
