//! Finds the limits that a sandbox can enforce on this machine by trying them: a guard installs the rules that a run would get.
//! A version of the kernel does not tell what a container's filter refuses.

use super::no_sandbox::NO_GUARD;
use crate::fence::can_decide;
use crate::guard::{GuardFailure, GuardStage, Plan, Shortfall, landlock_abi, try_sandbox};
use crate::sandbox::report::{HOLDS, HOSTS, NETWORK, PORTS, READS, SOCKETS, SandboxSupport};
use crate::sandbox::{Network, Sandbox};
use std::sync::OnceLock;

/// A group of restrictions that may be refused by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    /// All that a sandbox holds whatever else is asked for.
    Files,
    Reads,
    /// All that a filter of system calls holds.
    Network,
    Ports,
}

impl SandboxSupport {
    /// No sandbox is possible, because of this.
    fn none(problem: String) -> SandboxSupport {
        SandboxSupport { problem: Some(problem), ..SandboxSupport::new(0, false) }
    }

    /// These restrictions can't be had, because of this.
    fn refuse(&mut self, problem: String, refused: Limited) {
        let limit_of = |word: &str| match word {
            READS => Limited::Reads,
            NETWORK | HOSTS | SOCKETS => Limited::Network,
            PORTS => Limited::Ports,
            _ => Limited::Files,
        };
        let (holds, missing): (Vec<_>, Vec<_>) = HOLDS
            .map(|(word, _)| word)
            .into_iter()
            .partition(|word| self.holds.contains(word) && limit_of(word) != refused);
        (self.holds, self.missing) = (holds, missing);
        self.network = self.holds.contains(&HOSTS);
        self.problem.get_or_insert(problem);
    }
}

/// Any port: nothing connects to it.
const A_PORT: u16 = 1;
/// From this version on Landlock holds ports.
const SINCE_PORTS: u32 = 4;

/// A refusal is asked about again, since its reason may pass. Blocks.
pub(super) fn support() -> SandboxSupport {
    static WHOLE: OnceLock<SandboxSupport> = OnceLock::new();
    if let Some(whole) = WHOLE.get() {
        return whole.clone();
    }
    let support = look();
    if support.problem.is_none() {
        return WHOLE.get_or_init(|| support).clone();
    }
    support
}

fn look() -> SandboxSupport {
    let landlock = match landlock_abi() {
        Ok(landlock) => landlock,
        Err(fault) => return SandboxSupport::none(format!("{fault}: {}", Shortfall::LANDLOCK)),
    };
    let asks = can_decide();
    let attempt = |reads: bool, network: Network| {
        let read = reads.then(|| vec!["/".into()]);
        let sandbox = Sandbox { write: vec!["/".into()], read, network, ..Sandbox::default() };
        match Plan::new(&sandbox, landlock, asks.is_ok()) {
            Ok(plan) => try_sandbox(&plan).map_err(|failure| words_of(&failure)),
            Err(shortfall) => Err(shortfall.reason()),
        }
    };
    let mut support = SandboxSupport::new(landlock, asks.is_ok());
    if let Err(fault) = &asks {
        support.problem = Some(fault.to_string());
    }
    let whole = attempt(true, Network::All);
    // Which of the two is refused?
    let files = if whole.is_ok() { Ok(()) } else { attempt(false, Network::All) };
    let reads = if files.is_ok() { whole } else { files.clone() };
    let network = attempt(false, Network::None);
    let ports = if landlock >= SINCE_PORTS { attempt(false, Network::Ports(vec![A_PORT])) } else { Ok(()) };
    if let (Err(problem), Err(_), Err(_)) = (&files, &network, &ports) {
        return SandboxSupport::none(problem.clone());
    }
    for (limit, tried) in [
        (Limited::Files, files),
        (Limited::Reads, reads),
        (Limited::Network, network),
        (Limited::Ports, ports),
    ] {
        if let Err(problem) = tried {
            support.refuse(problem, limit);
        }
    }
    support
}

fn words_of(failure: &GuardFailure) -> String {
    match failure.stage {
        GuardStage::Unavailable | GuardStage::Spawn => format!("{}: {NO_GUARD}", failure.fault),
        _ => failure.fault.to_string(),
    }
}
