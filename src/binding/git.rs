//! Checkouts of agents, and the changes that agents left, for JavaScript. Names and order match lib/harness/checkout.ts.

use super::promise::{Promised, done, settle};
use git::{Changes, GitPlace, REMOVED, Repository, Worktree, WorktreeRequest};
use ground::error::{Error, ErrorCode};
use ground::json;
use ground::lock::lock;
use napi_derive::napi;
use serde_json::json;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A checkout to make, or a folder to watch.
#[napi(object, object_to_js = false)]
#[derive(Clone)]
pub struct CheckoutSpec {
    pub cwd: String,
    /// The agent works in the folder itself, and the changes in it are looked at.
    pub in_place: bool,
    pub base: Option<String>,
    pub include: Option<Vec<String>>,
    pub dir: Option<String>,
    pub name: Option<String>,
}

/// A checkout. Its files are removed by `leave`, or by the next checkout once this host is gone.
#[napi]
pub struct NativeCheckout {
    spec: CheckoutSpec,
    made: Arc<Mutex<Option<Arc<Worktree>>>>,
}

#[napi]
impl NativeCheckout {
    #[napi(constructor)]
    pub fn new(spec: CheckoutSpec) -> Self {
        NativeCheckout { spec, made: Arc::default() }
    }

    /// Makes the checkout. Resolves with its facts as JSON: `null` where a folder to watch is in no repository.
    #[napi]
    pub fn prepare(&self) -> Promised<String> {
        let (spec, made) = (self.spec.clone(), self.made.clone());
        settle(async move {
            let worktree = prepare(spec).await?;
            let facts = worktree.as_ref().map(|worktree| {
                json!({
                    "cwd": worktree.cwd(),
                    "top": worktree.top(),
                    "borrowed": worktree.borrowed(),
                    "removed": REMOVED,
                })
            });
            *lock(&made) = worktree.map(Arc::new);
            Ok::<_, Error>(json!(facts).to_string())
        })
    }

    /// Reads what the agent left: `{ changes, warnings }` as JSON. Nothing of the agent may live any more.
    #[napi]
    pub fn changes(&self) -> Promised<String> {
        let made = lock(&self.made).clone();
        settle(async move {
            let (changes, warnings) = made.ok_or_else(unprepared)?.changes().await?;
            Ok::<_, Error>(json!({ "changes": changes, "warnings": warnings }).to_string())
        })
    }

    /// Removes the files alone: the checkout is listed until `leave`, and its changes are removed if this host is killed before.
    #[napi]
    pub fn clear(&self) -> Promised<bool> {
        let made = lock(&self.made).clone();
        done(async move {
            if let Some(worktree) = made {
                worktree.clear().await;
            }
            true
        })
    }

    /// Removes the checkout, or keeps it. Resolves with the folder where it was kept, as JSON.
    #[napi]
    pub fn leave(&self, keeps: bool) -> Promised<String> {
        let made = lock(&self.made).take();
        done(async move {
            let kept = match made {
                Some(worktree) => worktree.leave(keeps).await,
                None => None,
            };
            json!(kept).to_string()
        })
    }
}

fn unprepared() -> Error {
    Error::new(ErrorCode::WorktreeFailed, "the checkout was not made").with("step", "changes")
}

async fn prepare(spec: CheckoutSpec) -> Result<Option<Worktree>, Error> {
    let place = GitPlace::of_user();
    let CheckoutSpec { cwd, in_place, base, include, dir, name } = spec;
    let cwd = PathBuf::from(cwd);
    if in_place {
        return match Repository::find(&cwd, "changes").await {
            Ok(repository) => Worktree::watch(&place, repository).await.map(Some),
            Err(error) if error.code() == ErrorCode::InvalidOption => Ok(None),
            Err(error) => Err(error),
        };
    }
    let include = include.unwrap_or_default();
    let request = WorktreeRequest { cwd, base, include, dir: dir.map(PathBuf::from), name };
    Worktree::make(&place, request).await.map(Some)
}

/// The commit that a checkout of a folder begins with. Rejects with INVALID_OPTION where there is no repository.
#[napi]
pub fn take_base(cwd: String) -> Promised<String> {
    settle(async move { Worktree::base_of(&GitPlace::of_user(), &PathBuf::from(cwd)).await })
}

fn read(changes: &str) -> Result<Changes, Error> {
    json::read_own(changes.as_bytes())
        .map_err(|error| Error::invalid_option("changes", format!("cannot be read: {error}")))
}

/// Changes as a patch. `changes` is JSON, as `NativeCheckout.changes` told them.
#[napi]
pub fn changes_patch(changes: String) -> Promised<String> {
    settle(async move { read(&changes)?.patch().await })
}

/// Merges changes into a working tree.
#[napi]
pub fn changes_apply(changes: String, cwd: Option<String>) -> Promised<()> {
    settle(async move {
        let cwd = cwd.map(PathBuf::from);
        read(&changes)?.apply(&GitPlace::of_user(), cwd.as_deref()).await
    })
}

/// Removes the ref of changes, and their checkout.
#[napi]
pub fn changes_discard(changes: String) -> Promised<()> {
    settle(async move { read(&changes)?.discard(&GitPlace::of_user()).await })
}

/// All checkouts of this user's agents: an array as JSON.
#[napi]
pub fn list_worktrees() -> Promised<String> {
    settle(async { git::list_worktrees(&GitPlace::of_user()).await.map(|found| json!(found).to_string()) })
}

/// Removes checkouts whose host is gone: all but the kept ones, or those with these ids. Resolves with the outcome of each as JSON.
#[napi]
pub fn reap_worktrees(ids: Option<Vec<String>>) -> Promised<String> {
    settle(async move {
        let reaped = git::reap_worktrees(&GitPlace::of_user(), ids.as_deref()).await;
        reaped.map(|reaped| json!(reaped).to_string())
    })
}
