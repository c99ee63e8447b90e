//! What agents say and what it means: tables, recordings and random input, without processes or sockets. One program, since
//! each one links the whole core.

mod copilot_event_log;
mod copilot_resume;
mod copilot_turns;
mod harness_formats;
mod harness_fuzz;
mod harness_mutations;
mod harness_providers;
mod harness_replay;
