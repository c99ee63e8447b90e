//! PURE: the steps from the agent's answer that opens a session to a session at its level.

use super::message::Message;
use super::rules::Rules;
use crate::acp::opening::settings::{Settings, set_option};
use crate::acp::turn::turn_state::Version;
use crate::acp::wire::update::AgentFault;
use ground::error::Error;
use ground::json::object::put;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A setting that is made before a session is used.
#[derive(Clone, Debug)]
enum Step {
    /// The first of these modes that the agent offers.
    Mode(Vec<String>),
    Model(String),
}

/// A session on its way to its level.
#[derive(Debug)]
pub(super) struct Beginning {
    /// The client's id and the agent's answer; `None`: the session was open before, and its mode is set again.
    pub(super) answer: Option<(Value, Message)>,
    steps: VecDeque<Step>,
    /// The mode that is being set.
    mode: Option<String>,
}

/// The next step of a session that opens.
pub(super) enum Next {
    /// This request to the agent.
    Ask(&'static str, Value),
    Done,
}

impl Beginning {
    pub(super) fn new(answer: (Value, Message), rules: &Rules) -> Beginning {
        let mut steps = VecDeque::new();
        if !rules.modes.is_empty() {
            steps.push_back(Step::Mode(rules.modes.clone()));
        }
        steps.extend(rules.model.clone().map(Step::Model));
        Beginning { answer: Some(answer), steps, mode: None }
    }

    /// The agent has left this mode.
    pub(super) fn again(mode: String) -> Beginning {
        Beginning { answer: None, steps: VecDeque::from([Step::Mode(vec![mode])]), mode: None }
    }

    /// The mode that was set.
    pub(super) fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// # Errors
    /// The agent does not offer what has to be set.
    pub(super) fn next(
        &mut self,
        rules: &Rules,
        settings: &Settings,
        version: Version,
        session: &str,
    ) -> Result<Next, Error> {
        match self.steps.front() {
            None => Ok(Next::Done),
            Some(Step::Mode(modes)) => {
                // It is set whatever the answer told: a mode that was stored may come back later.
                let to_mode = settings.to_mode(modes, version, session);
                let (mode, (method, params)) = to_mode.map_err(|why| rules.unheld(&why))?;
                self.mode = Some(mode);
                Ok(Next::Ask(method, params))
            }
            Some(Step::Model(model)) => match settings.model(model) {
                Some((id, value)) => {
                    let (method, params) = set_option(version, session, id, &json!(value));
                    Ok(Next::Ask(method, params))
                }
                None => {
                    let problem = format!("{} offers none named {model}", rules.agent.as_str());
                    Err(Error::invalid_option("model", problem))
                }
            },
        }
    }

    /// The agent has answered the request of the step.
    ///
    /// # Errors
    /// It has refused it.
    pub(super) fn on_answer(
        &mut self,
        outcome: Result<&Value, &Value>,
        rules: &Rules,
        settings: &mut Settings,
    ) -> Result<(), Error> {
        let step = self.steps.pop_front();
        let result = match (outcome, step) {
            (Ok(result), step) => {
                settings.on_options(&result["configOptions"]);
                if let (Some(Step::Mode(_)), Some(mode)) = (step, &self.mode) {
                    settings.on_mode(mode);
                    settings.choose(mode);
                }
                result
            }
            (Err(error), Some(Step::Model(model))) => {
                let words = AgentFault::read(error).words();
                let problem = format!("{} does not take {model}: {words}", rules.agent.as_str());
                return Err(Error::invalid_option("model", problem));
            }
            (Err(error), _) => return Err(rules.unheld(&AgentFault::read(error).words())),
        };
        let options = &result["configOptions"];
        if let Some(opened) = self.answer.as_mut().and_then(|(_, answer)| answer.result_mut())
            && options.is_array()
        {
            put(opened, "configOptions", options.clone());
        }
        Ok(())
    }

    /// The client's id and the answer for it, which names the mode that is set.
    pub(super) fn finish(self) -> Option<(Value, Message)> {
        let (id, mut answer) = self.answer?;
        if let (Some(mode), Some(opened)) = (self.mode, answer.result_mut()) {
            if let Some(modes) = opened.get_mut("modes").filter(|modes| modes.is_object()) {
                put(modes, "currentModeId", mode.as_str());
            }
            let options = opened.get_mut("configOptions").and_then(Value::as_array_mut);
            if let Some(option) = options.into_iter().flatten().find(|option| option["category"] == "mode") {
                put(option, "currentValue", mode.as_str());
            }
        }
        Some((id, answer))
    }
}
