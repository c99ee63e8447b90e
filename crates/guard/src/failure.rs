//! The reason why nothing was started.

/// The reason why nothing was started.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    /// The purpose of the call; 0: nothing failed.
    pub stage: u32,
    /// The call, of `CALL_*`.
    pub call: u32,
    /// The negative errno.
    pub result: isize,
}

/// The result of a call that must not fail.
pub(crate) fn check(stage: u32, call: u32, result: isize) -> Result<isize, Failure> {
    if result < 0 { Err(Failure { stage, call, result }) } else { Ok(result) }
}
