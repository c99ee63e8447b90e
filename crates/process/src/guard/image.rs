//! The guard's program in an executable form: a sealed file in memory, else a file in a private folder.

use super::execute::probe;
use guard::PROGRAM;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
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
    /// Tries it out: some systems let a file be made and forbid its execution.
    fn new(file: impl AsFd) -> Result<Image, Errno> {
        let high = fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(LOWEST_DESCRIPTOR))?;
        // SAFETY: fcntl has just made this descriptor; nobody else knows it.
        let file = unsafe { OwnedFd::from_raw_fd(high) };
        let image = Image { path: format!("/proc/self/fd/{high}").into(), _file: file };
        probe(&image.path)?;
        Ok(image)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The host's one image, made at the first run. `Err`: what the system said; then only the group level is left.
pub(super) fn image() -> Result<&'static Image, Errno> {
    static IMAGE: OnceLock<Result<Image, Errno>> = OnceLock::new();
    if let Some(made) = IMAGE.get() {
        return made.as_ref().map_err(|errno| *errno);
    }
    match make() {
        Err(errno) if is_scarcity(errno) => Err(errno),
        // Two threads may make an image at the same time; the first one is kept.
        made => IMAGE.get_or_init(|| made).as_ref().map_err(|errno| *errno),
    }
}

/// Lack of descriptors, processes or memory, which may have passed at the next run.
pub(super) fn is_scarcity(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN | Errno::ENOMEM | Errno::EINTR | Errno::ENOSPC
    )
}

fn make() -> Result<Image, Errno> {
    // A guard that can't look for its children could not kill them, and one that can't watch the host is none.
    if !Path::new("/proc/self/stat").exists() {
        return Err(Errno::ENOSYS);
    }
    ground::os::unix::pidfd::open(nix::unistd::getpid().as_raw())?;
    match in_memory() {
        Err(errno) if is_scarcity(errno) => Err(errno),
        made => made.or_else(|errno| in_folders().ok_or(errno)),
    }
}

fn in_memory() -> Result<Image, Errno> {
    // Before Linux 6.3 the flag is unknown, and not needed.
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let executable = MFdFlags::from_bits_retain(MEMORY_FILE_EXECUTABLE);
    let file = match memfd_create(c"sheepdog-guard", flags | executable) {
        Err(Errno::EINVAL) => memfd_create(c"sheepdog-guard", flags)?,
        other => other?,
    };
    let mut file = File::from(file);
    file.write_all(PROGRAM).map_err(errno_of)?;
    let seals =
        SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
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
fn in_folder(folder: &Path) -> Result<Image, Errno> {
    let name = format!("sheepdog-guard-{}-{}", std::process::id(), ground::random::name::<8>());
    let folder = folder.join(name);
    DirBuilder::new().mode(0o700).create(&folder).map_err(errno_of)?;
    let opened = write_and_open(&folder.join("sheepdog-guard"));
    let removed = fs::remove_dir_all(&folder).map_err(errno_of);
    let file = opened?;
    removed?;
    Image::new(file)
}

fn write_and_open(path: &Path) -> Result<File, Errno> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o500).open(path).map_err(errno_of)?;
    file.write_all(PROGRAM).map_err(errno_of)?;
    drop(file);
    // O_PATH: a file that is open for writing, or merely by this descriptor for reading, could be busy at the exec.
    OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH).open(path).map_err(errno_of)
}

fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(nix::libc::EIO))
}
