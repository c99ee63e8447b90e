//! Finds, stops and reaps every process tree of this user that was started by this program, in any host process. A tree is reaped
//! when its host is gone.
//!
//! There are two sources. The list ([`roster`](super::roster)) has the names; the marks in the environments of the processes
//! are authoritative. A mark names its host (`os::Host`), so a tree and its host are found without the list. A process that
//! cleared its environment is found below the run's root (its guard) as long as the root lives.
//!
//! The list is not trusted: a contained program may have been able to write it. A line's root counts only if the process itself
//! proves the line's mark: by its environment, or as a guard by its argument, which only the host that executed it could give.
//! Listing kills nothing; only [`reap`] and [`stop_tree`] do.
//!
//! No process is hit by mistake: a pid counts only with its start time, and signals go through pidfds (`os`). A tree is reaped
//! only if its host is known to be gone. The state of hosts in another container or boot is not known.

use super::command::GUARD;
use super::roster::{Entry, cross_out, entries, tree_id};
use super::sweep::{SweepRequest, marks_of, sweep};
use ground::error::{Error, ErrorCode, Result};
use ground::os::{
    Host, HostState, ProcessEntry, ProcessIdentity, ProcessTable, arguments_of, blocking, kill_process,
    short_name_of, signal_process, start_time, ticks_now,
};
use ground::record::epoch_ms;
use ground::signal::Signal;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

/// Time between SIGTERM and SIGKILL of a tree that is stopped from outside.
const STOP_GRACE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The arguments of a process are shown this far.
const MAX_COMMAND_BYTES: usize = 500;

/// The relation of a tree to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeState {
    /// Its host watches it.
    Running,
    /// Its run is over; the host left it behind on purpose, and is alive.
    Kept,
    /// Its host is gone.
    Left,
    /// Its host is, or was, in another container or boot: nothing is known of it.
    Elsewhere,
}

/// The processes of a run. Times are milliseconds, `None` where nobody wrote them down.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeFacts {
    pub id: String,
    pub name: Option<String>,
    pub state: TreeState,
    pub host_pid: u32,
    /// The host's command line, when it is alive.
    pub host_command: Option<String>,
    pub command: String,
    /// The command's own, while it is alive.
    pub pid: Option<i32>,
    pub started_at_ms: Option<u64>,
    pub duration_ms: u64,
    /// Time since the last output, to a second.
    pub silent_ms: Option<u64>,
    pub rss_bytes: u64,
    pub processes: Vec<TreeMember>,
    /// The folder of its record.
    pub record: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeMember {
    pub pid: i32,
    pub parent: i32,
    pub command: String,
    pub rss_bytes: u64,
    pub cpu_ms: u64,
}

/// The result of ending a tree.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    pub tree: TreeFacts,
    pub killed: u32,
    /// Processes that are still alive, because they run as another user.
    pub left: u32,
}

/// All trees, the oldest first. Also removes obsolete lists.
pub async fn census() -> Result<Vec<TreeFacts>> {
    Ok(find().await?.found.into_iter().map(|found| found.facts).collect())
}

/// Ends the trees whose host is gone: all of them, or these.
pub async fn reap(ids: Option<Vec<String>>) -> Result<Vec<Reaped>> {
    let mut reaped = Vec::new();
    let Look { found, idle } = find().await?;
    if ids.is_none() {
        // Their host is gone and they guard nobody: they were stopped before they could end.
        for guard in idle {
            kill_process(guard);
        }
    }
    let is_wanted = |found: &Found| ids.as_ref().is_none_or(|ids| ids.contains(&found.facts.id));
    for found in found.into_iter().filter(is_wanted) {
        // The state is checked again, so that no tree is killed by outdated facts.
        if found.facts.state == TreeState::Left
            && Host::parse_mark(&found.mark).is_some_and(|host| host.state() == HostState::Gone)
        {
            reaped.push(end(found).await);
        }
    }
    Ok(reaped)
}

