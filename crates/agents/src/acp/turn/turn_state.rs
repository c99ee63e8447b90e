//! PURE: decides when a turn is over. The success of the turn is decided by `verdict`.
//!
//! | | version 1 | version 2 |
//! |---|---|---|
//! | our prompt is in | when it was sent | when it was answered, or its words were repeated |
//! | the turn ends | with the answer to the prompt | with a state `idle` that names a stop reason, once our prompt is in |
//! | work goes on behind | a tool call is still open | the same, or `background` is not empty |
//!
//! With `waits`, a good end counts only when no background work was seen for the settle time. Such work may wake the agent, and
//! then the last end counts. If no background work was ever seen, a good end of version 2 is the end at once. In version 1 agents
//! send the last words of a turn behind its answer (opencode, the adapter of claude-code), so a moment of silence is waited for,
//! half a second at most.

use crate::acp::wire::update::{AgentFault, SessionState, StateUpdate, StopReason, TurnEnd};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long an agent of version 1 has to be silent behind an end, before nothing more about it is expected.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(50);
/// How long that silence is waited for: an agent that speaks on has begun something of its own.
pub(crate) const LONGEST_WORDS: Duration = Duration::from_millis(500);

/// The protocol's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    /// The version of the answer to `initialize`; else its number. Agents on the Python SDK return the number that they were
    /// asked for, whatever they speak: only a version 1 agent has `agentCapabilities` alone.
    pub fn of(hello: &Value) -> Result<Version, Option<u64>> {
        let is_first = hello["agentCapabilities"].is_object() && !hello["capabilities"].is_object();
        match hello["protocolVersion"].as_u64() {
            Some(1) => Ok(Version::One),
            Some(2) if is_first => Ok(Version::One),
            Some(2) => Ok(Version::Two),
            other => Err(other),
        }
    }

    pub fn number(self) -> u8 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

/// The agent's own end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Said(StopReason),
    /// The prompt was answered with an error.
    Refused(AgentFault),
    /// It went idle without a word on how the turn ended.
    Silent,
}

/// One prompt, from its sending to its end.
#[derive(Debug)]
pub struct TurnState {
    version: Version,
    /// A good end is held back while something goes on behind it.
    waits: bool,
    settle: Duration,
    is_in: bool,
    is_running: bool,
    is_cancelling: bool,
    ending: Option<Ending>,
    /// Background work was seen after an end of turn.
    seen_behind: bool,
    /// Start of the time without any work of the turn, background work included.
    quiet_since: Option<Instant>,
    /// End of the wait for last words alone.
    words_until: Option<Instant>,
}

impl TurnState {
    /// The prompt was sent just now.
    pub fn new(version: Version, waits: bool, settle: Duration) -> Self {
        TurnState {
            version,
            waits,
            settle,
            is_in: version == Version::One,
            is_running: true,
            is_cancelling: false,
            ending: None,
            seen_behind: false,
            quiet_since: None,
            words_until: None,
        }
    }

    /// Whether the agent's messages from now on belong to this turn.
    pub fn is_in(&self) -> bool {
        self.is_in
    }

