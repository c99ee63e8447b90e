//! The types and functions that the Copilot client passes to and from JavaScript. Names and order match lib/copilot/link.ts.
//!
//! Replies to calls are not promises. They come through the link's single queue, after the events that came before them: a
//! promise per call would let a reply overtake its events. Only calls that no event precedes (start, stop, reading the disk)
//! return promises.

use super::copilot_log::Fallback;
use super::error::Fault;
use super::option::{Millis, Transport, twin};
use super::process::VariableChange;
use super::promise::{Promised, done, settle};
use copilot::request_timeout;
use copilot::{
    Connection, ConnectionOptions, Outbox, ResumeRequest, Session, Target, TurnHandle, TurnOptions,
    wait_for_turn,
};
use ground::error::{Error, ErrorCode};
use ground::lock::lock;
use napi::bindgen_prelude::{Function, within_runtime_if_available};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, JsString};
use napi_derive::napi;
use process::{Environment, EnvironmentBase, ProcessSpec};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use wires::jsonrpc::{Completion, Refusal, quote};

/// The runtime's address or program, and the options of the start. A missing option has the core's default.
#[napi(object, object_to_js = false)]
pub struct CopilotStartSpec {
    pub transport: Transport,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    /// The complete environment of the process.
    pub env: Vec<VariableChange>,
    pub host: Option<String>,
    pub port: Option<u16>,
    /// Parameters of `connect`, as JSON text.
    pub handshake: String,
    pub setup: Vec<CopilotSetupCall>,
    pub start_timeout_ms: Option<Millis>,
    pub tell_stderr: bool,
}

/// A request to make before the start is complete.
#[napi(object, object_to_js = false)]
pub struct CopilotSetupCall {
    pub method: String,
    /// Parameters as JSON text.
    pub params: String,
}

#[napi(object, object_from_js = false)]
pub struct CopilotStarted {
    pub pid: Option<u32>,
    pub port: Option<u16>,
    pub protocol_version: u32,
    pub version: Option<String>,
}

twin!(copilot::TurnKind { Message = "message", Steering = "steering", Retry = "retry" });

#[napi(object, object_to_js = false)]
pub struct CopilotTurnSpec {
    pub timeout_ms: Option<Millis>,
    pub idle_timeout_ms: Option<Millis>,
    pub wait_for_tasks: bool,
    pub kind: TurnKind,
}

#[napi(object, object_to_js = false)]
pub struct CopilotResumeSpec {
    pub session_id: String,
    /// Parameters of `session.resume`, as JSON text.
    pub params: String,
    /// Parameters of `session.create`, as JSON text.
    pub create_params: String,
    pub home: Option<String>,
    pub known_turns: f64,
    /// Number of messages that this client sent to the session before.
    pub seen_turns: f64,
    pub fallback: Option<Fallback>,
    /// Remove the locks of processes that are gone.
    pub take_over_stale: bool,
}

/// One start of the runtime, and the queue of its events and replies.
#[napi]
pub struct CopilotLink {
    outbox: Arc<Outbox>,
    connection: Arc<Mutex<Option<Connection>>>,
    sessions: HashMap<u32, Arc<Session>>,
    next_session: u32,
    turns: Arc<Mutex<HashMap<u32, Arc<TurnHandle>>>>,
    /// Becomes true when the connection is stopped while the start is under way.
    cancelled: watch::Sender<bool>,
}

#[napi]
impl CopilotLink {
    /// `onWake` is called when there is something to take. It is called again only after `take` found nothing.
    #[napi(constructor)]
    pub fn new(env: Env, on_wake: Function<'_, (), ()>) -> napi::Result<Self> {
        let wake = on_wake
            .build_threadsafe_function::<()>()
            // Weak: the JavaScript side decides how long the connection keeps the host alive.
            .weak::<true>()
            .callee_handled::<false>()
            .build()?;
        let outbox = Arc::new(Outbox::new(move || {
            wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }));
        let connection: Arc<Mutex<Option<Connection>>> = Arc::default();
        env.add_env_cleanup_hook((connection.clone(), outbox.clone()), |(connection, outbox)| {
            outbox.close();
            if let Some(connection) = lock(&connection).take() {
                connection.abandon();
            }
        })?;
        Ok(CopilotLink {
            outbox,
            connection,
            sessions: HashMap::new(),
            next_session: 0,
            turns: Arc::default(),
            cancelled: watch::Sender::new(false),
        })
    }

    /// Starts or reaches the runtime.
    #[napi]
    pub fn start(&self, spec: CopilotStartSpec) -> Promised<CopilotStarted> {
        let outbox = self.outbox.clone();
        let slot = self.connection.clone();
        let cancelled = self.cancelled.subscribe();
        settle(async move {
            let (connection, started) = Connection::start(to_options(spec)?, outbox, cancelled).await?;
            *lock(&slot) = Some(connection);
            Ok::<_, Error>(CopilotStarted {
                pid: started.pid,
                port: started.port,
                protocol_version: started.protocol_version as u32,
                version: started.version,
            })
        })
    }

