//! Files that a program in a sandbox may write, and that run later, outside of it: hooks of git, settings of editors and agents, scripts
//! of a package. They are looked at before the start and after the end, and what differs is told.
//!
//! The folders are held from before the start (`os::HeldFolder`), so that the program can't show others at the end. What is compared are
//! contents, by a keyed hash: times can be set by whoever owns the file.

use super::sandbox::Protect;
use super::spec::ProcessSpec;
use ground::os::{ContainedFolders, EntryKind, HeldFolder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

/// Of one name that is a folder; what is beyond is not looked at.
const MAX_FILES: usize = 2000;
const MAX_DEPTH: usize = 8;
/// Of a longer file its length alone is compared.
const MAX_BYTES: u64 = 8 << 20;
/// Named at most.
const MAX_CHANGED: usize = 100;
/// Of this file the member `scripts` counts.
const PACKAGE: &str = "package.json";
const PACKAGE_SCRIPTS: &str = "package.json scripts";

/// What there was before the start.
pub(super) struct Protected {
    names: Vec<String>,
    hasher: RandomState,
    folders: Vec<(HeldFolder, BTreeMap<PathBuf, u64>)>,
}

impl Protected {
    /// `None` where nothing is to be looked at. Blocks.
    pub(super) fn before(spec: &ProcessSpec) -> Option<Protected> {
        let sandbox = spec.sandbox.as_ref()?;
        let Protect::Report { names } = &sandbox.protect;
        let cwd = spec.cwd.clone().unwrap_or_else(|| ".".into());
        let contained = ContainedFolders::default();
        let hasher = RandomState::new();
        let open = |path: &PathBuf| {
            let folder = HeldFolder::open(&cwd.join(path), &contained).ok()?;
            let prints = prints_of(&folder, names, &hasher);
            Some((folder, prints))
        };
        let folders = sandbox.write.iter().filter_map(open).collect();
        Some(Protected { names: names.clone(), hasher, folders })
    }

    /// The paths of what was made, changed or removed since. Blocks.
    pub(super) fn changed(&self) -> Vec<String> {
        let mut changed = Vec::new();
        for (folder, before) in &self.folders {
            let after = prints_of(folder, &self.names, &self.hasher);
            let all = before.keys().chain(after.keys().filter(|path| !before.contains_key(*path)));
            let differing = all.filter(|path| before.get(*path) != after.get(*path));
            changed.extend(differing.map(|path| folder.path().join(path).to_string_lossy().into_owned()));
        }
        changed.sort();
        changed.dedup();
        changed.truncate(MAX_CHANGED);
        changed
    }
}

/// What of these names is in the folder.
fn prints_of(folder: &HeldFolder, names: &[String], hasher: &RandomState) -> BTreeMap<PathBuf, u64> {
    let mut prints = BTreeMap::new();
    for name in names {
        let is_package = name == PACKAGE_SCRIPTS;
        let path = Path::new(if is_package { PACKAGE } else { name });
        let (Some(parent), Some(last)) = (path.parent(), path.file_name().and_then(|last| last.to_str()))
        else {
            continue;
        };
        // A folder on the way that is a link leads out of what is looked at: the link itself is told.
        let Ok(parent_folder) = folder.open_below(parent) else {
            if let Some(top) = parent.components().next()
                && folder.kind_of(top.as_os_str()) == Some(EntryKind::Link)
            {
                prints.insert(PathBuf::from(top.as_os_str()), hasher.hash_one("link"));
            }
            continue;
        };
        let mut walk = Walk { hasher, is_package, prints: &mut prints, left: MAX_FILES };
        walk.add(&parent_folder, last, path, MAX_DEPTH);
    }
    prints
}

struct Walk<'a> {
    hasher: &'a RandomState,
    is_package: bool,
    prints: &'a mut BTreeMap<PathBuf, u64>,
    left: usize,
}

