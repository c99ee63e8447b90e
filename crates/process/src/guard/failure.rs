//! PURE. The reason why no program runs under guard, and the step that failed.

use super::plan::Plan;
use ground::os::Fault;
use std::path::Path;

/// The reason why the program was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuardFailure {
    pub stage: GuardStage,
    pub fault: Fault,
}

impl GuardFailure {
    pub(super) fn at(stage: GuardStage) -> impl Fn(Fault) -> GuardFailure {
        move |fault| GuardFailure { stage, fault }
    }

    /// The failure with the file of its step: the guard does not repeat the names that it was given.
    pub(crate) fn on_files(mut self, program: &Path, cwd: Option<&Path>, plan: Option<&Plan>) -> Self {
        let file = match self.stage {
            GuardStage::Exec => Some(program),
            GuardStage::Chdir => cwd,
            GuardStage::SandboxPath(index) => {
                plan.and_then(|plan| plan.paths.get(index as usize)).map(|grant| grant.path.as_path())
            }
            _ => None,
        };
        self.fault.file = file.map(Path::to_owned).or(self.fault.file);
        self
    }
}

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardStage {
    /// No guard can be executed on this system: only the group level is left.
    Unavailable,
    /// An argument, a variable or a path has a NUL in it.
    Nul,
    /// The program's descriptors could not be made.
    Wires,
    /// The guard could not be started: no descriptors, processes or memory left.
    Spawn,
    /// The request did not reach the guard whole.
    Request,
    /// The guard could not watch.
    Supervise,
    /// The namespaces that `strict` needs.
    Namespace,
    /// The limits that were asked for: no cgroup that could enforce them can be made.
    Limits,
    /// The run's cgroup, which could be made but not joined.
    Cgroup,
    /// The program's own process.
    Fork,
    /// The working directory.
    Chdir,
    /// The rules of the sandbox.
    Sandbox,
    /// One of the sandbox's paths, by its number.
    SandboxPath(u32),
    /// The program's own terminal.
    Terminal,
    /// The program. E2BIG: arguments and environment are too long.
    Exec,
    /// A guard was killed meanwhile.
    Lost,
}
