//! A turn that runs elsewhere (in a runtime or a fleet worker), for callers that only watch it. Its handle is like that of any
//! other turn: it reports tools, retries and the outcome. It can't end the turn.
//!
//! The code that runs the turn receives its events anyway, and passes them on. A slow watcher slows the agent, as a listener
//! would.

use super::audience::Audience;
use super::{Order, Turn, TurnOutcome};
use crate::harness::event::AgentEvent;
use crate::harness::verdict::result::TurnResult;
use ground::mpsc::UnboundedReceiver;
use ground::redaction::Redactor;
use std::sync::Arc;
use tokio::sync::watch;

pub struct Mirror {
    audience: Audience,
    words: UnboundedReceiver<Order>,
    publish: watch::Sender<Option<Arc<TurnOutcome>>>,
}

impl Mirror {
    /// And the handle of those who look. Removes these secrets from the events.
    pub fn hiding(secrets: &Redactor) -> (Mirror, Turn) {
        let (turn, words, publish) = Turn::run_elsewhere();
        (Mirror { audience: Audience::new(true, secrets.clone()), words, publish }, turn)
    }

    /// Passes on events of the turn. Waits for room while a listener is behind.
    pub async fn hear(&mut self, events: &[AgentEvent]) {
        while let Ok(word) = self.words.try_recv() {
            self.audience.heed(Some(word));
        }
        if !self.audience.wants_events() {
            return;
        }
        self.audience.tell(events.iter().filter(|event| is_shown(event)).cloned().collect());
        while self.audience.is_full() {
            tokio::select! {
                biased;
                word = self.words.recv() => match word {
                    None => self.audience.leave(),
                    word => _ = self.audience.heed(word),
                },
                () = self.audience.room() => {}
            }
        }
    }

    /// The turn is over. Who asks for the events only now is given what was kept.
    pub fn end(mut self, outcome: Arc<TurnOutcome>) {
        self.audience.end();
        let outcome =
            if self.audience.has_secrets() { Arc::new(self.without_secrets(&outcome)) } else { outcome };
        self.publish.send_replace(Some(outcome));
        ground::task::spawn(async move {
            self.audience.serve_late(&mut self.words).await;
        });
    }

    fn without_secrets(&self, outcome: &TurnOutcome) -> TurnOutcome {
        let clean = |result: &TurnResult| {
            let mut result = result.clone();
            self.audience.redact_result(&mut result);
            result
        };
        match outcome {
            TurnOutcome::Succeeded(result) => TurnOutcome::Succeeded(clean(result)),
            TurnOutcome::Failed { error, partial } => TurnOutcome::Failed {
                error: self.audience.redact_error(error),
                partial: partial.as_ref().map(clean),
            },
        }
    }
}

fn is_shown(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ToolStart { .. } | AgentEvent::ToolEnd { .. } | AgentEvent::Retry { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::provider::Provider;
    use crate::harness::verdict::result::TurnResult;

    fn tool() -> AgentEvent {
        AgentEvent::ToolStart { id: "1".into(), name: "bash".into(), input: serde_json::Value::Null }
    }

    fn text() -> AgentEvent {
        AgentEvent::Text { text: "hi".into(), delta: false }
    }

    fn succeeded() -> Arc<TurnOutcome> {
        Arc::new(TurnOutcome::Succeeded(TurnResult::empty(Provider::Codex)))
    }

    async fn heard(turn: &Turn) -> usize {
        let mut events = turn.events();
        let mut count = 0;
        while let Some(some) = events.next().await {
            count += some.len();
        }
        count
    }

    #[tokio::test]
    async fn who_looks_hears_of_tools_and_learns_the_outcome_and_ends_nothing() {
        let (mut mirror, turn) = Mirror::hiding(&Redactor::default());
        let looks = ground::task::spawn({
            let turn = turn.clone();
            async move { heard(&turn).await }
        });
        turn.abort();
        mirror.hear(&[text(), tool()]).await;
        mirror.hear(&[tool()]).await;
        mirror.end(succeeded());
        assert_eq!(looks.await.unwrap(), 2);
        assert!(turn.outcome().await.error().is_none());
    }

    #[tokio::test]
    async fn secrets_are_in_nothing_that_is_told() {
        let (mirror, turn) = Mirror::hiding(&Redactor::new(["hunter2-hunter2"]));
        let mut result = TurnResult::empty(Provider::Codex);
        result.text = "It is hunter2-hunter2.".to_owned();
        let error = ground::error::Error::new(ground::error::ErrorCode::AgentFailed, "no hunter2-hunter2")
            .with("stderr", "hunter2-hunter2?");
        mirror.end(Arc::new(TurnOutcome::Failed { error, partial: Some(result) }));
        let outcome = turn.outcome().await;
        let error = outcome.error().unwrap();
        assert_eq!(
            (error.message(), error.facts()["stderr"].as_str()),
            ("no [REDACTED]", Some("[REDACTED]?"))
        );
        assert_eq!(outcome.result().unwrap().text, "It is [REDACTED].");
    }

    #[tokio::test]
    async fn who_comes_after_the_end_is_given_what_was_kept() {
        let (mut mirror, turn) = Mirror::hiding(&Redactor::default());
        mirror.hear(&[tool()]).await;
        mirror.end(succeeded());
        assert_eq!(heard(&turn).await, 1);
    }

    #[tokio::test]
    async fn nobody_who_left_is_waited_for() {
        let (mut mirror, turn) = Mirror::hiding(&Redactor::default());
        let slow = turn.events();
        for _ in 0..20_000 {
            if mirror.audience.is_full() {
                break;
            }
            tokio::time::timeout(std::time::Duration::from_millis(1), mirror.hear(&[tool()])).await.ok();
        }
        turn.leave();
        mirror.hear(&[tool()]).await;
        drop(slow);
        mirror.end(succeeded());
    }
}
