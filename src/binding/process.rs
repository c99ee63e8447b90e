//! What crosses for the process capability. Names and order as in lib/process.ts.

use super::delivery::{Delivery, LineSink, Selection, create_text};
use super::option::{Containment, ContainmentLevel, Millis, StopReason, Strays};
use super::promise::{Settled, settle};
use super::sandbox::SandboxSpec;
use crate::process::{self, Environment, EnvironmentBase, Input, Outcome, Process, ProcessSpec};
use crate::record::{Place, RecordSpec};
use napi::bindgen_prelude::{
    Either, Object, PromiseRaw, ToNapiValue, Uint8Array, within_runtime_if_available,
};
use napi::{Env, sys};
use napi_derive::napi;
use std::sync::Arc;

/// A variable to set, or to remove when it has no value.
#[napi(object, object_to_js = false)]
pub struct VariableChange {
    pub name: String,
    pub value: Option<String>,
}

/// Checked options of a run; what is absent has the core's default.
#[napi(object, object_to_js = false)]
pub struct RunSpec {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub env: Vec<VariableChange>,
    /// Inherit these names alone.
    pub inherit_only: Option<Vec<String>>,
    /// A worker thread's own environment, instead of the process's.
    pub inherited: Option<Vec<VariableChange>>,
    pub input: Option<Either<String, Uint8Array>>,
    pub idle_timeout_ms: Option<Millis>,
    pub timeout_ms: Option<Millis>,
    pub kill_grace_ms: Option<Millis>,
    pub drain_ms: Option<Millis>,
    pub max_output_bytes: Option<f64>,
    pub max_line_bytes: Option<f64>,
    pub strays: Option<Strays>,
    pub containment: Option<Containment>,
    pub memory_max_bytes: Option<f64>,
    pub max_processes: Option<f64>,
    pub sandbox: Option<SandboxSpec>,
    pub record: Option<String>,
    pub max_record_bytes: Option<f64>,
    pub name: Option<String>,
}

/// Starts a run; faults come by its promises. A class of its own so that the glue can hold it.
#[napi]
pub fn spawn_process(spec: RunSpec, delivery: &Delivery) -> NativeProcess {
    let spec = to_spec(spec);
    let max_line_bytes = spec.max_line_bytes;
    let process = within_runtime_if_available(|| process::spawn(spec));
    delivery.runs.welcome(process.downgrade());
    NativeProcess { process, max_line_bytes }
}

/// A run.
#[napi]
pub struct NativeProcess {
    process: Process,
    max_line_bytes: usize,
}

