//! PURE: what a descriptor says of the files that its CLI writes for a session, so that they can be taken to another machine and
//! resumed there (`session_place`).

/// What a descriptor says of them.
pub struct SessionFiles {
    /// Where the CLI keeps its state, as in `Descriptor::state`.
    pub root: &'static str,
    pub patterns: &'static [&'static str],
    pub project: Project,
    /// The field of its lines that names the working directory, where the CLI resumes only what is of its own.
    pub own: Option<&'static str>,
}

/// How a CLI calls the folder of a working directory.
pub enum Project {
    /// Its sessions are not parted by it.
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
