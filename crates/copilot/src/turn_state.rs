//! When is a turn over, PURE. [`Turns`] holds the turns of one session that are still open; it is fed with the session's
//! events and the clock, and says which turns ended, and how. Times are since an arbitrary beginning.
//!
//! A turn is *sending* until the reply to its `session.send`, *queued* until its own `user.message`, then *running*.
//!
//! | what happens | sending | queued | running |
//! |---|---|---|---|
//! | reply with the message's id | queued, or running when its `user.message` was there before | | |
//! | own `user.message` | remembered | running | |
//! | `assistant.message` of its origin, or of an unknown one while it is the latest | remembered | | becomes the answer |
//! | `session.idle` with work in the background | | ignored | names remembered, goes on |
//! | `session.idle` | | ignored: another turn's | over |
//! | `session.idle`, aborted | | ignored | over: `SESSION_ABORTED` |
//! | `session.error` while nobody else's message is worked on, and an idle | | failed, unless it goes on within [`QUIET`] | |
//! | aborted, and an idle | | `SESSION_ABORTED`, unless it goes on within [`QUIET`] | |
//! | `session.idle` of an autopilot that did not say its end | | ignored | over, unless it goes on within [`SETTLE`] |
//! | the idle of an earlier turn that failed before it, while this one has done nothing | | ignored | ignored, over after [`QUIET`] |
//! | `session.error` of type "notification" | | ignored | ignored |
//! | `session.error` that names the turn's message | remembered | failed at once | failed at once |
//! | `session.error` that names another message | | ignored | ignored |
//! | `session.autopilot_stopped` that names the turn's message | remembered | over, by its reason | over, by its reason |
//! | `session.warning` of kind "policy_blocked" that names the turn's message | remembered | running: no `user.message` comes | |
//! | `session.error` | | ignored | remembered: failed at the next idle, at the next turn's beginning, or after [`QUIET`] with no tool open |
//! | work of the main agent | | | the error was not the turn's, the autopilot is not over |
//! | `session.shutdown`, disconnect, stop | closed | closed | closed |
//! | connection lost | failed | failed | failed |

use super::reported_error::ReportedError;
use super::session_event::{Background, TurnEvent};
use super::tracked_turn::{Phase, TrackedTurn, is_kept};
pub use super::tracked_turn::{QUIET, TurnEnd, TurnId};
use ground::error::{Error, ErrorCode};
use std::collections::VecDeque;
use std::time::Duration;

/// An autopilot that continues does so within this time.
pub const SETTLE: Duration = Duration::from_secs(1);
/// Events kept for a turn whose reply is late.
const MAX_EARLY: usize = 512;
/// Ids of turns that are over, by which their late messages are recognised.
const MAX_PAST: usize = 256;

/// The end of every turn of a session that was shut down.
pub fn shut_down(reason: Option<&str>) -> Error {
    let message = match reason {
        Some(reason) => format!("The session was shut down: {reason}"),
        None => "The session was shut down".to_owned(),
    };
    Error::new(ErrorCode::SessionClosed, message)
}

/// The open turns of a session, in the order they were sent.
#[derive(Debug, Default)]
pub struct Turns {
    turns: Vec<TrackedTurn>,
    next_id: u64,
    past: VecDeque<String>,
    /// The turn whose `user.message` was the last.
    latest: Option<TurnId>,
    /// A turn failed at this time and its `session.idle` is still to come.
    owed_idle: Option<Duration>,
    /// Tools, permissions and questions that are open: id and name.
    open: Vec<(String, String)>,
}

impl Turns {
    /// Adds a turn whose `session.send` is about to be written. `is_alone`: no other message was being worked on.
    pub fn open(&mut self, steering: bool, is_alone: bool) -> TurnId {
        let id = TurnId(self.next_id);
        self.next_id += 1;
        let is_alone = is_alone && self.turns.is_empty();
        self.turns.push(TrackedTurn::new(id, steering, is_alone));
        id
    }

