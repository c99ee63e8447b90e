//! The Copilot CLI's events and their meaning, by tables and random input, without processes or sockets.

mod copilot_event_log;
mod copilot_resume;
mod copilot_turns;
