//! PURE: a descriptor's part about the files that its CLI writes for a session. By these files a session moves to another
//! machine and is resumed there (`session_place`).

/// The descriptor's part about session files.
pub struct SessionFiles {
    /// The folder in which the CLI keeps its state, as in `Descriptor::state`.
    pub root: &'static str,
    pub patterns: &'static [&'static str],
    pub project: Project,
    /// The field of a session's lines that names the working directory, for a CLI that resumes only sessions of its own
    /// directory.
    pub own: Option<&'static str>,
}

/// The way in which a CLI names the folder of a working directory.
pub enum Project {
    /// Sessions are not separated by working directory.
    None,
    Named(fn(cwd: &str) -> String),
    /// A folder in here, whichever has this file with the working directory in it.
    Marked {
        parent: &'static str,
        marker: &'static str,
    },
}

/// Letters and digits stay, all else becomes `-`: how several CLIs name a folder after a path.
pub(crate) fn plain(path: &str) -> String {
    path.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}
