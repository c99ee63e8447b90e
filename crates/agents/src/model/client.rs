//! Calls a model: makes attempts one after another, each with its timeouts, until one succeeds or no attempt is left.

use super::body::{BodyReader, Progress};
use super::completion::Completion;
use super::failure::{Failure, aborted, passed};
use super::request::{CompletionRequest, correction};
use super::schema::Schema;
use bytes::Bytes;
use ground::error::Error;
use ground::lock::lock;
use ground::random;
use ground::redaction::Redactor;
use ground::tokens::Tokens;
use serde_json::Value;
use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;
use wires::http::{Body, HttpClient, HttpOptions, Proxies, Request, Response, check_url};

/// How long to wait for the usage after the answer is complete.
const USAGE_GRACE: Duration = Duration::from_secs(2);
/// How long to read on after a stream announced its end, so that its connection can be used again.
const END_GRACE: Duration = Duration::from_millis(100);

/// The HTTP client whose connections all calls share. When the proxies of the calling environment change, it is another one.
pub fn shared_client(proxies: Proxies) -> HttpClient {
    static CLIENT: Mutex<Option<(Proxies, HttpClient)>> = Mutex::new(None);
    let mut shared = lock(&CLIENT);
    match &*shared {
        Some((known, client)) if *known == proxies => client.clone(),
        _ => {
            let client = HttpClient::new(HttpOptions { proxies: proxies.clone(), ..HttpOptions::default() });
            shared.insert((proxies, client)).1.clone()
        }
    }
}

/// Requests a completion. Ends early, with the connection closed, when `abort` resolves. Each attempt after the first opens a
/// connection of its own. Errors: see [`Failure::verdict`], `MODEL_ABORTED`, and `INVALID_OPTION` before any request.
pub async fn complete(
    client: &HttpClient,
    request: CompletionRequest,
    abort: impl Future<Output = ()>,
) -> Result<Completion, Error> {
    let http = http_request(&request)?;
    let redactor = Redactor::new(request.secrets());
    tokio::pin!(abort);
    tokio::select! {
        biased;
        () = &mut abort => return Err(aborted(0)),
        () = std::future::ready(()) => {}
    }
    let mut attempts = 0;
    let mut usage: Option<Tokens> = None;
    let mut asked = body(&request, &[]);
    loop {
        attempts += 1;
        let http = Request { body: Body::Bytes(asked.clone()), ..http.clone() };
        let pool = if attempts == 1 { client.clone() } else { client.fresh() };
        let deadline = request.timeout.map(|limit| (Instant::now() + limit, limit));
        let failure = tokio::select! {
            biased;
            () = &mut abort => return Err(aborted(attempts)),
            ended = attempt(&pool, http, deadline, &request, attempts) => match ended {
                Ok(completion) => {
                    let usage = usage.into_iter().chain(completion.usage).reduce(Tokens::plus);
                    return Ok(Completion { attempts, usage, ..completion });
                }
                Err(failure) => failure,
            },
        };
        if let Failure::Misfit { problems, text, usage: used, .. } = &failure {
            usage = usage.into_iter().chain(*used).reduce(Tokens::plus);
            // After several misfitting answers, the model is asked to correct the last one.
            asked = body(&request, &correction(text, problems));
        }
        let (_, verdict) = failure.verdict();
        if verdict.status.is_none() {
            // No answer came over the connection, so it may be dead. Later calls must not reuse it.
            client.renew();
        }
        let wait = request.retry.wait(attempts, verdict.retry_after, random::fraction());
        let Some(wait) = wait.filter(|_| verdict.retryable && attempts < request.retry.attempts) else {
            return Err(failure.into_error(&request.origin(), attempts, &redactor));
        };
        tokio::select! {
            biased;
            () = &mut abort => return Err(aborted(attempts)),
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// The request of every attempt, without its body; or the error of an option.
fn http_request(request: &CompletionRequest) -> Result<Request, Error> {
    let url = request.url()?;
    check_url(&request.base_url).map_err(|error| Error::invalid_option("baseUrl", error))?;
    let headers = request.all_headers()?;
    for (path, limit) in [("timeoutMs", request.timeout), ("idleTimeoutMs", request.idle_timeout)] {
        if limit == Some(Duration::ZERO) {
            return Err(passed(path));
        }
    }
    Ok(Request {
        headers,
        // The attempt's own timeout applies instead.
        response_timeout: None,
        idle_timeout: request.idle_timeout,
        ..Request::new("POST", url)
    })
}

fn body(request: &CompletionRequest, correction: &[Value]) -> Bytes {
    Bytes::from(request.body(correction).to_string())
}

/// The end of an attempt, and how long after its start that is.
type Deadline = Option<(Instant, Duration)>;

async fn attempt(
    client: &HttpClient,
    http: Request,
    deadline: Deadline,
    request: &CompletionRequest,
    number: u32,
) -> Result<Completion, Failure> {
    let ask = async { client.send(http).await?.success().await };
    let mut response = match deadline {
        None => ask.await?,
        Some((at, limit)) => {
            tokio::time::timeout_at(at, ask).await.map_err(|_| Failure::TimedOut { after: limit })??
        }
    };
    let mut reader = BodyReader::new();
    let mut told = 0;
    let mut tell = |text: &str| {
        if let (Some(listener), true) = (&request.listener, text.len() > told) {
            listener(number, &text[told..]);
            told = text.len();
        }
    };
    read(&mut response, &mut reader, deadline, &mut tell).await?;
    let completion = reader.finish()?;
    tell(&completion.text);
    match request.schema.as_ref() {
        // An answer with tool calls is not the final one, so the schema does not apply to it yet.
        Some(schema) if completion.tool_calls.is_empty() => fit(completion, schema),
        _ => Ok(completion),
    }
}

async fn read(
    response: &mut Response,
    reader: &mut BodyReader,
    deadline: Deadline,
    tell: &mut impl FnMut(&str),
) -> Result<(), Failure> {
    let mut progress = Progress::Open;
    let mut until = deadline.map(|(at, _)| at);
    loop {
        let chunk = match until {
            None => Some(response.chunk().await),
            Some(until) => tokio::time::timeout_at(until, response.chunk()).await.ok(),
        };
        let reached = match (chunk, deadline) {
            (Some(Ok(Some(bytes))), _) => {
                let reached = reader.push(&bytes)?;
                tell(reader.text());
                reached
            }
            (Some(Ok(None)), _) => return Ok(()),
            // The answer is complete, so a failure of the connection does not matter.
            _ if progress != Progress::Open => return Ok(()),
            (Some(Err(error)), _) => return Err(error.into()),
            (None, deadline) => {
                let after = deadline.map_or(Duration::ZERO, |(_, limit)| limit);
                return Err(Failure::TimedOut { after });
            }
        };
        let grace = match reached {
            Progress::Open => None,
            Progress::Answered => Some(USAGE_GRACE),
            Progress::Done => Some(END_GRACE),
        };
        // Comments that keep the connection alive do not prolong the wait.
        if let Some(grace) = grace.filter(|_| reached != progress) {
            let end = Instant::now() + grace;
            until = Some(until.map_or(end, |until| until.min(end)));
        }
        progress = reached;
    }
}

fn fit(completion: Completion, schema: &Schema) -> Result<Completion, Failure> {
    match schema.read(&completion.text) {
        Ok(value) => Ok(Completion { structured: Some(value), ..completion }),
        Err(problems) => Err(Failure::Misfit {
            problems,
            cut: completion.finish_reason == "length",
            text: completion.text,
            usage: completion.usage,
        }),
    }
}
