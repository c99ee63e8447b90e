//! The guard's program in an executable form: a sealed file in memory, else a file in a private folder.

use super::failure::{GuardFailure, GuardStage};
use super::plan::Plan;
use super::trial::try_out;
use ground::os::Fault;
use ground::os::unix::{ProcFolder, pidfd, proc_folder};
use guard::PROGRAM;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Below are the descriptors that a guard is given, and a launch would overwrite them.
const LOWEST_DESCRIPTOR: i32 = 10;
/// MFD_EXEC
const MEMORY_FILE_EXECUTABLE: u32 = 0x10;

/// Something to execute: a path by /proc/self/fd, so that no file needs a name. It is valid in the host, and in a child of
/// it until the exec.
#[derive(Debug)]
pub(super) struct Image {
    path: PathBuf,
    /// Keeps the path valid.
    _file: OwnedFd,
}

impl Image {
    /// Tries it out: some systems let a file be made and forbid its execution, or what the guard does then.
    fn new(file: impl AsFd) -> Result<Image, GuardFailure> {
        let high =
            fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(LOWEST_DESCRIPTOR)).map_err(refused("fcntl", None))?;
        // SAFETY: fcntl has just made this descriptor; nobody else knows it.
        let file = unsafe { OwnedFd::from_raw_fd(high) };
        let image = Image { path: format!("/proc/self/fd/{high}").into(), _file: file };
        try_out(&image.path, None)?;
        Ok(image)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this machine lets a program be held by this sandbox. Blocks.
    pub(super) fn try_sandbox(&self, plan: &Plan) -> Result<(), GuardFailure> {
        try_out(&self.path, Some(plan))
    }
}

/// The host's one image, made at the first run. `Err`: what the system refused; stage `Unavailable`: only the group level is left.
pub(super) fn image() -> Result<&'static Image, GuardFailure> {
    static IMAGE: OnceLock<Result<Image, GuardFailure>> = OnceLock::new();
    if let Some(made) = IMAGE.get() {
        return made.as_ref().map_err(Clone::clone);
    }
    match make() {
        // It may have passed at the next run.
        Err(failure) if is_scarcity(&failure.fault) => Err(failure),
        // Two threads may make an image at the same time; the first one is kept.
        made => {
            let made = made.map_err(|failure| GuardFailure { stage: GuardStage::Unavailable, ..failure });
            IMAGE.get_or_init(|| made).as_ref().map_err(Clone::clone)
        }
    }
}

/// Lack of descriptors, processes or memory.
fn is_scarcity(fault: &Fault) -> bool {
    matches!(
        Errno::from_raw(fault.errno),
        Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN | Errno::ENOMEM | Errno::EINTR | Errno::ENOSPC
    )
}

fn refused(call: &'static str, file: Option<&'static str>) -> impl Fn(Errno) -> GuardFailure {
    move |errno| {
        let fault = Fault::of_errno(call, file.map(Path::new), errno as i32);
        GuardFailure { stage: GuardStage::Spawn, fault }
    }
}

fn refused_io(call: &'static str, file: &Path) -> impl Fn(io::Error) -> GuardFailure {
    move |error| GuardFailure { stage: GuardStage::Spawn, fault: Fault::of(call, Some(file), &error) }
}

fn make() -> Result<Image, GuardFailure> {
    // A guard that can't look for its children could not kill them, and one that can't watch the host is none.
    if proc_folder() == ProcFolder::Absent {
        return Err(refused("readlink", Some("/proc/self"))(Errno::ENOENT));
    }
    pidfd::open(nix::unistd::getpid().as_raw()).map_err(refused("pidfd_open", None))?;
    match in_memory() {
        Err(failure) if is_scarcity(&failure.fault) => Err(failure),
        // A guard that was executed and failed will fail from any other file.
        Err(failure) if failure.stage != GuardStage::Spawn => Err(failure),
        made => made.or_else(|failure| in_folders().ok_or(failure)),
    }
}

/// The name of the file in memory.
const IN_MEMORY: &str = "memfd:sheepdog-guard";

fn in_memory() -> Result<Image, GuardFailure> {
    // Before Linux 6.3 the flag is unknown, and not needed.
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let executable = MFdFlags::from_bits_retain(MEMORY_FILE_EXECUTABLE);
    let file = match memfd_create(c"sheepdog-guard", flags | executable) {
        Err(Errno::EINVAL) => memfd_create(c"sheepdog-guard", flags),
        other => other,
    };
    let mut file = File::from(file.map_err(refused("memfd_create", None))?);
    file.write_all(PROGRAM).map_err(refused_io("write", Path::new(IN_MEMORY)))?;
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(refused("fcntl", Some(IN_MEMORY)))?;
    Image::new(&file)
}

/// In the first folder that allows it.
fn in_folders() -> Option<Image> {
    let named = ["XDG_RUNTIME_DIR", "HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut folders =
        std::iter::once(std::env::temp_dir()).chain(named).filter(|folder| folder.is_absolute());
    folders.find_map(|folder| in_folder(&folder).ok())
}

/// The image for systems where memory files may not be made or executed (vm.memfd_noexec). The file is unlinked as soon as it is
/// open, so nothing stays behind however the host ends.
fn in_folder(folder: &Path) -> Result<Image, GuardFailure> {
    let name = format!("sheepdog-guard-{}-{}", std::process::id(), ground::random::name::<8>());
    let folder = folder.join(name);
    DirBuilder::new().mode(0o700).create(&folder).map_err(refused_io("mkdir", &folder))?;
    let path = folder.join("sheepdog-guard");
    let opened = write_and_open(&path).map_err(refused_io("open", &path));
    let removed = ground::os::remove_tree(&folder).map_err(refused_io("rmdir", &folder));
    let file = opened?;
    removed?;
    Image::new(file)
}

fn write_and_open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o500).open(path)?;
    file.write_all(PROGRAM)?;
    drop(file);
    // O_PATH: a file that is open for writing, or merely by this descriptor for reading, could be busy at the exec.
    OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH).open(path)
}
