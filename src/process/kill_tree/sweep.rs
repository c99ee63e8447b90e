//! One look at the process table for all runs that end in the same moment.
//!
//! The first caller becomes the sweeper: it looks at the table again and again until no request is open. Requests that arrive
//! while it looks are served together by the next look.

use super::table::{ProcessEntry, ProcessTable};
use super::{ProcessIdentity, kill_process};
use crate::process::command::MARK;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A look that still finds somebody is followed by another one, for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// What belongs to an ended run.
#[derive(Clone, Debug)]
pub(crate) struct SweepRequest {
    /// The command, not yet reaped: its group's number can't be another's. 0: it is gone, and so is the claim on its group
    /// (kernel threads, and strangers seen from inside a container, are in a group of that number).
    pub leader: i32,
    pub mark: String,
    /// Found by walking parents before the kill.
    pub known: Vec<ProcessIdentity>,
}

/// What became of an ended run's processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    pub killed: u32,
    /// Alive in spite of it: they run as another user.
    pub left: u32,
}

struct Pending {
    request: SweepRequest,
    killed: HashSet<ProcessIdentity>,
    until: Instant,
    reply: oneshot::Sender<Swept>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: Vec::new(), sweeping: false });

struct Queue {
    waiting: Vec<Pending>,
    sweeping: bool,
}

/// Kills everything that belongs to the run, the leader's zombie aside. Resolves when a look at the
/// process table found none left alive.
pub(crate) async fn sweep(request: SweepRequest) -> Swept {
    let (reply, swept) = oneshot::channel();
    let pending = Pending { request, killed: HashSet::new(), until: Instant::now() + PATIENCE, reply };
    let first = {
        let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.push(pending);
        !std::mem::replace(&mut queue.sweeping, true)
    };
    if first {
        tokio::task::spawn_blocking(run_sweeps);
    }
    swept.await.unwrap_or_default()
}

fn run_sweeps() {
    let mut open: Vec<Pending> = Vec::new();
    loop {
        {
            let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            open.append(&mut queue.waiting);
            if open.is_empty() {
                queue.sweeping = false;
                return;
            }
        }
        let table = ProcessTable::read();
        let environments = Environments::default();
        let mut still_open = Vec::new();
        for mut pending in open {
            let found = members(&table, &pending.request, |entry, mark| environments.has_mark(entry, mark));
            for identity in &found {
                // The known were counted when they were first killed.
                if kill_process(*identity) && !pending.request.known.contains(identity) {
                    pending.killed.insert(*identity);
                }
            }
            if found.is_empty() || Instant::now() > pending.until {
                let left = found.len();
                let swept = Swept {
                    killed: (pending.killed.len() - left.min(pending.killed.len())) as u32,
                    left: left as u32,
                };
                let _ = pending.reply.send(swept);
            } else {
                still_open.push(pending);
            }
        }
        open = still_open;
        if !open.is_empty() {
            // The killed need a moment to leave the table.
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

/// Who in the table belongs to the run.
fn members(
    table: &ProcessTable,
    request: &SweepRequest,
    has_mark: impl Fn(&ProcessEntry, &str) -> bool,
) -> Vec<ProcessIdentity> {
    let known: HashSet<&ProcessIdentity> = request.known.iter().collect();
    let own = std::process::id() as i32;
    table
        .entries()
        .iter()
        .filter(|entry| entry.identity.pid != request.leader && entry.identity.pid != own)
        .filter(|entry| {
            (request.leader > 0 && entry.group == request.leader)
                || known.contains(&entry.identity)
                || has_mark(entry, &request.mark)
        })
        .map(|entry| entry.identity)
        .collect()
}

/// Environments read at most once a look, however many runs ask.
#[derive(Default)]
struct Environments {
    read: std::cell::RefCell<std::collections::HashMap<i32, Vec<u8>>>,
}

impl Environments {
    fn has_mark(&self, entry: &ProcessEntry, mark: &str) -> bool {
        let mut read = self.read.borrow_mut();
        let marks = read.entry(entry.identity.pid).or_insert_with(|| marks_of(entry.identity.pid));
        marks.split(|&byte| byte == 0).any(|found| found == mark.as_bytes())
    }
}

/// The values of the mark in a process's environment, each ended by NUL.
fn marks_of(pid: i32) -> Vec<u8> {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return Vec::new() };
    let prefix = format!("{MARK}=");
    environment
        .split(|&byte| byte == 0)
        .filter_map(|variable| variable.strip_prefix(prefix.as_bytes()))
        .flat_map(|value| value.iter().copied().chain([0]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, group: i32) -> ProcessEntry {
        ProcessEntry { identity: ProcessIdentity { pid, start_time: 1 }, parent: 1, group, cpu_ticks: 0 }
    }

    #[test]
    fn without_a_leader_no_group_is_claimed() {
        let table = ProcessTable::of(vec![entry(2, 0), entry(10, 10), entry(13, 13)]);
        let request = SweepRequest { leader: 0, mark: "m".into(), known: Vec::new() };
        let found = members(&table, &request, |entry, mark| mark == "m" && entry.identity.pid == 13);
        let pids: Vec<i32> = found.iter().map(|identity| identity.pid).collect();
        assert_eq!(pids, [13]);
    }

    #[test]
    fn finds_members_by_group_by_walk_and_by_mark_but_never_the_leader() {
        let table =
            ProcessTable::of(vec![entry(10, 10), entry(11, 10), entry(12, 12), entry(13, 13), entry(14, 14)]);
        let request = SweepRequest {
            leader: 10,
            mark: "m".into(),
            known: vec![
                ProcessIdentity { pid: 12, start_time: 1 },
                ProcessIdentity { pid: 14, start_time: 2 },
            ],
        };
        let found = members(&table, &request, |entry, mark| mark == "m" && entry.identity.pid == 13);
        let pids: Vec<i32> = found.iter().map(|identity| identity.pid).collect();
        assert_eq!(pids, [11, 12, 13], "14 has the pid of one that was seen, but another start time");
    }
}
