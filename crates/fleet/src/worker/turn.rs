//! A job that is a turn of an agent. Its events go to the log as they come; its session and its tool calls are written to the
//! record before those events. The agent's session files are stored along the way (`session`).

use super::job_run::JobRun;
use super::session;
use crate::fault::JobFault;
use agents::harness::observer::{OnTurn, show_request};
use agents::harness::{AgentEvent, ConcurrencyLimit, TurnOutcome, TurnRequest, Usage};
use agents::start;
use ground::redaction::Redactor;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The CLI writes its session a moment after it tells of it.
const SESSION_DELAY: Duration = Duration::from_millis(300);
/// Storing the session takes one part in so many of the time.
const SESSION_SHARE: u32 = 20;
const MIN_SESSION_PAUSE: Duration = Duration::from_secs(1);

/// The progress of a turn, which decides when its session's files are stored.
#[derive(Clone, Debug, Default)]
struct Progress {
    session: Option<String>,
    /// Tools that have begun or ended.
    steps: u64,
}

fn has_grown(usage: Usage, known: Usage) -> bool {
    usage.tokens() > known.tokens() || usage.cost_usd > known.cost_usd
}

/// Runs the job as this turn: under its id, in the session it has to go on in. Ends when the agent's tree is gone. It is
/// shown to `on_turn`.
pub async fn run_turn(
    run: JobRun,
    mut request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
    on_turn: Option<&OnTurn>,
) -> Result<Value, JobFault> {
    let mut mirror = None;
    if let Some(on_turn) = on_turn {
        mirror = Some(show_request(on_turn, &mut request, &Redactor::default()).await);
    }
    let (in_passing, untold) = watch::channel(Usage::default());
    request.in_passing = Some(Arc::new(in_passing));
    as_job(&run, &mut request)?;
    bring_session(&run, &request).await?;
    let turn = start(request.clone(), limits);
    let mut events = turn.events();
    let mut notes = Notes::new(&run);
    let progress = notes.progress.subscribe();
    let tell = async {
        while let Some(some) = events.next().await {
            if let Some(mirror) = &mut mirror {
                mirror.hear(&some).await;
            }
            for event in &some {
                notes.note(event).await;
                let Ok(line) = serde_json::to_string(event) else { continue };
                if run.emit(line).await.is_err() {
                    // The log is closed: we are fenced, and are about to be stopped.
                    return;
                }
            }
            // Some agents tell a sum at their end only. It comes by an event, which may follow later.
            let untold = *untold.borrow();
            notes.note_usage(untold).await;
        }
    };
    tokio::select! {
        () = tell => {}
        () = follow_session(&run, &request, progress.clone()) => {}
        _ = run.stop.stopped() => {
            turn.leave();
            turn.abort();
        }
    }
    let outcome = turn.outcome().await;
    if let Some(mirror) = mirror {
        mirror.end(outcome.clone());
    }
    let session = progress.borrow().session.clone();
    if let Some(session) = session {
        // A session that can't travel is no reason to lose what its turn came to.
        if let Err(error) = keep_session(&run, &request, &session, true).await {
            warn(&run, error.message()).await;
        }
    }
    settled(&run, &outcome).await
}

/// Gives the turn the job's own variables and budget, and the session that it has to go on in.
fn as_job(run: &JobRun, request: &mut TurnRequest) -> Result<(), JobFault> {
    let changes = &mut request.agent.environment.changes;
    changes.push(("SHEEPDOG_JOB_ID".to_owned(), Some(run.id.to_string())));
    changes.push(("SHEEPDOG_ATTEMPT".to_owned(), Some(run.attempt.to_string())));
    request.has_listener = true;
    request.retry_after_tools = run.spec.after_tools;
    if let Some(session) = &run.past.resume {
        request.prompt = resumed_prompt(&request.prompt, run.lacks_files(), run.spec.git.is_some());
        request.agent.resume = Some(session.clone());
    }
    if let Some(cwd) = &request.agent.cwd {
        // Artifacts are looked for where the agent works.
        let _ = run.files.folder.set(cwd.clone());
    }
    request.agent.deduct(&run.past.budgeted).map_err(|error| JobFault::from(&error))
}

/// Writes into the record what the events of a turn tell the next attempt.
struct Notes<'a> {
    run: &'a JobRun,
    progress: watch::Sender<Progress>,
    have_tools_run: bool,
    used: Usage,
    /// The usage that the record has.
    noted: Usage,
}

