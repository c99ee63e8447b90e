//! The folders of git that lie in a granted folder, or around it: of a repository, of its submodules and of linked worktrees. Each of
//! them has the names that `.git` has.

use super::super::sandbox::Protect;
use ground::os::{ContainedFolders, EntryKind, HeldFolder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of a folder as a whole.
pub(super) const ITSELF: &str = ".";
/// Most folders below one that holds folders of git; where there are more, that one is reported as changed.
pub(super) const MAX_FOLDERS: usize = 2000;
/// Levels above a granted folder at which git is looked for.
const MAX_ABOVE: usize = 8;
const GIT: &str = ".git/";
/// Folders of git that hold further ones. The name of a submodule may have several parts.
const MODULES: &str = "modules";
const WORKTREES: &str = "worktrees";

/// The folders of git in one granted folder.
#[derive(Clone, Default)]
pub(super) struct GitFolders {
    /// Paths below the granted folder.
    all: BTreeSet<PathBuf>,
    /// Paths of the granted folder below folders of git.
    within: Vec<PathBuf>,
    /// Folders of submodules that have more folders than the limit.
    pub cut: BTreeSet<PathBuf>,
}

impl GitFolders {
    /// Before the start. The program may add worktrees of its own; they run nothing that the files in its folders do not.
    pub(super) fn of(folder: &HeldFolder, contained: &ContainedFolders) -> GitFolders {
        let mut found = GitFolders { within: places_in_git(folder, contained), ..GitFolders::default() };
        for holder in found.holders(WORKTREES) {
            found.search(folder, holder);
        }
        found.add_submodules(folder);
        found
    }

    /// Those that are there by now are added. What was found before stays, wherever the program has moved it.
    pub(super) fn add_submodules(&mut self, folder: &HeldFolder) {
        for holder in self.holders(MODULES) {
            self.search(folder, holder);
        }
    }

    /// The names in all of these folders too.
    pub(super) fn names(&self, protect: &Protect) -> Protect {
        let also = |names: &Vec<String>| {
            let of_git: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix(GIT)).collect();
            let below = self.all.iter().flat_map(|path| of_git.iter().map(|name| path.join(name)));
            let own = |place: &PathBuf| {
                let name = |name: &&str| Path::new(name).strip_prefix(place).map(Path::to_owned).ok();
                of_git.iter().filter_map(name).collect::<Vec<_>>()
            };
            let all = below.chain(self.within.iter().flat_map(own));
            let all = all.filter_map(|name| match name.to_str() {
                Some("") => Some(ITSELF.to_owned()),
                name => name.map(str::to_owned),
            });
            names.iter().cloned().chain(all).collect()
        };
        Protect {
            told: also(&protect.told),
            restored: also(&protect.restored),
            is_enforced: protect.is_enforced,
        }
    }

    /// The folders of this name in the folders of git around the granted one, or in its `.git`.
    fn holders(&self, name: &str) -> Vec<PathBuf> {
        let around = self.within.iter().filter_map(|place| match Path::new(name).strip_prefix(place) {
            Ok(rest) => Some(rest.to_owned()),
            Err(_) => place.starts_with(name).then(PathBuf::new),
        });
        around.chain([Path::new(GIT).join(name)]).collect()
    }

    /// Looks for folders of git below a folder that holds such.
    fn search(&mut self, folder: &HeldFolder, holder: PathBuf) {
        let mut left = vec![holder.clone()];
        let mut looked_at = 0;
        while let Some(path) = left.pop() {
            let Ok(held) = folder.open_below(&path) else { continue };
            looked_at += 1;
            if looked_at > MAX_FOLDERS {
                self.cut.insert(holder);
                return;
            }
            // The holder is no such folder, whatever the program has put there.
            if path != holder && matches!(held.kind_of("HEAD"), Some(EntryKind::File { .. })) {
                left.push(path.join(MODULES));
                self.all.insert(path);
                continue;
            }
            let entries = held.entries().unwrap_or_default().into_iter();
            let folders = entries.filter(|(_, kind)| *kind == EntryKind::Folder);
            left.extend(folders.map(|(name, _)| path.join(name)));
        }
    }
}

/// The paths of a folder below the folders of git that it is, or lies in: a bare repository, that of a linked worktree, a part of one.
fn places_in_git(folder: &HeldFolder, contained: &ContainedFolders) -> Vec<PathBuf> {
    let is_git = |folder: &HeldFolder| {
        let is_file = |name| matches!(folder.kind_of(name), Some(EntryKind::File { .. }));
        is_file("HEAD") && (is_file("commondir") || folder.kind_of("objects") == Some(EntryKind::Folder))
    };
    let place = |above: &Path| {
        let rest = folder.path().strip_prefix(above).ok()?;
        let is_git = match rest.as_os_str().is_empty() {
            true => is_git(folder),
            false => HeldFolder::open(above, contained).is_ok_and(|above| is_git(&above)),
        };
        is_git.then(|| rest.to_owned())
    };
    folder.path().ancestors().take(MAX_ABOVE).filter_map(place).collect()
}
