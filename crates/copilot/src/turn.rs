//! Waits for the end of a turn: a thin loop around what [`super::turn_state`] decides, with the caller's clocks.

use super::connection::Connection;
use super::session::{Left, Session, TurnLook};
use super::tracked_turn::TurnEnd;
use super::turn_handle::TurnHandle;
use ground::error::{Error, ErrorCode};
use ground::os::{Awake, WallLimit};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use wires::jsonrpc::Completion;

/// The limits of a caller's wait.
#[derive(Clone, Copy, Debug)]
pub struct TurnOptions {
    /// Limit for the whole wait, the reply to `session.send` included. `None`: no limit.
    pub timeout: Option<Duration>,
    /// Longest time without an event of the session. `None`: no limit.
    pub idle_timeout: Option<Duration>,
    /// Wait for detached tasks too.
    pub wait_for_tasks: bool,
}

impl Default for TurnOptions {
    fn default() -> Self {
        TurnOptions { timeout: Some(Self::TIMEOUT), idle_timeout: None, wait_for_tasks: false }
    }
}

impl TurnOptions {
    /// The error of a timeout that has expired before the message is sent: a timeout of zero means a deadline in the past.
    pub fn passed(&self) -> Option<Error> {
        let limits = [
            (ErrorCode::SessionTimedOut, "timeoutMs", self.timeout),
            (ErrorCode::SessionIdle, "idleTimeoutMs", self.idle_timeout),
        ];
        Error::of_passed("the message was not sent", &limits)
    }

    pub const TIMEOUT: Duration = Duration::from_secs(60);
    /// Pause between two checks of tasks that outlive their turn.
    const TASKS_EVERY: Duration = Duration::from_millis(250);
    const TASKS_TIMEOUT: Duration = Duration::from_secs(10);
    /// Timeout of the abort request.
    const ABORT_TIMEOUT: Duration = Duration::from_secs(10);
}

/// Resolves when the turn is over and its handle has the answer (the whole event as JSON text), if there is one. The message was
/// passed to [`Session::send`] with this handle before.
pub async fn wait_for_turn(
    connection: &Connection,
    session: &Arc<Session>,
    handle: &Arc<TurnHandle>,
    options: TurnOptions,
) {
    let _told = TellOnDrop(handle);
    let start = Instant::now();
    let wait = Wait { connection, session, handle, options, start };
    let mut clocks = Clocks::start();
    let Some(mut end) = wait.until_over(&mut clocks).await else { return };
    if options.wait_for_tasks && end.is_ok() {
        end = wait.until_tasks_are_done(&mut clocks, end).await;
    }
    let given_up = Error::new(ErrorCode::SessionClosed, "the turn was left");
    session.leave(connection.client(), handle, end.as_ref().err().unwrap_or(&given_up));
    handle.tell(end);
}

/// Ends the turn when its task is gone, by a panic or with its executor. Otherwise its caller would wait for ever.
struct TellOnDrop<'a>(&'a TurnHandle);

impl Drop for TellOnDrop<'_> {
    fn drop(&mut self) {
        if !self.0.is_told() {
            let message = "The turn was dropped: the task that waited for it is gone. Its work may go on";
            self.0.tell(Err(Error::new(ErrorCode::ConnectionLost, message)));
        }
    }
}

struct Wait<'a> {
    connection: &'a Connection,
    session: &'a Arc<Session>,
    handle: &'a Arc<TurnHandle>,
    options: TurnOptions,
    start: Instant,
}

/// The time in which the runtime could be heard. It could not be while this process was stopped: that is no silence.
struct Clocks {
    awake: Awake,
    whole: WallLimit,
    /// When the last event came, and the time that was lost until then.
    heard: (Duration, Duration),
}

impl Clocks {
    fn start() -> Clocks {
        let awake = Awake::new();
        let whole = WallLimit::new(awake.now());
        Clocks { awake, whole, heard: (Duration::ZERO, Duration::ZERO) }
    }
}

