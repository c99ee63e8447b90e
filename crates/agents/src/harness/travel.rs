//! Finds the files that a CLI writes for a session, and puts such files in their place when they come from another machine.
//!
//! A provider's descriptor gives a root and patterns below it, folder by folder. `{session}` is the session's id, `{head}` its
//! first eight letters, `{project}` the CLI's name for the folder of a working directory, `*` any text within a name. A last
//! part `**` is everything below. In transit a file has its pattern's name with `{project}` unreplaced, because the working
//! directory differs between machines. Only files that a pattern names are written, so that a tampered blob can't reach the
//! CLI's settings.

use crate::harness::provider::place::resolve;
use crate::harness::provider::{Project, Provider, SessionFiles, plain};
use crate::harness::turn::request::TurnRequest;
use ground::os::{ContainedFolders, EntryKind, HeldFolder, real_path};
use std::io;
use std::path::{Path, PathBuf};

/// Most files of one session.
const MAX_FILES: usize = 1000;
const MAX_DEPTH: usize = 8;
/// Longest marker file, which holds a path.
const MAX_MARKER_BYTES: u64 = 64 << 10;

/// The place of a session's files on this machine.
pub struct SessionPlace {
    root: PathBuf,
    project: Option<String>,
    session: String,
    files: &'static SessionFiles,
    /// The working directory, as the CLI writes it.
    pub cwd: String,
}

/// A file of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionFile {
    /// Its name in transit.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
}