    /// Whether the agent's end of turn has arrived; it may still be held back.
    pub fn has_ended(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether the agent works on the turn, rather than something behind it.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    /// The words of the prompt came back: it is in.
    pub fn on_repeated(&mut self) {
        self.is_in = true;
    }

    /// The prompt's answer. Returns what it says of tokens.
    pub fn on_answer(&mut self, answer: Result<&Value, AgentFault>) -> Option<TurnEnd> {
        self.is_in = true;
        match answer {
            Err(fault) => self.end(Ending::Refused(fault)),
            Ok(answer) => match (self.version, TurnEnd::read(answer)) {
                (_, Some(end)) => {
                    self.end(Ending::Said(end.reason.clone()));
                    return Some(end);
                }
                (Version::One, None) => self.end(Ending::Silent),
                (Version::Two, None) => {}
            },
        }
        None
    }

    pub fn on_state(&mut self, update: &StateUpdate) {
        if !self.is_in {
            return;
        }
        match &update.state {
            SessionState::Running | SessionState::Waiting => {
                self.is_running = true;
                self.quiet_since = None;
            }
            SessionState::Idle { end: Some(end) } => self.end(Ending::Said(end.reason.clone())),
            SessionState::Idle { end: None } if self.ending.is_none() => self.end(Ending::Silent),
            SessionState::Idle { end: None } => self.is_running = false,
            SessionState::Unknown => {}
        }
    }

    /// Words or tools came: if the turn had ended, something goes on behind it.
    pub fn on_activity(&mut self) {
        self.quiet_since = None;
    }

    /// After a cancel, any end of turn counts.
    pub fn on_cancel(&mut self) {
        self.is_cancelling = true;
    }

    /// The wait for what goes on behind is given up.
    pub fn stop_waiting(&mut self) {
        self.waits = false;
    }

    /// Nothing is asked of the agent: who stops the turn finds it ended.
    pub fn rest(&mut self) {
        self.is_running = false;
        self.ending.get_or_insert(Ending::Silent);
    }

    fn end(&mut self, ending: Ending) {
        self.is_running = false;
        self.ending = Some(ending);
        self.words_until = None;
    }

    /// The ending, once it counts. `behind`: whether work goes on behind the turn, or a tool call is open.
    pub fn due(&mut self, now: Instant, behind: bool) -> Option<&Ending> {
        let is_good = matches!(self.ending, Some(Ending::Said(StopReason::EndTurn)));
        if self.ending.is_none() || self.is_running && self.waits && is_good && !self.is_cancelling {
            return None;
        }
        if !is_good || !self.waits || self.is_cancelling {
            return self.ending.as_ref();
        }
        if behind {
            self.seen_behind = true;
            self.quiet_since = None;
            return None;
        }
        self.quiet_since.get_or_insert(now);
        self.words_until.get_or_insert(now + LONGEST_WORDS);
        if self.deadline().is_some_and(|deadline| now < deadline) {
            return None;
        }
        self.ending.as_ref()
    }

    /// The good end that was held back for last words alone: its agent is gone, so none come.
    pub fn without_last_words(&self) -> Option<&Ending> {
        let is_good = matches!(self.ending, Some(Ending::Said(StopReason::EndTurn)));
        self.ending.as_ref().filter(|_| is_good && !self.is_running && !self.seen_behind)
    }

    /// How long nothing may come behind a good end before it counts.
    fn silence(&self) -> Duration {
        match self.version {
            _ if self.seen_behind => self.settle,
            Version::One => self.settle.min(LAST_WORDS),
            Version::Two => Duration::ZERO,
        }
    }

    /// When [`TurnState::due`] is to be asked again though nothing came.
    pub fn deadline(&self) -> Option<Instant> {
        let silent = self.quiet_since?.checked_add(self.silence())?;
        Some(self.words_until.filter(|_| !self.seen_behind).map_or(silent, |until| until.min(silent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SETTLE: Duration = Duration::from_millis(500);

    fn state(update: Value) -> StateUpdate {
        let update = crate::acp::wire::update::Update::read(&{
            let mut update = update;
            update["sessionUpdate"] = json!("state_update");
            update
        });
        let crate::acp::wire::update::Update::State(state) = update else { panic!("no state") };
        state
    }

    #[test]
    fn a_version_is_told_by_more_than_its_number() {
        let of = |hello: Value| Version::of(&hello);
        assert_eq!(of(json!({ "protocolVersion": 1 })), Ok(Version::One));
        assert_eq!(of(json!({ "protocolVersion": 2, "capabilities": {}, "info": {} })), Ok(Version::Two));
        assert_eq!(of(json!({ "protocolVersion": 2 })), Ok(Version::Two));
        let echoed =
            json!({ "protocolVersion": 2, "agentCapabilities": { "loadSession": true }, "agentInfo": {} });
        assert_eq!(of(echoed), Ok(Version::One));
        assert_eq!(of(json!({ "protocolVersion": 3 })), Err(Some(3)));
        assert_eq!(of(json!({})), Err(None));
    }

    #[test]
    fn the_first_version_ends_with_the_answer() {
        let now = Instant::now();
        let mut turn = TurnState::new(Version::One, true, SETTLE);
        assert!(turn.is_in());
        assert_eq!(turn.due(now, false), None);
        turn.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        assert_eq!(turn.due(now, false), None, "its last words may come behind the answer");
        let silent = now + LAST_WORDS;
        turn.on_activity();
        assert_eq!(turn.due(silent, false), None, "they came");
        assert_eq!(turn.deadline(), Some(silent + LAST_WORDS));
        assert!(turn.due(silent + LAST_WORDS, false).is_some());
        let mut restless = TurnState::new(Version::One, true, SETTLE);
        restless.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        let mut pieces = (0..).map(|piece| now + LAST_WORDS / 2 * piece);
        let ended = pieces.find(|at| {
            restless.on_activity();
            restless.due(*at, false).is_some()
        });
        assert_eq!(ended, Some(now + LONGEST_WORDS), "its agent goes on with something else");
        let mut gone = TurnState::new(Version::One, true, SETTLE);
        assert_eq!(gone.without_last_words(), None);
        gone.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        assert!(gone.without_last_words().is_some());
        assert_eq!(gone.due(now, true), None);
        assert_eq!(gone.without_last_words(), None, "it had work behind it");
        // Without a settle time there is no wait, and an end that is not good is the end at once.
        let mut eager = TurnState::new(Version::One, true, Duration::ZERO);
        eager.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        assert_eq!(eager.due(now, false), Some(&Ending::Said(StopReason::EndTurn)));
        let mut refused = TurnState::new(Version::One, true, SETTLE);
        refused.on_answer(Ok(&json!({"stopReason":"refusal"})));
        assert!(refused.due(now, false).is_some());
    }

    #[test]
    fn an_open_tool_holds_a_good_end_back_and_no_other() {
        let now = Instant::now();
        for (reason, is_held) in [("end_turn", true), ("cancelled", false), ("refusal", false)] {
            let mut turn = TurnState::new(Version::One, true, SETTLE);
            turn.on_answer(Ok(&json!({ "stopReason": reason })));
            assert_eq!(turn.due(now, true).is_none(), is_held, "{reason}");
        }
        let mut turn = TurnState::new(Version::One, true, SETTLE);
        turn.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        assert_eq!(turn.due(now, true), None);
        assert_eq!(turn.due(now, false), None, "it has to hold for the settle time");
        assert_eq!(turn.deadline(), Some(now + SETTLE));
        assert!(turn.due(now + SETTLE, false).is_some());
        let mut leaves = TurnState::new(Version::One, false, SETTLE);
        leaves.on_answer(Ok(&json!({"stopReason":"end_turn"})));
        assert!(leaves.due(now, true).is_some());
    }

    #[test]
    fn the_second_version_ends_with_idle_once_the_prompt_is_in() {
        let now = Instant::now();
        let mut turn = TurnState::new(Version::Two, true, SETTLE);
        // The end of a turn that the agent had begun by itself.
        turn.on_state(&state(json!({"state":"idle","stopReason":"end_turn"})));
        assert_eq!(turn.due(now, false), None);
        turn.on_answer(Ok(&json!({"messageId":"m"})));
        assert_eq!(turn.due(now, false), None, "the answer is no end");
        turn.on_state(&state(json!({"state":"running"})));
        turn.on_state(&state(json!({"state":"requires_action"})));
        assert_eq!(turn.due(now, false), None);
        turn.on_state(&state(json!({"state":"idle","stopReason":"end_turn"})));
        assert!(turn.due(now, false).is_some());
    }

    #[test]
    fn what_goes_on_behind_may_wake_the_agent_and_the_last_end_counts() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut turn = TurnState::new(Version::Two, true, SETTLE);
        turn.on_answer(Ok(&json!({"messageId":"m"})));
        turn.on_state(&state(json!({"state":"running"})));
        turn.on_state(&state(json!({"state":"idle","stopReason":"end_turn"})));
        assert_eq!(turn.due(at(0), true), None);
        turn.on_state(&state(json!({"state":"idle","background":[]})));
        assert_eq!(turn.due(at(100), false), None);
        turn.on_state(&state(json!({"state":"running"})));
        assert_eq!(turn.due(at(700), false), None, "it works again");
        turn.on_state(&state(json!({"state":"idle","stopReason":"end_turn","background":[]})));
        assert_eq!(turn.due(at(800), false), None);
        assert_eq!(turn.due(at(1299), false), None);
        assert!(turn.due(at(1300), false).is_some());
    }

    #[test]
    fn an_error_is_the_end_at_once() {
        let now = Instant::now();
        let mut turn = TurnState::new(Version::Two, true, SETTLE);
        turn.on_answer(Ok(&json!({"messageId":"m"})));
        let error = json!({"state":"idle","stopReason":"error","error":{"code":-32603,"message":"m"},"background":[{}]});
        turn.on_state(&state(error));
        assert!(
            matches!(turn.due(now, true), Some(Ending::Said(StopReason::Error(fault))) if fault.message == "m")
        );
        let mut refused = TurnState::new(Version::Two, true, SETTLE);
        refused.on_answer(Err(AgentFault { code: 401, ..AgentFault::default() }));
        assert!(matches!(refused.due(now, false), Some(Ending::Refused(_))));
    }

    #[test]
    fn idle_without_a_word_on_the_end_is_an_end_of_its_own() {
        let now = Instant::now();
        let mut turn = TurnState::new(Version::Two, true, SETTLE);
        turn.on_repeated();
        turn.on_state(&state(json!({"state":"running"})));
        turn.on_state(&state(json!({"state":"idle"})));
        assert_eq!(turn.due(now, false), Some(&Ending::Silent));
    }

    #[test]
    fn after_a_cancel_nothing_is_waited_for() {
        let now = Instant::now();
        let mut turn = TurnState::new(Version::Two, true, SETTLE);
        turn.on_answer(Ok(&json!({"messageId":"m"})));
        turn.on_cancel();
        turn.on_state(&state(json!({"state":"idle","stopReason":"end_turn"})));
        assert!(turn.due(now, true).is_some());
    }
}
