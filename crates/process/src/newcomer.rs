//! Finds processes that were born into a tree in a span of time: those that an agent started for one piece of work and may have
//! left running.

use super::census::command_of;
use ground::os::{ProcessIdentity, ProcessTable, blocking, kill_process, start_time, ticks_now};
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Longest wait until killed processes are gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// A moment to which the start times of processes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    pub fn now() -> Moment {
        Moment(ticks_now())
    }
}

/// A process that was born between two moments, and lives.
#[derive(Debug)]
pub struct Newcomer {
    pub identity: ProcessIdentity,
    pub command: String,
}

/// Living descendants of `root` that started between the two moments, both included: start times are known to ten milliseconds.
/// Empty where there is no process table.
pub(super) async fn newcomers(root: i32, since: Moment, until: Moment) -> Vec<Newcomer> {
    let look = move || {
        let born = ProcessTable::read().unwrap_or_default().descendants(root);
        let is_new =
            |identity: &ProcessIdentity| identity.start_time >= since.0 && identity.start_time <= until.0;
        let newcomer = |identity: ProcessIdentity| Newcomer { identity, command: command_of(identity.pid) };
        // A zombie has no words any more.
        let lives = |newcomer: &Newcomer| !newcomer.command.is_empty();
        born.into_iter().filter(is_new).map(newcomer).filter(lives).collect()
    };
    blocking(look).await.unwrap_or_default()
}

/// SIGKILL to each; resolves when they are gone, or after two seconds.
pub async fn end(newcomers: &[Newcomer]) {
    for newcomer in newcomers {
        kill_process(newcomer.identity);
    }
    let is_left =
        || newcomers.iter().any(|one| start_time(one.identity.pid) == Some(one.identity.start_time));
    let gone = async {
        while is_left() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, gone).await;
}
