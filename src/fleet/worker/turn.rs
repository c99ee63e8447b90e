//! A job that is a turn of an agent: its events go to the log as they come, and the record learns of its session and its tools
//! before the events do.

use super::JobRun;
use super::attempt::fault_of;
use crate::fleet::record::JobFault;
use crate::harness::{AgentEvent, ConcurrencyLimit, TurnOutcome, TurnRequest, start};
use serde_json::{Value, json};

/// Runs the job as this turn: under its id, in the session it has to go on in. Ends when the agent's tree is gone.
pub async fn run_turn(
    run: JobRun,
    mut request: TurnRequest,
    limits: Vec<ConcurrencyLimit>,
) -> Result<Value, JobFault> {
    let changes = &mut request.agent.environment.changes;
    changes.push(("SHEEPDOG_JOB_ID".to_owned(), Some(run.id.to_string())));
    changes.push(("SHEEPDOG_ATTEMPT".to_owned(), Some(run.attempt.to_string())));
    request.has_listener = true;
    request.retry_after_tools = run.spec.after_tools;
    if let Some(session) = &run.resume {
        request.prompt = format!(
            "This task was interrupted and goes on here. Look at what is done already, then finish it. The task was:\n\n{}",
            request.prompt
        );
        request.agent.resume = Some(session.clone());
    }
    let turn = start(request, limits);
    let mut events = turn.events();
    let tell = async {
        let (mut has_session, mut tools_ran) = (false, false);
        while let Some(some) = events.next().await {
            for event in &some {
                match event {
                    AgentEvent::Session { session_id } if !has_session => {
                        has_session = true;
                        run.note(Some(session_id.clone()), false).await;
                    }
                    AgentEvent::ToolStart { .. } if !tools_ran => {
                        tools_ran = true;
                        run.note(None, true).await;
                    }
                    _ => {}
                }
                let Ok(line) = serde_json::to_string(event) else { continue };
                if run.emit(line).await.is_err() {
                    // The log is closed: we are fenced, and are about to be stopped.
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = tell => {}
        () = run.stop.stopped() => {
            turn.leave();
            turn.abort();
        }
    }
    match &*turn.outcome().await {
        TurnOutcome::Succeeded(result) => Ok(plain(json!(result))),
        TurnOutcome::Failed { error, partial } => {
            let mut fault = fault_of(error);
            // They are in the log.
            fault.facts.remove("events");
            if let Some(result) = partial {
                fault.facts.insert("result".to_owned(), plain(json!(result)));
            }
            Err(fault)
        }
    }
}

/// Without what the process printed: that is megabytes, and the events are in the log.
fn plain(mut result: Value) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.remove("process");
    }
    result
}
