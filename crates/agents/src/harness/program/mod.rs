//! The program of an agent: where it is installed, and its check (`doctor`). `launch` has how it is started.

pub mod doctor;
pub mod install;
pub(crate) mod node;
