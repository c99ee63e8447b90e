//! What crosses for the client of a runtime. Names and order as in lib/runtime/client.ts.

use super::delivery::create_text;
use super::error::Fault;
use super::option::Millis;
use super::promise::{Settled, settle};
use super::runtime_host::{RuntimeGuest, RuntimeHost};
use crate::runtime::client::{
    ArtifactWanted, ClientEvent, ClientOptions, ClientRequest, Connecting, RuntimeClient, SessionEnd,
};
use napi::bindgen_prelude::{PromiseRaw, ToNapiValue};
use napi::{Env, sys};
use napi_derive::napi;
use serde_json::Value;

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
        if let Some(timeout) = connect_timeout_ms {
            options.connect_timeout = timeout.limit();
        }
        NativeConnection { connecting: Connecting::new(url, options) }
    }

    /// Connects, once.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<NativeRuntimeClient>>")]
    pub fn open<'env>(
        &self,
        env: &'env Env,
        host: &RuntimeHost,
    ) -> napi::Result<PromiseRaw<'env, Settled<NativeRuntimeClient>>> {
        let guests = host.guests();
        let opening = self.connecting.open();
        guests.welcome(RuntimeGuest::Connection(self.connecting.clone()));
        settle(env, async move {
            let opened = opening.await.map(|client| {
                guests.welcome(RuntimeGuest::Client(client.downgrade()));
                NativeRuntimeClient { client }
            });
            opened.into()
        })
    }

    /// Gives up, unless it is open.
    #[napi]
    pub fn abort(&self) {
        self.connecting.abort();
    }
}

/// A file that the runtime wants an URL for.
#[napi(object)]
pub struct WantedArtifact {
    pub filename: String,
    pub filepath: String,
    pub upload_id: Option<String>,
}

/// What happened.
#[napi(discriminant = "kind", discriminant_case = "lowercase", object_from_js = false)]
pub enum RuntimeEvent {
    Assistant {
        request: f64,
        text_blocks: Vec<String>,
    },
    Output {
        request: f64,
        stream: String,
        #[napi(ts_type = "string")]
        text: Text,
        command: String,
    },
    /// A file is to be uploaded.
    Wanted {
        wanted: WantedArtifact,
    },
    /// `terminal`: the runtime's message, as JSON.
    Ended {
        request: f64,
        terminal: String,
    },
    Failed {
        request: f64,
        error: Fault,
    },
}

/// Output on its way: plain ASCII goes over as it is.
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
    /// Sends a request (JSON) and resolves with its number.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<number>>")]
    pub fn request<'env>(
        &self,
        env: &'env Env,
        message: String,
        timeout_ms: Option<Millis>,
        idle_timeout_ms: Option<Millis>,
    ) -> napi::Result<PromiseRaw<'env, Settled<f64>>> {
        let client = self.client.clone();
        settle(env, async move {
            let request = ClientRequest {
                message: serde_json::from_str(&message).unwrap_or_default(),
                timeout: timeout_ms.and_then(Millis::limit),
                idle_timeout: idle_timeout_ms.and_then(Millis::limit),
            };
            client.request(request).await.map(|number| number as f64).into()
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn abort<'env>(&self, env: &'env Env, request: f64) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.abort(request as u64).await;
            Settled::Value(())
        })
    }

    /// What happened next; empty when nothing will happen any more.
    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<RuntimeEvent[]>>")]
    pub fn next_events<'env>(
        &self,
        env: &'env Env,
    ) -> napi::Result<PromiseRaw<'env, Settled<Vec<RuntimeEvent>>>> {
        let client = self.client.clone();
        settle(
            env,
            async move { Settled::Value(client.next_events().await.into_iter().map(to_event).collect()) },
        )
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn answer<'env>(
        &self,
        env: &'env Env,
        wanted: WantedArtifact,
        presigned_url: String,
        content_type: String,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.answer(from_wanted(wanted), presigned_url, content_type).await;
            Settled::Value(())
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn decline<'env>(
        &self,
        env: &'env Env,
        wanted: WantedArtifact,
        reason: String,
    ) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.decline(from_wanted(wanted), reason).await;
            Settled::Value(())
        })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<RuntimeEnd>>")]
    pub fn end_session<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<RuntimeEnd>>> {
        let client = self.client.clone();
        settle(env, async move { Settled::Value(to_end(client.end_session().await)) })
    }

    #[napi(ts_return_type = "Promise<import('../lib/error').Settled<void>>")]
    pub fn close<'env>(&self, env: &'env Env) -> napi::Result<PromiseRaw<'env, Settled<()>>> {
        let client = self.client.clone();
        settle(env, async move {
            client.close().await;
            Settled::Value(())
        })
    }
}

fn from_wanted(wanted: WantedArtifact) -> ArtifactWanted {
    ArtifactWanted { filename: wanted.filename, filepath: wanted.filepath, upload_id: wanted.upload_id }
}

fn to_event(event: ClientEvent) -> RuntimeEvent {
    match event {
        ClientEvent::Assistant { request, text_blocks } => {
            RuntimeEvent::Assistant { request: request as f64, text_blocks }
        }
        ClientEvent::Output { request, stream, text, command } => {
            RuntimeEvent::Output { request: request as f64, stream, text: Text(text), command }
        }
        ClientEvent::Wanted(ArtifactWanted { filename, filepath, upload_id }) => {
            RuntimeEvent::Wanted { wanted: WantedArtifact { filename, filepath, upload_id } }
        }
        ClientEvent::Ended { request, outcome: Ok(terminal) } => {
            RuntimeEvent::Ended { request: request as f64, terminal: Value::Object(terminal).to_string() }
        }
        ClientEvent::Ended { request, outcome: Err(error) } => {
            RuntimeEvent::Failed { request: request as f64, error: (&error).into() }
        }
    }
}

fn to_end(end: SessionEnd) -> RuntimeEnd {
    let undelivered = end.undelivered.into_iter().map(|(path, reason)| UndeliveredArtifact { path, reason });
    RuntimeEnd { confirmed: end.confirmed, uploaded: end.uploaded as f64, undelivered: undelivered.collect() }
}