    /// Handles the reply to the turn's `session.send`. Without an id, the next message that a client sent counts as the turn's
    /// own.
    pub fn on_reply(&mut self, id: TurnId, message_id: Option<String>, now: Duration) {
        if let Some(message_id) = &message_id {
            self.remember(message_id.clone());
        }
        let Some(turn) = self.turns.iter_mut().find(|turn| turn.id == id) else { return };
        turn.message.id = message_id;
        let Phase::Sending { early } = std::mem::replace(&mut turn.phase, Phase::Queued) else { return };
        for event in early {
            self.apply(&event, now, Some(id));
        }
    }

    /// The runtime accepted a turn without a message: it runs at once, and no `user.message` comes.
    pub fn on_retry_taken(&mut self, id: TurnId, now: Duration) {
        let Some(turn) = self.turns.iter_mut().find(|turn| turn.id == id) else { return };
        let Phase::Sending { early } = std::mem::replace(&mut turn.phase, Phase::Queued) else { return };
        turn.begin();
        self.latest = Some(id);
        for event in early {
            self.apply(&event, now, Some(id));
        }
    }

    /// A message that was sent without waiting for its turn.
    pub fn remember(&mut self, message_id: String) {
        if self.past.len() == MAX_PAST {
            self.past.pop_front();
        }
        self.past.push_back(message_id);
    }

    pub fn on_event(&mut self, event: &TurnEvent, now: Duration) {
        match event {
            // The list is bounded. An open item is shown in messages and keeps an error from ending a turn.
            TurnEvent::Opened { id, name }
                if self.open.len() < MAX_PAST && !self.open.iter().any(|(open, _)| open == id) =>
            {
                self.open.push((id.clone(), name.clone()));
            }
            TurnEvent::Closed { id } => self.open.retain(|(open, _)| open != id),
            TurnEvent::SessionIdle { .. } => self.open.clear(),
            _ => {}
        }
        for turn in &mut self.turns {
            if let Phase::Sending { early } = &mut turn.phase
                && is_kept(event, early)
            {
                if early.len() == MAX_EARLY {
                    early.pop_front();
                }
                early.push_back(event.clone());
            }
        }
        self.apply(event, now, None);
    }

    /// `session.abort` was requested: running turns end with their next idle, or when no further event comes.
    pub fn on_abort_requested(&mut self, now: Duration) {
        for turn in
            self.turns.iter_mut().filter(|turn| matches!(turn.phase, Phase::Running) && turn.is_open())
        {
            turn.signs.aborted = true;
            turn.signs.provisional_end = Some(now + QUIET);
        }
    }

    /// Ends every turn with the error.
    pub fn fail_all(&mut self, error: &Error) {
        for turn in &mut self.turns {
            turn.end(Err(error.clone()));
        }
        self.open.clear();
    }

    /// Gives a turn up: its timeout expired, its signal was aborted, or its `session.send` failed.
    pub fn give_up(&mut self, id: TurnId, now: Duration) {
        if let Some(index) = self.turns.iter().position(|turn| turn.id == id) {
            let turn = self.turns.remove(index);
            if matches!(turn.phase, Phase::Running) && turn.end.is_none() {
                self.owed_idle = Some(now);
            }
        }
    }

    /// Takes the end of a turn that is over.
    pub fn take_end(&mut self, id: TurnId, now: Duration) -> Option<TurnEnd> {
        self.on_clock(now);
        let index = self.turns.iter().position(|turn| turn.id == id && turn.end.is_some())?;
        self.turns.remove(index).end
    }

    /// The time of the next check of this turn's clocks.
    pub fn deadline(&self, id: TurnId) -> Option<Duration> {
        let turn = self.turns.iter().find(|turn| turn.id == id)?;
        let error = turn.signs.error.as_ref().filter(|_| self.open.is_empty()).map(|(_, at)| *at + QUIET);
        let early = turn.signs.early_error.as_ref().and_then(|(_, end)| *end);
        [error, early, turn.signs.provisional_end].into_iter().flatten().min()
    }

