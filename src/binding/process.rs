//! The types and functions that processes pass to and from JavaScript. Names and order match lib/process.ts.

use super::delivery::{ByteSink, Channel, Delivery, LineSink, Selection, Skipped, create_text};
use super::host::{absolute, working_folder};
use super::limit::NativeConcurrencyLimit;
use super::option::{Containment, ContainmentLevel, EchoStreams, Encoding, Millis, StopReason, Strays, give};
use super::promise::{Promised, Settled, done, reply, settle};
use super::sandbox::SandboxSpec;
use bytes::Bytes;
use ground::record::{Place, RecordSpec};
use napi::bindgen_prelude::{
    BufferSlice, Either, Null, Object, ToNapiValue, Uint8Array, within_runtime_if_available,
};
use napi::{Env, sys};
use napi_derive::napi;
use process::{
    self, Admission, Environment, EnvironmentBase, Input, Outcome, Process, ProcessSpec, SavePlan, Saved,
    Sink, StdinWriter, Stdio, Stream, TerminalSize,
};
use serde_json::json;
use std::sync::Arc;

/// A variable to set, or to remove when it has no value.
#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct VariableChange {
    pub name: String,
    pub value: Option<String>,
}

/// Checked options of a run. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct RunSpec {
    pub command: String,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub env: Vec<VariableChange>,
    /// Inherit only the variables with these names.
    pub inherit_only: Option<Vec<String>>,
    /// The environment of a worker thread, which replaces that of the process.
    pub inherited: Option<Vec<VariableChange>>,
    pub input: Option<Either<String, Uint8Array>>,
    /// Path of a file to use as stdin.
    pub input_file: Option<String>,
    /// The source of stdin when there is no input.
    pub stdin: Option<StdinSource>,
    /// Use the host's own stdin, stdout and stderr.
    pub inherit_stdio: Option<bool>,
    pub terminal: Option<TerminalSpec>,
    pub encoding: Option<Encoding>,
    pub trim: Option<bool>,
    pub echo: Option<EchoStreams>,
    pub reject: Option<bool>,
    /// A folder, relative to `cwd`.
    pub prefer_local: Option<String>,
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

/// The source of a program's stdin when no input is given.
#[napi(string_enum = "kebab-case")]
#[derive(Clone, Copy)]
pub enum StdinSource {
    Pipe,
    Inherit,
}

/// A terminal's size. A missing value has the core's default.
#[napi(object, object_to_js = false)]
pub struct TerminalSpec {
    pub columns: Option<u16>,
    pub rows: Option<u16>,
}

impl From<TerminalSpec> for TerminalSize {
    fn from(spec: TerminalSpec) -> Self {
        let TerminalSpec { columns, rows } = spec;
        let default = TerminalSize::default();
        TerminalSize { columns: columns.unwrap_or(default.columns), rows: rows.unwrap_or(default.rows) }
    }
}

/// Starts a run, when the limit has room. Errors are reported by the run's promises. The result is a class, so that lib/ can hold
/// a reference to it.
#[napi]
pub fn spawn_process(
    spec: RunSpec,
    delivery: &Delivery,
    limit: Option<&NativeConcurrencyLimit>,
) -> NativeProcess {
    let spec = to_spec(spec);
    let (max_line_bytes, encoding) = (spec.max_line_bytes, spec.encoding);
    let process = within_runtime_if_available(|| match limit {
        // The place in the queue is taken now: first come, first served.
        Some(limit) => process::spawn_after(spec, Admission::after(limit.place().end())),
        None => process::spawn(spec),
    });
    let number = delivery.runs.add(process.downgrade());
    let runs = delivery.runs.clone();
    // A thousand of them, kept until the next thousand come, would hold a page each.
    process.on_outcome(move |_| runs.remove(number));
    let stdin = process.take_stdin();
    NativeProcess { process: Some(process), stdin, max_line_bytes, encoding, skipped: Skipped::default() }
}