#[napi]
impl NativeProcess {
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<number>>")]
    pub fn started<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<u32>>> {
        let process = self.process.clone();
        settle(env, async move { process.started().await.into() })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<import('../lib/process').RunResult>>")]
    pub fn outcome<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<ResultOf>>> {
        let process = self.process.clone();
        settle(env, async move {
            let outcome = process.outcome().await;
            let result = outcome.result.is_some().then(|| ResultOf(outcome.clone()));
            match (&outcome.error, result) {
                (None, Some(result)) => Settled::Value(result),
                (error, partial) => {
                    Settled::Failed { error: error.clone().unwrap_or_else(Outcome::nothing_started), partial }
                }
            }
        })
    }

    /// Ends the run because its signal was aborted, or because `kill()` was called.
    #[napi]
    pub fn stop(&self, reason: StopReason) {
        self.process.stop(reason.into());
    }

    /// Lines of both streams; returns the channel's number.
    #[napi]
    pub fn lines(&self, delivery: &Delivery) -> u32 {
        self.deliver(Selection::Lines, delivery)
    }

    /// JSON objects of stdout; returns the channel's number.
    #[napi]
    pub fn json(&self, types: Option<Vec<String>>, delivery: &Delivery) -> u32 {
        self.deliver(Selection::Json { types }, delivery)
    }

    #[napi]
    pub fn detach_output(&self) {
        self.process.detach_output();
    }
}

impl NativeProcess {
    fn deliver(&self, selection: Selection, delivery: &Delivery) -> u32 {
        let channel = delivery.multiplexer.open();
        let id = channel.id();
        self.process.subscribe(Box::new(LineSink::new(selection, self.max_line_bytes, channel)));
        id
    }
}

/// Changes to what is inherited: the variables that JavaScript knows, these names of the process's, or all of those.
pub fn environment(
    changes: Vec<VariableChange>,
    inherited: Option<Vec<VariableChange>>,
    inherit_only: Option<&[String]>,
) -> Environment {
    let base = match inherited {
        Some(variables) => EnvironmentBase::Variables(
            variables
                .into_iter()
                .filter_map(|change| Some((change.name.into(), change.value?.into())))
                .collect(),
        ),
        None => EnvironmentBase::snapshot(inherit_only),
    };
    Environment { base, changes: changes.into_iter().map(|change| (change.name, change.value)).collect() }
}

fn to_spec(options: RunSpec) -> ProcessSpec {
    let mut spec = ProcessSpec::new(options.command, options.args);
    spec.cwd = options.cwd.map(Into::into);
    spec.environment = environment(options.env, options.inherited, options.inherit_only.as_deref());
    spec.input = match options.input {
        None => Input::Null,
        Some(Either::A(text)) => Input::Bytes(text.into()),
        Some(Either::B(bytes)) => Input::Bytes(bytes.to_vec().into()),
    };
    if let Some(timeout) = options.idle_timeout_ms {
        spec.idle_timeout = timeout.limit();
    }
    if let Some(timeout) = options.timeout_ms {
        spec.timeout = timeout.limit();
    }
    if let Some(kill_grace) = options.kill_grace_ms {
        spec.kill_grace = kill_grace.duration();
    }
    if let Some(drain) = options.drain_ms {
        spec.drain = drain.duration();
    }
    if let Some(bytes) = options.max_output_bytes {
        spec.max_output_bytes = (bytes as usize).min(MAX_TEXT_BYTES);
    }
    if let Some(bytes) = options.max_line_bytes {
        spec.max_line_bytes = (bytes as usize).min(MAX_TEXT_BYTES);
    }
    if let Some(strays) = options.strays {
        spec.strays = strays.into();
    }
    if let Some(containment) = options.containment {
        spec.containment = containment.into();
    }
    spec.memory_max_bytes = options.memory_max_bytes.map(|bytes| bytes as u64);
    spec.max_processes = options.max_processes.map(|count| count as u64);
    spec.sandbox = options.sandbox.map(Into::into);
    spec.record = options.record.map(|folder| {
        let mut record = RecordSpec::new(Place::Below(folder.into()));
        record.max_bytes = options.max_record_bytes.map_or(record.max_bytes, |bytes| bytes as u64);
        record
    });
    spec.name = options.name;
    spec
}

/// A JavaScript string holds a little less than 512 Mi characters; more can't be handed over whatever is asked for. Room is
/// left for the lines that come together with the longest one.
const MAX_TEXT_BYTES: usize = (512 << 20) - (1 << 20);

/// The result of an outcome that has one: its texts go over without a copy in between.
pub struct ResultOf(Arc<Outcome>);

impl ToNapiValue for ResultOf {
    unsafe fn to_napi_value(raw_env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let mut object = Object::new(&env)?;
        if let Some(result) = &value.0.result {
            object.set("command", &result.command)?;
            object.set("args", result.args.clone())?;
            object.set("pid", result.pid)?;
            object.set(
                "exitCode",
                result.exit_code.map_or(Either::B(napi::bindgen_prelude::Null), Either::A),
            )?;
            object.set(
                "signal",
                result.signal.clone().map_or(Either::B(napi::bindgen_prelude::Null), Either::A),
            )?;
            object.set("stdout", create_text(&env, &result.stdout)?)?;
            object.set("stderr", create_text(&env, &result.stderr)?)?;
            object.set("stdoutBytes", result.stdout_bytes as f64)?;
            object.set("stderrBytes", result.stderr_bytes as f64)?;
            object.set("truncated", result.truncated)?;
            object.set("durationMs", result.duration_ms)?;
            object.set(
                "firstOutputMs",
                result.first_output_ms.map_or(Either::B(napi::bindgen_prelude::Null), Either::A),
            )?;
            object.set(
                "lastOutputMs",
                result.last_output_ms.map_or(Either::B(napi::bindgen_prelude::Null), Either::A),
            )?;
            object.set("pipesHeldOpen", result.pipes_held_open)?;
            object.set("straysKilled", result.strays_killed)?;
            object.set("straysLeft", result.strays_left)?;
            object.set("containment", ContainmentLevel::from(result.containment))?;
            let mut usage = Object::new(&env)?;
            usage.set("userMs", result.usage.user_ms)?;
            usage.set("systemMs", result.usage.system_ms)?;
            usage.set("maxRssBytes", result.usage.max_rss_bytes as f64)?;
            object.set("usage", usage)?;
            if let Some(record) = &result.record {
                let mut facts = Object::new(&env)?;
                facts.set("folder", &record.folder)?;
                facts.set("leftOutBytes", record.left_out_bytes as f64)?;
                if let Some(problem) = &record.problem {
                    facts.set("problem", problem)?;
                }
                object.set("record", facts)?;
            }
        }
        // SAFETY: the object was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, object) }
    }
}
