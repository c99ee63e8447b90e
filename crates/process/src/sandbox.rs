//! The rights of a sandboxed program, as they are asked for. PURE.
//!
//! `guard::plan` translates a [`Sandbox`] for the kernel at hand. Other systems have none, and refuse it.

pub(crate) mod report;

use crate::gate::Hosts;
use std::path::{Path, PathBuf};

/// The rights of a program and everything it starts. Paths are relative to the run's working directory; they must exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files that may be changed, and folders with everything below that may.
    pub write: Vec<PathBuf>,
    /// Files and folders that may be read and executed; `None` means all. Those of `write` may be read as well.
    pub read: Option<Vec<PathBuf>>,
    pub network: Network,
    /// Unix sockets that may be connected to, or folders of them; `None` means those below `write`. Not limited where the network is not.
    pub sockets: Option<Vec<PathBuf>>,
    /// The oldest version of Landlock that is accepted.
    pub require_landlock: Option<u32>,
    /// Files whose changes are reported or undone; `None` reports changes of the usual names.
    pub protect: Option<Protect>,
}

/// Files at the top of each folder of `write` that run later, outside. `package.json scripts` is a part of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protect {
    /// Changes of these are told.
    pub told: Vec<String>,
    /// Names whose changes are undone and reported.
    pub restored: Vec<String>,
    /// Nothing inside may change them, which no system here can hold: nothing is started.
    pub is_enforced: bool,
}

impl Protect {
    pub const NAMES: [&str; 14] = [
        ".git/hooks",
        ".git/config",
        // They lead git to another configuration.
        ".git/config.worktree",
        ".git/commondir",
        // It says which files a filter of the configuration is run for.
        ".git/info/attributes",
        ".envrc",
        ".mcp.json",
        ".vscode",
        ".claude",
        ".codex",
        ".gemini",
        ".qwen",
        "opencode.json",
        "package.json scripts",
    ];

    pub fn names() -> Vec<String> {
        Protect::NAMES.map(str::to_owned).to_vec()
    }

    /// Puts those of the usual names back that begin with one of these; of the others changes are told.
    pub fn restoring(beginnings: &[&str]) -> Protect {
        let is_restored = |name: &String| beginnings.iter().any(|beginning| name.starts_with(beginning));
        let (restored, told) = Protect::names().into_iter().partition(is_restored);
        Protect { told, restored, ..Protect::default() }
    }
}

/// Folders that a program in here, or in a sandbox before this one, can write: its working directory, and what is listed. A working
/// directory that is the whole disk tells nothing.
pub fn contained_folders(cwd: Option<&Path>, sandbox: Option<&Sandbox>) -> Vec<PathBuf> {
    let cwd = cwd.unwrap_or(Path::new("."));
    let cwd = std::path::absolute(cwd).unwrap_or_else(|_| cwd.to_owned());
    let listed = sandbox.iter().flat_map(|sandbox| &sandbox.write).map(|path| cwd.join(path));
    listed.chain((cwd != Path::new("/")).then(|| cwd.clone())).collect()
}

/// The limit of the network. All but `All` limit Unix sockets too, and leave no UDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    All,
    /// Unix sockets alone.
    None,
    /// TCP connections to these ports; listening is free.
    Ports(Vec<u16>),
    /// Requests to these hosts by way of a gate. Servers of the tree are reached from this machine alone.
    Hosts(Hosts),
}