impl Wait<'_> {
    /// `None`: the handle has its end already.
    async fn until_over(&self, clocks: &mut Clocks) -> Option<TurnEnd> {
        loop {
            let (deadline, last_event_at) = match self.session.look(self.handle) {
                TurnLook::Told => return None,
                TurnLook::Ended(end) => return Some(end),
                TurnLook::Open { deadline, last_event_at } => (deadline, last_event_at),
            };
            let limit = match self.limit(clocks, Some(last_event_at)) {
                Ok(limit) => limit,
                Err(error) => return Some(Err(error)),
            };
            let look_at = deadline.map(|deadline| Instant::from_std(self.session.began()) + deadline);
            self.woken_or(limit.into_iter().chain(look_at).min()).await;
        }
    }

    async fn woken_or(&self, next: Option<Instant>) {
        tokio::select! {
            () = self.handle.woken() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }

    /// The time at which the caller's limits end the wait, or the error if the caller has ended it, or a limit has. Silence counts
    /// from the last event, if there is one to count from.
    fn limit(&self, clocks: &mut Clocks, last_event_at: Option<Duration>) -> Result<Option<Instant>, Error> {
        if self.handle.is_aborted() {
            return Err(self.abort());
        }
        let (resting, gap) = clocks.awake.tick();
        let lost = clocks.awake.known();
        clocks.whole.on_stopped(gap, resting);
        let over_at = self.options.timeout.and_then(|limit| clocks.whole.end(limit)?.checked_add(lost));
        let over_at = over_at.map(Instant::from_std);
        let idle_at = last_event_at.and_then(|last_event_at| {
            if clocks.heard.0 != last_event_at {
                clocks.heard = (last_event_at, lost);
            }
            let silent_since = self.start.max(Instant::from_std(self.session.began()) + last_event_at);
            let rest = lost.saturating_sub(clocks.heard.1);
            silent_since.checked_add(self.options.idle_timeout?.checked_add(rest)?)
        });
        let now = Instant::now();
        if over_at.is_some_and(|at| at <= now) {
            return Err(self.timed_out());
        }
        if idle_at.is_some_and(|at| at <= now) {
            return Err(self.fell_silent());
        }
        Ok(over_at.into_iter().chain(idle_at).min())
    }

    /// The result of what is done behind the turn, where the session has no events. The caller's other limits hold.
    async fn within_limits<T>(&self, clocks: &mut Clocks, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Some(error) = self.session.closed() {
                return Err(error);
            }
            let next = self.limit(clocks, None)?;
            tokio::select! {
                done = &mut work => return Ok(done),
                () = self.woken_or(next) => {}
            }
        }
    }

    /// Ends the turn, and stops its work if any may have begun. `session.abort` stops all work of the session. Where the runtime
    /// waits for each message by itself, the abort is sent only if no other caller waits.
    fn abort(&self) -> Error {
        let error = Error::new(ErrorCode::SessionAborted, "The turn was aborted by its signal");
        let client = self.connection.client();
        if let Left::Sent { is_alone: true } = self.session.leave(client, self.handle, &error) {
            let params = serde_json::json!({ "sessionId": self.session.id }).to_string();
            let unheard = Completion::new(|_| {});
            client.call("session.abort", &params, Some(TurnOptions::ABORT_TIMEOUT), unheard);
        }
        error
    }

    fn timed_out(&self) -> Error {
        let after = self.options.timeout.unwrap_or_default().as_millis() as u64;
        let message = format!("Timeout after {after}ms waiting for session.idle ({})", self.describe());
        self.with_facts(Error::new(ErrorCode::SessionTimedOut, message).with("timeoutMs", after))
    }

    fn fell_silent(&self) -> Error {
        let after = self.options.idle_timeout.unwrap_or_default().as_millis() as u64;
        let message = format!("No event for {after}ms while waiting for session.idle ({})", self.describe());
        self.with_facts(Error::new(ErrorCode::SessionIdle, message).with("idleTimeoutMs", after))
    }

    fn describe(&self) -> String {
        format!("{}; {}", self.session.describe(self.handle), self.connection.describe())
    }

    fn with_facts(&self, error: Error) -> Error {
        match self.session.last_event() {
            Some(event) => error.with("lastEvent", event),
            None => error,
        }
    }

    async fn until_tasks_are_done(&self, clocks: &mut Clocks, end: TurnEnd) -> TurnEnd {
        let params = serde_json::json!({ "sessionId": self.session.id }).to_string();
        loop {
            let client = self.connection.client();
            let tasks = client.request("session.tasks.list", &params, Some(TurnOptions::TASKS_TIMEOUT));
            let running = match self.within_limits(clocks, tasks).await? {
                Ok(tasks) => running_tasks(&tasks)?,
                // A runtime that does not list its tasks can't be waited for.
                Err(error) if error.code() == ErrorCode::RpcError => return end,
                Err(error) => return Err(error),
            };
            if running.is_empty() {
                return end;
            }
            let pause = self.within_limits(clocks, sleep(TurnOptions::TASKS_EVERY)).await;
            pause.map_err(|error| match error.code() {
                ErrorCode::SessionTimedOut => error.with("tasks", running),
                _ => error,
            })?;
        }
    }
}

/// Ids of the tasks that are not over.
fn running_tasks(list: &str) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        tasks: Vec<Task>,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    struct Task {
        id: String,
        status: String,
    }
    impl Default for Task {
        fn default() -> Self {
            Task { id: "unnamed".to_owned(), status: String::new() }
        }
    }
    let list = ground::json::read::<List>(list).map_err(|error| {
        Error::new(ErrorCode::RpcError, format!("cannot read the runtime's list of tasks: {error}"))
    })?;
    let is_running =
        |task: &Task| matches!(&*task.status, "running" | "pending" | "queued" | "starting" | "active");
    Ok(list.tasks.into_iter().filter(is_running).map(|task| task.id).collect())
}
