//! A coding agent of this machine as the handler of prompts, with one process for all prompts of a client.
//!
//! The first invocation opens a session ([`agents::acp`]); later ones prompt the same session, so that the agent knows the
//! conversation. An invocation with another system prompt, model or environment opens a new process and resumes the session
//! there. So does an invocation after the agent was lost. The agent's session is closed with the client's session.

use super::agent::{Ended, Served, fault_of, follow, schema_of, set_up};
use super::handler::{AgentFault, AgentFuture, AgentHandler, AgentInvocation, AgentSender};
use super::kept_session::{Kept, KeptSession, Setup};
use super::secrets::own_environment;
use agents::acp::{self, OpenRequest, PromptRequest, Session};
use agents::harness::observer::show;
use agents::harness::{Mirror, TurnOutcome};
use ground::error::{Error, ErrorCode};
use ground::mpsc;
use std::sync::Arc;

/// Prompts an agent whose session is kept. The variables that an observer returns are ignored, because the agent's process
/// outlives a turn.
pub type KeptAgent = Served<OpenRequest>;

impl KeptAgent {
    /// Shows a turn that is about to begin in `session`, or without a session if that could not be opened.
    async fn show(&self, invocation: &AgentInvocation, session: Option<&Session>) -> Option<Mirror> {
        let on_turn = self.on_turn.as_ref()?;
        let resume = session.map(|session| session.id().to_owned());
        let agent = self.request(&self.setup(invocation), resume).agent;
        let secrets = self.defaults.agent.redact.with(invocation.secrets.clone());
        let (mirror, _) = show(on_turn, &agent, &invocation.user_prompt, &secrets).await;
        Some(mirror)
    }

    fn setup(&self, invocation: &AgentInvocation) -> Setup {
        let environment = invocation.env.clone().unwrap_or_default();
        Setup {
            system_prompt: invocation.system_prompt.clone(),
            model: invocation.model.clone(),
            environment: own_environment(&environment),
            secrets: if self.defaults.agent.record.is_some() {
                invocation.secrets.clone()
            } else {
                Vec::new()
            },
        }
    }

    fn request(&self, setup: &Setup, resume: Option<String>) -> OpenRequest {
        let mut request = self.defaults.clone();
        set_up(&mut request.agent, &setup.system_prompt, &setup.model);
        request.agent.environment.changes.extend(setup.environment.iter().cloned());
        request.agent.redact = request.agent.redact.with(setup.secrets.clone());
        if resume.is_some() {
            request.agent.resume = resume;
        }
        request
    }

    /// The client's session with this setup.
    async fn session(&self, slot: &KeptSession, setup: Setup, ended: Ended<'_>) -> Result<Session, Error> {
        let mut kept = slot.0.lock().await;
        let resume = match kept.take() {
            Some(open) if open.setup == setup && !open.session.is_over() => {
                return Ok(kept.insert(open).session.clone());
            }
            Some(open) => {
                open.session.close().await;
                Some(open.session.id().to_owned())
            }
            None => None,
        };
        // No program answers permission requests here, so what the rules leave open is refused.
        let (host, _) = mpsc::unbounded_channel();
        let mut ended = ended;
        let opening = acp::open(self.request(&setup, resume), self.limits.clone(), None, host, ended.wait());
        let session = opening.await?;
        Ok(kept.insert(Kept { session, setup }).session.clone())
    }
}

fn prompt_of(invocation: &AgentInvocation) -> Result<PromptRequest, Error> {
    let mut prompt = PromptRequest::new(&invocation.user_prompt);
    prompt.schema = schema_of(invocation)?;
    prompt.has_listener = true;
    Ok(prompt)
}

impl AgentHandler for KeptAgent {
    fn stop(&self) {
        self.stopped.cancel();
    }

    fn is_sandboxed(&self) -> bool {
        self.defaults.agent.sandbox.is_some()
    }

    fn run(&self, mut invocation: AgentInvocation, sender: AgentSender) -> AgentFuture {
        let (agent, stopped) = (self.clone(), self.stopped.clone());
        Box::pin(async move {
            let told = |error: Error| -> AgentFault { fault_of(&error) };
            let prompt = prompt_of(&invocation).map_err(told)?;
            let setup = agent.setup(&invocation);
            let slot = invocation.kept.clone();
            let ended = Ended { cancel: &mut invocation.cancel, stopped: &stopped };
            let opened = agent.session(&slot, setup, ended).await;
            let mirror = agent.show(&invocation, opened.as_ref().ok()).await;
            let session = match opened {
                Ok(session) => session,
                Err(error) => {
                    if let Some(mirror) = mirror {
                        mirror.end(Arc::new(TurnOutcome::refused(error.clone())));
                    }
                    return Err(told(error));
                }
            };
            if stopped.is_cancelled() {
                let error = Error::new(ErrorCode::AgentAborted, "the agent is not served any more");
                if let Some(mirror) = mirror {
                    mirror.end(Arc::new(TurnOutcome::refused(error.clone())));
                }
                return Err(told(error));
            }
            let turn = session.start(prompt);
            let ended = Ended { cancel: &mut invocation.cancel, stopped: &stopped };
            follow(&turn, &sender, mirror, ended).await
        })
    }
}
