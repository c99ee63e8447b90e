//! The agent of a harness for a client of the Agent Client Protocol. Names and order match lib/harness/face.ts.

use super::acp::{OpenSpec, to_open_request};
use super::budget::NativeBudget;
use super::delivery::{Channel, Delivery};
use super::limit::{NativeConcurrencyLimit, all_limits};
use super::promise::{Promised, done, settle};
use agents::acp::{self, ClientSink, OpenRequest};
use agents::harness::ConcurrencyLimit;
use agents::model::AbortSwitch;
use bytes::Bytes;
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use ground::mpsc;
use napi::bindgen_prelude::Uint8Array;
use napi_derive::napi;
use process::Stream;
use std::sync::Mutex;
use std::task::{Context, Poll};

/// Chunks of the client's input that wait for the face.
const MAX_WAITING: usize = 4;

type Begin = (Result<OpenRequest, Error>, Vec<ConcurrencyLimit>, mpsc::Receiver<Bytes>);

/// An agent between its program and a client.
#[napi]
pub struct NativeFace {
    begin: Mutex<Option<Begin>>,
    input: Mutex<Option<mpsc::Sender<Bytes>>>,
    switch: AbortSwitch,
}

#[napi]
impl NativeFace {
    #[napi(constructor)]
    pub fn new(spec: OpenSpec, limits: Vec<&NativeConcurrencyLimit>, budget: Option<&NativeBudget>) -> Self {
        let request = to_open_request(spec, budget);
        let limits = all_limits(limits);
        let (sender, input) = mpsc::channel(MAX_WAITING);
        NativeFace {
            begin: Mutex::new(Some((request, limits, input))),
            input: Mutex::new(Some(sender)),
            switch: AbortSwitch::default(),
        }
    }

    /// Opens the channel that gets the agent's lines and its stderr. Returns its number.
    #[napi]
    pub fn open(&self, delivery: &Delivery) -> FaceChannel {
        let channel = delivery.multiplexer.open();
        let number = channel.id();
        FaceChannel { number, channel: Mutex::new(Some(channel)) }
    }

    /// Runs the agent until the client or the agent is gone.
    #[napi]
    pub fn run(&self, channel: &FaceChannel) -> Promised<()> {
        let begin = lock(&self.begin).take();
        let channel = lock(&channel.channel).take();
        let switch = self.switch.clone();
        settle(async move {
            let (Some((request, limits, input)), Some(channel)) = (begin, channel) else {
                return Err(Error::new(ErrorCode::SessionClosed, "the face has run already"));
            };
            let output = Box::new(Lines { channel });
            acp::serve(request?, limits, input, output, switch.clone().cancelled_owned()).await
        })
    }

    /// Takes a chunk of the client's input. Resolves when there is room for another one.
    #[napi]
    pub fn write(&self, chunk: Uint8Array) -> Promised<()> {
        let input = lock(&self.input).clone();
        let chunk = Bytes::copy_from_slice(&chunk);
        done(async move {
            if let Some(input) = input {
                // A face that is over takes nothing; its end is told by `run`.
                let _ = input.send(chunk).await;
            }
        })
    }

    /// The client's input has ended.
    #[napi]
    pub fn end(&self) {
        lock(&self.input).take();
    }

    #[napi]
    pub fn abort(&self) {
        self.switch.cancel();
    }
}

impl Drop for NativeFace {
    fn drop(&mut self) {
        self.switch.cancel();
    }
}

/// The channel of a face.
#[napi]
pub struct FaceChannel {
    #[napi(readonly)]
    pub number: u32,
    channel: Mutex<Option<Channel>>,
}

/// Delivers the lines for the client, and the agent's stderr.
struct Lines {
    channel: Channel,
}

impl ClientSink for Lines {
    fn tell(&mut self, lines: Vec<u8>) {
        self.channel.send_bytes(Stream::Stdout, lines);
    }

    fn log(&mut self, piece: Vec<u8>) {
        self.channel.send_bytes(Stream::Stderr, piece);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.channel.poll_room(context)
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.channel.end();
    }
}