    pub fn is_running(&self, id: TurnId) -> bool {
        self.turns.iter().any(|turn| turn.id == id && matches!(turn.phase, Phase::Running))
    }

    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Describes the pending step of a turn, for the message of a timeout.
    pub fn describe(&self, id: TurnId) -> String {
        let Some(turn) = self.turns.iter().find(|turn| turn.id == id) else { return String::new() };
        let mut facts = Vec::new();
        match turn.phase {
            Phase::Sending { .. } => facts.push("session.send was not answered".to_owned()),
            Phase::Queued => facts.push("the message was queued, its turn has not begun".to_owned()),
            Phase::Running => {}
        }
        facts.extend(self.describe_open());
        let error = turn.signs.error.as_ref().map(|(error, _)| error).or(turn
            .signs
            .early_error
            .as_ref()
            .map(|(error, _)| error));
        if let Some(error) = error {
            facts.push(format!("reported error: {}", error.message));
        }
        if !turn.background.agents.is_empty() {
            facts.push(format!("background agents: {}", turn.background.agents.join(", ")));
        }
        if !turn.background.shells.is_empty() {
            facts.push(format!("background shells: {}", turn.background.shells.join(", ")));
        }
        facts.join("; ")
    }

    /// The tools, permissions and questions that are open.
    pub fn describe_open(&self) -> Option<String> {
        let names: Vec<&str> = self.open.iter().map(|(_, name)| name.as_str()).collect();
        (!names.is_empty()).then(|| format!("pending: {}", names.join(", ")))
    }

    fn apply(&mut self, event: &TurnEvent, now: Duration, only: Option<TurnId>) {
        match event {
            TurnEvent::UserMessage { message_id, continuation } => {
                self.on_user_message(message_id.as_deref(), *continuation, now, only);
            }
            TurnEvent::AssistantMessage { origin, answer } => {
                self.on_assistant_message(origin.as_deref(), answer.as_ref(), only);
            }
            TurnEvent::Error(error) if error.error_type != "notification" && self.names_message(error) => {
                self.on_own_error(error, now, only);
            }
            TurnEvent::Error(error) if error.error_type != "notification" => {
                self.on_nameless_error(error, now, only);
            }
            TurnEvent::Abort => {
                self.affected(only).for_each(|turn| turn.signs.aborted = true);
                self.on_queue_dropped(only);
            }
            TurnEvent::AutopilotStopped { request, reason } => {
                self.on_autopilot_stopped(request, reason, only);
            }
            TurnEvent::PromptBlocked { origin } => {
                let blocked = self.queued(only).find(|turn| turn.message.id.as_ref() == Some(origin));
                if let Some(turn) = blocked {
                    turn.begin();
                    self.latest = Some(turn.id);
                }
            }
            TurnEvent::AutopilotEnd => self.affected(only).for_each(|turn| turn.signs.autopilot_ended = true),
            TurnEvent::AssistantIdle { aborted } => self.on_assistant_idle(*aborted, now, only),
            TurnEvent::SessionIdle { background, aborted, autopilot } => {
                self.on_idle(background, *aborted, *autopilot, now, only);
            }
            TurnEvent::Shutdown { reason } => {
                let error = shut_down(reason.as_deref());
                let every = self.turns.iter_mut().filter(|turn| only.is_none_or(|only| only == turn.id));
                every.for_each(|turn| turn.end(Err(error.clone())));
            }
            TurnEvent::Work | TurnEvent::Opened { .. } => {
                self.affected(only).for_each(TrackedTurn::on_work);
                self.queued(only).for_each(|turn| turn.signs.early_error = None);
            }
            TurnEvent::Closed { .. } | TurnEvent::Other | TurnEvent::Error(_) => {}
        }
    }

    /// Whether the error names the message that failed. While a turn does not know its own message's id (old runtimes send none),
    /// that name gives no information.
    fn names_message(&self, error: &ReportedError) -> bool {
        let is_known =
            |turn: &TrackedTurn| turn.message.id.is_some() || matches!(turn.phase, Phase::Sending { .. });
        error.origin.is_some() && self.turns.iter().all(is_known)
    }

