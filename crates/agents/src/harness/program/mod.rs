//! The program of an agent: where it is installed, how it is started, and the check of both (`doctor`).

pub mod doctor;
pub mod install;
pub(crate) mod node;
