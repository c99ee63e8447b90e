//! The types and functions of the runtime's client for JavaScript. Names and order match lib/runtime/client.ts.

use super::harness::json_text;
use super::option::{Millis, give};
use super::promise::{Promised, done, settle};
use super::runtime_host::{RuntimeHost, RuntimeObject};
use ground::error::Error;
use napi_derive::napi;
use runtime::client::{ClientOptions, ClientRequest, Connecting, RequestMessage, RuntimeClient};
use runtime::wire::client_message::{CommandExecution, CommandSpec, Downloadable, Invocation};
use runtime::wire::runtime_message::UploadRequest;
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
#[napi(object, object_to_js = false)]
pub struct RuntimeUploadRequest {
    pub filename: String,
    pub filepath: String,
    pub upload_id: Option<String>,
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

    /// Waits for the next event and returns all that are ready: an array as JSON. Empty when no event will follow.
    #[napi]
    pub fn next_events(&self) -> Promised<String> {
        let client = self.client.clone();
        done(async move { json_text(&client.next_events().await) })
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

    /// Resolves with how the session ended, as JSON.
    #[napi]
    pub fn end_session(&self) -> Promised<String> {
        let client = self.client.clone();
        done(async move { json_text(&client.end_session().await) })
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