impl Walk<'_> {
    fn add(&mut self, folder: &HeldFolder, name: &str, path: &Path, depth: usize) {
        let Some(kind) = folder.kind_of(name) else { return };
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let print = match kind {
            EntryKind::Folder => {
                if let (Some(depth), Ok(below)) = (depth.checked_sub(1), folder.open_below(Path::new(name))) {
                    for (name, _) in below.entries().unwrap_or_default() {
                        self.add(&below, &name, &path.join(&name), depth);
                    }
                }
                return;
            }
            EntryKind::File { bytes } => match folder.read(name, MAX_BYTES) {
                Ok(text) if self.is_package => match scripts_of(&text) {
                    Some(scripts) => self.hasher.hash_one(("scripts", scripts)),
                    None => return,
                },
                Ok(text) => self.hasher.hash_one(("file", folder.is_executable(name), text)),
                Err(_) => self.hasher.hash_one(("long", bytes)),
            },
            EntryKind::Link => self.hasher.hash_one(("link", folder.link_of(name))),
            EntryKind::Other => self.hasher.hash_one("other"),
        };
        self.prints.insert(path.to_owned(), print);
    }
}

/// As text; `None` where there are none.
fn scripts_of(package: &[u8]) -> Option<String> {
    let package: Value = serde_json::from_slice(package).ok()?;
    package.get("scripts").map(Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::super::sandbox::Sandbox;
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// What is told of a change in a folder with a repository and a package.
    fn told(change: impl FnOnce(&Path)) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join(".git/hooks")).unwrap();
        fs::write(top.join(".git/hooks/pre-push.sample"), "true").unwrap();
        fs::write(top.join(".git/config"), "[core]").unwrap();
        fs::write(top.join("package.json"), r#"{"version":"1","scripts":{"test":"true"}}"#).unwrap();
        let mut spec = ProcessSpec::new("true", Vec::<String>::new());
        spec.cwd = Some(top.clone());
        spec.sandbox = Some(Sandbox { write: vec![".".into()], ..Sandbox::default() });
        let protected = Protected::before(&spec).unwrap();
        change(&top);
        let changed = protected.changed();
        let below = changed.iter().map(|path| Path::new(path).strip_prefix(&top).unwrap().to_str().unwrap());
        below.map(str::to_owned).collect()
    }

    #[test]
    fn what_runs_later_outside_is_told_when_it_changed() {
        assert_eq!(told(|_| {}), [""; 0]);
        assert_eq!(told(|top| fs::write(top.join("src.rs"), "x").unwrap()), [""; 0]);
        assert_eq!(
            told(|top| fs::write(top.join(".git/hooks/pre-commit"), "x").unwrap()),
            [".git/hooks/pre-commit"]
        );
        assert_eq!(told(|top| fs::write(top.join(".git/config"), "[alias]").unwrap()), [".git/config"]);
        assert_eq!(told(|top| fs::remove_file(top.join(".git/config")).unwrap()), [".git/config"]);
        assert_eq!(told(|top| fs::write(top.join(".envrc"), "x").unwrap()), [".envrc"]);
        assert_eq!(
            told(|top| {
                let sample = top.join(".git/hooks/pre-push.sample");
                fs::set_permissions(sample, fs::Permissions::from_mode(0o755)).unwrap();
            }),
            [".git/hooks/pre-push.sample"]
        );
        let other_version = r#"{"version":"2","scripts":{"test":"true"}}"#;
        assert_eq!(told(|top| fs::write(top.join("package.json"), other_version).unwrap()), [""; 0]);
        let other_script = r#"{"version":"1","scripts":{"test":"false"}}"#;
        assert_eq!(told(|top| fs::write(top.join("package.json"), other_script).unwrap()), ["package.json"]);
    }

    #[test]
    fn no_trick_hides_a_change() {
        // The same length and times.
        let kept_times = |top: &Path| {
            let config = top.join(".git/config");
            let times = fs::metadata(&config).unwrap().modified().unwrap();
            fs::write(&config, "[hack]").unwrap();
            fs::File::options().write(true).open(&config).unwrap().set_modified(times).unwrap();
        };
        assert_eq!(told(kept_times), [".git/config"]);
        let linked = |top: &Path| {
            fs::remove_file(top.join(".git/config")).unwrap();
            symlink("elsewhere", top.join(".git/config")).unwrap();
        };
        assert_eq!(told(linked), [".git/config"]);
        // The whole repository is another one, behind a link.
        let moved = |top: &Path| {
            fs::rename(top.join(".git"), top.join("moved")).unwrap();
            symlink("moved", top.join(".git")).unwrap();
        };
        assert!(told(moved).contains(&".git/config".to_owned()));
    }
}