    /// An error that names its message fails the turn of that message at once, and no other turn.
    fn on_own_error(&mut self, error: &ReportedError, now: Duration, only: Option<TurnId>) {
        if let Some(turn) = self.of_message(error.origin.as_deref(), only) {
            turn.end(Err(error.clone().into_error()));
            // The next idle belongs to this turn.
            self.owed_idle = Some(now);
        }
    }

    /// An error that names no message fails the newest turn when that becomes idle.
    fn on_nameless_error(&mut self, error: &ReportedError, now: Duration, only: Option<TurnId>) {
        let latest = self.latest;
        for turn in self.affected(only).filter(|turn| Some(turn.id) == latest) {
            turn.signs.error.get_or_insert_with(|| (error.clone(), now));
        }
        for turn in self.queued(only).filter(|turn| turn.message.is_alone) {
            turn.signs.early_error.get_or_insert_with(|| (error.clone(), None));
        }
    }

    fn on_assistant_idle(&mut self, aborted: bool, now: Duration, only: Option<TurnId>) {
        let mut failed = false;
        for turn in self.affected(only) {
            turn.signs.aborted |= aborted;
            failed |= turn.fail();
        }
        self.queued(only).for_each(|turn| turn.on_early_idle(now));
        if failed {
            self.owed_idle = Some(now);
        }
    }

    /// A request that the autopilot stopped working on is over, without an idle.
    fn on_autopilot_stopped(&mut self, request: &str, reason: &str, only: Option<TurnId>) {
        let Some(turn) = self.of_message(Some(request), only) else { return };
        match reason {
            "error" => {
                let message = "The autopilot stopped working on this message because of an error";
                turn.end(Err(Error::new(ErrorCode::SessionError, message).with("errorType", "autopilot")));
            }
            "aborted" => {
                turn.signs.aborted = true;
                turn.finish();
            }
            _ => turn.finish(),
        }
    }

    /// The open turn of this message, if its `session.send` was answered.
    fn of_message(&mut self, message_id: Option<&str>, only: Option<TurnId>) -> Option<&mut TrackedTurn> {
        self.turns.iter_mut().find(|turn| {
            turn.is_open()
                && turn.message.id.as_deref() == message_id
                && only.is_none_or(|only| only == turn.id)
                && !matches!(turn.phase, Phase::Sending { .. })
        })
    }

    /// The running turns that an event concerns.
    fn affected(&mut self, only: Option<TurnId>) -> impl Iterator<Item = &mut TrackedTurn> {
        self.turns.iter_mut().filter(move |turn| {
            matches!(turn.phase, Phase::Running) && turn.is_open() && only.is_none_or(|only| only == turn.id)
        })
    }

    /// The turns whose message was accepted and is not worked on yet.
    fn queued(&mut self, only: Option<TurnId>) -> impl Iterator<Item = &mut TrackedTurn> {
        self.turns.iter_mut().filter(move |turn| {
            matches!(turn.phase, Phase::Queued) && turn.is_open() && only.is_none_or(|only| only == turn.id)
        })
    }

    /// An abort also removes the messages that were queued by then. A message whose reply comes later was sent later.
    fn on_queue_dropped(&mut self, only: Option<TurnId>) {
        if only.is_none() {
            self.queued(None).for_each(|turn| turn.signs.was_dropped = true);
        }
    }