impl SessionPlace {
    /// The place of a session of such a turn; `None` for a CLI whose sessions can't be moved.
    pub fn of(request: &TurnRequest, session: &str) -> Option<SessionPlace> {
        let cwd = match &request.agent.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir().ok()?,
        };
        // The CLI gets the directory with links resolved.
        let cwd = real_path(&cwd).unwrap_or(cwd).to_str()?.to_owned();
        Self::at(request.agent.provider, |name| request.agent.variable(name), cwd, session)
    }

    fn at(
        provider: Provider,
        variable: impl Fn(&str) -> Option<String>,
        cwd: String,
        session: &str,
    ) -> Option<SessionPlace> {
        let files = provider.descriptor().session_files?;
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
        if session.len() < 8 || session.len() > 128 || !session.bytes().all(is_plain) {
            return None;
        }
        let root = resolve(files.root, &variable)?;
        let project = match files.project {
            Project::None => None,
            Project::Named(name) => Some(name(&cwd)),
            Project::Marked { parent, marker } => marked(&root.join(parent), marker, &cwd),
        };
        Some(SessionPlace { root, project, session: session.to_owned(), files, cwd })
    }

    /// The files that are here, in the order of their names.
    pub fn list(&self) -> io::Result<Vec<SessionFile>> {
        let mut found = Vec::new();
        for pattern in self.files.patterns {
            let parts: Vec<&str> = pattern.split('/').collect();
            // No session of this project, or none at all.
            let Ok(root) = self.open_root() else { break };
            self.walk(&root, &parts, &mut Vec::new(), &mut found)?;
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }

    fn walk(
        &self,
        folder: &HeldFolder,
        parts: &[&str],
        walked: &mut Vec<String>,
        found: &mut Vec<SessionFile>,
    ) -> io::Result<()> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        let is_deep = *part == "**";
        if walked.len() > MAX_DEPTH {
            return Ok(());
        }
        let Ok(entries) = folder.entries() else { return Ok(()) };
        for (name, kind) in entries {
            if !is_deep && !self.fits(part, &name) {
                continue;
            }
            walked.push(if *part == "{project}" { (*part).to_owned() } else { name.clone() });
            match kind {
                EntryKind::Folder if is_deep || !rest.is_empty() => {
                    if let Ok(below) = folder.open_below(Path::new(&name)) {
                        self.walk(&below, if is_deep { parts } else { rest }, walked, found)?;
                    }
                }
                EntryKind::File { bytes } if (is_deep || rest.is_empty()) && !name.ends_with(".lock") => {
                    if found.len() == MAX_FILES {
                        return Err(io::Error::other(format!("the session has more than {MAX_FILES} files")));
                    }
                    found.push(SessionFile {
                        name: walked.join("/"),
                        path: folder.path().join(&name),
                        bytes,
                    });
                }
                EntryKind::Folder | EntryKind::File { .. } | EntryKind::Link | EntryKind::Other => {}
            }
            walked.pop();
        }
        Ok(())
    }

    /// The CLI's state, which its program can write: nothing below it is reached through a link.
    fn open_root(&self) -> io::Result<HeldFolder> {
        HeldFolder::open(&self.root, &ContainedFolders::default())
    }

    /// All of a file that was listed. It may have grown since; a longer one than `most` is an error.
    pub fn read(&self, file: &SessionFile, most: u64) -> io::Result<Vec<u8>> {
        let (folder, name) = self.parts(&file.path)?;
        self.open_root()?.open_below(folder)?.read(name, most)
    }

    /// Writes a file of the session: it is there whole or not at all, and its owner's alone.
    pub fn write(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        let (folder, name) = self.parts(path)?;
        HeldFolder::make(&self.root, &ContainedFolders::default())?.make_below(folder)?.put(name, text)
    }

    fn parts<'a>(&self, path: &'a Path) -> io::Result<(&'a Path, &'a str)> {
        let below = path.strip_prefix(&self.root).ok();
        below
            .and_then(|below| Some((below.parent()?, below.file_name()?.to_str()?)))
            .ok_or_else(|| io::Error::other(format!("{} is no file of the session", path.display())))
    }

    /// The path on this machine of a file with this name; `None` if no pattern matches it.
    pub fn target(&self, name: &str) -> Option<PathBuf> {
        let names: Vec<&str> = name.split('/').collect();
        let is_odd = |name: &&str| name.is_empty() || *name == "." || *name == ".." || name.contains('\0');
        if names.iter().any(is_odd) || names.len() > MAX_DEPTH {
            return None;
        }
        let is_named = self.files.patterns.iter().any(|pattern| {
            let parts: Vec<&str> = pattern.split('/').collect();
            let head = parts.strip_suffix(&["**"]);
            let is_long = match head {
                Some(head) => names.len() > head.len(),
                None => names.len() == parts.len(),
            };
            let parts = head.unwrap_or(&parts);
            is_long && parts.iter().zip(&names).all(|(part, name)| self.fits_on_its_way(part, name))
        });
        if !is_named {
            return None;
        }
        let mut path = self.root.clone();
        for name in names {
            match name {
                "{project}" => path.push(self.project.clone().unwrap_or_else(|| self.new_project())),
                name => path.push(name),
            }
        }
        Some(path)
    }

    /// The marker file, as path and text, that the CLI needs to find the session's files; `None` if it exists already.
    pub fn marker(&self) -> Option<(PathBuf, String)> {
        match self.files.project {
            Project::Marked { parent, marker } if self.project.is_none() => {
                Some((self.root.join(parent).join(self.new_project()).join(marker), self.cwd.clone()))
            }
            _ => None,
        }
    }

    /// The text of a file that was written in another working directory, as it would be in this one.
    pub fn at_home(&self, text: &[u8], written_in: &str) -> Vec<u8> {
        let Some(field) = self.files.own.filter(|_| written_in != self.cwd) else { return text.to_vec() };
        let member = |cwd: &str| format!("\"{field}\":{}", serde_json::json!(cwd)).into_bytes();
        replaced(text, &member(written_in), &member(&self.cwd))
    }

    fn fits(&self, part: &str, name: &str) -> bool {
        if part == "{project}" {
            return self.project.as_deref() == Some(name);
        }
        let part = part.replace("{session}", &self.session).replace("{head}", &self.session[..8]);
        match part.split_once('*') {
            None => part == name,
            Some((head, end)) => {
                name.len() >= head.len() + end.len() && name.starts_with(head) && name.ends_with(end)
            }
        }
    }

    fn fits_on_its_way(&self, part: &str, name: &str) -> bool {
        if part == "{project}" { name == part } else { self.fits(part, name) }
    }

    /// A name that no other working directory has.
    fn new_project(&self) -> String {
        plain(&self.cwd).trim_matches('-').to_owned()
    }
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut written, mut from) = (Vec::with_capacity(text.len()), 0);
    for at in memchr::memmem::find_iter(text, old) {
        written.extend_from_slice(&text[from..at]);
        written.extend_from_slice(new);
        from = at + old.len();
    }
    written.extend_from_slice(&text[from..]);
    written
}

