//! The start and the end of a run as its record holds them. docs/record.md has the fields.

use super::resolved_command::ResolvedCommand;
use super::spec::{Environment, EnvironmentBase, Outcome, ProcessSpec, Strays};
use ground::error::Result;
use ground::os::Host;
use ground::record::{Record, epoch_ms, utc};
use ground::redaction::{Secret, names_a_secret};
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime};

/// A shorter value may stand anywhere: taking it out would only garble the record.
const MIN_SECRET_BYTES: usize = 8;

/// The folder of a run that is to be kept, with how it begins. Blocks.
pub(super) fn open(spec: &ProcessSpec, command: &ResolvedCommand) -> Result<Option<Record>> {
    let Some(wanted) = &spec.record else { return Ok(None) };
    let mut wanted = wanted.clone();
    wanted.secrets.extend(secrets_of(&spec.environment));
    wanted.secrets.extend(spec.secrets());
    wanted.contained.extend(spec.contained());
    Record::create(&wanted, start_of(spec, &command.mark)).map(Some)
}

fn start_of(spec: &ProcessSpec, mark: &str) -> Map<String, Value> {
    // An option that is added has to be recorded, or left out here on purpose.
    let ProcessSpec {
        command,
        args,
        cwd: _,
        folder: _,
        environment,
        idle_timeout,
        timeout,
        strays,
        containment,
        name,
        // Input is nobody's business, or is not known at the start.
        input: _,
        stdio: _,
        // They change what the caller gets, not the run.
        encoding: _,
        trim: _,
        echo: _,
        reject: _,
        // The folder in which the program was looked for.
        prefer_local: _,
        kill_grace: _,
        drain: _,
        max_output_bytes: _,
        max_line_bytes: _,
        memory_max_bytes: _,
        max_processes: _,
        // The end tells what the sandbox held, and what it refused.
        traffic: _,
        sandbox: _,
        record: _,
        stdout_pipe_bytes: _,
    } = spec;
    let now = epoch_ms(SystemTime::now());
    let environment: Vec<&String> = environment.changes.iter().map(|(name, _)| name).collect();
    let fields = json!({
        "version": 1,
        "kind": "run",
        "name": name,
        "command": command,
        "args": args,
        "cwd": spec.named_cwd(),
        // Names alone: values are nobody's business.
        "env": environment,
        "startedAt": utc(now),
        "startedAtMs": now,
        "host": { "pid": std::process::id(), "id": Host::own().to_string() },
        "mark": mark,
        "idleTimeoutMs": millis(*idle_timeout),
        "timeoutMs": millis(*timeout),
        "containment": containment,
        "strays": if *strays == Strays::Kill { "kill" } else { "keep" },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn millis(limit: Option<Duration>) -> Option<f64> {
    limit.map(|limit| limit.as_secs_f64() * 1e3)
}

/// Writes the end, and says in the outcome what became of the record.
pub(super) async fn close(record: Option<Record>, outcome: &mut Outcome) {
    let Some(record) = record else { return };
    let facts = record.finish(end_of(outcome)).await;
    if let Some(result) = &mut outcome.result {
        result.record = Some(facts);
    }
}

/// All of an outcome but the texts, which are in files of their own.
fn end_of(outcome: &Outcome) -> Value {
    let now = epoch_ms(SystemTime::now());
    let mut end = outcome.result.as_ref().map_or_else(|| json!({}), |result| json!(result));
    if let Value::Object(fields) = &mut end {
        for text in ["stdout", "stderr", "command", "args", "truncated", "record"] {
            fields.shift_remove(text);
        }
        fields.insert("endedAt".to_owned(), utc(now).into());
        fields.insert("endedAtMs".to_owned(), now.into());
        if let Some(error) = &outcome.error {
            fields.insert(
                "error".to_owned(),
                json!({ "code": error.code().as_str(), "message": error.message() }),
            );
        }
    }
    end
}

/// The values of variables whose names say that they are secret.
pub fn secrets_of(environment: &Environment) -> Vec<Secret> {
    let mut secrets = Vec::new();
    let mut look = |name: &str, value: &str| {
        if names_a_secret(name) && value.len() >= MIN_SECRET_BYTES {
            secrets.push(Secret::new(value));
        }
    };
    match &environment.base {
        EnvironmentBase::Inherit => {
            std::env::vars_os()
                .for_each(|(name, value)| look(&name.to_string_lossy(), &value.to_string_lossy()));
        }
        EnvironmentBase::Variables(variables) => {
            variables.iter().for_each(|(name, value)| look(&name.to_string_lossy(), &value.to_string_lossy()))
        }
        EnvironmentBase::Empty => {}
    }
    for (name, value) in &environment.changes {
        look(name, value.as_deref().unwrap_or_default());
    }
    secrets
}
