//! A record's folder: made, named, and read again. Everything here blocks.

use super::spec::Place;
use super::stamp::{epoch_ms, utc};
use crate::error::Error;
use crate::os::{Host, HostState};
use crate::random;
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest `run.json` or `end.json` that is read: a prompt may be long.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Makes the folder and writes what it begins with. INVALID_OPTION where that can't be done.
pub(super) fn make(place: &Place, start: &Value) -> Result<PathBuf, Error> {
    let path = match place {
        Place::Below(parent) => make_below(parent).map_err(|error| unwritable(parent, &error))?,
        Place::At(path) => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| unwritable(path, &error))?;
            path.clone()
        }
    };
    write_json(&path, "run.json", start).map_err(|error| unwritable(&path, &error))?;
    Ok(path)
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    let message =
        format!("no record can be kept in {}: {error}; name a folder that can be written to", path.display());
    Error::invalid_option("record", message)
}

fn make_below(parent: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    let time = utc(epoch_ms(SystemTime::now())).replace(':', "");
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..8 {
        let path = parent.join(format!("{time}-{}", random::name::<3>()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Readable by its owner alone; what is appended to it is never written over.
pub(super) fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// All of it or nothing: a reader never finds half of it.
pub(super) fn write_json(folder: &Path, name: &str, value: &Value) -> io::Result<()> {
    let unfinished = folder.join(format!(".{name}"));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(format!("{value:#}\n").as_bytes())?;
    drop(file);
    fs::rename(unfinished, folder.join(name))
}

/// One of a record's files of JSON; `None` when there is none that could be read.
pub(crate) fn read_json(folder: &Path, name: &str) -> Option<Value> {
    let path = folder.join(name);
    let facts = fs::symlink_metadata(&path).ok()?;
    if !facts.is_file() || facts.len() > MAX_JSON_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Why a record has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Its host is alive: it is being written.
    Running,
    /// Its host is gone: it was killed, or ended without waiting.
    HostGone,
    /// Its host is, or was, of another machine, boot or container.
    Elsewhere,
}

impl Unfinished {
    /// By what `run.json` says.
    pub(crate) fn of(start: &Value) -> Unfinished {
        Unfinished::by_host(start["host"]["id"].as_str())
    }

    pub(crate) fn by_host(host: Option<&str>) -> Unfinished {
        match host.and_then(Host::parse).map(|host| host.state()) {
            Some(HostState::Alive) => Unfinished::Running,
            Some(HostState::Gone) => Unfinished::HostGone,
            Some(HostState::Elsewhere) | None => Unfinished::Elsewhere,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Unfinished::Running => "running",
            Unfinished::HostGone => "host-gone",
            Unfinished::Elsewhere => "elsewhere",
        }
    }
}
