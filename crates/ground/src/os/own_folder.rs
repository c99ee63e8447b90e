//! Names of temporary folders that this process makes for a program: `sheepdog-HOST-RANDOM`. A killed host removes nothing, so the
//! next host that makes one in the same place removes those of hosts that are gone. The state of hosts in another place is not
//! known, so their folders are kept. Without /proc nothing is removed.

use super::{Host, HostState, remove_tree};
use std::path::Path;

/// Looked at in one sweep; what is left waits for the next host.
const MAX_SWEPT: usize = 64;
const PREFIX: &str = "sheepdog";

/// A name of this host's, `random` at its end.
pub fn name(random: &str) -> String {
    format!("{PREFIX}-{}-{random}", Host::own())
}

/// Removes the folders in `parent` whose host is gone.
pub fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    let left = entries.flatten().filter(|entry| {
        let owner = entry.file_name().to_str().and_then(owner_of);
        owner.is_some_and(|owner| owner.state() == HostState::Gone)
    });
    for entry in left.take(MAX_SWEPT) {
        // Another host may be at it as well, and what belongs to another user stays.
        let _ = remove_tree(&entry.path());
    }
}

fn owner_of(name: &str) -> Option<Host> {
    let (owner, _random) = name.strip_prefix(PREFIX)?.strip_prefix('-')?.rsplit_once('-')?;
    Host::parse(owner)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_hosts_that_are_gone_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("litter"), "x").unwrap();
            path
        };
        let host = Host::own().to_string();
        let [place, pid, start]: [&str; 3] = host.split('-').collect::<Vec<_>>().try_into().unwrap();
        let start: u64 = start.parse().unwrap();
        let other = u32::from_str_radix(place, 16).unwrap() ^ 1;
        // Higher than any id that the system gives.
        let gone = make(format!("sheepdog-{place}-4194999-{start}-aaaaaa"));
        let reused = make(format!("sheepdog-{place}-{pid}-{}-bbbbbb", start + 1));
        let own = make(name("cccccc"));
        let elsewhere = make(format!("sheepdog-{other:06x}-4194999-1-dddddd"));
        let strange = make("sheepdog-notes".to_owned());
        sweep(parent.path());
        assert!(!gone.exists() && !reused.exists());
        assert!(own.exists() && elsewhere.exists() && strange.exists());
    }
}
