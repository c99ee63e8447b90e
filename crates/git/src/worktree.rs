//! A checkout for an agent: a repository of its own that borrows the user's objects.
//!
//! ```text
//! <dir>/<id>/<name>     the agent's folder, with a `.git` that is the agent's own
//! <dir>/<id>/own.git    the git directory by which this program looks at that folder
//! ```
//!
//! It is not a worktree of `git worktree`, which shares hooks, configuration and refs with the user's repository. The base is
//! kept under `refs/sheepdog/<id>` of the user's repository while the checkout lives, so that `gc` cannot prune it. A folder
//! that is watched in place has an `own.git` only.

use crate::changes::{Changes, files_between};
use crate::command::{Call, CallFault};
use crate::desk::{Desk, copy_index};
use crate::folder::remove_file;
use crate::harvest::harvest;
use crate::ledger::{Claim, remove_left};
use crate::place::GitPlace;
use crate::repository::{Repository, failed, ref_of, refused};
use crate::setting::Setting;
use crate::snapshot::{names_of, snapshot};
use ground::error::Error;
use ground::lock::lock;
use ground::os::{ContainedFolders, HeldFolder, on_disk, path_of, remove_tree};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use walkdir::WalkDir;

/// Objects in a pack of at most this size go home as single files.
const SMALL_PACK_BYTES: u64 = 4 << 20;

/// A checkout to make.
#[derive(Clone, Debug, Default)]
pub struct WorktreeRequest {
    /// The user's folder.
    pub cwd: PathBuf,
    /// A commit to begin with, instead of HEAD with the uncommitted and untracked files of `cwd`.
    pub base: Option<String>,
    /// Globs of ignored files that are copied, relative to the top of the repository.
    pub include: Vec<String>,
    /// The folder in which the checkout is made.
    pub dir: Option<PathBuf>,
    /// Display name.
    pub name: Option<String>,
}

/// A checkout under way, or a watched folder. Dropping it releases the lock; the files stay for the next one that looks.
#[derive(Debug)]
pub struct Worktree {
    place: GitPlace,
    repository: Repository,
    id: String,
    /// The agent's folder: top of its working tree.
    tree: PathBuf,
    own: PathBuf,
    base: String,
    /// The last commit that the user's repository has anyway.
    known: Option<String>,
    /// Copied files that are ignored: they never count as changes.
    hidden: HashSet<Vec<u8>>,
    is_in_place: bool,
    /// The ref holds changes that came home.
    is_home: AtomicBool,
    claim: Mutex<Option<Claim>>,
}

fn cannot_make(error: &io::Error) -> Error {
    refused("checkout", "the checkout cannot be made", error)
}

impl Worktree {
    /// Makes a checkout. Those of hosts that are gone are removed first.
    ///
    /// # Errors
    /// `INVALID_OPTION` where `cwd` is in no working tree or `base` is no commit; else `WORKTREE_FAILED`.
    pub async fn make(place: &GitPlace, request: WorktreeRequest) -> Result<Worktree, Error> {
        let repository = Repository::find(&request.cwd, "worktree").await?;
        let given = match &request.base {
            Some(base) => Some(named_commit(&repository, base).await?),
            None => None,
        };
        let mut worktree =
            Worktree::claim(place, repository, request.dir.clone(), request.name.clone()).await?;
        let made = worktree.fill(given, &request.include).await;
        match made {
            Ok(()) => Ok(worktree),
            Err(error) => {
                worktree.leave(false).await;
                Err(error)
            }
        }
    }

    /// The commit that a checkout of `cwd` begins with, for several checkouts with the same files. No ref keeps it: git collects such
    /// objects after weeks.
    ///
    /// # Errors
    /// As those of [`Worktree::make`].
    pub async fn base_of(place: &GitPlace, cwd: &Path) -> Result<String, Error> {
        let repository = Repository::find(cwd, "cwd").await?;
        let worktree = Worktree::claim(place, repository, None, None).await?;
        let base = async { worktree.base_of_user(&worktree.user_desk().await?).await }.await;
        worktree.leave(false).await;
        base
    }

