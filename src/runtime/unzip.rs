//! Unpacks an archive that a stranger made: nothing leaves the directory, nothing grows without limit.
//!
//! Blocking: call it on a blocking thread. What was written before a failure is taken away again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use zip::ZipArchive;

/// How much an archive may become.
#[derive(Clone, Copy, Debug)]
pub struct UnzipLimits {
    pub entries: usize,
    /// Of all files, unpacked.
    pub bytes: u64,
    /// Unpacked to packed, once more than `ratio_from` bytes are unpacked. Real files rarely pass 100.
    pub ratio: u64,
    pub ratio_from: u64,
}

impl Default for UnzipLimits {
    fn default() -> Self {
        UnzipLimits { entries: 100_000, bytes: 8 << 30, ratio: 200, ratio_from: 256 << 20 }
    }
}

/// Unpacks all of the archive below `directory`. Existing files are replaced, existing symlinks never followed.
///
/// # Errors
/// In words for the client, naming the entry.
pub fn unzip(archive: &Path, directory: &Path, limits: UnzipLimits, stop: &AtomicBool) -> Result<(), String> {
    let file = File::open(archive).map_err(|error| format!("the archive can't be read: {error}"))?;
    let packed = file.metadata().map_err(|error| format!("the archive can't be read: {error}"))?.len();
    let mut zip =
        ZipArchive::new(BufReader::new(file)).map_err(|error| format!("this is no zip archive: {error}"))?;
    if zip.len() > limits.entries {
        return Err(format!("the archive has {} entries, more than {}", zip.len(), limits.entries));
    }
    let mut unpacking = Unpacking { directory, limits, packed, unpacked: 0, written: Vec::new() };
    let done = (0..zip.len()).try_for_each(|index| {
        if stop.load(Ordering::Relaxed) {
            return Err("cancelled".to_owned());
        }
        let mut entry = zip.by_index(index).map_err(|error| format!("entry {index}: {error}"))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        unpacking.entry(&name, &mut entry, stop).map_err(|problem| format!("{name:?}: {problem}"))
    });
    if done.is_err() {
        for path in &unpacking.written {
            // Best effort: the failure that matters is on its way already.
            let _ = fs::remove_file(path);
        }
    }
    done
}

struct Unpacking<'a> {
    directory: &'a Path,
    limits: UnzipLimits,
    packed: u64,
    unpacked: u64,
    written: Vec<PathBuf>,
}

impl Unpacking<'_> {
    fn entry<R: Read>(
        &mut self,
        name: &str,
        entry: &mut zip::read::ZipFile<'_, R>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let relative = inside(name).ok_or("its path leaves the directory")?;
        let path = self.directory.join(&relative);
        if entry.is_symlink() {
            // A link could lead anywhere, and what follows through it would too.
            return Err("it is a symlink, which is not unpacked".to_owned());
        }
        if entry.is_dir() {
            return self.make_directories(&relative);
        }
        if let Some(parent) = relative.parent() {
            self.make_directories(parent)?;
        }
        match fs::symlink_metadata(&path) {
            Ok(existing) if existing.is_dir() => return Err("a directory of that name exists".to_owned()),
            Ok(_) => fs::remove_file(&path).map_err(|error| error.to_string())?,
            Err(_) => {}
        }
        // create_new never follows a symlink, also not one that was made a moment ago.
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| error.to_string())?;
        self.written.push(path);
        self.copy(entry, &mut out, stop)?;
        let mode = entry.unix_mode().map_or(0o644, |mode| mode & 0o777);
        out.set_permissions(fs::Permissions::from_mode(mode | 0o600)).map_err(|error| error.to_string())
    }

    fn copy(&mut self, from: &mut impl Read, to: &mut File, stop: &AtomicBool) -> Result<(), String> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.to_string()),
            };
            self.unpacked += read as u64;
            if self.unpacked > self.limits.bytes {
                return Err(format!("the archive unpacks to more than {} bytes", self.limits.bytes));
            }
            if self.unpacked > self.limits.ratio_from
                && self.unpacked / self.packed.max(1) > self.limits.ratio
            {
                return Err(format!("the archive unpacks to more than {} times its size", self.limits.ratio));
            }
            if stop.load(Ordering::Relaxed) {
                return Err("cancelled".to_owned());
            }
            to.write_all(&buffer[..read]).map_err(|error| error.to_string())?;
        }
    }

    /// Makes the directories of a path, refusing to pass through a symlink.
    fn make_directories(&self, relative: &Path) -> Result<(), String> {
        let mut path = self.directory.to_owned();
        for part in relative.components() {
            path.push(part);
            match fs::symlink_metadata(&path) {
                Ok(existing) if existing.is_dir() => {}
                Ok(_) => return Err("something that is no directory is in its way".to_owned()),
                Err(_) => fs::create_dir(&path).map_err(|error| error.to_string())?,
            }
        }
        Ok(())
    }
}

