//! Sessions with any agent over the Agent Client Protocol: many prompts to one process, live permission questions, reliable idle.
//!
//! ```text
//! session (handle) ──orders─> owner (one select!) ──────────> wire: jsonrpc, a JSON text a line, over process
//!                               │ user_orders     orders of the session's users
//!                               │ agent_messages  the agent's messages, and the turn that each belongs to
//!                               │ questions       the agent's questions: rules, handler, timeout
//!                               │ turns  from a prompt to its result;  stopping  cancel, then kill;  limit_wait  usage limits
//!                               └ state    its state, in parts; active  PURE  the prompt under way
//! turn  PURE  turn_state, verdict, account, tool_book        question  PURE  permissions, input and paths
//! ```
//!
//! [`open`] finds and starts the program, makes the handshake (`opening`: both versions of the protocol are offered at once,
//! and the agent picks one) and returns a cloneable [`Session`]. There is one process per session: an ignored cancel ends in a
//! kill, which must not hit another session. Prompts are sent one at a time, in their order; each is a `harness::Turn`.
//!
//! All incoming messages, answers too, wait in one bounded queue, in the order of the wire. A slow listener holds the queue up,
//! and with it the agent's pipe. Silence is not counted then, nor while a question is open or a tool of the host's own runs.
//!
//! A turn is over when the agent ends it and no work of it goes on in the background (`turn_state`). Its evidence is then
//! weighed (`verdict`). A turn is stopped in steps: `session/cancel`, open questions answered as cancelled, then after
//! `kill_grace` SIGKILL to the tree, which ends the session too. Dropping the last handle closes the session.
//!
//! The JSON of updates is read field by field and not through types. An unknown word in one field must not cost the rest of its
//! message: a client that misses the end of a tool call waits for it.

mod face;
mod opening;
mod owner;
mod question;
mod session;
mod state;
pub mod turn;
pub mod wire;

pub use crate::harness::Level;
#[cfg(any(test, fuzzing))]
pub use face::fuzz_face;
pub use face::{ClientSink, serve};
pub use opening::examination::{Speaker, examine, list_sessions};
pub use opening::request::{McpServer, OpenRequest, PromptPart, PromptRequest};
pub use opening::settings::{Choice, Mode, SessionOption};
pub use question::elicitation::{Elicitation, Elicited};
pub use question::own_tool::OwnTool;
pub use question::policy::{Policy, Rule};
pub use question::{Answer, HostRequest, Location, Question, QuestionOption, QuestionTool};
pub use session::single_turn::start_turn;
pub use session::{Answered, Session, WeakSession, open};
pub use turn::turn_state::Version;