    /// Takes a folder as it is now, so that [`Worktree::changes`] says what was changed in it since.
    pub async fn watch(place: &GitPlace, repository: Repository) -> Result<Worktree, Error> {
        let mut worktree = Worktree::claim(place, repository, None, None).await?;
        worktree.is_in_place = true;
        worktree.tree.clone_from(&worktree.repository.top);
        match worktree.take_base_in_place().await {
            Ok(()) => Ok(worktree),
            Err(error) => {
                worktree.leave(false).await;
                Err(error)
            }
        }
    }

    async fn claim(
        place: &GitPlace,
        repository: Repository,
        dir: Option<PathBuf>,
        name: Option<String>,
    ) -> Result<Worktree, Error> {
        // A checkout that cannot be removed is listed still; it does not keep another checkout from being made.
        let _ = remove_left(place, None).await;
        let (at, of) = (place.clone(), repository.clone());
        let claim =
            on_disk(move || Claim::new(&at, &of, dir, name)).await.map_err(|error| cannot_make(&error))?;
        let folder = claim.note.folder();
        let name = repository.top.file_name().filter(|name| *name != "own.git").unwrap_or("tree".as_ref());
        Ok(Worktree {
            place: place.clone(),
            id: claim.note.id.clone(),
            tree: folder.join(name),
            own: folder.join("own.git"),
            base: String::new(),
            known: repository.head.clone(),
            repository,
            hidden: HashSet::new(),
            is_in_place: false,
            is_home: AtomicBool::new(false),
            claim: Mutex::new(Some(claim)),
        })
    }

    /// The agent's working directory: that of the user, in the checkout.
    pub fn cwd(&self) -> PathBuf {
        self.tree.components().chain(self.repository.prefix.components()).collect()
    }

    /// Top of the agent's folder.
    pub fn top(&self) -> &Path {
        &self.tree
    }

    /// Whether the agent works in the user's own folder.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    /// The folder whose objects the checkout borrows: the agent has to be able to read it.
    pub fn borrowed(&self) -> PathBuf {
        self.repository.objects()
    }

    fn desk(&self) -> Desk {
        Desk::own(self.own.clone(), self.tree.clone())
    }

    async fn fill(&mut self, given: Option<String>, include: &[String]) -> Result<(), Error> {
        let user = self.user_desk().await?;
        let base = async {
            match given {
                Some(commit) => Ok(commit),
                None => self.base_of_user(&user).await,
            }
        };
        let (base, made) = futures_util::future::join(base, self.init()).await;
        self.base = base?;
        made?;
        let kept = Repository::set_ref(&self.repository.common, &self.id, Some(&self.base)).await;
        kept.map_err(|fault| failed("base", "the base cannot be kept", &fault))?;
        self.known = Some(self.base.clone());
        self.check_out().await?;
        self.include(&user, include).await
    }

    /// The user's own git, with an index beside that of the user.
    async fn user_desk(&self) -> Result<Desk, Error> {
        let index = self.own.with_file_name("user-index");
        let (from, to) = (self.repository.index(), index.clone());
        let copied = on_disk(move || copy_index(&from, &to)).await;
        copied.map_err(|error| refused("base", "the index cannot be read", &error))?;
        Ok(Desk::user(&self.repository, index))
    }

    /// HEAD, or a commit on it with the files as they are now.
    async fn base_of_user(&self, desk: &Desk) -> Result<String, Error> {
        let head = self.repository.head.as_deref();
        let taken = snapshot(desk, &HashSet::new(), "base").await?;
        let of = |fault: CallFault| failed("base", "the base cannot be written", &fault);
        if let Some(head) = head
            && tree_of(desk, head).await.map_err(of)? == taken.tree
        {
            return Ok(head.to_owned());
        }
        desk.commit(&taken.tree, head, "Files as an agent found them").await.map_err(of)
    }

