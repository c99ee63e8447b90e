//! The recorded runs of all CLIs: output, end, and what is read from them. One file for each CLI in fixtures/streams.

#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use agents::harness::Provider;
use agents::harness::verdict::Ending;
use serde_json::Value;
use std::path::PathBuf;

pub(crate) struct Recorded {
    pub(crate) provider: Provider,
    pub(crate) name: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ending: Ending,
    pub(crate) expected: Value,
}

fn file(provider: Provider) -> PathBuf {
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/streams");
    PathBuf::from(streams).join(format!("{}.json", provider.as_str()))
}

fn read(provider: Provider) -> Value {
    ground::json::read_own(std::fs::read(file(provider)).unwrap()).unwrap()
}

/// All recordings of one CLI.
pub(crate) fn recordings_of(provider: Provider) -> Vec<Recorded> {
    let read = read(provider);
    let one = |(name, one): (&String, &Value)| {
        let lines: Vec<_> =
            one["stdout"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let end = &one["end"];
        Recorded {
            provider,
            name: name.clone(),
            stdout: lines.join("\n"),
            stderr: end["stderr"].as_str().unwrap_or_default().to_owned(),
            ending: match (end["exitCode"].as_i64(), end["signal"].as_str()) {
                (Some(code), _) => Ending::Exited(code as i32),
                (None, Some(signal)) => Ending::Signalled(signal.to_owned()),
                (None, None) => Ending::Unknown,
            },
            expected: one["expected"].clone(),
        }
    };
    read.as_object().unwrap().iter().map(one).collect()
}

/// All recordings of all CLIs.
pub(crate) fn recordings() -> Vec<Recorded> {
    Provider::ALL.into_iter().flat_map(recordings_of).collect()
}

/// The stdout of one recorded run.
pub(crate) fn stdout_of(provider: Provider, name: &str) -> String {
    recordings_of(provider).into_iter().find(|one| one.name == name).unwrap().stdout
}

/// Makes this the expectation.
pub(crate) fn bless(one: &Recorded, shown: &Value) {
    let mut all = read(one.provider);
    all[&one.name]["expected"] = shown.clone();
    std::fs::write(file(one.provider), format!("{all:#}\n")).unwrap();
}
