//! Turns whose end the runtime itself reports, PURE. Runtimes from 1.0.104 on answer `session.sendAndWait` at the end of the
//! message's turn; [`RuntimeWaits`] holds the turns of one session that wait for such an answer.
//!
//! | what happens | what follows |
//! |---|---|
//! | -32601 | the runtime has no such method: the message, which was not taken, is sent by `session.send` from now on |
//! | a `user.message` while it is unknown whether the runtime has the method | it has: the next messages need not wait |
//! | an answer that names no event, or one that went to the listeners | the turn is over |
//! | an answer that names an event still to come | the turn is over with that event, or after [`BOUNDARY`] without it |
//! | an error of the same kinds | the turn failed, with what the named `session.error` reported |
//! | `session.shutdown`, disconnect, stop, connection lost | the turn failed |

use super::reported_error::ReportedError;
use super::session_event::is_main_answer;
use super::tracked_turn::TurnEnd;
use super::turn_handle::TurnHandle;
use ground::error::{Error, ErrorCode};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is held back for the event that it names.
pub(super) const BOUNDARY: Duration = Duration::from_secs(10);
/// Ending events whose ids are remembered.
const MAX_ENDED: usize = 256;
pub(super) const METHOD: &str = "session.sendAndWait";
const METHOD_NOT_FOUND: i64 = -32601;

/// Whether the runtime has `session.sendAndWait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Support {
    #[default]
    Unknown,
    Present,
    Absent,
}

/// The outcome of a request that was answered.
enum Answer {
    Response(Option<String>),
    Aborted,
    Failed(Error),
}

/// An answer that names an event which has not been delivered to the listeners yet.
struct HeldBack {
    answer: Answer,
    event: String,
    since: Duration,
}

struct RuntimeWait {
    turn: Arc<TurnHandle>,
    /// The message's `user.message` came.
    is_taken: bool,
    held_back: Option<HeldBack>,
    end: Option<TurnEnd>,
}

#[derive(Default)]
pub(super) struct RuntimeWaits {
    support: Support,
    waits: Vec<RuntimeWait>,
    /// Ids of delivered events that may end a request, with the reported error of those that are errors.
    ended: VecDeque<(String, Option<ReportedError>)>,
}

/// The meaning of a reply to `session.sendAndWait`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Replied {
    /// The runtime does not know the method, and did not take the message.
    Unknown,
    /// The runtime took the message. `is_new`: no `user.message` had shown that before.
    Taken { is_new: bool },
    /// The message was refused, or its caller no longer waits.
    Nothing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completion<'a> {
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(default)]
    aborted: bool,
    #[serde(default)]
    completion_event_id: Option<String>,
}

