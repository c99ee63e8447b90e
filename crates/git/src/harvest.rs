//! The commits of an agent, read without running git in its repository.
//!
//! The agent owns the `.git` in its folder. Its HEAD is read as text, and its objects are copied as files, both without following
//! a link. git then reads the copies by a git directory of their own. The names of loose objects are not believed: from there
//! they go on as a pack, whose objects get their names from their content (`worktree`).

use ground::os::{ContainedFolders, EntryKind, HeldFolder};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Most bytes and files of objects that are copied.
const MAX_BYTES: u64 = 4 << 30;
const MAX_FILES: usize = 200_000;
/// Longest file with the name of a ref or a commit in it.
const MAX_TEXT_BYTES: u64 = 64 << 10;
const MAX_PACKED_REFS_BYTES: u64 = 4 << 20;

/// The part of an agent's own history that is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Harvest {
    /// The commit that its HEAD names.
    pub tip: Option<String>,
    /// Copied packs, which still lack an index.
    pub packs: Vec<PathBuf>,
}

/// Reads HEAD, and copies the objects into this git directory when HEAD is not `base`. Blocks.
pub(crate) fn harvest(tree: &Path, to: &Path, base: &str) -> io::Result<Harvest> {
    let contained = ContainedFolders::of([tree]);
    let git = HeldFolder::open(tree, &contained)?.open_below(Path::new(".git"))?;
    let Some(tip) = tip_of(&git)? else { return Ok(Harvest::default()) };
    if tip == base {
        return Ok(Harvest { tip: Some(tip), packs: Vec::new() });
    }
    let objects = git.open_below(Path::new("objects"))?;
    let mut copier = Copier { to: to.join("objects"), bytes: 0, files: 0 };
    for (name, kind) in objects.entries()? {
        if kind == EntryKind::Folder && name.len() == 2 && is_hex(&name) {
            copier.copy_folder(&objects, &name, is_hex)?;
        }
    }
    let packs = match objects.kind_of("pack") {
        Some(EntryKind::Folder) => copier
            .copy_folder(&objects, "pack", |name| name.starts_with("pack-") && name.ends_with(".pack"))?,
        _ => Vec::new(),
    };
    Ok(Harvest { tip: Some(tip), packs })
}

struct Copier {
    to: PathBuf,
    bytes: u64,
    files: usize,
}

impl Copier {
    fn copy_folder(
        &mut self,
        objects: &HeldFolder,
        name: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<PathBuf>> {
        let folder = objects.open_below(Path::new(name))?;
        let to = self.to.join(name);
        std::fs::create_dir_all(&to)?;
        let mut copied = Vec::new();
        for (name, kind) in folder.entries()? {
            if !matches!(kind, EntryKind::File { .. }) || !is_wanted(&name) {
                continue;
            }
            let (file, facts) = folder.open_file(&name)?;
            self.files += 1;
            self.bytes += facts.len();
            if self.files > MAX_FILES || self.bytes > MAX_BYTES {
                return Err(io::Error::other("the objects of the agent's repository are too many"));
            }
            let path = to.join(&name);
            let mut copy = std::fs::File::create(&path)?;
            io::copy(&mut file.take(facts.len()), &mut copy)?;
            copied.push(path);
        }
        Ok(copied)
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

fn tip_of(git: &HeldFolder) -> io::Result<Option<String>> {
    let head = text_of(git, "HEAD", MAX_TEXT_BYTES)?;
    let head = head.trim();
    let Some(name) = head.strip_prefix("ref:").map(str::trim) else {
        return Ok(is_commit(head).then(|| head.to_owned()));
    };
    let path = Path::new(name);
    let is_ref = name.starts_with("refs/")
        && path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let (Some(parent), Some(file), true) = (path.parent(), path.file_name(), is_ref) else { return Ok(None) };
    let loose = git.open_below(parent).and_then(|folder| text_of(&folder, file, MAX_TEXT_BYTES));
    if let Ok(text) = loose {
        return Ok(Some(text.trim().to_owned()).filter(|text| is_commit(text)));
    }
    let packed = text_of(git, "packed-refs", MAX_PACKED_REFS_BYTES).unwrap_or_default();
    let found =
        packed.lines().find_map(|line| Some(line.split_once(' ').filter(|(_, known)| *known == name)?.0));
    Ok(found.filter(|commit| is_commit(commit)).map(str::to_owned))
}

fn text_of(folder: &HeldFolder, name: impl AsRef<std::ffi::OsStr>, most: u64) -> io::Result<String> {
    let (file, _) = folder.open_file(name)?;
    let mut text = String::new();
    file.take(most).read_to_string(&mut text)?;
    Ok(text)
}
