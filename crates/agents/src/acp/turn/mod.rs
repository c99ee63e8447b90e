//! PURE: one turn as the agent reports it: its tools, its sums, its end, and whether it succeeded.

pub(crate) mod heard;
pub(crate) mod session_usage;
pub mod tool_book;
pub mod turn_state;
pub(crate) mod verdict;
