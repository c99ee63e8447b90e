//! A cgroup (version 2) for a run, if this process may make one: limits for memory and processes, and a kill by the kernel in
//! addition to the guards'.
//!
//! The cgroup is made below the host's own cgroup, or beside it. A cgroup that has processes can't hand controllers down, so
//! limits mostly need the place beside: a desktop session's `app.slice` belongs to the user and has both controllers. The
//! superuser may write everywhere, but does not own every cgroup: without requested limits, only cgroups that were delegated to
//! a user are used.

use ground::os::Fault;
use ground::os::unix::folder_of_process;
use nix::unistd::{AccessFlags, access, geteuid};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits on memory and processes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceLimits {
    pub memory_max_bytes: Option<u64>,
    pub max_processes: Option<u64>,
}

impl ResourceLimits {
    pub(super) fn are_asked_for(&self) -> bool {
        *self != ResourceLimits::default()
    }

    fn controllers(&self) -> impl Iterator<Item = &'static str> {
        [(self.memory_max_bytes, "memory"), (self.max_processes, "pids")]
            .into_iter()
            .filter_map(|(limit, controller)| limit.map(|_| controller))
    }
}

/// A run's own directory. The guard removes it at the end of the tree; dropping this makes up for a guard that could not.
#[derive(Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    pub(super) fn path(&self) -> &OsStr {
        self.0.as_os_str()
    }

    /// For a run whose guards are gone.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Cgroups that the program made below its own go first; files in a cgroup are the kernel's and go with it.
fn remove(cgroup: &Path) {
    if matches!(fs::remove_dir(cgroup), Err(error) if error.kind() != io::ErrorKind::NotFound) {
        for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path());
            }
        }
        let _ = fs::remove_dir(cgroup);
    }
}

/// `Ok(None)`: there is no place for one, and no limits were asked for.
pub(super) fn create(limits: &ResourceLimits) -> Result<Option<Cgroup>, Fault> {
    let mut problem =
        Fault::of("mkdir", Some(Path::new("/sys/fs/cgroup")), &io::Error::other("no cgroup is this user's"));
    for place in places(limits) {
        match create_in(place, limits) {
            Ok(cgroup) => return Ok(Some(cgroup)),
            Err(fault) => problem = fault,
        }
    }
    if limits.are_asked_for() { Err(problem) } else { Ok(None) }
}

fn create_in(place: &Path, limits: &ResourceLimits) -> Result<Cgroup, Fault> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = place.join(format!("sheepdog-{}-{number}", std::process::id()));
    fs::create_dir(&path).map_err(Fault::on("mkdir", &path))?;
    let cgroup = Cgroup(path);
    if let Some(bytes) = limits.memory_max_bytes {
        set(&cgroup.0.join("memory.max"), bytes)?;
    }
    if let Some(count) = limits.max_processes {
        set(&cgroup.0.join("pids.max"), count)?;
    }
    Ok(cgroup)
}

fn set(file: &Path, number: u64) -> Result<(), Fault> {
    fs::write(file, number.to_string()).map_err(Fault::on("write", file))
}

/// Cgroups below which this process may make a cgroup with the requested limits.
fn places(limits: &ResourceLimits) -> impl Iterator<Item = &'static Path> {
    static OWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = own_cgroup(&mounts, &fs::read_to_string("/proc/self/cgroup").ok()?)?;
        remove_forgotten(&own);
        Some(own)
    });
    let is_given = limits.are_asked_for() || !geteuid().is_root();
    let around =
        own.iter().filter(move |_| is_given).flat_map(|own| [Some(own.as_path()), own.parent()]).flatten();
    let wanted: Vec<&str> = limits.controllers().collect();
    around.filter(|place| is_writable(place)).filter(move |place| {
        let handed_down = fs::read_to_string(place.join("cgroup.subtree_control")).unwrap_or_default();
        has_all(&handed_down, &wanted)
    })
}

/// Whether a process can be put there: `cgroup.procs` of the common ancestor must be writable as well as the new directory.
fn is_writable(place: &Path) -> bool {
    access(place, AccessFlags::W_OK).is_ok() && access(&place.join("cgroup.procs"), AccessFlags::W_OK).is_ok()
}

fn has_all(controllers: &str, wanted: &[&str]) -> bool {
    wanted.iter().all(|name| controllers.split_whitespace().any(|has| has == *name))
}

/// Removes cgroups of hosts that were killed together with their guards.
fn remove_forgotten(own: &Path) {
    for place in [Some(own), own.parent()].into_iter().flatten() {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let host = name
                .to_str()
                .and_then(|name| name.strip_prefix("sheepdog-")?.split('-').next()?.parse().ok());
            let is_gone = |host: i32| folder_of_process(host).is_some_and(|folder| !folder.exists());
            if host.is_some_and(is_gone) {
                // Fails, and rightly, when somebody is in it.
                remove(&entry.path());
            }
        }
    }
}

/// The directory of the process's cgroup, from /proc/self/mountinfo and /proc/self/cgroup. PURE.
fn own_cgroup(mounts: &str, cgroups: &str) -> Option<PathBuf> {
    let path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        // "ID PARENT DEVICE ROOT PLACE OPTIONS [TAGS...] - KIND SOURCE OPTIONS"
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        // Spaces and the like in a path are written as octal escapes: such a mount is not worth the trouble.
        (!place.contains('\\')).then(|| Path::new(place).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found_below_its_mount() {
        let unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let hybrid = "31 1 0:5 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 none rw";
        let inside = "55 50 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let slice = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope\n";
        for (mounts, cgroups, expected) in [
            (
                unified,
                slice,
                Some("/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope"),
            ),
            (unified, "0::/\n", Some("/sys/fs/cgroup/")),
            (hybrid, "4:memory:/x\n0::/\n", Some("/sys/fs/cgroup/unified/")),
            (hybrid, "4:memory:/x\n", None),
            (inside, "0::/docker/abc/child\n", Some("/sys/fs/cgroup/child")),
            (inside, "0::/other\n", None),
            ("", "0::/\n", None),
        ] {
            assert_eq!(own_cgroup(mounts, cgroups), expected.map(PathBuf::from), "{mounts} {cgroups}");
        }
    }

    #[test]
    fn a_place_must_hand_down_every_controller_that_is_wanted() {
        assert!(has_all("cpu memory pids\n", &["memory", "pids"]));
        assert!(has_all("", &[]));
        assert!(!has_all("memory_recursiveprot pids", &["memory", "pids"]));
    }

    #[test]
    fn limits_that_nothing_can_enforce_are_refused() {
        // More than any machine hands down: a controller that does not exist can't be asked for, so this only holds where
        // neither is handed down; elsewhere the limit is made, and the directory goes with its owner.
        match create(&ResourceLimits { memory_max_bytes: Some(1 << 30), max_processes: Some(100) }) {
            Ok(cgroup) => {
                let path = cgroup.as_ref().map(|cgroup| PathBuf::from(cgroup.path())).unwrap();
                assert_eq!(fs::read_to_string(path.join("pids.max")).unwrap().trim(), "100");
                drop(cgroup);
                assert!(!path.exists());
            }
            Err(fault) => assert!(fault.to_string().contains("no cgroup"), "{fault}"),
        }
    }
}
