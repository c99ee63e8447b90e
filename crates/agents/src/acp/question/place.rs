//! Finds the files to which the paths of a request lead. This reads the disk, so it is called where waiting is allowed.

use crate::acp::question::Question;
use crate::acp::question::policy::Policy;
use crate::harness::level::glob::path_matches;
use ground::os::{blocking, destination, within};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Longest wait for the disk. A place that is not known by then is allowed by nothing.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// Files of one request that are looked at. Of more, none is known.
const MAX_FILES: usize = 4096;

/// The files and folders of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The session's folder: as it is named, and where that leads.
    cwd: Vec<PathBuf>,
    files: Vec<Place>,
    folders: Vec<Place>,
    /// Denied paths that lead elsewhere than they are written: the rule's text, and another text for it.
    denied: Vec<(String, String)>,
}

/// A file, by all its paths.
#[derive(Clone, Debug, Default)]
struct Place {
    /// As the agent names it, without `.` and `..`.
    named: PathBuf,
    /// The paths to which it leads; `None` if they are unknown. Programs differ in how they read `..` behind a link, so there may be two.
    real: Option<Vec<PathBuf>>,
}

impl Places {
    /// Looks at the disk on a thread of its own.
    pub(crate) async fn find(question: &Question, policy: &Policy, cwd: &Path) -> Places {
        let (asked, rules, folder) = (question.clone(), policy.clone(), cwd.to_owned());
        if asked.files().next().is_none() && asked.command_folders().next().is_none() {
            return Places::default();
        }
        let look = blocking(move || Places::look(&asked, &rules, &folder));
        match within(LONGEST_LOOK, look).await {
            Some(Ok(places)) => places,
            Some(Err(_)) | None => Places::unknown(question, cwd),
        }
    }

    /// Blocks.
    pub(crate) fn look(question: &Question, policy: &Policy, cwd: &Path) -> Places {
        if question.files().nth(MAX_FILES).is_some() {
            return Places::unknown(question, cwd);
        }
        let mut folders = vec![plain(Path::new("/"), cwd)];
        folders.extend(destination(cwd).ok().filter(|real| *real != folders[0]));
        // A tool that is told a folder may take relative paths from there.
        let bases: Vec<PathBuf> = [cwd.to_owned()]
            .into_iter()
            .chain(question.command_folders().map(|path| cwd.join(path)))
            .collect();
        let denied = policy.deny.iter().filter_map(|rule| rule.path.as_deref());
        Places {
            denied: denied.filter_map(|pattern| Some((pattern.to_owned(), led(pattern, cwd)?))).collect(),
            files: question.files().map(|path| Place::look(path, &bases)).collect(),
            folders: question.command_folders().map(|path| Place::look(path, &bases[..1])).collect(),
            cwd: folders,
        }
    }

    fn unknown(question: &Question, cwd: &Path) -> Places {
        let unknown = |path: &str| Place { named: plain(cwd, Path::new(path)), real: None };
        Places {
            cwd: vec![plain(Path::new("/"), cwd)],
            files: question.files().map(unknown).collect(),
            folders: question.command_folders().map(unknown).collect(),
            denied: Vec::new(),
        }
    }

    /// Whether files are named, and all of them are below the session's folder.
    pub(crate) fn are_below(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| self.holds(file))
    }

    /// Whether a command runs in the session's folder, or below it.
    pub(crate) fn run_below(&self) -> bool {
        self.folders.iter().all(|folder| self.holds(folder))
    }

    fn holds(&self, place: &Place) -> bool {
        place.real.as_ref().is_some_and(|real| real.iter().all(|path| self.below(path).is_some()))
    }

    fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.cwd.iter().find_map(|cwd| path.strip_prefix(cwd).ok())
    }

    /// Whether files are named, and each leads to what the pattern means.
    pub(crate) fn all_are(&self, pattern: &str) -> bool {
        let is_meant = |place: &Place| {
            place.real.as_ref().is_some_and(|real| real.iter().all(|path| self.path_is(pattern, path)))
        };
        !self.files.is_empty() && self.files.iter().all(is_meant)
    }

    /// Whether a file is what the pattern means, by its name or by where it leads, or may be.
    pub(crate) fn any_is(&self, pattern: &str) -> bool {
        let other =
            self.denied.iter().filter(|(written, _)| written == pattern).map(|(_, other)| other.as_str());
        let patterns: Vec<&str> = other.chain([pattern]).collect();
        self.files.iter().any(|place| {
            let mut paths = place.real.iter().flatten().chain([&place.named]);
            place.real.is_none()
                || paths.any(|path| patterns.iter().any(|pattern| self.path_is(pattern, path)))
        })
    }

    fn path_is(&self, pattern: &str, path: &Path) -> bool {
        if pattern.starts_with('/') {
            return path_matches(pattern, &path.to_string_lossy());
        }
        let pattern = pattern.trim_start_matches("./");
        self.below(path).is_some_and(|path| path_matches(pattern, &path.to_string_lossy()))
    }
}

