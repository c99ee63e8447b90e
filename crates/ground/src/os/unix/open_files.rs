//! Finds the files below a directory that a process holds open for writing, as far as the system reports them.

use super::proc_folder::processes;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// `None` where the system does not report open files. Files of other users' processes are not found.
pub fn held_for_writing(below: &[&Path]) -> Option<HashSet<PathBuf>> {
    let mut held = HashSet::new();
    let mut seen_any = false;
    for process in processes()?.flatten() {
        let is_process =
            process.file_name().to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_process {
            continue;
        }
        seen_any = true;
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            if held.contains(&target) || !below.iter().any(|root| target.starts_with(root)) {
                continue;
            }
            let info = process.path().join("fdinfo").join(descriptor.file_name());
            if std::fs::read_to_string(info).is_ok_and(|info| is_writing(&info)) {
                held.insert(target);
            }
        }
    }
    seen_any.then_some(held)
}

/// Reads the access mode from a descriptor's fdinfo: the last octal digit of `flags` is 1 or 2 for a writer.
fn is_writing(info: &str) -> bool {
    info.lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| matches!(flags & 3, 1 | 2))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn sees_who_writes_and_not_who_reads() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::write(root.join("read"), "x").unwrap();
        let _reader = std::fs::File::open(root.join("read")).unwrap();
        let writer = std::fs::File::create(root.join("written")).unwrap();
        let held = held_for_writing(&[&root]).unwrap();
        assert_eq!(held, HashSet::from([root.join("written")]));
        drop(writer);
        assert_eq!(held_for_writing(&[&root]).unwrap(), HashSet::new());
    }
}