    /// The next batch: a JSON array of items as text. Null when there is nothing.
    #[napi]
    pub fn take<'env>(&self, env: &'env Env) -> napi::Result<Option<JsString<'env>>> {
        self.outbox.take().map(|batch| super::delivery::create_text(env, &batch)).transpose()
    }

    /// Sends a request. Its result comes through the queue under the number `call`.
    #[napi]
    pub fn request(&self, call: u32, method: String, params: String, timeout_ms: Option<Millis>) {
        let outbox = self.outbox.clone();
        match self.connected() {
            Ok(connection) => {
                let timeout = timeout_ms.map_or_else(|| Some(request_timeout(&method)), Millis::limit);
                connection.client().call(&method, &params, timeout, answer(outbox, call));
            }
            Err(error) => outbox.push_result(call, Err(&error)),
        }
    }

    /// Answers a request of the runtime: the result, or an error's data, as JSON text.
    #[napi]
    pub fn respond(&self, id: String, result: Option<String>, code: Option<i32>, message: Option<String>) {
        let Ok(connection) = self.connected() else { return };
        match code {
            None => connection.client().respond(&id, Ok(result.as_deref().unwrap_or("null"))),
            Some(code) => {
                let refusal =
                    Refusal { code: code.into(), message: message.unwrap_or_default(), data: result };
                connection.client().respond(&id, Err(&refusal));
            }
        }
    }

    /// Selects the notifications to deliver beside `session.event`; `*` selects all.
    #[napi]
    pub fn want_notifications(&self, methods: Vec<String>) {
        if let Ok(connection) = self.connected() {
            connection.want_notifications(methods);
        }
    }

    /// Registers a session. Returns its number, or 0 without a connection.
    #[napi]
    pub fn open_session(&mut self, session_id: String) -> u32 {
        let Ok(connection) = self.connected() else { return 0 };
        self.next_session += 1;
        let key = self.next_session;
        self.sessions.insert(key, connection.sessions().open(&session_id, key));
        key
    }

    /// Selects the events of the session that are delivered to JavaScript.
    #[napi]
    pub fn want_events(&self, session: u32, all: bool, kinds: Vec<String>) {
        if let Some(session) = self.sessions.get(&session) {
            session.want(all, kinds);
        }
    }

    /// Removes a session. Its turns end with SESSION_CLOSED.
    #[napi]
    pub fn close_session(&mut self, session: u32, message: String) {
        let Some(session) = self.sessions.remove(&session) else { return };
        let error = Error::new(ErrorCode::SessionClosed, message);
        if let Ok(connection) = self.connected() {
            connection.sessions().close(&session, &error);
        }
    }

    /// Number of messages of this session that the runtime accepted.
    #[napi]
    pub fn count_sent(&self, session: u32) -> f64 {
        self.sessions.get(&session).map_or(0.0, |session| session.sent() as f64)
    }

    /// Whether the session has a turn open or a message on its way.
    #[napi]
    pub fn is_busy(&self, session: u32) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.is_busy())
    }

    /// Sends `session.send`. Sends of a session stay in order.
    #[napi]
    pub fn send(&self, call: u32, session: u32, params: String) {
        let outbox = self.outbox.clone();
        match self.session(session) {
            Ok((connection, session)) => {
                session.send(connection.client(), params, None, answer(outbox, call));
            }
            Err(error) => outbox.push_result(call, Err(&error)),
        }
    }

    /// Sends a message and waits for its turn. Sends of a session stay in order. The result is `{ answer, completionEventId }`:
    /// the turn's answer or null, and the id of the event that ended the turn where the runtime names it.
    #[napi]
    pub fn send_and_wait(&self, call: u32, session: u32, params: String, spec: CopilotTurnSpec) {
        let outbox = self.outbox.clone();
        let (connection, session) = match self.session(session) {
            Ok(found) => found,
            Err(error) => return outbox.push_result(call, Err(&error)),
        };
        let defaults = TurnOptions::default();
        let options = TurnOptions {
            timeout: spec.timeout_ms.map_or(defaults.timeout, Millis::limit),
            idle_timeout: spec.idle_timeout_ms.map_or(defaults.idle_timeout, Millis::limit),
            wait_for_tasks: spec.wait_for_tasks,
        };
        if let Some(error) = options.passed() {
            return outbox.push_result(call, Err(&error));
        }
        let turns = self.turns.clone();
        let turn = TurnHandle::new(spec.kind.into(), spec.wait_for_tasks, move |end, event| {
            lock(&turns).remove(&call);
            let event = event.map_or_else(|| "null".to_owned(), |event| quote(&event));
            let result = end.map(|answer| {
                let answer = answer.as_deref().unwrap_or("null");
                format!(r#"{{"answer":{answer},"completionEventId":{event}}}"#)
            });
            outbox.push_result(call, result.as_deref());
        });
        lock(&self.turns).insert(call, turn.clone());
        session.send(connection.client(), params, Some(turn.clone()), Completion::new(|_| {}));
        within_runtime_if_available(|| {
            ground::task::spawn(async move { wait_for_turn(&connection, &session, &turn, options).await });
        });
    }

    /// The caller's signal was aborted: ends the turn of this call and stops its work.
    #[napi]
    pub fn abort_turn(&self, call: u32) {
        if let Some(turn) = lock(&self.turns).get(&call) {
            turn.abort();
        }
    }

    /// Records that `session.abort` was sent.
    #[napi]
    pub fn on_abort_requested(&self, session: u32) {
        if let Some(session) = self.sessions.get(&session) {
            session.on_abort_requested();
        }
    }

    /// Resumes a session and handles a failure of `session.resume`. The result is `{ how, reason, response }`.
    #[napi]
    pub fn resume(&self, call: u32, spec: CopilotResumeSpec) {
        let outbox = self.outbox.clone();
        let connection = match self.connected() {
            Ok(connection) => connection,
            Err(error) => return outbox.push_result(call, Err(&error)),
        };
        let request = ResumeRequest {
            session_id: spec.session_id,
            params: spec.params,
            create_params: spec.create_params,
            home: spec.home.map(PathBuf::from),
            known_turns: spec.known_turns as u64,
            seen_turns: spec.seen_turns as u64,
            fallback: spec.fallback.map(Into::into).unwrap_or_default(),
            take_over_stale: spec.take_over_stale,
        };
        let answer = answer(outbox, call);
        within_runtime_if_available(|| {
            ground::task::spawn(async move {
                match connection.resume(&request).await {
                    Ok(resumed) => answer.settle(Ok(&resumed.to_json())),
                    Err(error) => answer.settle(Err(error)),
                }
            });
        });
    }

    /// Ends the runtime gracefully. Resolves with the errors that occurred, when the process tree is gone.
    #[napi(ts_return_type = "Promised<Fault[]>")]
    pub fn stop(&self) -> Promised<Vec<Fault>> {
        self.cancelled.send_replace(true);
        let connection = lock(&self.connection).take();
        done(async move {
            let errors = match connection {
                Some(connection) => connection.stop().await,
                None => Vec::new(),
            };
            errors.iter().map(Fault::from).collect()
        })
    }

    /// Kills the runtime at once. Resolves when the process tree is gone.
    #[napi]
    pub fn kill(&self) -> Promised<()> {
        self.cancelled.send_replace(true);
        let connection = lock(&self.connection).take();
        done(async move {
            if let Some(connection) = connection {
                connection.kill().await;
            }
        })
    }

    fn connected(&self) -> Result<Connection, Error> {
        let not_connected = || Error::new(ErrorCode::ConnectionLost, "Client not connected");
        lock(&self.connection).clone().ok_or_else(not_connected)
    }

    fn session(&self, session: u32) -> Result<(Connection, Arc<Session>), Error> {
        let connection = self.connected()?;
        let closed = || Error::new(ErrorCode::SessionClosed, "The session was disconnected");
        Ok((connection, self.sessions.get(&session).cloned().ok_or_else(closed)?))
    }
}