    /// The two git directories. Both borrow the user's objects and know the user's ignored files.
    async fn init(&self) -> Result<(), Error> {
        let format = format!("--object-format={}", self.repository.format);
        let branch = format!("--initial-branch={}", self.repository.branch.as_deref().unwrap_or("main"));
        let (tree, own) = (self.tree.to_string_lossy(), self.own.to_string_lossy());
        let first = ["init", "--quiet", "--template=", &format, &branch, "--", &tree];
        let second = ["init", "--quiet", "--template=", "--bare", &format, "--", &own];
        let facts = ["config", "--null", "--get-regexp", r"^(user\.(name|email)|core\.excludesfile)$"];
        let parent = self.own.parent().unwrap_or(&self.own);
        let (first, second, facts) = futures_util::future::join3(
            Call::new(first).bare().at(parent).run(),
            Call::new(second).bare().at(parent).run(),
            Call::new(facts).at(&self.repository.top).run(),
        )
        .await;
        first.and(second).map_err(|fault| failed("checkout", "the checkout cannot be made", &fault))?;
        let setting = Setting::of(&facts.unwrap_or_default());
        let (gits, repository) = ([self.tree.join(".git"), self.own.clone()], self.repository.clone());
        on_disk(move || setting.write(&gits, &repository)).await.map_err(|error| cannot_make(&error))
    }

    async fn check_out(&self) -> Result<(), Error> {
        let git = self.tree.join(".git");
        // HEAD names no commit yet, and this one from here on.
        let reset = Call::new(["reset", "--hard", "--quiet", &self.base]).bare().at(&self.tree);
        let reset = reset.path("GIT_DIR", &git).path("GIT_WORK_TREE", &self.tree).run().await;
        reset.map_err(|fault| failed("checkout", "the files cannot be checked out", &fault))?;
        let (index, own, cwd) = (git.join("index"), self.own.join("index"), self.cwd());
        let copied = on_disk(move || {
            copy_index(&index, &own)?;
            std::fs::create_dir_all(cwd)
        });
        copied.await.map_err(|error| cannot_make(&error))
    }

    /// Copies the ignored files that were asked for.
    async fn include(&mut self, user: &Desk, globs: &[String]) -> Result<(), Error> {
        if globs.is_empty() {
            return Ok(());
        }
        let specs: Vec<String> = globs.iter().map(|glob| format!(":(top,glob){glob}")).collect();
        let args = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--"];
        let listed = user.call(args.into_iter().chain(specs.iter().map(String::as_str))).run().await;
        let names =
            names_of(&listed.map_err(|fault| failed("include", "ignored files cannot be listed", &fault))?);
        let (from, to, copied) = (self.repository.top.clone(), self.tree.clone(), names.clone());
        let done = on_disk(move || copy_all(&from, &to, &copied));
        done.await.map_err(|error| refused("include", "an ignored file cannot be copied", &error))?;
        self.hidden = names.into_iter().collect();
        Ok(())
    }

    /// The base of a folder that is watched in place. Its objects stay in `own.git` until the changes are read.
    async fn take_base_in_place(&mut self) -> Result<(), Error> {
        let own = self.own.to_string_lossy().into_owned();
        let format = format!("--object-format={}", self.repository.format);
        let init = ["init", "--quiet", "--template=", "--bare", &format, "--", &own];
        let made = Call::new(init).bare().at(&self.repository.top).run().await;
        made.map_err(|fault| failed("base", "the folder cannot be watched", &fault))?;
        let facts = ["config", "--null", "--get-regexp", r"^(core\.excludesfile)$"];
        let setting = Setting::of(&Call::new(facts).at(&self.repository.top).run().await.unwrap_or_default());
        let (git, repository) = (self.own.clone(), self.repository.clone());
        let done = on_disk(move || {
            copy_index(&repository.index(), &git.join("index"))?;
            setting.write(&[git], &repository)
        });
        done.await.map_err(|error| refused("base", "the folder cannot be watched", &error))?;
        // A split index has a part that lies beside the user's.
        let whole =
            Desk::user(&self.repository, self.own.join("index")).call(["update-index", "--no-split-index"]);
        whole.run().await.map_err(|fault| failed("base", "the index cannot be read", &fault))?;
        self.base = self.base_of_user(&self.desk()).await?;
        Ok(())
    }

