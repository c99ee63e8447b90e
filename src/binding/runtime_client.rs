//! The types and functions of the runtime's client for JavaScript. Names and order match lib/runtime/client.ts.

use super::delivery::create_text;
use super::error::Fault;
use super::option::{Millis, give};
use super::promise::{Promised, done, settle};
use super::runtime_host::{RuntimeHost, RuntimeObject};
use ground::error::Error;
use napi::bindgen_prelude::ToNapiValue;
use napi::{Env, sys};
use napi_derive::napi;
use runtime::client::{
    ClientEvent, ClientOptions, ClientRequest, Connecting, RequestMessage, RequestResult, RuntimeClient,
    SessionEnd,
};
use runtime::wire::client_message::{CommandExecution, CommandSpec, Downloadable, Invocation};
use runtime::wire::runtime_message::{OutputStream, ResultData, UploadRequest, UploadResult, UploadStatus};
use std::collections::HashMap;

/// A connection to be opened.
#[napi]
pub struct NativeConnection {
    connecting: Connecting,
}

#[napi]
impl NativeConnection {
    #[napi(constructor)]
    pub fn new(url: String, token: Option<String>, connect_timeout_ms: Option<Millis>) -> Self {
        let mut options = ClientOptions { token, ..ClientOptions::default() };
        give(&mut options.connect_timeout, connect_timeout_ms.map(Millis::limit));
        NativeConnection { connecting: Connecting::new(url, options) }
    }

    /// Connects. May be called once.
    #[napi]
    pub fn open(&self, host: &RuntimeHost) -> Promised<NativeRuntimeClient> {
        let objects = host.objects();
        let opening = self.connecting.open();
        objects.add(RuntimeObject::Connection(self.connecting.clone()));
        settle(async move {
            let client = opening.await?;
            objects.add(RuntimeObject::Client(client.downgrade()));
            Ok::<_, Error>(NativeRuntimeClient { client })
        })
    }

    /// Gives up connecting. Has no effect once the connection is open.
    #[napi]
    pub fn abort(&self) {
        self.connecting.abort();
    }
}

/// A checked request: a prompt or commands.
#[napi(object, object_to_js = false)]
pub struct RuntimeRequest {
    pub prompt: Option<RuntimePrompt>,
    pub commands: Option<Vec<RuntimeCommandSpec>>,
    pub secrets: Option<Vec<String>>,
    pub artifacts_dirs: Option<Vec<String>>,
    pub artifacts_ignore: Option<String>,
    pub downloads: Option<Vec<RuntimeDownload>>,
    pub timeout_ms: Option<Millis>,
    pub idle_timeout_ms: Option<Millis>,
}

#[napi(object, object_to_js = false)]
pub struct RuntimePrompt {
    pub system_prompt: String,
    pub user_prompt: String,
    pub model: String,
    /// `{ type: "json_schema", schema }` as JSON.
    pub output_format: Option<String>,
    pub agent_env: Option<HashMap<String, String>>,
    pub pre_commands: Option<Vec<RuntimeCommandSpec>>,
    pub post_commands: Option<Vec<RuntimeCommandSpec>>,
}

#[napi(object, object_to_js = false)]
pub struct RuntimeCommandSpec {
    pub command: String,
    pub cwd: Option<String>,
    pub env: Option<HashMap<String, String>>,
}

#[napi(object, object_to_js = false)]
pub struct RuntimeDownload {
    pub download_url: String,
    pub working_dir: String,
}

/// A file for which the runtime asks an upload URL.
#[napi(object)]
pub struct RuntimeUploadRequest {
    pub filename: String,
    pub filepath: String,
    pub upload_id: Option<String>,
}

/// The outcome of an upload.
#[napi(object, object_from_js = false)]
pub struct RuntimeUpload {
    pub path: String,
    #[napi(ts_type = "'uploaded' | 'failed'")]
    pub status: &'static str,
    pub bytes: Option<f64>,
    pub sha256: Option<String>,
    pub attempts: u32,
    pub reason: Option<String>,
}

/// The result of one command.
#[napi(object, object_from_js = false)]
pub struct RuntimeCommandResult {
    pub command: String,
    pub exit_code: i32,
    pub signal: Option<String>,
    pub stdout: Option<String>,
    pub truncated: Option<bool>,
}

