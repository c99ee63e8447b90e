//! One request from its directories to its outcome: the stages in order. A cancel ends each of them.

use super::download::download;
use super::handler::{
    AgentData, AgentFault, AgentHandler, AgentInvocation, AgentSender, CancelReason, CancelSignal, Decided,
};
use super::kept_session::KeptSession;
use super::outbox::{Outbox, Ticket};
use super::wire::client_message::{CommandExecution, CommandSpec, Downloadable, Invocation};
use super::wire::frame::Body;
use super::wire::json::JsonText;
use super::wire::runtime_message::{CommandResult, ResultData};
use super::wire::{json, reply};
use ground::error::Error;
use ground::mpsc;
use ground::redaction::Redactor;
use process::EnvironmentBase;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use wires::http::HttpClient;
use wires::watch::TreeWatch;

/// Error text by which clients recognise a cancelled request.
pub const CANCELLED: &str = "Request cancelled";

/// The data that all stages of a request need.
pub struct RequestContext {
    pub outbox: Arc<Outbox>,
    pub ticket: Ticket,
    pub cancel: CancelSignal,
    pub redactor: Redactor,
    pub http: HttpClient,
    pub handler: Arc<dyn AgentHandler>,
    pub environment: EnvironmentBase,
    pub decided: mpsc::Sender<Decided>,
    pub kept: KeptSession,
    /// Directories to register before anything runs: number, path, rules.
    pub new_roots: Vec<NewRoot>,
    pub watch: Option<TreeWatch>,
}

/// A directory that the session does not watch yet.
pub struct NewRoot {
    pub number: usize,
    pub directory: String,
    pub ignore: Option<String>,
}

pub enum RequestKind {
    Invocation(Box<Invocation>),
    CommandExecution(Box<CommandExecution>),
}

/// The reason why a request has no result.
pub(super) enum NoResult {
    Cancelled,
    Failed { error: String, metadata: Map<String, Value> },
    NoRoot { number: usize, error: String },
}

impl From<String> for NoResult {
    fn from(error: String) -> Self {
        NoResult::Failed { error, metadata: Map::new() }
    }
}

impl From<Error> for NoResult {
    fn from(error: Error) -> Self {
        let mut metadata = Map::new();
        metadata.insert("code".to_owned(), error.code().as_str().into());
        NoResult::Failed { error: error.message().to_owned(), metadata }
    }
}

/// Runs the request; its outcome goes to the session, unless the handler reported one of its own before.
pub async fn run_request(context: RequestContext, kind: RequestKind) {
    let outcome = match kind {
        RequestKind::Invocation(invocation) => context.invoke(*invocation).await,
        RequestKind::CommandExecution(execution) => context.execute(*execution).await,
    };
    let mut failed_root = None;
    let terminal = match outcome {
        Ok(terminal) => terminal,
        Err(NoResult::Cancelled) => context.cancelled(),
        Err(NoResult::NoRoot { number, error }) => {
            failed_root = Some(number);
            reply::error(&context.redactor.redact(&error), Map::new())
        }
        Err(NoResult::Failed { error, mut metadata }) => {
            context.redactor.redact_fields(&mut metadata);
            reply::error(&context.redactor.redact(&error), metadata)
        }
    };
    if context.outbox.decide(context.ticket.number) {
        // Sending fails when the session is over, and then no terminal message is needed.
        let _ = context.decided.send(Decided { ticket: context.ticket, terminal, failed_root }).await;
    }
}

impl RequestContext {
    fn cancelled(&self) -> Body {
        let mut metadata = Map::new();
        match self.cancel.reason() {
            Some(CancelReason::SessionEnded) => {
                metadata.insert("reason".to_owned(), "the session was ended".into());
            }
            Some(CancelReason::ServerClosing) => {
                metadata.insert("reason".to_owned(), "the server is closing".into());
            }
            _ => {}
        }
        reply::error(CANCELLED, metadata)
    }

    async fn execute(&self, execution: CommandExecution) -> Result<Body, NoResult> {
        self.register_roots().await?;
        self.download_all(&execution.downloads).await?;
        let mut results: Vec<CommandResult> = Vec::new();
        for command in &execution.commands {
            let result = self.command(command).await?;
            let failed = result.exit_code != 0;
            results.push(result);
            reply::bound(&mut results);
            if failed {
                break;
            }
        }
        Ok(reply::command_results(&results))
    }