    /// Reads what the agent left. Nothing of the agent may live any more, and nothing of it is run.
    ///
    /// # Errors
    /// `WORKTREE_FAILED` with the step `changes`.
    pub async fn changes(&self) -> Result<(Changes, Vec<String>), Error> {
        let desk = self.desk();
        let of = |fault: CallFault| failed("changes", &self.lost(), &fault);
        // Reads of one checkout follow each other, so a lock that is there belongs to a git that was killed.
        let lock = self.own.join("index.lock");
        let unlocked = on_disk(move || remove_file(&lock)).await;
        unlocked.map_err(|error| refused("changes", &self.lost(), &error))?;
        let taken = snapshot(&desk, &self.hidden, "changes").await?;
        let mut warnings: Vec<String> = Vec::new();
        if !taken.left_out.is_empty() {
            let names = taken.left_out.join(", ");
            warnings.push(format!(
                "changes: left out because git cannot hold it in a tree, or because it is a repository of its own: {names}"
            ));
        }
        let tip = if self.is_in_place { Ok(None) } else { self.tip(&desk).await };
        let tip = tip.unwrap_or_else(|reason| {
            warnings.push(format!("changes: the agent's own commits were left out: {reason}"));
            None
        });
        let parent = tip.unwrap_or_else(|| self.base.clone());
        let commit = match tree_of(&desk, &parent).await.map_err(of)? == taken.tree {
            true => parent,
            false => {
                desk.commit(&taken.tree, Some(&parent), "Files as an agent left them").await.map_err(of)?
            }
        };
        let common = &self.repository.common;
        let has_changes = commit != self.base;
        if has_changes {
            self.bring_home(&desk, &commit).await.map_err(of)?;
        }
        Repository::set_ref(common, &self.id, has_changes.then_some(commit.as_str())).await.map_err(of)?;
        self.is_home.store(has_changes, Ordering::Relaxed);
        let files = files_between(common, &self.base, &commit).await.map_err(of)?;
        let changes = Changes {
            id: self.id.clone(),
            ref_name: has_changes.then(|| ref_of(&self.id)),
            repository: self.repository.top.clone(),
            git_dir: common.clone(),
            base: self.base.clone(),
            commit,
            files,
            worktree: None,
        };
        Ok((changes, warnings))
    }

    fn lost(&self) -> String {
        format!("the changes in {} cannot be read", self.tree.display())
    }

    /// The last of the agent's commits, if they continue the base. The reason why they don't is for a warning. Only checked
    /// objects get into `own.git`.
    async fn tip(&self, desk: &Desk) -> Result<Option<String>, String> {
        let git = self.own.with_file_name("theirs.git");
        let format = format!("--object-format={}", self.repository.format);
        let path = git.to_string_lossy().into_owned();
        let init = Call::new(["init", "--quiet", "--template=", "--bare", &format, "--", &path])
            .bare()
            .at(&self.tree);
        let theirs = Desk::own(git.clone(), self.tree.clone());
        let (tree, base, repository) = (self.tree.clone(), self.base.clone(), self.repository.clone());
        let said = |fault: CallFault| fault.words();
        let last = git.clone();
        // That of the last look.
        let removed = on_disk(move || remove_tree(&last)).await;
        removed.map_err(|error| error.to_string())?;
        init.run().await.map_err(said)?;
        let found = on_disk(move || {
            Setting::default().write(std::slice::from_ref(&git), &repository)?;
            harvest(&tree, &git, &base)
        });
        let found = found.await.map_err(|error| error.to_string())?;
        let Some(tip) = found.tip.filter(|tip| *tip != self.base) else { return Ok(None) };
        for pack in &found.packs {
            theirs.call(["index-pack", &pack.to_string_lossy()]).run().await.map_err(said)?;
        }
        let pack =
            pack(&theirs, &self.own.with_file_name("theirs"), &tip, Some(&self.base)).await.map_err(said)?;
        take(|args| desk.call(args), &pack).await.map_err(said)?;
        let follows = desk.call(["merge-base", "--is-ancestor", &self.base, &tip]).run().await;
        match follows {
            Ok(_) => Ok(Some(tip)),
            Err(CallFault::Said { code: Some(1), .. }) => Err("they do not continue the base".to_owned()),
            Err(fault) => Err(fault.words()),
        }
    }

    /// Brings the commit and what it needs into the user's repository.
    async fn bring_home(&self, desk: &Desk, commit: &str) -> Result<(), CallFault> {
        let pack = pack(desk, &self.own.with_file_name("home"), commit, self.known.as_deref()).await?;
        let common = &self.repository.common;
        take(|args| Call::new(args).bare().at(common).path("GIT_DIR", common), &pack).await
    }

