//! The program of an agent: where it is installed, how it is started, and the check of both (`doctor`).

pub(crate) mod depth;
pub mod doctor;
pub mod install;
pub mod launch;
pub(crate) mod node;
pub mod package;
