//! Events and verdict of a record, read again from the recorded output, on a thread where reading may block.
//!
//! The verdict is made again, by the same rules and from the same evidence as in the live turn. Ends that the harness knew
//! without an attempt are taken from the record: a turn that was aborted in the queue, or a program that is missing. A record
//! without an end is unfinished: it shows the state at the last flush, and is never called a success.

use super::file::tail_of;
use super::{Replay, feed};
use crate::harness::event::AgentEvent;
use crate::harness::event::excerpt::Excerpt;
use crate::harness::evidence::digest::Digest;
use crate::harness::provider::Provider;
use crate::harness::spending::Pricing;
use crate::harness::turn::record::Judged;
use crate::harness::turn::structured::{Candidates, misfit, read_answer};
use crate::harness::verdict::result::{TurnFacts, TurnResult};
use crate::harness::verdict::tally::Tally;
use crate::harness::verdict::transcript::Transcript;
use crate::harness::verdict::{Ending, Evidence, Fault, verdict};
use crate::model::Schema;
use ground::error::{Error, ErrorCode};
use ground::os::open_regular;
use ground::record::{Unfinished, read_json};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// A record, read again.
pub struct RecordReplay {
    /// `run.json` and `end.json` as they are.
    pub start: Value,
    pub end: Option<Value>,
    /// The reason why there is no end.
    pub unfinished: Option<Unfinished>,
    /// `None` for a run of any program: its end says all.
    pub turn: Option<Replay>,
}

/// Reads the folder of a run, of a turn, or of one attempt of it.
///
/// # Errors
/// `INVALID_OPTION` for what is no record.
pub async fn replay_folder(folder: PathBuf) -> Result<RecordReplay, Error> {
    let read = ground::os::blocking(move || replay_record(&folder)).await;
    read.unwrap_or_else(|error| {
        Err(Error::new(ErrorCode::ProcessSpawnFailed, format!("the record could not be read: {error}")))
    })
}

fn replay_record(folder: &Path) -> Result<RecordReplay, Error> {
    let start = read_json(folder, "run.json").ok_or_else(|| no_record(folder))?;
    let end = read_json(folder, "end.json");
    let unfinished = end.is_none().then(|| Unfinished::of(&start));
    let turn = match start["kind"].as_str() {
        Some("turn") => Some(replay_turn(folder, &start, end.as_ref())?),
        Some("attempt") => {
            let (provider, number) = (provider_of(&start)?, start["attempt"].as_u64().unwrap_or(1));
            let turn =
                folder.parent().and_then(Path::parent).map(judgements).transpose()?.unwrap_or_default();
            let judged = judged_of(&turn, number, &Value::Null);
            let mut read = Attempts::default();
            read.add(provider, folder, judged)?;
            Some(judge(provider, read, None, unfinished))
        }
        _ => None,
    };
    Ok(RecordReplay { start, end, unfinished, turn })
}

/// The reason why a record has no end, by the host that its `run.json` names.
pub fn unfinished_by(host: &str) -> Unfinished {
    Unfinished::by_host(Some(host))
}

fn no_record(folder: &Path) -> Error {
    let is_above = || {
        std::fs::read_dir(folder)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join("run.json").is_file()))
    };
    let why = match folder.join("run.json").symlink_metadata() {
        Ok(_) => "its run.json cannot be read",
        Err(_) if is_above() => "it has no run.json: name one of the folders in it",
        Err(_) => "it has no run.json",
    };
    Error::invalid_option("folder", format!("{} is not a record: {why}", folder.display()))
}

fn provider_of(start: &Value) -> Result<Provider, Error> {
    Provider::parse(start["provider"].as_str().unwrap_or_default())
}

/// An attempt whose output was read again.
struct Attempt {
    transcript: Transcript,
    stderr: String,
    ending: Ending,
    judged: Judged,
}

