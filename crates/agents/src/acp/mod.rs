//! Sessions with any agent over the Agent Client Protocol: many prompts to one process, live questions, a true idle.
//!
//! ```text
//! Session (handle) ──orders─> owner (one select!) ──────────> connection: jsonrpc, a JSON text a line, over process
//!                               │ wishes   what its users say
//!                               │ hearing  what the agent says, and whose it is
//!                               │ asking   its questions: rules, handler, time-out
//!                               │ turns    from a prompt to what it came to;  ladder  the end, asked and by force;  rest  at a usage limit
//!                               │ active   PURE  the prompt under way
//!                               │            turn_state · verdict · account   PURE
//!                               └ tool_book · settings · permission · question · update · agent   PURE
//! ```
//!
//! [`open`] finds and starts the program, shakes hands (`opening`: both versions of the protocol are asked for at once, the
//! agent takes what it speaks) and gives a cloneable [`Session`]. One process a session: a cancel that is not obeyed ends in a
//! kill, which must hit nobody else. Prompts are sent one at a time, in their order; each is a `harness::Turn`.
//!
//! What arrives waits in one bounded queue, in the order of the wire, answers too. A listener that is behind holds it up, and
//! with it the agent's pipe; silence is not counted then, nor while a question is open or a tool of the host's own runs.
//!
//! A turn is over when the agent says so and nothing goes on behind it (`turn_state`); what it came to is weighed (`verdict`).
//! It is ended by us through a ladder: `session/cancel`, open questions answered as void, `kill_grace`, SIGKILL to the tree, with
//! which the session is over too. Dropping the last handle closes the session.
//!
//! The JSON of updates is read field by field and not through types: one word that a type does not know must not cost the
//! rest of its message, for who misses the end of a tool call waits for it.

mod account;
mod active;
mod agent;
mod agent_log;
mod asking;
mod connection;
mod examination;
mod hearing;
mod ladder;
mod opening;
mod opening_fault;
mod order;
mod owner;
mod permission;
mod program;
mod question;
mod request;
mod rest;
mod search;
mod session;
mod session_record;
mod settings;
mod stray;
mod tool_book;
mod transcript;
mod turn_state;
mod turns;
mod update;
mod verdict;
mod wishes;
mod young_chat;

pub use crate::harness::Level;
pub use examination::{Speaker, examine};
pub use permission::{Policy, Rule};
pub use question::{Answer, Decider, HostRequest, Location, Question, QuestionOption, QuestionTool};
pub use request::{McpServer, OpenRequest, PromptRequest};
pub use session::{Answered, Session, WeakSession, open};
pub use settings::{Choice, Mode, SessionOption};
pub use transcript::fuzz_transcript;
pub use turn_state::Version;