/// A run.
#[napi]
pub struct NativeProcess {
    /// `None` after `let_go`.
    process: Option<Process>,
    stdin: Option<StdinWriter>,
    max_line_bytes: usize,
    encoding: process::Encoding,
    skipped: Skipped,
}

#[napi]
impl NativeProcess {
    #[napi]
    pub fn started(&self) -> Promised<u32> {
        let process = self.process.clone();
        reply(move |reply| {
            let Some(process) = process else { return };
            // Whoever waits holds the run.
            let held = process.clone();
            process.on_started(move |started| {
                drop(held);
                reply.send(started);
            });
        })
    }

    #[napi(ts_return_type = "Promised<import('../lib/process').RunResult>")]
    pub fn outcome(&self) -> Promised<ResultOf> {
        let (process, encoding) = (self.process.clone(), self.encoding);
        reply(move |reply| {
            let Some(process) = process else { return };
            let held = process.clone();
            process.on_outcome(move |outcome| {
                drop(held);
                let result = outcome.result.is_some().then(|| ResultOf(outcome.clone(), encoding));
                reply.send(match (&outcome.error, result) {
                    (None, Some(result)) => Settled::Value(result),
                    (error, partial) => {
                        let error = error.clone().unwrap_or_else(Outcome::nothing_started);
                        Settled::Failed { error, partial }
                    }
                });
            });
        })
    }

    /// Ends the run because its signal was aborted, or because `kill()` was called.
    #[napi]
    pub fn stop(&self, reason: StopReason) {
        if let Some(process) = &self.process {
            process.stop(reason.into());
        }
    }

    /// Does the same as `stop` for `kill()`, but sends the group the signal with this number.
    #[napi]
    pub fn kill(&self, signal: i32) {
        if let Some(process) = &self.process {
            process.kill(signal);
        }
    }

    /// Changes the size of the run's terminal.
    #[napi]
    pub fn resize(&self, size: TerminalSpec) {
        if let Some(process) = &self.process {
            process.resize(size.into());
        }
    }

    /// Resolves with true when the pipe has taken all bytes, with false when the program reads no more. Calls must not overlap:
    /// their order would be undefined.
    #[napi]
    pub fn write_stdin(&self, bytes: Uint8Array) -> Promised<bool> {
        // The bytes are copied now, because JavaScript may change its buffer later.
        let (stdin, bytes) = (self.stdin.clone(), Bytes::copy_from_slice(&bytes));
        done(async move {
            match stdin {
                Some(stdin) => stdin.deliver(bytes).await,
                None => false,
            }
        })
    }

    /// Closes the pipe when everything is written.
    #[napi]
    pub fn end_stdin(&mut self) {
        self.stdin = None;
    }

    /// Delivers the lines of both streams. Returns the channel's number.
    #[napi]
    pub fn lines(&self, delivery: &Delivery) -> u32 {
        self.deliver(delivery, |channel| LineSink::new(Selection::Lines, self.max_line_bytes, channel))
    }

    /// Delivers the JSON objects of stdout, with `passes_others` the other lines as well. Returns the channel's number.
    #[napi]
    pub fn json(&self, types: Option<Vec<String>>, passes_others: bool, delivery: &Delivery) -> u32 {
        let selection = Selection::Json { types, skipped: self.skipped.clone(), passes_others };
        self.deliver(delivery, |channel| LineSink::new(selection, self.max_line_bytes, channel))
    }

    /// Lines of stdout that `json` did not deliver because they are no JSON objects.
    #[napi]
    pub fn skipped_lines(&self) -> f64 {
        self.skipped.count() as f64
    }

    /// Delivers stdout as it comes. Returns the channel's number.
    #[napi]
    pub fn bytes(&self, delivery: &Delivery) -> u32 {
        self.deliver(delivery, ByteSink::new)
    }

