//! The part of a start that comes before its program.

use crate::resolved_command::ResolvedCommand;
use ground::error::Result;

/// Gives the command to start. It blocks, and runs on the thread that then asks the system for the program.
pub(crate) type Preparation = Box<dyn FnOnce() -> Result<ResolvedCommand> + Send>;