/// Ends one tree whatever its host: SIGTERM to all of it, SIGKILL to what is left after a grace. The host tells that its program was
/// ended by a signal.
///
/// # Errors
/// `INVALID_OPTION` when there is no tree with this id.
pub async fn stop_tree(id: &str) -> Result<Reaped> {
    let Some(found) = find_one(id).await? else {
        return Err(Error::invalid_option(
            "id",
            format!("there is no process tree {id:?}: it may have ended already"),
        ));
    };
    for member in &found.members {
        signal_process(*member, Signal::Term);
        // One that is stopped could not take it.
        signal_process(*member, Signal::Cont);
    }
    let until = tokio::time::Instant::now() + STOP_GRACE;
    while tokio::time::Instant::now() < until {
        if !found.members.iter().any(|member| start_time(member.pid) == Some(member.start_time)) {
            break;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let left =
        found.members.iter().filter(|member| start_time(member.pid) == Some(member.start_time)).count();
    let ended = (found.members.len() - left) as u32;
    // While the host is alive its guards are its own: they see the end and tell it.
    let reaped = end(Found { guards: Vec::new(), ..found }).await;
    Ok(Reaped { killed: reaped.killed.max(ended), ..reaped })
}

async fn end(found: Found) -> Reaped {
    let request =
        SweepRequest { leader: 0, mark: found.mark.clone(), since: 0, known: found.members.clone() };
    let swept = sweep(request).await;
    for guard in &found.guards {
        kill_process(*guard);
    }
    let still =
        found.members.iter().filter(|member| start_time(member.pid) == Some(member.start_time)).count();
    let gone = (found.members.len() - still) as u32;
    if swept.left == 0 && still == 0 && found.facts.state == TreeState::Left {
        let mark = found.mark;
        let _ = blocking(move || cross_out(&mark)).await;
    }
    Reaped { tree: found.facts, killed: gone + swept.killed, left: swept.left }
}

struct Found {
    mark: String,
    members: Vec<ProcessIdentity>,
    guards: Vec<ProcessIdentity>,
    /// The list has it, and its guard or its command says so too.
    is_proven: bool,
    facts: TreeFacts,
}

/// The result of one scan of all processes and the list.
#[derive(Default)]
struct Look {
    found: Vec<Found>,
    /// Guards of hosts that are gone, whose trees are empty.
    idle: Vec<ProcessIdentity>,
}

async fn find() -> Result<Look> {
    blocking(look).await.map_err(|error| {
        Error::new(ErrorCode::ProcessSpawnFailed, format!("the process table could not be read: {error}"))
    })
}

async fn find_one(id: &str) -> Result<Option<Found>> {
    // A program may give processes of its own a mark with the same beginning: it does not take the place of a run.
    let same = find().await?.found.into_iter().filter(|found| found.facts.id == id);
    Ok(same.max_by_key(|found| found.is_proven))
}

/// One look at everything. Blocks.
fn look() -> Look {
    let Some(table) = ProcessTable::read() else { return Look::default() };
    let processes: HashMap<i32, &ProcessEntry> =
        table.entries().iter().map(|entry| (entry.identity.pid, entry)).collect();
    let mut members: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for entry in table.entries() {
        // The last one counts, as it does for the program itself.
        let marks = marks_of(entry.identity.pid);
        let mark = marks.split(|&byte| byte == 0).rfind(|mark| !mark.is_empty());
        if let Some(mark) = mark.and_then(|mark| std::str::from_utf8(mark).ok())
            && Host::parse_mark(mark).is_some()
        {
            members.entry(mark.to_owned()).or_default().insert(entry.identity.pid);
        }
    }
    let listed: HashMap<String, (Entry, SystemTime)> =
        entries().into_iter().map(|(entry, touched)| (entry.mark.clone(), (entry, touched))).collect();
    let mut all: BTreeSet<&String> = members.keys().collect();
    all.extend(listed.keys());
    let (mut found, mut idle): (Vec<Found>, Vec<ProcessIdentity>) = Default::default();
    for mark in all {
        let entry = listed.get(mark);
        let mut pids = members.get(mark).cloned().unwrap_or_default();
        let mut guards = Vec::new();
        let mut is_proven = false;
        if let Some(root) = entry.and_then(|(entry, _)| entry.root()).filter(|root| proves(root.pid, mark)) {
            is_proven = true;
            for identity in table.descendants(root.pid).into_iter().chain([root]) {
                // A tree in this tree has a mark of its own.
                let is_another =
                    members.iter().any(|(other, pids)| other != mark && pids.contains(&identity.pid));
                if short_name_of(identity.pid) == GUARD {
                    guards.push(identity);
                } else if !is_another {
                    pids.insert(identity.pid);
                }
            }
        }
        let own: Vec<&ProcessEntry> = pids.iter().filter_map(|pid| processes.get(pid).copied()).collect();
        match Host::parse_mark(mark) {
            Some(host) if !own.is_empty() => {
                found.push(Found { is_proven, ..describe(mark, host, entry, &own, guards) })
            }
            Some(host) if host.state() == HostState::Gone => {
                idle.append(&mut guards);
                cross_out(mark);
            }
            _ if entry.is_some_and(|(entry, _)| entry.has_ended) => cross_out(mark),
            _ => {}
        }
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.facts.duration_ms));
    Look { found, idle }
}

/// Whether this process says by itself that it is of the run: it has the mark, or it is the run's guard.
fn proves(pid: i32, mark: &str) -> bool {
    let is_guard =
        || arguments_of(pid).split(|&byte| byte == 0).take(2).eq([GUARD.as_bytes(), mark.as_bytes()]);
    marks_of(pid).split(|&byte| byte == 0).any(|found| found == mark.as_bytes()) || is_guard()
}

fn describe(
    mark: &str,
    host: Host,
    entry: Option<&(Entry, SystemTime)>,
    own: &[&ProcessEntry],
    guards: Vec<ProcessIdentity>,
) -> Found {
    let state = match host.state() {
        HostState::Gone => TreeState::Left,
        HostState::Elsewhere => TreeState::Elsewhere,
        HostState::Alive if entry.is_some_and(|(entry, _)| entry.has_ended) => TreeState::Kept,
        HostState::Alive => TreeState::Running,
    };
    let now = epoch_ms(SystemTime::now());
    let oldest = own.iter().map(|entry| entry.identity.start_time).min().unwrap_or(0);
    let (named, touched) = entry.map(|(entry, touched)| (entry, epoch_ms(*touched))).unzip();
    let processes: Vec<TreeMember> = own.iter().map(|entry| member(entry)).collect();
    let first = own.iter().min_by_key(|entry| (entry.identity.start_time, entry.identity.pid));
    let facts = TreeFacts {
        id: tree_id(mark).to_owned(),
        name: named.and_then(|entry| entry.name.clone()),
        state,
        host_pid: host.pid,
        host_command: (state == TreeState::Running || state == TreeState::Kept)
            .then(|| command_of(host.pid.cast_signed())),
        command: named
            .map(|entry| entry.command.clone())
            .or_else(|| first.map(|first| command_of(first.identity.pid)))
            .unwrap_or_default(),
        pid: named.map(|entry| entry.pid).filter(|pid| own.iter().any(|entry| entry.identity.pid == *pid)),
        started_at_ms: named.map(|entry| entry.started_at_ms),
        duration_ms: named.map_or((ticks_now().saturating_sub(oldest)) * 10, |entry| {
            now.saturating_sub(entry.started_at_ms)
        }),
        silent_ms: touched.map(|touched| now.saturating_sub(touched)),
        rss_bytes: processes.iter().map(|process| process.rss_bytes).sum(),
        processes,
        record: named.and_then(|entry| entry.record.as_ref()).map(|path| path.to_string_lossy().into_owned()),
    };
    let members = own.iter().map(|entry| entry.identity).collect();
    Found { mark: mark.to_owned(), members, guards, is_proven: false, facts }
}

fn member(entry: &ProcessEntry) -> TreeMember {
    let pid = entry.identity.pid;
    let command = command_of(pid);
    TreeMember {
        pid,
        parent: entry.parent,
        command: if command.is_empty() { short_name_of(pid) } else { command },
        rss_bytes: ground::os::rss_bytes(pid),
        cpu_ms: entry.cpu_ticks * 10,
    }
}

/// A process's words, as far as they are shown; empty where they can't be read.
pub(super) fn command_of(pid: i32) -> String {
    let mut bytes = arguments_of(pid);
    bytes.truncate(MAX_COMMAND_BYTES);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.trim_end_matches('\0').replace(|letter: char| letter.is_control(), " ")
}
