//! Checkouts of real repositories: one file per subject.

mod hostile;
mod killed;
mod odd;
mod scene;
mod worktree;