    /// Writes the output to files as it comes; resolves when all is written.
    #[napi]
    pub fn save_output(
        &self,
        stdout: Option<String>,
        stderr: Option<String>,
        append: bool,
    ) -> Promised<NativeSavedOutput> {
        let plan = SavePlan { stdout: stdout.map(Into::into), stderr: stderr.map(Into::into), append };
        let saving = self.process.as_ref().map(|process| process.save(plan));
        settle(async move {
            let saving = saving.ok_or_else(Outcome::nothing_started)?;
            saving.await.map(NativeSavedOutput::from)
        })
    }

    #[napi]
    pub fn detach_output(&self) {
        if let Some(process) = &self.process {
            process.detach_output();
        }
    }

    /// Lets go of the run, which has ended and of which nothing is wanted any more. JavaScript collects this object late, since it does
    /// not know how much memory a run holds.
    #[napi]
    pub fn let_go(&mut self) {
        self.process = None;
        self.stdin = None;
    }
}

/// Bytes that `save_output` wrote of each stream.
#[napi(object, object_from_js = false)]
pub struct NativeSavedOutput {
    pub stdout_bytes: f64,
    pub stderr_bytes: f64,
}

impl From<Saved> for NativeSavedOutput {
    fn from(saved: Saved) -> Self {
        NativeSavedOutput { stdout_bytes: saved.stdout_bytes as f64, stderr_bytes: saved.stderr_bytes as f64 }
    }
}

impl NativeProcess {
    fn deliver<S: Sink + 'static>(&self, delivery: &Delivery, sink: impl FnOnce(Channel) -> S) -> u32 {
        let channel = delivery.multiplexer.open();
        let id = channel.id();
        if let Some(process) = &self.process {
            process.subscribe(Box::new(sink(channel)));
        }
        id
    }
}

/// The environment of a program: changes to a base. The base is the variables that JavaScript passes, some of the process's
/// variables, or all of them.
pub fn environment(
    changes: Vec<VariableChange>,
    inherited: Option<Vec<VariableChange>>,
    inherit_only: Option<&[String]>,
) -> Environment {
    let base = environment_base(inherited, inherit_only);
    Environment { base, changes: changes.into_iter().map(|change| (change.name, change.value)).collect() }
}

/// Variables that JavaScript passes, or those of the process.
pub(super) fn environment_base(
    inherited: Option<Vec<VariableChange>>,
    inherit_only: Option<&[String]>,
) -> EnvironmentBase {
    match inherited {
        Some(variables) => EnvironmentBase::Variables(
            variables
                .into_iter()
                .filter_map(|change| Some((change.name.into(), change.value?.into())))
                .collect(),
        ),
        None => EnvironmentBase::snapshot(inherit_only),
    }
}

fn to_spec(options: RunSpec) -> ProcessSpec {
    let RunSpec {
        command,
        args,
        cwd,
        env,
        inherit_only,
        inherited,
        input,
        input_file,
        stdin,
        inherit_stdio,
        terminal,
        encoding,
        trim,
        echo,
        reject,
        prefer_local,
        idle_timeout_ms,
        timeout_ms,
        kill_grace_ms,
        drain_ms,
        max_output_bytes,
        max_line_bytes,
        strays,
        containment,
        memory_max_bytes,
        max_processes,
        sandbox,
        record,
        max_record_bytes,
        name,
    } = options;
    let mut spec = ProcessSpec::new(command, args);
    (spec.cwd, spec.folder) = working_folder(cwd);
    spec.environment = environment(env, inherited, inherit_only.as_deref());
    spec.input = to_input(input, input_file, stdin);
    let piped = if inherit_stdio == Some(true) { Stdio::Inherit } else { Stdio::Piped };
    spec.stdio = terminal.map_or(piped, |size| Stdio::Terminal(size.into()));
    give(&mut spec.encoding, encoding.map(Into::into));
    give(&mut spec.trim, trim);
    give(&mut spec.reject, reject);
    spec.echo = echo.map(EchoStreams::echo);
    spec.prefer_local = prefer_local.map(Into::into);
    give(&mut spec.idle_timeout, idle_timeout_ms.map(Millis::limit));
    give(&mut spec.timeout, timeout_ms.map(Millis::limit));
    give(&mut spec.kill_grace, kill_grace_ms.map(Millis::duration));
    give(&mut spec.drain, drain_ms.map(Millis::duration));
    give(&mut spec.max_output_bytes, max_output_bytes.map(to_text_bytes));
    give(&mut spec.max_line_bytes, max_line_bytes.map(to_text_bytes));
    give(&mut spec.strays, strays.map(Into::into));
    give(&mut spec.containment, containment.map(Into::into));
    spec.memory_max_bytes = memory_max_bytes.map(|bytes| bytes as u64);
    spec.max_processes = max_processes.map(|count| count as u64);
    spec.sandbox = sandbox.map(Into::into);
    spec.record = record.map(|folder| to_record(folder, max_record_bytes));
    spec.name = name;
    spec
}

