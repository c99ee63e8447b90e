//! Sessions with any agent over the Agent Client Protocol: many prompts to one process, live questions, a true idle.
#![expect(dead_code, reason = "its machine, `session`, follows")]
mod account;
mod agent;
mod glob;
mod permission;
mod question;
mod settings;
mod tool_book;
mod turn_state;
mod update;
mod verdict;

pub use permission::{Level, Policy, Rule};
pub use question::{Answer, Decider, Location, Question, QuestionOption, QuestionTool};
pub use settings::{Choice, Mode, SessionOption};
pub use turn_state::Version;
