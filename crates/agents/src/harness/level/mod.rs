//! PURE: the permission levels, which say how much an agent may do without a person.
//!
//! A level is enforced by the CLI's own means, which each provider's file describes: for a turn in `hold`, for a session over the
//! Agent Client Protocol in `modes`. A level that a CLI can't be held to is refused, and never widened.

pub(crate) mod allow;
pub(crate) mod command;
pub(crate) mod glob;
mod script;
mod shell;
mod starter;
#[cfg(any(test, fuzzing))]
mod wrapped_tests;

#[cfg(any(test, fuzzing))]
pub use wrapped_tests::fuzz_commands;

use ground::error::Error;

ground::named! {
    /// How much the agent may do.
    #[derive(Default)]
    pub enum Level {
        /// It reads.
        Plan = "plan",
        /// It also writes in its working directory, and runs the commands that are allowed by name.
        #[default]
        Edit = "edit",
        /// It asks for all else. Of sessions alone.
        Ask = "ask",
        /// Everything, unasked.
        Auto = "auto",
    }
}

/// How a session over the Agent Client Protocol is held to a level.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mode {
    /// The agent's own mode; empty: it is left as it starts.
    pub id: &'static str,
    pub args: &'static [&'static str],
    pub set: &'static [(&'static str, &'static str)],
    /// `_meta` of the request that begins the session, as JSON; empty: none.
    pub meta: &'static str,
    /// A mode that is made for the session goes before `id`, if the agent then offers it.
    pub made: Option<MakeMode>,
}

/// Makes a mode of this name: the variable that holds it, and its value. `variable`: of the caller's environment.
pub type MakeMode =
    fn(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Result<(&'static str, String), Error>;

impl Mode {
    /// The agent's own mode, with nothing else.
    pub(crate) const fn plain(id: &'static str) -> Mode {
        Mode { id, args: &[], set: &[], meta: "", made: None }
    }

    pub(crate) const fn named(id: &'static str) -> Option<Mode> {
        Some(Mode::plain(id))
    }
}

/// Plan, edit, ask, auto; `None`: a session can't be held there.
pub type Modes = [Option<Mode>; 4];

/// A CLI that asks nobody: everything, or nothing.
pub(crate) const AUTO_ALONE: Modes = [None, None, None, Mode::named("")];

/// The level can't be held by this CLI.
pub(crate) fn unholdable(level: Level, why: &str) -> Error {
    Error::invalid_option("permission", format!("{:?} cannot be enforced: {why}", level.as_str()))
}

/// The CLI's own rules decide which commands match a glob of `allow`, and each of them was seen to let others through: a
/// redirection, an option that writes a file, a substitution. So the kernel has to hold what they let through.
pub(crate) fn allowable_in_sandbox(allow: &[String], is_sandboxed: bool) -> Result<(), Error> {
    if allow.is_empty() || is_sandboxed {
        return Ok(());
    }
    let why = "in a turn the CLI's own rules decide which commands match, and they let others through. Add `sandbox: \"workspace\"`, or use a session (`harness.open`), where Sheepdog decides";
    Err(Error::invalid_option("allow", why))
}

/// The CLI can't be told which commands may run.
pub(crate) fn unallowable(allow: &[String], why: &str) -> Result<(), Error> {
    if allow.is_empty() { Ok(()) } else { Err(Error::invalid_option("allow", why)) }
}
