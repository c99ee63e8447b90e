//! The depth of agents that start agents: `SHEEPDOG_DEPTH` in an agent's environment. Without a limit an agent that is told to
//! delegate could start agents without end.

use crate::harness::provider::Provider;
use ground::error::{Error, ErrorCode};
use ground::os::{lineage_of, variables_of};
use std::sync::OnceLock;

pub(crate) const VARIABLE: &str = "SHEEPDOG_DEPTH";

/// Depth of the deepest agent. A host that no agent started is at depth 0.
const DEEPEST: u64 = 3;

/// The depth of an agent that this host starts, or `AGENT_DEPTH`. `given`: the variable in the agent's own environment.
pub(crate) fn depth_below(provider: Provider, given: Option<&str>) -> Result<u64, Error> {
    let depth = inherited().max(given.map_or(0, value_of)).saturating_add(1);
    if depth <= DEEPEST {
        return Ok(depth);
    }
    let reason = match depth {
        u64::MAX => format!("its depth is unknown, because {VARIABLE} is no whole number"),
        _ => format!(
            "it would be the agent of an agent of an agent, at depth {depth}, and {DEEPEST} is the limit ({VARIABLE})"
        ),
    };
    let message = format!("{} was not started: {reason}", provider.as_str());
    Err(Error::new(ErrorCode::AgentDepth, message).with("depth", depth).with("maxDepth", DEEPEST))
}

/// The largest value that this process or one of its ancestors was started with. A program between an agent and this host may have
/// left the variable out: some agents give a server of theirs only a few variables.
fn inherited() -> u64 {
    static DEPTH: OnceLock<u64> = OnceLock::new();
    *DEPTH.get_or_init(|| {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        lineage_of(own).into_iter().filter_map(|pid| depth_in(&variables_of(pid))).max().unwrap_or(0)
    })
}

/// The value in an environment as the system shows it: `NAME=VALUE`, each with a NUL behind it.
fn depth_in(environment: &[u8]) -> Option<u64> {
    let mut values = environment
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")));
    values.next().map(|value| std::str::from_utf8(value).map_or(u64::MAX, value_of))
}

/// A text that is no whole number of this size is too deep: an agent could hide its depth behind it.
fn value_of(text: &str) -> u64 {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().unwrap_or(u64::MAX) } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use crate::harness::agent_request::AgentRequest;
    use crate::harness::agent_request::depth::*;
    use ground::os::ProcessTable;
    use std::process::{Command, Stdio};

    fn agent_at(depth: &str) -> AgentRequest {
        let mut agent = AgentRequest::new(Provider::Codex);
        agent.environment.changes.push((VARIABLE.to_owned(), Some(depth.to_owned())));
        agent
    }

    #[test]
    fn counts_agents_that_start_agents_and_refuses_the_fourth() {
        assert_eq!(agent_at("0").depth().unwrap(), 1);
        assert_eq!(agent_at("2").depth().unwrap(), 3);
        for unknown in ["99999999999999999999", "-1", "+1", "1.5", "one", " 1", ""] {
            assert_eq!(agent_at(unknown).depth().unwrap_err().code(), ErrorCode::AgentDepth, "{unknown}");
        }
        let error = agent_at("3").depth().unwrap_err();
        assert_eq!(error.code(), ErrorCode::AgentDepth);
        assert_eq!(error.facts()["depth"], 4);
    }

    #[test]
    fn takes_the_value_of_the_whole_name_and_no_unreadable_one_for_none() {
        assert_eq!(depth_in(b"A=1\0SHEEPDOG_DEPTH=2\0B=3\0"), Some(2));
        for other in [&b"SHEEPDOG_DEPTHS=2\0"[..], b"XSHEEPDOG_DEPTH=2", b"SHEEPDOG_DEPTH", b""] {
            assert_eq!(depth_in(other), None);
        }
        for unknown in [&b"SHEEPDOG_DEPTH="[..], b"SHEEPDOG_DEPTH=-1\0", b"SHEEPDOG_DEPTH=\xff"] {
            assert_eq!(depth_in(unknown), Some(u64::MAX));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_the_depth_of_an_ancestor_that_its_child_did_not_inherit() {
        // A shell at depth 2 whose child has an empty environment: the child's lineage has the shell.
        let mut shell = Command::new("sh")
            .args(["-c", "env -i sh -c 'echo; read line; true'; true"])
            .env(VARIABLE, "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut first).unwrap();
        let shell_pid = i32::try_from(shell.id()).unwrap();
        let table = ProcessTable::read().unwrap();
        let child = table.entries().iter().find(|entry| entry.parent == shell_pid).unwrap().identity.pid;
        assert_eq!(depth_in(&variables_of(child)), None);
        let lineage = lineage_of(child);
        assert!(lineage.starts_with(&[child, shell_pid]));
        assert_eq!(lineage.iter().find_map(|pid| depth_in(&variables_of(*pid))), Some(2));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }
}