impl Attempt {
    fn read(
        provider: Provider,
        folder: &Path,
        judged: Judged,
        events: &mut Excerpt,
    ) -> Result<Attempt, Error> {
        let end = read_json(folder, "end.json").unwrap_or_default();
        let ending = match (end["signal"].as_str(), end["exitCode"].as_i64()) {
            (Some(signal), _) => Ending::Signalled(signal.to_owned()),
            (None, Some(code)) => Ending::Exited(code as i32),
            (None, None) => Ending::Unknown,
        };
        let mut transcript = Transcript::new(provider, true, judged.before);
        let accounting = provider.descriptor().accounting;
        transcript.digest.usage.pricing = Pricing { prices: judged.prices, accounting };
        let unreadable = |error: std::io::Error| {
            Error::invalid_option("folder", format!("{} could not be read: {error}", folder.display()))
        };
        if let Some(stdout) = open(&folder.join("stdout")).map_err(unreadable)? {
            feed(&mut transcript, stdout, events).map_err(unreadable)?;
        }
        transcript.finish();
        events.extend(transcript.digest.take_events());
        let retry = judged.retry.iter();
        events.extend(retry.map(|message| AgentEvent::Retry { message: message.clone(), until: None }));
        let stderr = open(&folder.join("stderr")).and_then(|file| file.map_or(Ok(String::new()), tail_of));
        let stderr = stderr.map_err(unreadable)?;
        Ok(Attempt { transcript, stderr, ending, judged })
    }
}

/// A turn's attempts, one after the other. Of those that others followed nothing is kept but the events and the sums.
#[derive(Default)]
struct Attempts {
    events: Excerpt,
    tally: Tally,
    last: Option<Attempt>,
}

impl Attempts {
    fn add(&mut self, provider: Provider, folder: &Path, judged: Judged) -> Result<(), Error> {
        let attempt = Attempt::read(provider, folder, judged, &mut self.events)?;
        let digest = &attempt.transcript.digest;
        self.tally.count(&TurnFacts::of(provider, digest, false), digest.has_worked());
        if attempt.judged.is_uncounted {
            self.tally.uncount();
        }
        self.last = Some(attempt);
        Ok(())
    }
}

/// A file that is not there is one that nothing was printed to.
fn open(path: &Path) -> std::io::Result<Option<File>> {
    match open_regular(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(|(file, _)| Some(file)),
    }
}

/// The judgements with their attempts. A line that was cut off by a kill is skipped; a judgement of another form is an error,
/// because the turn would be judged without it.
fn judgements(folder: &Path) -> Result<Vec<(u64, Judged)>, Error> {
    let Ok(Some(file)) = open(&folder.join("events.jsonl")) else { return Ok(Vec::new()) };
    BufReader::new(file)
        .split(b'\n')
        .map_while(std::io::Result::ok)
        .filter(|line| memchr::memmem::find(line, b"\"judged\":").is_some())
        .filter_map(|line| ground::json::read_own(&line).ok())
        .filter_map(|line: Value| Some((line["attempt"].as_u64()?, line.get("judged")?.clone())))
        .map(|(attempt, judged)| match ground::json::typed(judged) {
            Ok(judged) => Ok((attempt, judged)),
            Err(error) => {
                let folder = folder.display();
                let problem =
                    format!("{folder} has a judgement of attempt {attempt} in another form: {error}");
                Err(Error::invalid_option("folder", problem))
            }
        })
        .collect()
}

fn judged_of(judgements: &[(u64, Judged)], number: u64, resume: &Value) -> Judged {
    let found = judgements.iter().find(|(attempt, _)| *attempt == number).map(|(_, judged)| judged.clone());
    found.unwrap_or_else(|| Judged {
        resume: resume.as_str().filter(|_| number == 1).map(str::to_owned),
        ..Judged::default()
    })
}

