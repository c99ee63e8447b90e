//! Unpacks an archive from an untrusted source: no file is written outside of the directory, and the size is limited.
//!
//! The archive is unpacked into a separate folder below the directory first and moved into place when all of it is valid. A
//! refused archive leaves the directory unchanged.
//!
//! Blocking: call it on a blocking thread.

use ground::os::{private_files, remove_tree, set_mode};
use ground::text::told;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use zip::ZipArchive;

/// Limits for the unpacked archive.
#[derive(Clone, Copy, Debug)]
pub struct UnzipLimits {
    pub entries: usize,
    /// Size of all unpacked files together.
    pub bytes: u64,
    /// Largest ratio of unpacked to packed bytes, checked once more than `ratio_from` bytes are unpacked. Real files rarely pass
    /// 100.
    pub ratio: u64,
    pub ratio_from: u64,
}

impl Default for UnzipLimits {
    fn default() -> Self {
        UnzipLimits { entries: 100_000, bytes: 8 << 30, ratio: 200, ratio_from: 256 << 20 }
    }
}

/// Unpacks the whole archive below `directory`, by way of `aside`, a folder below it that must not exist yet. Existing files are
/// replaced. Existing symlinks are never followed.
///
/// # Errors
/// A text for the client that names the entry.
pub fn unzip(
    archive: &Path,
    directory: &Path,
    aside: &Path,
    limits: UnzipLimits,
    stop: &AtomicBool,
) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("the archive cannot be read: {error}");
    let mut file = File::open(archive).map_err(unreadable)?;
    let packed = file.metadata().map_err(unreadable)?.len();
    let too_many = |entries: u64| format!("the archive has {entries} entries, more than {}", limits.entries);
    // Checked before the archive's index is read, because the index can have any length.
    let announced = entries_announced(&mut file, packed).map_err(unreadable)?;
    if announced > limits.entries as u64 {
        return Err(too_many(announced));
    }
    let mut zip = ZipArchive::new(BufReader::new(file))
        .map_err(|error| format!("the file is not a zip archive: {error}"))?;
    if zip.len() > limits.entries {
        return Err(too_many(zip.len() as u64));
    }
    fs::create_dir(aside).map_err(|error| format!("no room to unpack: {error}"))?;
    let aside = Aside(aside);
    let unpacked = aside.0.join("new");
    fs::create_dir(&unpacked).map_err(|error| format!("no room to unpack: {error}"))?;
    let mut unpacking = Unpacking { directory: &unpacked, limits, packed, unpacked: 0 };
    for index in 0..zip.len() {
        if stop.load(Ordering::Relaxed) {
            return Err("cancelled".to_owned());
        }
        let mut entry = zip.by_index(index).map_err(|error| format!("entry {index}: {error}"))?;
        let name = told(entry.name_raw());
        unpacking.entry(&name, &mut entry, stop).map_err(|problem| format!("{name:?}: {problem}"))?;
    }
    let mut placing = Placing { replaced: aside.0.join("old"), done: Vec::new() };
    fs::create_dir(&placing.replaced).map_err(|error| format!("no room to unpack: {error}"))?;
    let placed = placing.place(&unpacked, directory);
    if placed.is_err() {
        placing.undo();
    }
    placed
}

/// A folder that is removed when this is dropped.
struct Aside<'a>(&'a Path);

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // A folder that can't be removed stays under its temporary name.
        let _ = remove_tree(self.0);
    }
}

/// The number of entries that the end record of the archive announces. 0 when there is no end record.
fn entries_announced(file: &mut File, bytes: u64) -> io::Result<u64> {
    // The end record, the longest comment, and the locator before the end of an archive with more than 65,535 entries.
    let tail = bytes.min(22 + 65_535 + 20);
    file.seek(SeekFrom::Start(bytes - tail))?;
    let mut end = Vec::new();
    Read::take(&mut *file, tail).read_to_end(&mut end)?;
    file.rewind()?;
    let number = |from: &[u8], at: usize, width: usize| {
        let digits = from.get(at..at + width)?;
        Some(digits.iter().rev().fold(0_u64, |number, digit| number << 8 | u64::from(*digit)))
    };
    let mut most = 0;
    // Readers may differ in which of them they take for the end record, so none may announce too many entries.
    for at in end.windows(4).enumerate().filter(|(_, sign)| *sign == b"PK\x05\x06").map(|(at, _)| at) {
        most = most.max(number(&end, at + 10, 2).unwrap_or(0));
        let locator = at.checked_sub(20).filter(|locator| end[*locator..].starts_with(b"PK\x06\x07"));
        if let Some(place) = locator.and_then(|locator| number(&end, locator + 8, 8)) {
            let mut long = [0; 56];
            file.seek(SeekFrom::Start(place.min(bytes)))?;
            if file.read_exact(&mut long).is_ok() && long.starts_with(b"PK\x06\x06") {
                most = most.max(number(&long, 32, 8).unwrap_or(0));
            }
            file.rewind()?;
        }
    }
    Ok(most)
}

/// Moves unpacked files into their places, and remembers how to undo it.
struct Placing {
    /// The folder for files that are replaced.
    replaced: PathBuf,
    done: Vec<Step>,
}

enum Step {
    Made(PathBuf),
    Placed(PathBuf),
    Replaced { place: PathBuf, by_then: PathBuf },
}

impl Placing {
    /// Without recursion: an archive may have more levels than a thread has stack.
    fn place(&mut self, from: &Path, to: &Path) -> Result<(), String> {
        let mut left = vec![(from.to_owned(), to.to_owned())];
        while let Some((from, to)) = left.pop() {
            self.place_entries(&from, &to, &mut left)?;
        }
        Ok(())
    }

