//! The end of one attempt.

use crate::harness::event::Usage;
use crate::harness::verdict::transcript::Transcript;
use crate::harness::verdict::{Stop, Verdict};
use ground::error::Error;
use process::{Metered, Refused, RunResult};

/// An attempt that is over.
pub(crate) struct Attempted {
    pub transcript: Transcript,
    pub verdict: Verdict,
    pub process: Option<RunResult>,
    /// Hosts and sockets that the sandbox refused.
    pub refused: Vec<Refused>,
    /// Tokens as they were seen on their way.
    pub metered: Metered,
    /// The process could not be run at all.
    pub error: Option<Error>,
    pub is_aborted: bool,
    /// Usage of the session before this attempt.
    pub before: Option<Usage>,
    /// The reason why the attempt was stopped.
    pub stop: Option<Stop>,
}

impl Attempted {
    /// A model answered, or a tool ran.
    pub(crate) fn has_worked(&self) -> bool {
        self.transcript.digest().has_worked()
    }
}
