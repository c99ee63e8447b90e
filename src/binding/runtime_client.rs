//! The types and functions of the runtime's client for JavaScript. Names and order match lib/runtime/client.ts.

use super::harness::json_text;
use super::option::{Millis, give};
use super::promise::{Promised, done, settle};
use super::runtime_host::{RuntimeHost, RuntimeObject};
use ground::error::Error;
use ground::json;
use napi_derive::napi;
use runtime::client::{ClientOptions, ClientRequest, Connecting, RuntimeClient};
use serde::de::DeserializeOwned;

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

#[napi]
pub struct NativeRuntimeClient {
    client: RuntimeClient,
}

#[napi]
impl NativeRuntimeClient {
    /// Sends a request and resolves with its number. `message`: what the runtime gets, without an id, as JSON.
    #[napi]
    pub fn request(
        &self,
        message: String,
        timeout_ms: Option<Millis>,
        idle_timeout_ms: Option<Millis>,
    ) -> Promised<f64> {
        let client = self.client.clone();
        settle(async move {
            let request = ClientRequest {
                message: read(&message)?,
                timeout: timeout_ms.and_then(Millis::limit),
                idle_timeout: idle_timeout_ms.and_then(Millis::limit),
            };
            client.request(request).await.map(|number| number as f64)
        })
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

    /// Gives the URL for a file. `file`: the runtime's request, as JSON.
    #[napi]
    pub fn answer(&self, file: String, presigned_url: String, content_type: String) -> Promised<()> {
        let client = self.client.clone();
        settle(async move {
            client.answer(read(&file)?, presigned_url, content_type).await;
            Ok::<_, Error>(())
        })
    }

    /// Declines a file. `file`: as for `answer`.
    #[napi]
    pub fn decline(&self, file: String, reason: String) -> Promised<()> {
        let client = self.client.clone();
        settle(async move {
            client.decline(read(&file)?, reason).await;
            Ok::<_, Error>(())
        })
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

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    json::read(text).map_err(|error| Error::invalid_option("request", error))
}
