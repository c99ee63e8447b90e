//! A turn by a command: each attempt is a process of its own. They share the program, the run's folder and the hold on the session.

use super::Order;
use super::attempt::{Plan, attempt};
use super::audience::Audience;
use super::preparation::{prepare, program_of, take_answer_file};
use super::request::TurnRequest;
use super::structured::{Candidates, read_answer};
use super::way::{Attempted, Task, Way};
use crate::harness::agent_request::AgentRequest;
use crate::harness::folder::RunFolder;
use crate::harness::launch::package::Program;
use crate::harness::limit::ledger;
use crate::harness::session_in_use;
use ground::error::Error;
use ground::mpsc::UnboundedReceiver;
use ground::os::Claim;

pub(super) struct Command {
    program: Program,
    /// Made for the first attempt.
    folder: Option<RunFolder>,
    /// The hold on the session that is resumed, until the turn is over.
    claim: Option<Claim>,
    /// A warning for the first attempt: another turn has the session.
    in_use: Option<String>,
}

impl Command {
    /// Makes what all attempts share.
    async fn begin(&mut self, agent: &AgentRequest) -> Result<RunFolder, Error> {
        let folder = agent.run_folder().await?;
        if let Some(session) = &agent.resume {
            self.claim = session_in_use::claim(agent.provider, session);
            self.in_use = self.claim.is_none().then(|| session_in_use::warning(session));
        }
        Ok(folder)
    }
}

impl Way for Command {
    const IS_RECORDED: bool = true;

    fn check(request: &TurnRequest) -> Result<(), Error> {
        request.check()
    }

    fn to(agent: &AgentRequest) -> Result<Command, Error> {
        Ok(Command { program: program_of(agent)?, folder: None, claim: None, in_use: None })
    }

    async fn attempt(
        &mut self,
        task: &Task<'_>,
        orders: &mut UnboundedReceiver<Order>,
        audience: &mut Audience,
    ) -> Result<Attempted, Error> {
        let Task { request, again, .. } = *task;
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => self.begin(&request.agent).await?,
        };
        let folder = self.folder.insert(folder);
        let mut launch = prepare(request, folder, again).await?;
        launch.warnings.extend(self.in_use.take());
        let resume = again.session().or(request.agent.resume.as_deref());
        let plan = Plan {
            task,
            launch: &launch,
            program: &self.program,
            folder,
            resume,
            before: ledger::used_before(&request.agent, resume).await,
            record: audience.record.as_mut().map(|record| record.next_attempt(request.agent.provider)),
        };
        let mut attempted = attempt(&plan, orders, audience).await;
        let file = take_answer_file(folder).await;
        if let Some(schema) = &request.schema
            && attempted.error.is_none()
            && attempted.fault.as_ref().is_none_or(|fault| fault.is_misshapen)
        {
            let given = attempted.result.facts.structured.as_ref();
            let candidates = Candidates { given, file: file.as_deref(), text: &attempted.result.text };
            attempted.reading = Some(read_answer(schema, &candidates));
        }
        attempted.judged.answer = file;
        Ok(attempted)
    }

    async fn end(self) {
        if let Some(folder) = self.folder {
            folder.remove().await;
        }
    }
}