impl Notes<'_> {
    fn new(run: &JobRun) -> Notes<'_> {
        let progress = watch::Sender::new(Progress::default());
        Notes { run, progress, have_tools_run: false, used: Usage::default(), noted: Usage::default() }
    }

    async fn note(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::Session { session_id } if self.progress.borrow().session.is_none() => {
                self.run.note(Some(session_id.clone()), false).await;
                self.progress.send_modify(|progress| progress.session = Some(session_id.clone()));
            }
            AgentEvent::ToolStart { .. } => {
                if !self.have_tools_run {
                    self.have_tools_run = true;
                    self.run.note(None, true).await;
                }
                self.progress.send_modify(|progress| progress.steps += 1);
            }
            AgentEvent::Usage(some) => {
                // Now, because a worker that is killed tells nothing more.
                self.used = self.used.plus(*some);
                self.note_usage(Usage::default()).await;
            }
            AgentEvent::ToolEnd { .. } => self.progress.send_modify(|progress| progress.steps += 1),
            _ => {}
        }
    }

    /// `untold`: usage that no event has told of.
    async fn note_usage(&mut self, untold: Usage) {
        let sum = self.used.plus(untold);
        if has_grown(sum, self.noted) {
            self.noted = sum;
            self.run.note_usage(sum).await;
        }
    }
}

/// The result of the job by the turn's outcome.
async fn settled(run: &JobRun, outcome: &TurnOutcome) -> Result<Value, JobFault> {
    let told = match outcome {
        TurnOutcome::Succeeded(result) => result.usage,
        TurnOutcome::Failed { partial, .. } => partial.as_ref().and_then(|result| result.usage),
    };
    if let Some(used) = told {
        run.note_usage(used).await;
    }
    match outcome {
        TurnOutcome::Succeeded(result) => Ok(plain(json!(result))),
        TurnOutcome::Failed { error, partial } => {
            let mut fault = JobFault::from(error);
            // They are in the log.
            fault.facts.remove("events");
            if let Some(result) = partial {
                fault.facts.insert("result".to_owned(), plain(json!(result)));
            }
            Err(fault)
        }
    }
}

/// The prompt of a turn that resumes a session: the session may remember files that are not here.
fn resumed_prompt(task: &str, lacks_files: bool, is_checkout: bool) -> String {
    let files = match (lacks_files, is_checkout) {
        (false, _) => "",
        (true, true) => {
            " It goes on in a fresh checkout on another machine: files that you wrote and commits that you made before are gone, unless you pushed them."
        }
        (true, false) => {
            " It may go on on another machine: files that you wrote before may be gone, so check that they are there."
        }
    };
    format!(
        "This task was interrupted and goes on here.{files} Look at what is done already, then finish it. The task was:\n\n{task}"
    )
}

/// The files of the session that the turn resumes, where they are not here already.
async fn bring_session(run: &JobRun, request: &TurnRequest) -> Result<(), JobFault> {
    let Some(session) = &request.agent.resume else { return Ok(()) };
    let object = run.past.resume.as_ref().and(run.past.session_object.as_deref());
    match session::bring(&run.engine, request, session, object).await {
        Ok(false) => Ok(()),
        Ok(true) => {
            let event = json!({ "type": "session_brought", "sessionId": session });
            run.emit(event.to_string()).await.map_err(|error| JobFault::from(&error))
        }
        // The machine may have it all the same: the CLI says so.
        Err(error) => {
            warn(run, error.message()).await;
            Ok(())
        }
    }
}

/// Stores the session's files a little behind each tool: from the first one on another worker could not do without them.
async fn follow_session(run: &JobRun, request: &TurnRequest, mut progress: watch::Receiver<Progress>) {
    let mut stored = 0;
    loop {
        let seen = progress.wait_for(|progress| progress.session.is_some() && progress.steps > stored).await;
        let Ok(Progress { session: Some(session), steps }) = seen.map(|seen| seen.clone()) else {
            return std::future::pending().await;
        };
        tokio::time::sleep(SESSION_DELAY).await;
        let begun = Instant::now();
        stored = steps;
        // An error is ignored here: the store at the end of the turn fails as well, and reports it.
        let _ = keep_session(run, request, &session, false).await;
        tokio::time::sleep((begun.elapsed() * SESSION_SHARE).max(MIN_SESSION_PAUSE)).await;
    }
}

async fn keep_session(
    run: &JobRun,
    request: &TurnRequest,
    session: &str,
    is_over: bool,
) -> Result<(), ground::error::Error> {
    let Some(packed) = session::pack(request, session, is_over).await? else { return Ok(()) };
    run.keep_session(packed).await?;
    if is_over {
        session::tell(&run.engine, request.agent.provider.as_str(), session, &run.id).await;
    }
    Ok(())
}

async fn warn(run: &JobRun, message: &str) {
    let event = json!({ "type": "warning", "message": message });
    // It fails if the log is closed; then there is no reader for it.
    let _ = run.emit(event.to_string()).await;
}

/// Removes the process's output from the result: it is megabytes, and the events are in the log.
fn plain(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.remove("process");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_that_its_files_are_gone() {
        assert!(!resumed_prompt("do it", false, true).contains("gone"));
        assert!(resumed_prompt("do it", true, true).contains("commits that you made before are gone"));
        assert!(resumed_prompt("do it", true, false).contains("may be gone"));
        for prompt in [resumed_prompt("do it", true, true), resumed_prompt("do it", false, false)] {
            assert!(prompt.ends_with("The task was:\n\ndo it"), "{prompt}");
        }
    }
}