impl RuntimeWaits {
    pub(super) fn support(&self) -> Support {
        self.support
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// The turn's request is about to be written.
    pub(super) fn open(&mut self, turn: &Arc<TurnHandle>) {
        self.waits.push(RuntimeWait { turn: Arc::clone(turn), is_taken: false, held_back: None, end: None });
    }

    /// Removes a turn. False when it is not in the list.
    pub(super) fn leave(&mut self, turn: &Arc<TurnHandle>) -> bool {
        let before = self.waits.len();
        self.waits.retain(|wait| !Arc::ptr_eq(&wait.turn, turn));
        self.waits.len() < before
    }

    /// A message is being worked on. True when it is one of these.
    pub(super) fn on_user_message(&mut self) -> bool {
        let Some(wait) = self.waits.iter_mut().find(|wait| !wait.is_taken) else { return false };
        wait.is_taken = true;
        self.support = Support::Present;
        true
    }

    pub(super) fn on_reply(
        &mut self,
        turn: &TurnHandle,
        reply: &Result<&str, Error>,
        now: Duration,
    ) -> Replied {
        let index = self.waits.iter().position(|wait| std::ptr::eq(&*wait.turn, turn));
        let (answer, event) = match reply {
            Ok(text) => read_completion(text),
            Err(error) if is_unknown_method(error) => {
                self.support = Support::Absent;
                return match index.map(|index| self.waits.remove(index)) {
                    Some(_) => Replied::Unknown,
                    None => Replied::Nothing,
                };
            }
            Err(error) => {
                let data = error.facts().get("data");
                let event = data.and_then(|data| data.get("completionEventId")).and_then(Value::as_str);
                (Answer::Failed(error.clone()), event.map(str::to_owned))
            }
        };
        // Only an answer of the server shows that it has the method. A lost connection or an abandoned wait does not.
        if reply.as_ref().err().is_none_or(|error| error.code() == ErrorCode::RpcError) {
            self.support = Support::Present;
        }
        let Some(wait) = index.and_then(|index| self.waits.get_mut(index)) else { return Replied::Nothing };
        let is_new = !std::mem::replace(&mut wait.is_taken, true);
        let was_taken = reply.is_ok();
        wait.turn.set_completion_event(event.clone());
        let seen = event.as_ref().and_then(|event| self.ended.iter().find(|(id, _)| id == event));
        match (event, seen) {
            (Some(event), None) => wait.held_back = Some(HeldBack { answer, event, since: now }),
            (_, seen) => wait.end = Some(answer.into_end(seen.and_then(|(_, error)| error.clone()))),
        }
        match was_taken {
            true => Replied::Taken { is_new },
            false => Replied::Nothing,
        }
    }

    /// An event that may end a request is delivered to the listeners.
    pub(super) fn on_ending_event(&mut self, id: String, error: Option<ReportedError>) {
        for wait in &mut self.waits {
            if let Some(held) = wait.held_back.take_if(|held| held.event == id) {
                wait.end = Some(held.answer.into_end(error.clone()));
            }
        }
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, error));
    }

    /// Ends every turn with the error.
    pub(super) fn fail_all(&mut self, error: &Error) {
        for wait in &mut self.waits {
            wait.end.get_or_insert_with(|| Err(error.clone()));
        }
    }

    /// Takes the end of a turn that is over.
    pub(super) fn take_end(&mut self, turn: &TurnHandle, now: Duration) -> Option<TurnEnd> {
        let index = self.waits.iter().position(|wait| std::ptr::eq(&*wait.turn, turn))?;
        let wait = self.waits.get_mut(index)?;
        if let Some(held) = wait.held_back.take_if(|held| held.since + BOUNDARY <= now) {
            wait.end = Some(held.answer.into_end(None));
        }
        wait.end.is_some().then(|| self.waits.remove(index).end).flatten()
    }

    /// The time of the next check of this turn's clocks.
    pub(super) fn deadline(&self, turn: &TurnHandle) -> Option<Duration> {
        let wait = self.waits.iter().find(|wait| std::ptr::eq(&*wait.turn, turn))?;
        wait.held_back.as_ref().map(|held| held.since + BOUNDARY)
    }

    /// Describes the pending step of a turn, for the message of a timeout.
    pub(super) fn describe(&self, turn: &TurnHandle) -> Option<String> {
        let wait = self.waits.iter().find(|wait| std::ptr::eq(&*wait.turn, turn))?;
        Some(match (&wait.held_back, wait.is_taken) {
            (Some(held), _) => format!("the event {} that ends the turn has not come", held.event),
            (None, true) => format!("{METHOD} was not answered"),
            (None, false) => format!("{METHOD} was not answered, and no user.message came"),
        })
    }
}

impl Answer {
    /// `reported`: the error in the event that ended the turn, if it is an error.
    fn into_end(self, reported: Option<ReportedError>) -> TurnEnd {
        match (self, reported) {
            (Answer::Response(response), _) => Ok(response),
            (Answer::Aborted, _) => Err(Error::new(ErrorCode::SessionAborted, "The turn was aborted")),
            (Answer::Failed(error), Some(reported)) => Err(reported.into_error().caused_by(error)),
            (Answer::Failed(error), None) => Err(error),
        }
    }
}

fn read_completion(text: &str) -> (Answer, Option<String>) {
    let unreadable = |what: &str| {
        Answer::Failed(Error::new(ErrorCode::RpcError, format!("{METHOD}: {what}")).with("method", METHOD))
    };
    let Ok(completion) = ground::json::read_borrowed::<Completion<'_>>(text) else {
        return (unreadable("the runtime's answer is not of the known form"), None);
    };
    let response = completion.response.map(RawValue::get).filter(|response| *response != "null");
    let answer = match response {
        _ if completion.aborted => Answer::Aborted,
        Some(event) if !is_main_answer(event) => {
            unreadable("the runtime returned an event that is not a message of the main agent")
        }
        response => Answer::Response(response.map(str::to_owned)),
    };
    (answer, completion.completion_event_id)
}