    /// Removes the checkout, or keeps it for the user to look at; returns where it was kept. The ref stays if it holds changes,
    /// or the base of a kept checkout.
    pub async fn leave(&self, keeps: bool) -> Option<PathBuf> {
        let claim = lock(&self.claim).take()?;
        let keeps = keeps && !self.is_in_place;
        if !keeps && !self.is_home.load(Ordering::Relaxed) {
            let _ = Repository::set_ref(&self.repository.common, &self.id, None).await;
        }
        let index = self.own.with_file_name("user-index");
        let left = on_disk(move || {
            let _ = std::fs::remove_file(index);
            if keeps { claim.keep() } else { claim.remove() }
        });
        let _ = left.await;
        keeps.then(|| self.tree.clone())
    }

    /// Removes the files, and goes on to hold the note: if this host is killed, the ref is removed as well.
    pub async fn clear(&self) {
        let Some(folder) = lock(&self.claim).as_ref().map(|claim| claim.folder()) else { return };
        // A file that cannot be removed now is tried again when the checkout is left.
        let _ = on_disk(move || remove_tree(&folder)).await;
    }

    /// Removes what a failed or unwanted checkout left, its ref included.
    pub async fn discard(&self) {
        self.is_home.store(false, Ordering::Relaxed);
        self.leave(false).await;
    }

    pub fn place(&self) -> &GitPlace {
        &self.place
    }
}

/// A pack with the commit and what it needs, without what the other one has.
async fn pack(desk: &Desk, stem: &Path, commit: &str, known: Option<&str>) -> Result<PathBuf, CallFault> {
    let stem = stem.to_string_lossy();
    let wanted = match known {
        Some(known) => format!("{commit}\n^{known}\n"),
        None => format!("{commit}\n"),
    };
    let packed = desk.call(["pack-objects", "--revs", "--quiet", "--delta-base-offset", &stem]);
    let name = packed.input(wanted.into_bytes()).line().await?;
    Ok(PathBuf::from(format!("{stem}-{name}.pack")))
}

/// Takes a pack's objects into a repository. git names each object by its content, checks it, and looks for what it needs.
async fn take<F>(call: F, pack: &Path) -> Result<(), CallFault>
where
    F: Fn(Vec<&'static str>) -> Call,
{
    let at = pack.to_owned();
    let bytes = on_disk(move || Ok(at.metadata()?.len())).await;
    let bytes = bytes.map_err(|error| CallFault::Other(error.to_string()))?;
    let args = match bytes <= SMALL_PACK_BYTES {
        true => vec!["unpack-objects", "-q", "--strict"],
        false => vec!["index-pack", "--strict", "--stdin"],
    };
    call(args).input_file(pack).run().await.map(drop)
}

async fn tree_of(desk: &Desk, commit: &str) -> Result<String, CallFault> {
    desk.call(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).line().await
}

async fn named_commit(repository: &Repository, base: &str) -> Result<String, Error> {
    let name = format!("{base}^{{commit}}");
    let found = match base.is_empty() || base.starts_with('-') {
        true => None,
        false => Call::new(["rev-parse", "--verify", "--quiet", &name]).at(&repository.top).line().await.ok(),
    };
    found.ok_or_else(|| {
        let problem =
            format!("expected a commit, a branch or a tag of {}, got {base:?}", repository.top.display());
        Error::invalid_option("worktree.base", problem)
    })
}

/// Copies files into a new checkout. What the base has stays, and no link of the base is followed.
fn copy_all(from: &Path, to: &Path, names: &[Vec<u8>]) -> io::Result<()> {
    let top = HeldFolder::open(to, &ContainedFolders::default())?;
    for name in names {
        let name = path_of(name);
        top.make_below(name.parent().unwrap_or(Path::new("")))?;
        let to = to.join(&name);
        if to.symlink_metadata().is_err() {
            copy(&from.join(&name), &to)?;
        }
    }
    Ok(())
}

/// Copies an entry to a path at which there is none. A folder is a repository inside the user's.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in WalkDir::new(from).follow_root_links(false) {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type());
        let below = path.strip_prefix(from).unwrap_or(path);
        let to = if entry.depth() == 0 { to.to_owned() } else { to.join(below) };
        if kind.is_symlink() {
            ground::os::link(&std::fs::read_link(path)?, &to)?;
        } else if kind.is_file() {
            std::fs::copy(path, &to)?;
        } else if kind.is_dir() {
            std::fs::create_dir_all(&to)?;
        }
    }
    Ok(())
}
