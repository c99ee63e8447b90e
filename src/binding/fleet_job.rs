//! Passes a job with a handler to JavaScript. Names and order match lib/fleet/worker.ts.

use super::fleet_agent::FleetAgent;
use super::option::twin;
use super::promise::{Promised, done, settle};
use fleet::{JobFault, JobFuture, JobHost, JobRun, JobSpec};
use ground::error::Error;
use ground::json;
use ground::lock::lock;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use serde_json::{Map, Value};
use std::sync::Mutex;
use tokio::sync::{oneshot, watch};

pub(super) struct JsHost {
    call: ThreadsafeFunction<NativeJob, (), NativeJob, napi::Status, false, true>,
    handlers: Vec<String>,
    agent: FleetAgent,
}

/// JavaScript's answer to a job.
enum JobAnswer {
    Done(Option<Value>),
    Failed(JobFault),
}

impl JsHost {
    pub(super) fn new(
        on_job: &Function<'static, NativeJob, ()>,
        handlers: Vec<String>,
        agent: FleetAgent,
    ) -> napi::Result<Self> {
        let call = on_job
            .build_threadsafe_function::<NativeJob>()
            // Weak: the worker keeps the host alive as long as it is open.
            .weak::<true>()
            .callee_handled::<false>()
            .build()?;
        Ok(JsHost { call, handlers, agent })
    }
}

impl JobHost for JsHost {
    fn accepts(&self, spec: &JobSpec) -> bool {
        match &spec.handler {
            Some(handler) => self.handlers.contains(handler),
            None => true,
        }
    }

    fn handlers(&self) -> Vec<String> {
        self.handlers.clone()
    }

    fn run(&self, run: JobRun) -> JobFuture {
        if run.spec.handler.is_none() {
            return self.agent.run(run);
        }
        let (answer, answered) = oneshot::channel();
        let (over, is_over) = watch::channel(false);
        let job = NativeJob { run, answer: Mutex::new(Some(answer)), is_over };
        self.call.call(job, ThreadsafeFunctionCallMode::NonBlocking);
        Box::pin(async move {
            let ended = match answered.await {
                Ok(JobAnswer::Done(value)) => Ok(value),
                Ok(JobAnswer::Failed(fault)) => Err(fault),
                Err(_) => {
                    Err(JobFault::new("JOB_LEASE_LOST", "the worker's JavaScript ended before its job"))
                }
            };
            over.send_replace(true);
            ended
        })
    }
}

// Why a job has to stop.
twin!(fleet::StopCause { Cancelled = "cancelled", Lost = "lost", Closing = "closing" });

/// Levels of a value of the caller's in a job. The store reads 128, its own around the value included.
const MOST_LEVELS: usize = 100;

/// The value, if the store can read it again.
pub(super) fn storable(value: Value) -> Result<Value, String> {
    fn is_within(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| is_within(item, levels - 1)),
            Value::Object(fields) => levels > 0 && fields.values().all(|field| is_within(field, levels - 1)),
            _ => true,
        }
    }
    if is_within(&value, MOST_LEVELS) {
        return Ok(value);
    }
    Err(format!("it is nested deeper than {MOST_LEVELS} levels"))
}

/// One attempt at a job.
#[napi]
pub struct NativeJob {
    run: JobRun,
    answer: Mutex<Option<oneshot::Sender<JobAnswer>>>,
    is_over: watch::Receiver<bool>,
}

#[napi]
impl NativeJob {
    #[napi(getter)]
    pub fn id(&self) -> String {
        self.run.id.to_string()
    }

    #[napi(getter)]
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// The submitted spec as JSON.
    #[napi(getter)]
    pub fn spec(&self) -> String {
        serde_json::json!(*self.run.spec).to_string()
    }

    #[napi(getter)]
    pub fn cwd(&self) -> String {
        self.run.cwd().to_string_lossy().into_owned()
    }

    /// Emits an event. `event` is JSON. Resolves when there is room for more.
    #[napi]
    pub fn emit(&self, event: String) -> Promised<()> {
        let run = self.run.clone();
        settle(async move { run.emit(event).await })
    }

    #[napi]
    pub fn artifact(&self, path: String) -> Promised<()> {
        let run = self.run.clone();
        settle(async move { run.artifact(&path).await })
    }

    /// Resolves with the cause when the job has to stop, with null when it is over by itself.
    #[napi]
    pub fn stopped(&self) -> Promised<Option<StopCause>> {
        let (stop, mut is_over) = (self.run.stop.clone(), self.is_over.clone());
        done(async move {
            let cause = tokio::select! {
                cause = stop.stopped() => Some(cause),
                // The sender is gone: the attempt was abandoned.
                ended = is_over.wait_for(|over| *over) => ended.is_err().then_some(fleet::StopCause::Lost),
            };
            cause.map(Into::into)
        })
    }

    /// Ends the job with a result. `value` is JSON.
    #[napi]
    pub fn finish(&self, value: Option<String>) {
        let read = |value: String| json::read(value).map_err(|error| error.to_string()).and_then(storable);
        self.settle(match value.map(read).transpose() {
            Ok(value) => JobAnswer::Done(value),
            // To run it again would come to the same.
            Err(error) => {
                let error = Error::invalid_option("result", format!("cannot be stored as JSON: {error}"));
                JobAnswer::Failed(JobFault::from(&error))
            }
        });
    }

    /// `facts`: a JSON object.
    #[napi]
    pub fn fail(&self, code: String, message: String, facts: String) {
        let facts =
            json::read(&facts).unwrap_or_else(|_| Map::from_iter([("facts".to_owned(), facts.into())]));
        self.settle(JobAnswer::Failed(JobFault { code, message, facts }));
    }

    fn settle(&self, answer: JobAnswer) {
        if let Some(sender) = lock(&self.answer).take() {
            // Sending fails when the job is over, and then the answer is too late.
            let _ = sender.send(answer);
        }
    }
}