/// Puts a call's result into the queue.
fn answer(outbox: Arc<Outbox>, call: u32) -> Completion {
    Completion::new(move |result| outbox.push_result(call, result.as_ref().map(|result| *result)))
}

fn to_options(spec: CopilotStartSpec) -> Result<ConnectionOptions, Error> {
    let handshake = match ground::json::read(&spec.handshake) {
        Ok(Value::Object(handshake)) => handshake,
        _ => serde_json::Map::new(),
    };
    let target = match spec.transport {
        Transport::Address => Target::Address {
            host: spec.host.unwrap_or_else(|| "localhost".to_owned()),
            port: spec.port.ok_or_else(|| Error::invalid_option("connection.url", "has no port"))?,
        },
        Transport::Stdio | Transport::Tcp => {
            let command =
                spec.command.ok_or_else(|| Error::invalid_option("connection.path", "is missing"))?;
            let mut process = ProcessSpec::new(command, spec.args);
            process.cwd = spec.cwd.map(Into::into);
            let variables =
                spec.env.into_iter().filter_map(|change| Some((change.name.into(), change.value?.into())));
            process.environment =
                Environment { base: EnvironmentBase::Variables(variables.collect()), changes: Vec::new() };
            match spec.transport {
                Transport::Tcp => Target::Tcp(process),
                _ => Target::Stdio(process),
            }
        }
    };
    Ok(ConnectionOptions {
        target,
        handshake,
        setup: spec.setup.into_iter().map(|call| (call.method, call.params)).collect(),
        start_timeout: spec.start_timeout_ms.map_or(Some(Connection::START_TIMEOUT), Millis::limit),
        tell_stderr: spec.tell_stderr,
    })
}
