//! Finds and kills processes that a run without a guard left behind: by process group, parents, and a mark in the environment.
//! One scan of the process table serves all runs that end at the same moment.
//!
//! - A descendant is found by its process group, by walking parents (before a kill: afterwards orphans have a new parent), or
//!   by the mark that it inherited. Only a guard finds a process that hides from all three.
//! - A pid is only trusted together with its start time (`os`): a recycled one is never hit. Processes that are older than the
//!   run don't belong to it, and are skipped.
//! - Where there is no process table, the group is killed while its leader is a zombie that is not yet reaped.
//!
//! The first caller becomes the sweeper: it scans the table again and again until no request is open. Requests that arrive
//! during a scan are served together by the next one.

use super::command::MARK;
use ground::lock::lock;
use ground::os::{
    ProcessEntry, ProcessIdentity, ProcessTable, blocking, kill_process, signal_group, variables_of,
};
use ground::signal::Signal;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time in which a scan that still finds processes is followed by another one.
const SWEPT_WITHIN: Duration = Duration::from_secs(2);

/// The facts by which processes of an ended run are found.
#[derive(Clone, Debug)]
pub(crate) struct SweepRequest {
    /// Pid of the command, not yet reaped, so that the number of its group can't be reused. 0 if it is reaped: then the group
    /// is not used (kernel threads, and outside processes seen from inside a container, are in a group of number 0).
    pub leader: i32,
    pub mark: String,
    /// Start of the run; older processes are skipped. In clock ticks since boot, as in [`ProcessIdentity`].
    pub since: u64,
    /// Processes that were found by walking parents before the kill.
    pub known: Vec<ProcessIdentity>,
}

/// The result of a sweep of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    pub killed: u32,
    /// Processes that are still alive, because they run as another user.
    pub left: u32,
}

struct PendingSweep {
    request: SweepRequest,
    killed: HashSet<ProcessIdentity>,
    until: Instant,
    reply: oneshot::Sender<Swept>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: Vec::new(), sweeping: false });

struct Queue {
    waiting: Vec<PendingSweep>,
    sweeping: bool,
}

/// Kills everything that belongs to the run, the leader's zombie aside. Resolves when a look at the
/// process table found none left alive.
pub(crate) async fn sweep(request: SweepRequest) -> Swept {
    let (reply, swept) = oneshot::channel();
    let pending =
        PendingSweep { request, killed: HashSet::new(), until: Instant::now() + SWEPT_WITHIN, reply };
    let first = {
        let mut queue = queue();
        queue.waiting.push(pending);
        !std::mem::replace(&mut queue.sweeping, true)
    };
    if first {
        // A task of its own: the run that came first may be dropped, the others' requests may not.
        ground::task::spawn(async {
            let sweeper = Sweeper;
            if blocking(move || sweeper.run()).await.is_err() {
                // No thread is to be had. Here it takes the other runs' time, but the tree is gone.
                queue().sweeping = true;
                Sweeper.run();
            }
        });
    }
    swept.await.unwrap_or_default()
}

fn queue() -> MutexGuard<'static, Queue> {
    lock(&QUEUE)
}

/// Held by the sweeper at work. When it is dropped for any reason, the next request makes another one.
struct Sweeper;

impl Drop for Sweeper {
    fn drop(&mut self) {
        queue().sweeping = false;
    }
}

impl Sweeper {
    fn run(self) {
        let mut open: Vec<PendingSweep> = Vec::new();
        loop {
            {
                let mut queue = queue();
                open.append(&mut queue.waiting);
                if open.is_empty() {
                    // Under the lock: a request that comes now finds nobody at work.
                    queue.sweeping = false;
                    std::mem::forget(self);
                    return;
                }
            }
            open = look(open);
            if !open.is_empty() {
                // The killed need a moment to leave the table.
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    }
}

/// One look for all; returns those that need another one.
fn look(open: Vec<PendingSweep>) -> Vec<PendingSweep> {
    let Some(table) = ProcessTable::read() else {
        for pending in open {
            let _ = pending.reply.send(kill_group_of(&pending.request));
        }
        return Vec::new();
    };
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
    still_open
}

/// Without a process table: whoever is in the group, unseen and uncounted.
fn kill_group_of(request: &SweepRequest) -> Swept {
    if request.leader > 0 {
        signal_group(request.leader, Signal::Kill);
    }
    Swept::default()
}

/// The processes in the table that belong to the run.
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
        .filter(|entry| entry.identity.start_time >= request.since)
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

/// Whether anybody alive has this mark. Reads the process table.
pub(super) fn is_marked(mark: &str) -> bool {
    let table = ProcessTable::read().unwrap_or_default();
    let environments = Environments::default();
    table.entries().iter().any(|entry| environments.has_mark(entry, mark))
}

/// The values of the mark in a process's environment, each ended by NUL.
pub(super) fn marks_of(pid: i32) -> Vec<u8> {
    let prefix = format!("{MARK}=");
    variables_of(pid)
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
    fn without_a_table_the_group_is_killed_while_its_leader_is_a_zombie() {
        use std::io::Read as _;
        use std::os::unix::process::CommandExt as _;
        let mut leader = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & exit 0"])
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let id = nix::sys::wait::Id::Pid(nix::unistd::Pid::from_raw(leader.id() as i32));
        let flags = nix::sys::wait::WaitPidFlag::WEXITED | nix::sys::wait::WaitPidFlag::WNOWAIT;
        nix::sys::wait::waitid(id, flags).expect("an exit");
        let request =
            SweepRequest { leader: leader.id() as i32, mark: "m".into(), since: 0, known: Vec::new() };
        kill_group_of(&request);
        // Its pipe ends with the stray.
        leader.stdout.take().expect("a pipe").read_to_end(&mut Vec::new()).expect("an end");
        leader.wait().expect("the zombie");
    }

    #[test]
    fn without_a_leader_no_group_is_claimed() {
        let table = ProcessTable::of(vec![entry(2, 0), entry(10, 10), entry(13, 13)]);
        let request = SweepRequest { leader: 0, mark: "m".into(), since: 0, known: Vec::new() };
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
            since: 0,
            known: vec![
                ProcessIdentity { pid: 12, start_time: 1 },
                ProcessIdentity { pid: 14, start_time: 2 },
            ],
        };
        let found = members(&table, &request, |entry, mark| mark == "m" && entry.identity.pid == 13);
        let pids: Vec<i32> = found.iter().map(|identity| identity.pid).collect();
        assert_eq!(pids, [11, 12, 13], "14 has the pid of one that was seen, but another start time");
        let later = SweepRequest { since: 2, ..request };
        assert!(members(&table, &later, |_, _| true).is_empty(), "all of them are older than the run");
    }
}
