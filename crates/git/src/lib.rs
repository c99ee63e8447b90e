//! The one room for git: mirrors and checkouts of remote repositories, checkouts for agents, and what agents leave there.
//!
//! ```text
//! command      a git process: no prompts, no hooks, no programs that a repository names
//! remote, source, mirror, job_checkout     repositories by their address, for the jobs of a fleet
//! repository   a repository on this machine, as its user's own git sees it
//! setting      what a checkout takes over of the user's configuration
//! desk         a folder and the git directory that looks at it
//! snapshot     the tree of a folder's files
//! worktree     a checkout for an agent: made, read and left
//! harvest      commits of an agent, read without running git in its repository
//! changes      what an agent left: its files, its patch, and its way into a working tree
//! room         the place and the lock of one such way
//! journal      what it was about to write, for the case that it is killed
//! ledger       the checkouts of this user, so that none is left behind
//! ```
//!
//! An agent owns its folder and the `.git` in it. So git never runs in that repository again. A git directory of our own looks
//! at the folder, with no configuration but ours. The user's repository is touched in two ways: objects are added, and refs
//! below `refs/sheepdog/` are written.

mod changes;
mod command;
mod desk;
mod folder;
mod harvest;
mod job_checkout;
mod journal;
mod ledger;
mod mirror;
mod place;
mod remote;
mod repository;
mod room;
mod setting;
mod snapshot;
mod source;
mod worktree;

pub use changes::{ChangedFile, Changes, FileStatus};
pub use command::REMOVED;
pub use job_checkout::{Checkout, Leaving, sweep};
pub use ledger::{ReapedWorktree, WorktreeFacts, WorktreeState, list_worktrees, reap_worktrees};
pub use place::GitPlace;
pub use repository::Repository;
pub use source::GitSource;
pub use worktree::{Worktree, WorktreeRequest};