/// An event of the session.
#[napi(discriminant = "kind", discriminant_case = "lowercase", object_from_js = false)]
pub enum RuntimeEvent {
    Assistant {
        request: f64,
        text_blocks: Vec<String>,
    },
    Output {
        request: f64,
        #[napi(ts_type = "'stdout' | 'stderr'")]
        stream: &'static str,
        #[napi(ts_type = "string")]
        text: Text,
        command: String,
    },
    /// The runtime asks for a URL to upload a file to.
    Asked {
        upload_request: RuntimeUploadRequest,
    },
    /// The outcome of an upload.
    Uploaded {
        upload: RuntimeUpload,
    },
    /// The end of a prompt. `structured_output`, where there is one, and `metadata` are JSON.
    Answered {
        request: f64,
        text: String,
        structured_output: Option<String>,
        metadata: String,
    },
    /// The end of commands.
    Ran {
        request: f64,
        results: Vec<RuntimeCommandResult>,
    },
    Failed {
        request: f64,
        error: Fault,
    },
    /// The end of the session. All events of the session came before.
    Confirmed,
}

/// Text for JavaScript. Plain ASCII is passed without decoding.
pub struct Text(String);

impl ToNapiValue for Text {
    unsafe fn to_napi_value(raw_env: sys::napi_env, text: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let string = create_text(&env, &text.0)?;
        // SAFETY: the string was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, string) }
    }
}

/// How the session ended.
#[napi(object, object_from_js = false)]
pub struct RuntimeEnd {
    pub confirmed: bool,
    pub uploaded: f64,
    pub undelivered: Vec<UndeliveredArtifact>,
}

#[napi(object, object_from_js = false)]
pub struct UndeliveredArtifact {
    pub path: String,
    pub reason: String,
}

#[napi]
pub struct NativeRuntimeClient {
    client: RuntimeClient,
}

#[napi]
impl NativeRuntimeClient {
    /// Sends a request and resolves with its number.
    #[napi]
    pub fn request(&self, request: RuntimeRequest) -> Promised<f64> {
        let client = self.client.clone();
        settle(async move { client.request(to_request(request)).await.map(|number| number as f64) })
    }

    #[napi]
    pub fn abort(&self, request: f64) -> Promised<()> {
        let client = self.client.clone();
        done(async move { client.abort(request as u64).await })
    }

    /// Whether the runtime resumes sessions; null until that is known.
    #[napi(getter)]
    pub fn resumes(&self) -> Option<bool> {
        self.client.resumes()
    }

    /// Waits for the next event and returns all that are ready. Empty when no event will follow.
    #[napi(ts_return_type = "Promised<RuntimeEvent[]>")]
    pub fn next_events(&self) -> Promised<Vec<RuntimeEvent>> {
        let client = self.client.clone();
        done(async move { client.next_events().await.into_iter().map(to_event).collect() })
    }

    #[napi]
    pub fn answer(
        &self,
        request: RuntimeUploadRequest,
        presigned_url: String,
        content_type: String,
    ) -> Promised<()> {
        let client = self.client.clone();
        done(async move { client.answer(from_upload_request(request), presigned_url, content_type).await })
    }

    #[napi]
    pub fn decline(&self, request: RuntimeUploadRequest, reason: String) -> Promised<()> {
        let client = self.client.clone();
        done(async move { client.decline(from_upload_request(request), reason).await })
    }

    #[napi]
    pub fn end_session(&self) -> Promised<RuntimeEnd> {
        let client = self.client.clone();
        done(async move { to_end(client.end_session().await) })
    }

    #[napi]
    pub fn close(&self) -> Promised<()> {
        let client = self.client.clone();
        done(async move { client.close().await })
    }
}