fn is_unknown_method(error: &Error) -> bool {
    error.code() == ErrorCode::RpcError
        && error.facts().get("rpcCode").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use super::super::turn_handle::TurnKind;
    use super::*;
    use std::sync::Mutex;

    type Told = Arc<Mutex<Vec<(TurnEnd, Option<String>)>>>;

    fn turn() -> (Arc<TurnHandle>, Told) {
        let told = Told::default();
        let tell = Arc::clone(&told);
        (
            TurnHandle::new(TurnKind::Message, false, move |end, event| {
                tell.lock().unwrap().push((end, event))
            }),
            told,
        )
    }

    const ANSWER: &str = r#"{"response":{"type":"assistant.message","id":"a","data":{"content":"hi"}},"aborted":false,"messageId":"m","completionEventId":"e1"}"#;
    const NOW: Duration = Duration::from_secs(100);

    fn rpc(code: i64, data: Value) -> Error {
        Error::new(ErrorCode::RpcError, "no").with("rpcCode", code).with("data", data)
    }

    #[test]
    fn an_answer_waits_for_the_event_that_it_names() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        assert_eq!(waits.on_reply(&turn, &Ok(ANSWER), NOW), Replied::Taken { is_new: true });
        assert!(waits.take_end(&turn, NOW).is_none());
        waits.on_ending_event("e0".into(), None);
        assert!(waits.take_end(&turn, NOW).is_none());
        waits.on_ending_event("e1".into(), None);
        let end = waits.take_end(&turn, NOW).unwrap().unwrap().unwrap();
        assert!(end.contains(r#""content":"hi""#), "{end}");
        assert!(waits.is_empty());
    }

    #[test]
    fn an_event_that_came_before_the_answer_is_remembered() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        assert!(waits.on_user_message());
        waits.on_ending_event("e1".into(), None);
        assert_eq!(waits.on_reply(&turn, &Ok(ANSWER), NOW), Replied::Taken { is_new: false });
        assert!(waits.take_end(&turn, NOW).unwrap().is_ok());
    }

    #[test]
    fn an_event_that_never_comes_ends_the_wait_after_its_bound() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        waits.on_reply(&turn, &Ok(ANSWER), NOW);
        assert_eq!(waits.deadline(&turn), Some(NOW + BOUNDARY));
        assert!(waits.take_end(&turn, NOW + BOUNDARY).unwrap().is_ok());
    }

    #[test]
    fn an_error_is_what_its_event_reported() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        let error = rpc(-32603, serde_json::json!({ "completionEventId": "e7" }));
        waits.on_reply(&turn, &Err(error), NOW);
        assert!(waits.take_end(&turn, NOW).is_none());
        let reported =
            ReportedError { error_type: "quota".into(), message: "spent".into(), ..Default::default() };
        waits.on_ending_event("e7".into(), Some(reported));
        let error = waits.take_end(&turn, NOW).unwrap().unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::SessionError, "spent"));
        assert_eq!(waits.support(), Support::Present);
    }

    #[test]
    fn an_unknown_method_gives_the_message_back() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        assert_eq!(waits.on_reply(&turn, &Err(rpc(-32601, Value::Null)), NOW), Replied::Unknown);
        assert!(waits.is_empty());
        assert_eq!(waits.support(), Support::Absent);
    }

    #[test]
    fn a_turn_that_was_left_says_nothing_of_the_runtime() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        assert!(waits.leave(&turn));
        let left = Error::new(ErrorCode::SessionTimedOut, "left");
        assert_eq!(waits.on_reply(&turn, &Err(left), NOW), Replied::Nothing);
        assert_eq!(waits.support(), Support::Unknown);
    }

    #[test]
    fn an_aborted_request_and_an_answer_of_a_sub_agent_are_errors() {
        for (answer, code) in [
            (r#"{"aborted":true,"response":null,"messageId":"m"}"#, ErrorCode::SessionAborted),
            (
                r#"{"aborted":false,"messageId":"m","response":{"type":"assistant.message","agentId":"x","data":{}}}"#,
                ErrorCode::RpcError,
            ),
            (
                r#"{"aborted":false,"messageId":"m","response":{"type":"session.idle","data":{}}}"#,
                ErrorCode::RpcError,
            ),
            ("7", ErrorCode::RpcError),
        ] {
            let mut waits = RuntimeWaits::default();
            let (turn, _) = turn();
            waits.open(&turn);
            waits.on_reply(&turn, &Ok(answer), NOW);
            assert_eq!(waits.take_end(&turn, NOW).unwrap().unwrap_err().code(), code, "{answer}");
        }
    }

    #[test]
    fn all_fail_with_the_session() {
        let mut waits = RuntimeWaits::default();
        let (turn, _) = turn();
        waits.open(&turn);
        waits.on_reply(&turn, &Ok(ANSWER), NOW);
        waits.fail_all(&Error::new(ErrorCode::SessionClosed, "closed"));
        assert_eq!(waits.take_end(&turn, NOW).unwrap().unwrap_err().code(), ErrorCode::SessionClosed);
    }
}
