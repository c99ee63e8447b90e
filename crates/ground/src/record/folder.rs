//! A record's folder: creating, naming and reading it. All functions here block.

use super::spec::{Place, RecordSpec};
use super::stamp::{epoch_ms, utc};
use crate::error::{Error, ErrorCode};
use crate::os::{ContainedFolders, Fault, HeldFolder, Host, HostState};
use crate::random;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest `run.json` or `end.json` that is read: a prompt may be long.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Creates the folder and writes `run.json`. INVALID_OPTION where the folder is not fit for that.
pub(super) fn make(spec: &RecordSpec, start: &Value) -> Result<HeldFolder, Error> {
    let contained = ContainedFolders::of(spec.contained.iter().map(PathBuf::as_path));
    let (path, folder) = match &spec.place {
        Place::Below(parent) => {
            (parent.clone(), HeldFolder::make(parent, &contained).and_then(|parent| make_below(&parent)))
        }
        Place::At(path) => (path.clone(), HeldFolder::make(path, &contained)),
        Place::Within(parent, below) => (parent.path().join(below), parent.make_below(below)),
    };
    let folder = folder.map_err(|error| unwritable(&path, &error))?;
    if let Err(error) = write_json(&folder, "run.json", start) {
        if let (Place::Below(parent), Some(name)) = (&spec.place, folder.path().file_name()) {
            // Without this file it is a record to no reader, and would never be pruned.
            let _ = HeldFolder::open(parent, &contained).and_then(|parent| parent.remove_all(name));
        }
        return Err(unwritable(folder.path(), &error));
    }
    Ok(folder)
}

/// The option is at fault only where the folder is: not where the system lacks descriptors, memory or space.
fn unwritable(path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind as Kind;
    let fault = Fault::of("open", Some(path), error);
    let is_of_the_folder = matches!(
        error.kind(),
        Kind::NotFound
            | Kind::NotADirectory
            | Kind::IsADirectory
            | Kind::PermissionDenied
            | Kind::ReadOnlyFilesystem
            | Kind::AlreadyExists
            | Kind::InvalidInput
            | Kind::InvalidFilename
    );
    if is_of_the_folder {
        let message =
            format!("cannot create a record in {}; choose a folder that you can write to", fault.by_file());
        return Error::invalid_option("record", message);
    }
    let message = format!("the record could not be created, so nothing was started: {fault}");
    fault.mark(Error::new(ErrorCode::ProcessSpawnFailed, message))
}

fn make_below(parent: &HeldFolder) -> io::Result<HeldFolder> {
    let time = utc(epoch_ms(SystemTime::now())).replace(':', "");
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..8 {
        match parent.make_new(&format!("{time}-{}", random::name::<3>())) {
            Ok(folder) => return Ok(folder),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Writes the file atomically: a reader never finds half of it.
pub(super) fn write_json(folder: &HeldFolder, name: &str, value: &Value) -> io::Result<()> {
    folder.put(name, format!("{value:#}\n").as_bytes())
}

/// Reads one of a record's JSON files; `None` when it is missing or unreadable.
pub fn read_json(folder: &Path, name: &str) -> Option<Value> {
    let folder = HeldFolder::open(folder, &ContainedFolders::default()).ok()?;
    crate::json::read_own(&folder.read(name, MAX_JSON_BYTES).ok()?).ok().filter(Value::is_object)
}

crate::named! {
    /// The reason why a record has no end.
    pub enum Unfinished {
        /// Its host is alive: the record is being written.
        Running = "running",
        /// Its host is gone: it was killed, or ended without waiting for the record.
        HostGone = "host-gone",
        /// Its host belongs to another machine, boot or container.
        Elsewhere = "elsewhere",
    }
}

impl Unfinished {
    /// The reason, determined from `run.json`.
    pub fn of(start: &Value) -> Unfinished {
        Unfinished::by_host(start["host"]["id"].as_str())
    }

    pub fn by_host(host: Option<&str>) -> Unfinished {
        match host.and_then(Host::parse).map(|host| host.state()) {
            Some(HostState::Alive) => Unfinished::Running,
            Some(HostState::Gone) => Unfinished::HostGone,
            Some(HostState::Elsewhere) | None => Unfinished::Elsewhere,
        }
    }
}