fn to_input(
    input: Option<Either<String, Uint8Array>>,
    file: Option<String>,
    source: Option<StdinSource>,
) -> Input {
    match (input, file, source) {
        (Some(Either::A(text)), ..) => Input::Bytes(text.into()),
        (Some(Either::B(bytes)), ..) => Input::Bytes(bytes.to_vec().into()),
        (None, Some(path), _) => Input::File(path.into()),
        (None, None, Some(StdinSource::Pipe)) => Input::Pipe,
        (None, None, Some(StdinSource::Inherit)) => Input::Inherit,
        (None, None, None) => Input::Null,
    }
}

fn to_text_bytes(bytes: f64) -> usize {
    (bytes as usize).min(MAX_TEXT_BYTES)
}

fn to_record(folder: String, max_bytes: Option<f64>) -> RecordSpec {
    let mut record = RecordSpec::new(Place::Below(absolute(folder)));
    record.max_bytes = max_bytes.map_or(record.max_bytes, |bytes| bytes as u64);
    record
}

/// Longest text passed to JavaScript: its strings hold a little less than 512 Mi characters. The margin is for the lines that
/// come together with the longest one.
const MAX_TEXT_BYTES: usize = (512 << 20) - (1 << 20);

/// The result of an outcome that has one. Its texts are passed on without a copy in between.
pub struct ResultOf(Arc<Outcome>, process::Encoding);

impl ResultOf {
    fn set_output(&self, env: &Env, object: &mut Object<'_>, name: &str, stream: Stream) -> napi::Result<()> {
        let Some(result) = &self.0.result else { return Ok(()) };
        match (self.1, stream) {
            (process::Encoding::Bytes, stream) => {
                object.set(name, BufferSlice::copy_from(env, result.shown_bytes(stream))?)
            }
            (process::Encoding::Text, stream) => {
                object.set(name, create_text(env, result.shown_text(stream))?)
            }
        }
    }
}

fn or_null<T>(value: Option<T>) -> Either<T, Null> {
    value.map_or(Either::B(Null), Either::A)
}

impl ToNapiValue for ResultOf {
    unsafe fn to_napi_value(raw_env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let mut object = Object::new(&env)?;
        if let Some(result) = &value.0.result {
            object.set("command", &result.command)?;
            object.set("args", result.args.clone())?;
            object.set("pid", result.pid)?;
            object.set("exitCode", or_null(result.exit_code))?;
            object.set("ok", result.is_ok())?;
            object.set("signal", or_null(result.signal.clone()))?;
            value.set_output(&env, &mut object, "stdout", Stream::Stdout)?;
            value.set_output(&env, &mut object, "stderr", Stream::Stderr)?;
            object.set("stdoutBytes", result.stdout_bytes as f64)?;
            object.set("stderrBytes", result.stderr_bytes as f64)?;
            object.set("truncated", result.truncated)?;
            object.set("durationMs", result.duration_ms)?;
            object.set("firstOutputMs", or_null(result.first_output_ms))?;
            object.set("lastOutputMs", or_null(result.last_output_ms))?;
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
                object.set("record", json!(record))?;
            }
            if let Some(sandbox) = &result.sandbox {
                object.set("sandbox", json!(sandbox))?;
            }
        }
        // SAFETY: the object was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, object) }
    }
}