fn replay_turn(folder: &Path, start: &Value, end: Option<&Value>) -> Result<Replay, Error> {
    let provider = provider_of(start)?;
    let judgements = judgements(folder)?;
    let mut read = Attempts::default();
    for number in 1.. {
        let path: PathBuf = folder.join("attempts").join(number.to_string());
        if !path.join("run.json").is_file() {
            break;
        }
        let judged = judged_of(&judgements, number, &start["resume"]);
        read.add(provider, &path, judged)?;
    }
    let schema = match &start["schema"] {
        Value::Null => None,
        schema => Some(Schema::compile(schema.clone(), "schema")?),
    };
    let unfinished = end.is_none().then(|| Unfinished::of(start));
    let mut replay = judge(provider, read, schema.as_ref(), unfinished);
    // Times are not in the output: they are as they were told.
    let time = |name: &str| end.and_then(|end| end["result"][name].as_f64());
    let facts = &mut replay.result.facts;
    facts.duration_ms = time("durationMs").unwrap_or(facts.duration_ms);
    facts.queued_ms = time("queuedMs").unwrap_or(facts.queued_ms);
    if let Some(end) = end.filter(|end| end["isJudged"] == false) {
        replay.fault = fault_of(&end["error"]);
    }
    Ok(replay)
}

/// The fault as it was recorded.
fn fault_of(error: &Value) -> Option<Fault> {
    let name = error["code"].as_str()?;
    let code = ErrorCode::parse(name)?;
    Some(Fault::new(code, None, error["message"].as_str().unwrap_or_default()))
}

/// The last attempt's verdict, with what all of them came to.
fn judge(
    provider: Provider,
    read: Attempts,
    schema: Option<&Schema>,
    unfinished: Option<Unfinished>,
) -> Replay {
    let Attempts { events, tally, last } = read;
    let events = events.into_events();
    let Some(mut last) = last else {
        let fault = unfinished.map(unfinished_fault);
        return Replay { events, result: TurnResult::empty(provider), fault };
    };
    let mut verdict = verdict(&Evidence {
        provider,
        digest: &last.transcript.digest,
        ending: &last.ending,
        stop: last.judged.stop,
        stderr: &last.stderr,
        unanswered: None,
        resume: last.judged.resume.as_deref(),
        may_resume: last.judged.resume.is_some(),
    });
    let mut structured = None;
    if let Some(schema) = schema
        && verdict.fault.as_ref().is_none_or(|fault| fault.is_misshapen)
    {
        (structured, verdict.fault) = read_structured(provider, schema, &last, &last.transcript.digest);
    }
    if let (Some(why), None) = (unfinished, &verdict.fault) {
        verdict.fault = Some(unfinished_fault(why));
    }
    let mut result = TurnResult::of(provider, &mut last.transcript.digest, verdict.recovered);
    result.facts.structured = structured.or(result.facts.structured);
    tally.fill(&mut result.facts);
    Replay { events, result, fault: verdict.fault }
}

fn read_structured(
    provider: Provider,
    schema: &Schema,
    last: &Attempt,
    digest: &Digest,
) -> (Option<Value>, Option<Fault>) {
    let candidates = Candidates {
        given: digest.answer.structured.as_ref(),
        file: last.judged.answer.as_deref(),
        text: digest.final_text(),
    };
    match read_answer(schema, &candidates) {
        Ok(value) => (Some(value), None),
        Err(problems) => (None, Some(misfit(provider, problems).into())),
    }
}

/// The fault of a record without an end: its host is gone, or has not ended it yet.
fn unfinished_fault(why: Unfinished) -> Fault {
    let message = match why {
        Unfinished::Running => "the turn is still running: its record has no end yet",
        Unfinished::HostGone => {
            "the host ended before the turn did: this is what was known until then; `resume` continues it"
        }
        Unfinished::Elsewhere => {
            "the record has no end, and its host ran on another machine, boot or container"
        }
    };
    Fault::new(ErrorCode::AgentTruncated, None, message)
}
