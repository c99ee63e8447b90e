//! Sessions that move to another machine, by the files that their CLI writes.

pub mod files;
pub(crate) mod place;