/// The path below the directory, if it stays there.
fn inside(name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.contains('\0') || name.contains('\\') {
        return None;
    }
    let path = Path::new(name);
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.as_os_str().is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::write::SimpleFileOptions;

    fn pack(entries: &[(&str, &[u8])]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let mut zip = zip::ZipWriter::new(File::create(directory.path().join("a.zip")).unwrap());
        for (name, content) in entries {
            zip.start_file(*name, SimpleFileOptions::default().unix_permissions(0o755)).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
        fs::create_dir(directory.path().join("out")).unwrap();
        directory
    }

    fn open(directory: &tempfile::TempDir, limits: UnzipLimits) -> Result<(), String> {
        let path = directory.path();
        unzip(&path.join("a.zip"), &path.join("out"), limits, &AtomicBool::new(false))
    }

    #[test]
    fn rule_13_an_archive_is_unpacked_with_its_directories_and_modes() {
        let directory = pack(&[("a/b/run.sh", b"x"), ("./c", b"y")]);
        fs::write(directory.path().join("out/c"), "old").unwrap();
        open(&directory, UnzipLimits::default()).unwrap();
        assert_eq!(fs::read(directory.path().join("out/c")).unwrap(), b"y");
        let mode = fs::metadata(directory.path().join("out/a/b/run.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }

    #[test]
    fn rule_13_nothing_leaves_the_directory() {
        for name in ["../evil", "a/../../evil", "/tmp/sheepdog-evil", "..\\evil", "a/..", ""] {
            let directory = pack(&[("good", b"x"), (name, b"x")]);
            let problem = open(&directory, UnzipLimits::default()).unwrap_err();
            assert!(problem.contains("leaves the directory"), "{name}: {problem}");
            assert!(!directory.path().join("evil").exists());
            assert!(!directory.path().join("out/good").exists(), "taken away again");
        }
    }

    #[test]
    fn rule_13_symlinks_are_neither_made_nor_followed() {
        let outside = tempfile::tempdir().unwrap();
        let directory = pack(&[("link/file", b"x")]);
        std::os::unix::fs::symlink(outside.path(), directory.path().join("out/link")).unwrap();
        open(&directory, UnzipLimits::default()).unwrap_err();
        let directory = pack(&[("file", b"x")]);
        fs::write(outside.path().join("file"), "kept").unwrap();
        std::os::unix::fs::symlink(outside.path().join("file"), directory.path().join("out/file")).unwrap();
        open(&directory, UnzipLimits::default()).unwrap();
        assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"kept");
        let mut zip = zip::ZipWriter::new(File::create(directory.path().join("a.zip")).unwrap());
        zip.add_symlink("away", "/etc", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        assert!(open(&directory, UnzipLimits::default()).unwrap_err().contains("symlink"));
    }

    #[test]
    fn rule_13_bombs_are_stopped_by_what_they_become_not_by_what_they_say() {
        let zeros = vec![0; 4 << 20];
        let directory = pack(&[("zeros", &zeros)]);
        let limits = UnzipLimits { bytes: 1 << 20, ..UnzipLimits::default() };
        assert!(open(&directory, limits).unwrap_err().contains("more than 1048576 bytes"));
        let limits = UnzipLimits { ratio_from: 1 << 20, ..UnzipLimits::default() };
        assert!(open(&directory, limits).unwrap_err().contains("200 times"));
        assert_eq!(fs::read_dir(directory.path().join("out")).unwrap().count(), 0);
        let directory = pack(&[("a", b""), ("b", b""), ("c", b"")]);
        let limits = UnzipLimits { entries: 2, ..UnzipLimits::default() };
        assert!(open(&directory, limits).unwrap_err().contains("3 entries"));
        fs::write(directory.path().join("a.zip"), "no zip").unwrap();
        assert!(open(&directory, UnzipLimits::default()).unwrap_err().contains("no zip archive"));
    }
}