    /// `left`: the folders that are found.
    fn place_entries(
        &mut self,
        from: &Path,
        to: &Path,
        left: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        for entry in fs::read_dir(from).map_err(words)? {
            let entry = entry.map_err(words)?;
            let (source, place) = (entry.path(), to.join(entry.file_name()));
            let named = |problem: &str| format!("{:?}: {problem}", entry.file_name());
            let existing = fs::symlink_metadata(&place).ok();
            if entry.file_type().map_err(words)?.is_dir() {
                match existing {
                    Some(existing) if existing.is_dir() => {}
                    Some(_) => return Err(named("something that is not a directory is in its way")),
                    None => {
                        fs::create_dir(&place).map_err(words)?;
                        self.done.push(Step::Made(place.clone()));
                    }
                }
                left.push((source, place));
                continue;
            }
            match existing {
                Some(existing) if existing.is_dir() => return Err(named("a directory of that name exists")),
                Some(_) => {
                    let by_then = self.replaced.join(self.done.len().to_string());
                    fs::rename(&place, &by_then).map_err(words)?;
                    self.done.push(Step::Replaced { place: place.clone(), by_then });
                }
                None => {}
            }
            fs::rename(&source, &place).map_err(words)?;
            self.done.push(Step::Placed(place));
        }
        Ok(())
    }

    /// Best effort: the caller reports the failure that led here.
    fn undo(&mut self) {
        for step in self.done.drain(..).rev() {
            let _ = match step {
                Step::Made(place) => fs::remove_dir(place),
                Step::Placed(place) => fs::remove_file(place),
                Step::Replaced { place, by_then } => fs::rename(by_then, place),
            };
        }
    }
}

struct Unpacking<'a> {
    directory: &'a Path,
    limits: UnzipLimits,
    packed: u64,
    unpacked: u64,
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
            // A symlink could lead anywhere, and so could later entries that pass through it.
            return Err("it is a symlink, which is not unpacked".to_owned());
        }
        if entry.is_dir() {
            return self.make_directories(&relative);
        }
        if let Some(parent) = relative.parent() {
            self.make_directories(parent)?;
        }
        match fs::symlink_metadata(&path) {
            Ok(earlier) if earlier.is_dir() => {
                return Err("a directory of that name is in the archive".to_owned());
            }
            Ok(_) => fs::remove_file(&path).map_err(|error| error.to_string())?,
            Err(_) => {}
        }
        // `create_new` never follows a symlink, not even one that was made a moment ago.
        let mut out =
            private_files().write(true).create_new(true).open(&path).map_err(|error| error.to_string())?;
        self.copy(entry, &mut out, stop)?;
        let mode = entry.unix_mode().map_or(0o644, |mode| mode & 0o777);
        set_mode(&out, mode | 0o600).map_err(|error| error.to_string())
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
                Ok(_) => return Err("something that is not a directory is in its way".to_owned()),
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
    use std::os::unix::fs::PermissionsExt;
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
        let aside = path.join("out/aside");
        unzip(&path.join("a.zip"), &path.join("out"), &aside, limits, &AtomicBool::new(false))
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
    fn the_deepest_path_that_the_system_takes_is_unpacked() {
        let name = "d/".repeat(800) + "file";
        let directory = pack(&[(&name, b"x")]);
        let thread = std::thread::Builder::new().stack_size(192 * 1024);
        let opened = thread.spawn(move || {
            let opened = open(&directory, UnzipLimits::default());
            let content = fs::read(directory.path().join("out").join(name)).unwrap_or_default();
            remove_tree(&directory.keep()).unwrap();
            (opened, content)
        });
        assert_eq!(opened.unwrap().join().unwrap(), (Ok(()), b"x".to_vec()));
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
    fn rule_13_an_archive_that_is_refused_leaves_everything_as_it_was() {
        for evil in ["../evil", "dir"] {
            let directory = pack(&[("mine.txt", b"theirs"), ("new/deep/file", b"x"), (evil, b"x")]);
            let out = directory.path().join("out");
            fs::write(out.join("mine.txt"), "mine").unwrap();
            fs::create_dir(out.join("dir")).unwrap();
            open(&directory, UnzipLimits::default()).unwrap_err();
            assert_eq!(fs::read(out.join("mine.txt")).unwrap(), b"mine");
            let mut left: Vec<_> =
                fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(left, ["dir", "mine.txt"], "{evil}");
        }
    }

    #[test]
    fn rule_13_an_index_of_millions_is_refused_before_it_is_read() {
        let directory = pack(&[("a", b"")]);
        let path = directory.path().join("a.zip");
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.windows(4).rposition(|sign| sign == b"PK\x05\x06").unwrap();
        // An archive of the long kind, as far as its end says.
        let mut long = b"PK\x06\x06".to_vec();
        long.resize(56, 0);
        long[32..40].copy_from_slice(&2_000_000_u64.to_le_bytes());
        let mut locator = b"PK\x06\x07\0\0\0\0".to_vec();
        locator.extend_from_slice(&(end as u64).to_le_bytes());
        locator.extend_from_slice(&1_u32.to_le_bytes());
        long.extend(locator);
        bytes.splice(end..end, long);
        fs::write(&path, bytes).unwrap();
        assert!(open(&directory, UnzipLimits::default()).unwrap_err().contains("2000000 entries"));
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
        fs::write(directory.path().join("a.zip"), "not a zip").unwrap();
        assert!(open(&directory, UnzipLimits::default()).unwrap_err().contains("not a zip archive"));
    }
}