    fn on_user_message(
        &mut self,
        message_id: Option<&str>,
        continuation: bool,
        now: Duration,
        only: Option<TurnId>,
    ) {
        let by_id = message_id.and_then(|message_id| {
            self.turns.iter().position(|turn| turn.message.id.as_deref() == Some(message_id))
        });
        // A message without an id belongs to the first turn that waits for one. A turn without an id takes the first message.
        let by_order = || {
            let waits = |turn: &TrackedTurn| match turn.phase {
                Phase::Sending { .. } => message_id.is_none(),
                Phase::Queued => message_id.is_none() || turn.message.id.is_none(),
                Phase::Running => false,
            };
            (!continuation).then(|| self.turns.iter().position(waits)).flatten()
        };
        let begun =
            by_id.or_else(by_order).filter(|&index| only.is_none_or(|only| self.turns[index].id == only));
        if continuation && begun.is_none() {
            return self.affected(only).for_each(TrackedTurn::on_work);
        }
        let begun = begun.map(|index| self.turns[index].id);
        for turn in self.queued(only) {
            turn.message.is_alone = false;
            turn.signs.early_error = None;
        }
        // The next turn began: an earlier error ended the turn before it.
        let mut failed = false;
        for turn in self.affected(only).filter(|turn| Some(turn.id) != begun) {
            failed |= turn.fail();
            if let (Some(message_id), None) = (message_id, begun)
                && turn.message.foreign.len() < MAX_PAST
            {
                turn.message.foreign.push(message_id.to_owned());
            }
        }
        if failed {
            self.owed_idle = Some(now);
        }
        let Some(begun) = begun else { return };
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.id == begun) {
            // Until the reply, the events are only stored. A message without an id has nothing to wait for.
            if let Phase::Sending { .. } = turn.phase {
                return;
            }
            turn.begin();
        }
        self.latest = Some(begun);
    }

    fn on_assistant_message(&mut self, origin: Option<&str>, answer: Option<&String>, only: Option<TurnId>) {
        let latest = self.latest;
        let known = |turn: &TrackedTurn, origin: &str| turn.message.id.as_deref() == Some(origin);
        let owner =
            origin.and_then(|origin| self.turns.iter().find(|turn| known(turn, origin)).map(|turn| turn.id));
        let is_past = origin.is_some_and(|origin| self.past.iter().any(|past| past == origin));
        for turn in
            self.turns.iter_mut().filter(|turn| only.is_none_or(|only| only == turn.id) && turn.is_open())
        {
            if Some(turn.id) == owner && matches!(turn.phase, Phase::Queued) {
                // The answer has come, so the prompt was accepted.
                turn.begin();
                self.latest = Some(turn.id);
            }
            if !matches!(turn.phase, Phase::Running) {
                continue;
            }
            let belongs = match owner {
                Some(owner) => owner == turn.id || turn.message.steering,
                None if is_past => turn.message.steering,
                None => {
                    Some(turn.id) == latest
                        && !origin.is_some_and(|origin| turn.message.foreign.iter().any(|id| id == origin))
                }
            };
            if belongs {
                turn.on_work();
                if let Some(answer) = answer {
                    turn.answer = Some(answer.clone());
                }
            }
        }
    }

    fn on_idle(
        &mut self,
        background: &Background,
        aborted: bool,
        autopilot: bool,
        now: Duration,
        only: Option<TurnId>,
    ) {
        let is_owed = self.owed_idle.take().is_some_and(|since| now.saturating_sub(since) < QUIET);
        if background.is_empty() {
            for turn in self.queued(only) {
                turn.on_early_idle(now);
                turn.message.is_alone = true;
            }
        }
        for turn in self.affected(only) {
            turn.signs.aborted |= aborted;
            if turn.fail() {
                continue;
            }
            turn.background = background.clone();
            if !background.is_empty() {
                continue;
            }
            if is_owed && !turn.signs.has_worked && !turn.signs.aborted {
                turn.signs.provisional_end = Some(now + QUIET);
            } else if autopilot && !turn.signs.autopilot_ended && !turn.signs.aborted {
                turn.signs.provisional_end = Some(now + SETTLE);
            } else {
                turn.finish();
            }
        }
    }

    fn on_clock(&mut self, now: Duration) {
        let nothing_open = self.open.is_empty();
        let mut failed = false;
        for turn in self.turns.iter_mut().filter(|turn| turn.is_open()) {
            let is_quiet =
                nothing_open && turn.signs.error.as_ref().is_some_and(|(_, at)| *at + QUIET <= now);
            let early = turn.signs.early_error.as_ref().and_then(|(_, end)| *end);
            if early.is_some_and(|end| end <= now) {
                // The turn's idle came before.
                turn.fail();
            } else if is_quiet {
                failed |= turn.fail();
            } else if turn.signs.provisional_end.is_some_and(|end| end <= now) {
                turn.finish();
            }
        }
        if failed {
            self.owed_idle = Some(now);
        }
    }
}
