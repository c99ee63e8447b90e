//! Settings that the git directories of a checkout take over: the user's name, ignored files, and objects.

use crate::repository::Repository;
use crate::snapshot::names_of;
use std::io;
use std::path::PathBuf;

/// The part of the user's configuration that a checkout takes over.
#[derive(Debug, Default)]
pub(crate) struct Setting {
    user: Vec<(String, String)>,
    excludes: Option<PathBuf>,
}

impl Setting {
    /// As `git config --null` lists it.
    pub(crate) fn of(listed: &[u8]) -> Setting {
        let mut setting = Setting::default();
        for entry in names_of(listed) {
            let text = String::from_utf8_lossy(&entry).into_owned();
            let Some((name, value)) = text.split_once('\n') else { continue };
            match name {
                "core.excludesfile" => setting.excludes = Some(at_home(value)),
                name => setting.user.push((name.trim_start_matches("user.").to_owned(), value.to_owned())),
            }
        }
        if setting.excludes.is_none() {
            setting.excludes = Some(at_home("~/.config/git/ignore"));
        }
        setting
    }

    /// Writes it into new git directories. The first of them is the agent's.
    pub(crate) fn write(&self, gits: &[PathBuf], repository: &Repository) -> io::Result<()> {
        let mut excludes = std::fs::read(repository.common.join("info/exclude")).unwrap_or_default();
        if let Some(more) = self.excludes.as_ref().and_then(|path| std::fs::read(path).ok()) {
            excludes.push(b'\n');
            excludes.extend(more);
        }
        let alternates = borrowing(&[repository.objects()]);
        for git in gits {
            std::fs::create_dir_all(git.join("info"))?;
            std::fs::create_dir_all(git.join("objects/info"))?;
            std::fs::write(git.join("info/exclude"), &excludes)?;
            std::fs::write(git.join("objects/info/alternates"), &alternates)?;
            // Commits that a shallow clone lacks are no fault there either.
            match std::fs::copy(repository.common.join("shallow"), git.join("shallow")) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let Some(first) = gits.first().filter(|_| !self.user.is_empty()) else { return Ok(()) };
        let mut config = std::fs::read_to_string(first.join("config"))?;
        config.push_str("[user]\n");
        for (name, value) in &self.user {
            config.push_str(&format!("\t{name} = {}\n", in_quotes(value)));
        }
        std::fs::write(first.join("config"), config)
    }
}

fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os(ground::os::native_variable("HOME"))) {
        (Some(below), Some(home)) => PathBuf::from(home).join(below),
        _ => PathBuf::from(path),
    }
}

/// Content of the file by which a folder of objects borrows others.
pub(crate) fn borrowing(objects: &[PathBuf]) -> String {
    objects.iter().map(|path| in_quotes(&path.to_string_lossy()) + "\n").collect()
}

/// Text as git's files have it: alternates are read without quotes unless they begin with one.
fn in_quotes(text: &str) -> String {
    let is_plain = !text.starts_with('"') && !text.contains(['\n', '\\', ';', '#']) && text.trim() == text;
    if is_plain {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    }
}