fn marked(parent: &Path, marker: &str, cwd: &str) -> Option<String> {
    let parent = HeldFolder::open(parent, &ContainedFolders::default()).ok()?;
    parent.entries().ok()?.into_iter().find_map(|(name, _)| {
        let text = parent.open_below(Path::new(&name)).ok()?.read(marker, MAX_MARKER_BYTES).ok()?;
        (text.trim_ascii_end() == cwd.as_bytes()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use crate::harness::travel::*;
    use std::fs;

    const ID: &str = "01a20452-919f-74c0-8205-eaeed1c6f1c9";

    fn place(provider: Provider, home: &Path, cwd: &str) -> SessionPlace {
        let home = home.to_str().unwrap().to_owned();
        let variable = move |name: &str| (name == "HOME").then(|| home.clone());
        SessionPlace::at(provider, variable, cwd.to_owned(), ID).unwrap()
    }

    fn write(home: &Path, path: &str) {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    /// Provider, its files in a project /work/a, other files, and the first one's place in a project /home/me/b.
    const CASES: [(Provider, &[&str], &[&str], &str); 6] = [
        (
            Provider::Codex,
            &[
                ".codex/sessions/2026/11/22/rollout-2026-11-22T17-34-09-01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
            ],
            &[".codex/auth.json", ".codex/sessions/2026/11/22/rollout-x-01a20452-0000.jsonl"],
            ".codex/sessions/2026/11/22/rollout-2026-11-22T17-34-09-01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
        ),
        (
            Provider::ClaudeCode,
            &[
                ".claude/projects/-work-a/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
                ".claude/projects/-work-a/01a20452-919f-74c0-8205-eaeed1c6f1c9/subagents/agent-1.jsonl",
            ],
            &[".claude.json", ".claude/projects/-work-b/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl"],
            ".claude/projects/-home-me-b/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
        ),
        (
            Provider::Gemini,
            &[".gemini/tmp/a/chats/session-2026-11-22T17-34-01a20452.jsonl"],
            &[".gemini/settings.json", ".gemini/tmp/a/chats/session-2026-11-22T17-34-ffffffff.jsonl"],
            ".gemini/tmp/home-me-b/chats/session-2026-11-22T17-34-01a20452.jsonl",
        ),
        (
            Provider::Copilot,
            &[".copilot/session-state/01a20452-919f-74c0-8205-eaeed1c6f1c9/events.jsonl"],
            &[
                ".copilot/config.json",
                ".copilot/session-state/01a20452-919f-74c0-8205-eaeed1c6f1c9/.fork.lock",
            ],
            ".copilot/session-state/01a20452-919f-74c0-8205-eaeed1c6f1c9/events.jsonl",
        ),
        (
            Provider::Qwen,
            &[".qwen/projects/-work-a/chats/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl"],
            &[".qwen/settings.json"],
            ".qwen/projects/-home-me-b/chats/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
        ),
        (
            Provider::Pi,
            &[".pi/agent/sessions/--work-a--/2026_01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl"],
            &[".pi/agent/auth.json"],
            ".pi/agent/sessions/--home-me-b--/2026_01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
        ),
    ];

    #[test]
    fn a_session_is_its_own_files_and_they_find_their_place_elsewhere() {
        for (provider, own, others, there) in CASES {
            let home = tempfile::tempdir().unwrap();
            own.iter().chain(others).for_each(|path| write(home.path(), path));
            if provider == Provider::Gemini {
                fs::write(home.path().join(".gemini/tmp/a/.project_root"), "/work/a").unwrap();
            }
            let found = place(provider, home.path(), "/work/a").list().unwrap();
            let paths: Vec<&Path> =
                found.iter().map(|file| file.path.strip_prefix(home.path()).unwrap()).collect();
            let own: Vec<&Path> = own.iter().map(Path::new).collect();
            assert_eq!(paths, own, "{provider:?}");
            let other = tempfile::tempdir().unwrap();
            let target = place(provider, other.path(), "/home/me/b").target(&found[0].name).unwrap();
            assert_eq!(target.strip_prefix(other.path()).unwrap(), Path::new(there), "{provider:?}");
        }
    }

    #[test]
    fn nothing_else_is_ever_written() {
        let home = tempfile::tempdir().unwrap();
        for (provider, ..) in CASES {
            let place = place(provider, home.path(), "/work/a");
            for name in [
                "config.toml",
                "../evil",
                "sessions/2026/11/22/../../../auth.json",
                "settings.json",
                "/etc/passwd",
                "",
                "sessions/a/b/c/d/rollout-x-01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
                "projects/-work-a/01a20452-919f-74c0-8205-eaeed1c6f1c9.jsonl",
                "session-state/01a20452-919f-74c0-8205-eaeed1c6f1c9/../../config.json",
            ] {
                assert_eq!(place.target(name), None, "{provider:?} {name}");
            }
        }
    }

    #[test]
    fn an_id_that_is_no_plain_name_has_no_files() {
        let variable = |_: &str| Some("/home/me".to_owned());
        for id in ["../../../etc", "short", "a/b/c/d/e/f", "********"] {
            assert!(SessionPlace::at(Provider::Codex, variable, "/w".into(), id).is_none(), "{id}");
        }
    }
}
