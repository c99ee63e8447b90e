//! A host for tests: it counts its runs, and lets a job end when it is told to.

use super::engine::Shared;
use super::engine::test_server::PATIENCE;
use super::fault::JobFault;
use super::filter::Filter;
use super::listed::Listed;
use super::listing::JobList;
use super::record::JobRecord;
use super::spec::JobSpec;
use super::worker::{JobFuture, JobHost, JobRun, StopCause};
use ground::error::Error;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Ends with a text as long as the job's data says, once it is let go or its job is cancelled.
pub(super) struct Texts {
    /// The only handler that it has; `None`: it runs every job.
    handler: Option<&'static str>,
    /// Number of times that a job was offered to it.
    offers: AtomicUsize,
    runs: AtomicUsize,
    /// A run was told that its worker closes.
    is_closing: watch::Sender<bool>,
    pub(super) go: watch::Sender<bool>,
}

impl Texts {
    pub(super) fn new(is_open: bool) -> Arc<Texts> {
        Arc::new(Texts {
            handler: None,
            offers: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
            is_closing: watch::Sender::new(false),
            go: watch::Sender::new(is_open),
        })
    }

    pub(super) fn named(handler: &'static str) -> Arc<Texts> {
        let go = watch::Sender::new(true);
        let is_closing = watch::Sender::new(false);
        Arc::new(Texts {
            handler: Some(handler),
            offers: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
            is_closing,
            go,
        })
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(super) async fn until_offered(&self, count: usize) {
        let offered = async {
            while self.offers.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, offered).await.unwrap();
    }

    pub(super) async fn until_begun(&self) {
        let begun = async {
            while self.runs() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.unwrap();
    }
}

impl Texts {
    pub(super) async fn until_closing(&self) {
        let mut is_closing = self.is_closing.subscribe();
        let told = is_closing.wait_for(|is_closing| *is_closing);
        drop(tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap());
    }
}

impl JobHost for Texts {
    fn accepts(&self, spec: &JobSpec) -> bool {
        self.offers.fetch_add(1, Ordering::SeqCst);
        self.handler.is_none_or(|own| spec.handler.as_deref() == Some(own))
    }

    fn handlers(&self) -> Vec<String> {
        vec![self.handler.unwrap_or("text").to_owned()]
    }

    fn run(&self, run: JobRun) -> JobFuture {
        self.runs.fetch_add(1, Ordering::SeqCst);
        let (mut go, is_closing) = (self.go.subscribe(), self.is_closing.clone());
        Box::pin(async move {
            let _ = run.emit("{\"type\":\"begun\"}".to_owned()).await;
            let cancelled = async {
                let cause = run.stop.stopped().await;
                if cause != StopCause::Cancelled {
                    is_closing.send_replace(cause == StopCause::Closing);
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                _ = go.wait_for(|go| *go) => {}
                () = cancelled => {}
            }
            let data = run.spec.data.clone().unwrap_or_default();
            let length = data.as_u64().unwrap_or(0);
            if data == "fails at length" {
                let mut fault = JobFault::new("E_NO", "n".repeat(9 << 20));
                fault.facts.insert("output".to_owned(), "o".repeat(9 << 20).into());
                return Err(fault);
            }
            if data == "fails" {
                return Err(JobFault::new("E_NO", "no"));
            }
            Ok(Some(Value::from("x".repeat(usize::try_from(length).unwrap()))))
        })
    }
}

/// Lets this much time pass at once for the timers of the test's runtime. A request whose answer is awaited meanwhile counts as
/// unanswered, and is repeated.
pub(super) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

pub(super) async fn submit(engine: &Shared, spec: Value) -> Result<String, Error> {
    let mut whole = json!({ "handler": "text" });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    engine.submit(ground::json::typed(whole).unwrap()).await
}

pub(super) async fn settled(engine: &Shared, id: &str) -> JobRecord {
    tokio::time::timeout(PATIENCE, engine.settled(id)).await.expect("it ends").unwrap()
}

/// The jobs that fit the filter, as they are listed.
pub(super) async fn listed(
    engine: &Shared,
    filter: Filter,
    after: Option<&str>,
    limit: Option<usize>,
) -> Vec<Listed> {
    let mut list = JobList::open(engine, filter, after, limit).await.unwrap();
    let mut found = Vec::new();
    loop {
        let page = tokio::time::timeout(PATIENCE, list.next()).await.expect("a page").unwrap();
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

pub(super) async fn all_listed(engine: &Shared) -> Vec<Listed> {
    listed(engine, Filter::default(), None, None).await
}

/// Number of jobs that are not over.
pub(super) async fn unfinished(engine: &Shared) -> u64 {
    let queues = engine.queues(&BTreeSet::new(), 1).await.unwrap();
    queues.values().map(|queued| queued.count).sum()
}