    async fn invoke(&self, invocation: Invocation) -> Result<Body, NoResult> {
        self.register_roots().await?;
        self.download_all(&invocation.downloads).await?;
        self.commands("pre-agent", &invocation.pre_commands).await?;
        let output_format = match &invocation.output_format {
            None => None,
            Some(text) => Some(
                json::read::<Value>(text)
                    .map_err(|error| format!("output_format_json_schema_str is not valid JSON: {error}"))?,
            ),
        };
        let post_commands = invocation.post_commands.clone();
        let answer = self.agent(invocation, output_format).await?;
        self.commands("post-agent", &post_commands).await?;
        Ok(answer)
    }

    /// Waits for a stage, or for a cancel. That is looked at first: an answer that the cancel caused does not count.
    async fn or_cancelled<T>(&self, stage: impl Future<Output = T>) -> Result<T, NoResult> {
        let mut cancel = self.cancel.clone();
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NoResult::Cancelled),
            done = stage => Ok(done),
        }
    }

    async fn register_roots(&self) -> Result<(), NoResult> {
        let Some(watch) = &self.watch else { return Ok(()) };
        for root in &self.new_roots {
            let adding = watch.add_root(root.number, PathBuf::from(&root.directory), root.ignore.clone());
            // A directory on a file system that hangs delays only this request.
            self.or_cancelled(adding).await?.map_err(|error| NoResult::NoRoot {
                number: root.number,
                error: format!("artifacts directory {:?}: {error}", root.directory),
            })?;
        }
        Ok(())
    }

    async fn download_all(&self, downloads: &[Downloadable]) -> Result<(), NoResult> {
        for wanted in downloads {
            self.or_cancelled(download(&self.http, wanted)).await??;
        }
        Ok(())
    }

    async fn commands(&self, stage: &str, commands: &[CommandSpec]) -> Result<(), NoResult> {
        for command in commands {
            let result = self.command(command).await?;
            if result.exit_code != 0 {
                let mut metadata = Map::new();
                metadata.insert("command".to_owned(), result.command.into());
                metadata.insert("exit_code".to_owned(), result.exit_code.into());
                let error = format!("{stage} command failed with exit code: {}", result.exit_code);
                return Err(NoResult::Failed { error, metadata });
            }
        }
        Ok(())
    }

    async fn agent(&self, invocation: Invocation, output_format: Option<Value>) -> Result<Body, NoResult> {
        let sender = AgentSender {
            outbox: self.outbox.clone(),
            ticket: self.ticket.clone(),
            redactor: self.redactor.clone(),
            decided: self.decided.clone(),
        };
        let asked = AgentInvocation {
            request_id: self.ticket.request_id.clone(),
            source_id: invocation.source_id,
            system_prompt: invocation.system_prompt,
            user_prompt: invocation.user_prompt,
            model: invocation.model,
            env: invocation.agent_env,
            secrets: invocation.secrets,
            output_format,
            cancel: self.cancel.clone(),
            kept: self.kept.clone(),
        };
        if self.cancel.reason().is_some() {
            return Err(NoResult::Cancelled);
        }
        // The handler gets a task of its own, so that a handler that is slow to stop does not delay the session.
        let running = ground::task::spawn(self.handler.run(asked, sender));
        match self.or_cancelled(running).await? {
            Ok(Ok(mut answer)) => {
                self.redactor.redact_fields(&mut answer.metadata);
                let data = match answer.data {
                    AgentData::Text(text) => ResultData::Text { text: self.redactor.redact(&text) },
                    AgentData::Structured(mut value) => {
                        self.redactor.redact_json(&mut value);
                        ResultData::StructuredOutput { structured_output: JsonText::of(&value) }
                    }
                };
                Ok(reply::result(data, answer.metadata))
            }
            Ok(Err(AgentFault { error, metadata })) => Err(NoResult::Failed { error, metadata }),
            Err(_) => Err("the agent's handler ended without an answer".to_owned().into()),
        }
    }
}