fn to_request(request: RuntimeRequest) -> ClientRequest {
    let secrets = request.secrets.unwrap_or_default();
    let (artifacts_dirs, artifacts_ignore) =
        (request.artifacts_dirs.unwrap_or_default(), request.artifacts_ignore);
    let downloads = request.downloads.unwrap_or_default().into_iter();
    let downloads = downloads
        .map(|RuntimeDownload { download_url, working_dir }| Downloadable { download_url, working_dir })
        .collect();
    let message = match request.prompt {
        Some(prompt) => RequestMessage::Invocation(Box::new(Invocation {
            system_prompt: prompt.system_prompt,
            user_prompt: prompt.user_prompt,
            model: prompt.model,
            output_format: prompt.output_format,
            agent_env: prompt.agent_env.map(|variables| variables.into_iter().collect()),
            pre_commands: to_commands(prompt.pre_commands),
            post_commands: to_commands(prompt.post_commands),
            secrets,
            artifacts_dirs,
            artifacts_ignore,
            downloads,
            ..Invocation::default()
        })),
        None => RequestMessage::CommandExecution(Box::new(CommandExecution {
            commands: to_commands(request.commands),
            secrets,
            artifacts_dirs,
            artifacts_ignore,
            downloads,
            ..CommandExecution::default()
        })),
    };
    ClientRequest {
        message,
        timeout: request.timeout_ms.and_then(Millis::limit),
        idle_timeout: request.idle_timeout_ms.and_then(Millis::limit),
    }
}

fn to_commands(commands: Option<Vec<RuntimeCommandSpec>>) -> Vec<CommandSpec> {
    let commands = commands.unwrap_or_default().into_iter();
    commands
        .map(|RuntimeCommandSpec { command, cwd, env }| CommandSpec {
            command,
            cwd,
            env: env.unwrap_or_default().into_iter().collect(),
        })
        .collect()
}

fn from_upload_request(request: RuntimeUploadRequest) -> UploadRequest {
    let RuntimeUploadRequest { filename, filepath, upload_id } = request;
    UploadRequest { filename, filepath, upload_id, ..UploadRequest::default() }
}

fn to_event(event: ClientEvent) -> RuntimeEvent {
    match event {
        ClientEvent::Assistant { request, text_blocks } => {
            RuntimeEvent::Assistant { request: request as f64, text_blocks }
        }
        ClientEvent::Output { request, stream, text, command } => {
            let stream = match stream {
                OutputStream::Stdout => "stdout",
                OutputStream::Stderr => "stderr",
            };
            RuntimeEvent::Output { request: request as f64, stream, text: Text(text), command }
        }
        ClientEvent::UploadRequested(UploadRequest { filename, filepath, upload_id, .. }) => {
            RuntimeEvent::Asked { upload_request: RuntimeUploadRequest { filename, filepath, upload_id } }
        }
        ClientEvent::Confirmed => RuntimeEvent::Confirmed,
        ClientEvent::Uploaded(result) => RuntimeEvent::Uploaded { upload: to_upload(result) },
        ClientEvent::Ended { request, outcome: Ok(RequestResult::Agent(result)) } => {
            let (text, structured_output) = match result.data {
                ResultData::Text { text } => (text, None),
                ResultData::StructuredOutput { structured_output } => {
                    (String::new(), Some(structured_output.text().to_owned()))
                }
            };
            let metadata = result.metadata.text().to_owned();
            RuntimeEvent::Answered { request: request as f64, text, structured_output, metadata }
        }
        ClientEvent::Ended { request, outcome: Ok(RequestResult::Commands(commands)) } => {
            let results = commands.results.into_iter().map(|result| RuntimeCommandResult {
                command: result.command,
                exit_code: result.exit_code,
                signal: result.signal,
                stdout: Some(result.stdout).filter(|stdout| !stdout.is_empty()),
                truncated: result.truncated.then_some(true),
            });
            RuntimeEvent::Ran { request: request as f64, results: results.collect() }
        }
        ClientEvent::Ended { request, outcome: Err(error) } => {
            RuntimeEvent::Failed { request: request as f64, error: (&error).into() }
        }
    }
}

fn to_upload(result: UploadResult) -> RuntimeUpload {
    RuntimeUpload {
        path: result.filepath,
        status: match result.status {
            UploadStatus::Uploaded => "uploaded",
            UploadStatus::Failed => "failed",
        },
        bytes: result.bytes.map(|bytes| bytes as f64),
        sha256: result.sha256,
        attempts: result.attempts,
        reason: result.error,
    }
}

fn to_end(end: SessionEnd) -> RuntimeEnd {
    let undelivered = end.undelivered.into_iter();
    let undelivered = undelivered.map(|file| UndeliveredArtifact { path: file.path, reason: file.reason });
    RuntimeEnd { confirmed: end.confirmed, uploaded: end.uploaded as f64, undelivered: undelivered.collect() }
}
