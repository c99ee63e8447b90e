//! What a CLI writes for a session, so that it can be taken to another machine and resumed there.
//!
//! A provider's descriptor says where: a root and patterns below it, folder by folder. `{session}` is the session's id, `{head}` its
//! first eight letters, `{project}` whatever the CLI calls the folder of a working directory, `*` any text within a name; a last
//! part `**` is everything below. On the way a file has its pattern's name with `{project}` left as it is: the working directory
//! is another one elsewhere. Only what a pattern names is ever written, so that a blob that somebody tampered with can't reach
//! the CLI's settings.

use super::provider::Provider;
use super::request::TurnRequest;
use super::session_layout::{Project, SessionFiles, plain};
use super::workspace::resolve;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Of one session, at most.
const MAX_FILES: usize = 1000;
const MAX_DEPTH: usize = 8;

/// A session's files here, or where they would be.
pub(crate) struct SessionPlace {
    root: PathBuf,
    project: Option<String>,
    session: String,
    files: &'static SessionFiles,
    cwd: String,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionFile {
    /// As it is called on the way.
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
}

impl SessionPlace {
    /// Of the session that a turn like this has, or would have; `None` for a CLI whose sessions stay where they are.
    pub(crate) fn of(request: &TurnRequest, session: &str) -> Option<SessionPlace> {
        let cwd = match &request.agent.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir().ok()?,
        };
        // As the CLI itself is told.
        let cwd = cwd.canonicalize().unwrap_or(cwd).to_str()?.to_owned();
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
        let root = resolve(files.root, &|name| variable(name).filter(|value| value.starts_with('/')))?;
        let project = match files.project {
            Project::None => None,
            Project::Named(name) => Some(name(&cwd)),
            Project::Marked { parent, marker } => marked(&root.join(parent), marker, &cwd),
        };
        Some(SessionPlace { root, project, session: session.to_owned(), files, cwd })
    }

    /// The files that are here, in the order of their names.
    pub(crate) fn list(&self) -> io::Result<Vec<SessionFile>> {
        let mut found = Vec::new();
        for pattern in self.files.patterns {
            let parts: Vec<&str> = pattern.split('/').collect();
            self.walk(&self.root, &parts, &mut Vec::new(), &mut found)?;
        }
        found.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }

    fn walk(
        &self,
        folder: &Path,
        parts: &[&str],
        walked: &mut Vec<String>,
        found: &mut Vec<SessionFile>,
    ) -> io::Result<()> {
        let Some((part, rest)) = parts.split_first() else { return Ok(()) };
        let is_deep = *part == "**";
        if walked.len() > MAX_DEPTH {
            return Ok(());
        }
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            // No session of this project, or none at all.
            Err(_) => return Ok(()),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if !is_deep && !self.fits(part, name) {
                continue;
            }
            let (Ok(kind), Ok(facts)) = (entry.file_type(), entry.metadata()) else { continue };
            walked.push(if *part == "{project}" { (*part).to_owned() } else { name.to_owned() });
            if kind.is_dir() && (is_deep || !rest.is_empty()) {
                self.walk(&entry.path(), if is_deep { parts } else { rest }, walked, found)?;
            } else if kind.is_file() && (is_deep || rest.is_empty()) && !name.ends_with(".lock") {
                if found.len() == MAX_FILES {
                    return Err(io::Error::other(format!("the session has more than {MAX_FILES} files")));
                }
                found.push(SessionFile { name: walked.join("/"), path: entry.path(), bytes: facts.len() });
            }
            walked.pop();
        }
        Ok(())
    }

    /// Where a file of this name belongs here; `None` for one that no pattern names.
    pub(crate) fn target(&self, name: &str) -> Option<PathBuf> {
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

    /// What the CLI needs beside the files to find them: a path and its text.
    pub(crate) fn marker(&self) -> Option<(PathBuf, String)> {
        match self.files.project {
            Project::Marked { parent, marker } if self.project.is_none() => {
                Some((self.root.join(parent).join(self.new_project()).join(marker), self.cwd.clone()))
            }
            _ => None,
        }
    }

    /// The working directory, as the CLI writes it.
    pub(crate) fn cwd(&self) -> &str {
        &self.cwd
    }

    /// The text of a file that was written in another working directory, as it would be in this one.
    pub(crate) fn at_home(&self, text: &[u8], written_in: &str) -> Vec<u8> {
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
    let entries = fs::read_dir(parent).ok()?;
    entries.flatten().find_map(|entry| {
        let text = fs::read_to_string(entry.path().join(marker)).ok()?;
        (text.trim_end() == cwd).then(|| entry.file_name().into_string().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
