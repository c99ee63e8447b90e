//! Finds out whether an agent fails because the `node` that runs it is too old.

use super::doctor::KILL_GRACE;
use super::install::find;
use crate::harness::agent_request::AgentRequest;
use crate::harness::launch::path_text;
use crate::harness::provider::protocol::NodeVersion;
use ground::os::{blocking, open_regular};
use process::ProcessSpec;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for `node --version`. Without an answer nothing is said of Node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Says which Node the agent needs, if the one on its PATH is older and runs this program.
pub(crate) async fn old_node(agent: &AgentRequest, program: Option<&str>) -> Option<String> {
    let needed = agent.provider.protocol().node?;
    let file = PathBuf::from(program?);
    if !blocking(move || is_run_by_node(&file)).await.ok()? {
        return None;
    }
    let node = find("node", &agent.search_path())?;
    let mut spec = ProcessSpec::new(path_text(&node), ["--version".to_owned()]);
    spec.timeout = Some(ANSWER_TIMEOUT);
    spec.kill_grace = KILL_GRACE;
    let process = process::spawn(spec);
    let outcome = process.outcome().await;
    let printed = outcome.result.as_ref()?.stdout.trim();
    words(agent.provider.as_str(), needed, printed)
}

fn words(agent: &str, needed: NodeVersion, printed: &str) -> Option<String> {
    let version = printed.strip_prefix('v')?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    let found: NodeVersion = (numbers.next()??, numbers.next()??);
    let (major, minor) = needed;
    (found < needed).then(|| {
        format!("{agent} needs Node.js {major}.{minor} or newer, and the `node` on its PATH is {version}")
    })
}

/// Whether the file is a script whose first line names node.
fn is_run_by_node(file: &Path) -> bool {
    let mut line = Vec::new();
    let read = open_regular(file).and_then(|(file, _)| file.take(128).read_to_end(&mut line));
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.is_ok() && line.starts_with(b"#!") && line.ends_with(b"node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_node_is_named() {
        let older = |printed| words("pi", (22, 19), printed).is_some();
        for (printed, is_old) in [
            ("v20.20.2", true),
            ("v22.18.0", true),
            ("v22.19.0", false),
            ("v24.0.0-nightly", false),
            ("v22", false),
            ("no version", false),
            ("", false),
        ] {
            assert_eq!(older(printed), is_old, "{printed}");
        }
        assert_eq!(
            words("pi", (22, 19), "v20.20.2").unwrap(),
            "pi needs Node.js 22.19 or newer, and the `node` on its PATH is 20.20.2"
        );
    }

    #[test]
    fn a_program_of_another_kind_is_not_run_by_node() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        for (text, is_script) in [
            ("#!/usr/bin/env node\nimport 'x'\n", true),
            ("#!/usr/local/bin/node", true),
            ("#!/bin/sh\nexec node x\n", false),
            ("node", false),
            ("\u{7f}ELF", false),
            ("", false),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(is_run_by_node(&file), is_script, "{text}");
        }
        assert!(!is_run_by_node(&folder.path().join("none")));
    }
}
