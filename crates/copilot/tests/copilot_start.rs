//! The error of a runtime that fails to start gives the reason.

#![expect(clippy::unwrap_used, reason = "a panic is a test's report, in its helpers too")]

use copilot::{Connection, ConnectionOptions, Outbox, Target};
use ground::error::{Error, ErrorCode};
use process::ProcessSpec;
use std::sync::Arc;
use tokio::sync::watch;

async fn fail_to_start(script: &str) -> Error {
    let spec = ProcessSpec::new("/bin/sh", vec!["-c".into(), script.to_owned()]);
    let options = ConnectionOptions {
        target: Target::Stdio(spec),
        handshake: serde_json::Map::new(),
        setup: Vec::new(),
        start_timeout: Some(Connection::START_TIMEOUT),
        tell_stderr: false,
    };
    let (_keep, cancelled) = watch::channel(false);
    Connection::start(options, Arc::new(Outbox::new(|| {})), cancelled).await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_wrote_to_stderr_is_in_the_error() {
    let long = "x".repeat(3000);
    for (way, script) in [
        ("stdout is closed first", format!("exec >&-; sleep 0.02; echo {long} the reason >&2; exit 3")),
        ("it exits at once", format!("printf copilot-runtime: >&2; echo {long} the reason >&2; exit 3")),
        (
            "stderr outlives both",
            "exec >&- <&-; echo the >&2; sleep 0.02; echo reason >&2; exit 3".to_owned(),
        ),
    ] {
        for trial in 0..20 {
            let error = fail_to_start(&script).await;
            assert_eq!(error.code(), ErrorCode::ConnectionLost, "{way}: {error}");
            let stderr = error.facts().get("stderr").and_then(|text| text.as_str()).unwrap_or_default();
            assert!(stderr.trim_end().ends_with("reason"), "{way}, trial {trial}: {error:?}");
            assert_eq!(error.facts()["exitCode"], 3, "{way}");
        }
    }
}
