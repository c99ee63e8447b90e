//! A snapshot of the process table, and the trees in it.

use super::process_entry::{ProcessEntry, ProcessIdentity, TICKS_PER_SECOND};
use super::system::process::{children_of, io_bytes, living_processes, start_time};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// The processes that were alive at one moment; zombies are not among them.
#[derive(Debug, Default)]
pub struct ProcessTable {
    entries: Vec<ProcessEntry>,
}

/// The resources that a tree has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    pub cpu: Duration,
    /// Bytes read and written, files and pipes alike; 0 where the system does not report them.
    pub io_bytes: u64,
    pub processes: usize,
}

impl ProcessTable {
    /// `None`: this system has no readable table. Then only the process group is known.
    pub fn read() -> Option<ProcessTable> {
        Some(ProcessTable { entries: living_processes()? })
    }

    pub fn entries(&self) -> &[ProcessEntry] {
        &self.entries
    }

    /// The children, grandchildren and so on of `root`, without itself.
    pub fn descendants(&self, root: i32) -> Vec<ProcessIdentity> {
        let mut children: HashMap<i32, Vec<&ProcessEntry>> = HashMap::new();
        for entry in &self.entries {
            children.entry(entry.parent).or_default().push(entry);
        }
        let mut found = Vec::new();
        let mut seen = HashSet::from([root]);
        let mut open = vec![root];
        while let Some(parent) = open.pop() {
            for entry in children.get(&parent).into_iter().flatten() {
                if seen.insert(entry.identity.pid) {
                    found.push(entry.identity);
                    open.push(entry.identity.pid);
                }
            }
        }
        found
    }

    /// The resources that `root` and its descendants have used.
    pub fn usage(&self, root: i32) -> TreeUsage {
        let mut pids: HashSet<i32> = self.descendants(root).iter().map(|identity| identity.pid).collect();
        pids.insert(root);
        let mut usage = TreeUsage::default();
        for entry in self.entries.iter().filter(|entry| pids.contains(&entry.identity.pid)) {
            usage.processes += 1;
            usage.cpu += Duration::from_millis(entry.cpu_ticks * 1000 / TICKS_PER_SECOND);
            usage.io_bytes += io_bytes(entry.identity.pid);
        }
        usage
    }

    pub fn of(entries: Vec<ProcessEntry>) -> ProcessTable {
        ProcessTable { entries }
    }
}

/// The living descendants of `root`, found by asking each process for its children instead of reading the whole table. Where the
/// kernel does not list children, the table is read.
pub fn walk_descendants(root: i32) -> Vec<ProcessIdentity> {
    if children_of(root).is_none() {
        return ProcessTable::read().unwrap_or_default().descendants(root);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for pid in children_of(parent).unwrap_or_default() {
            if seen.insert(pid) {
                open.push(pid);
                found.extend(start_time(pid).map(|start_time| ProcessIdentity { pid, start_time }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(pid: i32, parent: i32) -> ProcessEntry {
        ProcessEntry { identity: ProcessIdentity { pid, start_time: 7 }, parent, group: pid, cpu_ticks: 0 }
    }

    #[test]
    fn walks_all_descendants_and_survives_a_loop_of_parents() {
        let table = ProcessTable::of(vec![
            entry(2, 1),
            entry(3, 2),
            entry(4, 3),
            entry(5, 1),
            entry(6, 7),
            entry(7, 6),
        ]);
        let mut pids: Vec<i32> = table.descendants(2).iter().map(|identity| identity.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [3, 4]);
        assert_eq!(table.descendants(6).len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn finds_this_very_process() {
        let me = std::process::id() as i32;
        let table = ProcessTable::read().expect("a table");
        assert!(table.entries().iter().any(|entry| entry.identity.pid == me));
        assert!(start_time(me).is_some_and(|start| start <= super::super::system::process::ticks_now()));
        assert!(table.usage(me).processes >= 1);
    }
}