impl Place {
    /// `bases`: folders from which a relative path may be meant, the session's own first.
    fn look(path: &str, bases: &[PathBuf]) -> Place {
        let named = plain(&bases[0], Path::new(path));
        // Some programs take these for the home folder or a variable, others for a name.
        if path.starts_with(['~', '$']) {
            return Place { named, real: None };
        }
        let has_parent = Path::new(path).components().any(|part| part == Component::ParentDir);
        let mut real = Vec::new();
        for base in bases {
            real.push(destination(&plain(base, Path::new(path))));
            if has_parent {
                real.push(destination(&base.join(path)));
            }
        }
        let real: Result<Vec<PathBuf>, _> = real.into_iter().collect();
        Place { named, real: real.ok() }
    }
}

/// A denied path with the links of its beginning, up to the first star, followed.
fn led(pattern: &str, cwd: &Path) -> Option<String> {
    let star = pattern.find(['*', '?']).unwrap_or(pattern.len());
    let end = if star == pattern.len() { star } else { pattern[..star].rfind('/').unwrap_or(0) };
    let (beginning, rest) = pattern.split_at(end);
    if beginning.is_empty() && pattern.starts_with('/') {
        return None;
    }
    let real =
        destination(&plain(cwd, Path::new(if beginning.is_empty() { "." } else { beginning }))).ok()?;
    let rest = if rest.is_empty() || rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    Some(format!("{}{rest}", real.to_str()?))
}

/// Absolute, without `.` and `..`, by its letters alone.
fn plain(cwd: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in cwd.join(path).components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn is_below(input: Value) -> bool {
        let call = json!({"toolCallId":"1","kind":"edit","title":"x","rawInput":input});
        let question = Question::read("0", &json!({"toolCall":call,"options":[]}), |_| None);
        Places::look(&question, &Policy::default(), Path::new("/work")).are_below()
    }

    #[test]
    fn a_relative_path_may_be_meant_from_a_folder_that_the_request_names() {
        for (input, expected) in [
            (json!({"path":"a","cwd":"/work"}), true),
            (json!({"path":"a","cwd":"sub"}), true),
            (json!({"path":"/work/a","cwd":"/etc"}), true),
            (json!({"path":"a","cwd":"/etc"}), false),
            (json!({"file":"a","workdir":"/work/../etc"}), false),
            (json!({"file":"a","directory":".."}), false),
            (json!({"file":"../a","dir":"sub/sub"}), false),
            (json!({"path":"a","output":"/etc/b"}), false),
            (json!({"path":"a","saveAs":"/etc/b"}), false),
            (json!({"path":" /etc/b"}), false),
            (json!({"path":"/work/a\n"}), true),
            (json!({"path":"$HOME/a"}), false),
            (json!({"path":"${HOME}/a"}), false),
            (json!({"path":"~root/a"}), false),
            (json!({"path":"a~"}), true),
            (json!({"uri":"file:/etc/b"}), false),
            (json!({"uri":"FILE:///etc/b"}), false),
            (json!({"uri":"file:///work/%2e%2e/b"}), false),
            (json!({"uri":"file://localhost/work/b"}), true),
            (json!({"uri":"File:/work/b"}), true),
        ] {
            assert_eq!(is_below(input.clone()), expected, "{input}");
        }
    }
}
