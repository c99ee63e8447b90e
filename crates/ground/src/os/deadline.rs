//! Waiting for a time that may not be set.

use std::future::pending;
use tokio::time::Instant;

/// Resolves at the deadline; never without one.
pub async fn sleep_until(deadline: Option<impl Into<Instant>>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
