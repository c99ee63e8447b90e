//! What sessions had used when their last turn here ended, for the CLIs that count on: so that the next turn's usage is its
//! own alone. One for the whole host, since sessions outlive harnesses; bounded, the oldest entry goes first.

use super::agent_request::AgentRequest;
use super::event::Usage;
use super::provider::Provider;
use super::session_log;
use ground::lock::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock};

const MAX_SESSIONS: usize = 10_000;

#[derive(Default)]
struct Ledger {
    counted: HashMap<(Provider, String), Usage>,
    order: VecDeque<(Provider, String)>,
}

fn ledger() -> MutexGuard<'static, Ledger> {
    static LEDGER: OnceLock<Mutex<Ledger>> = OnceLock::new();
    lock(LEDGER.get_or_init(Mutex::default))
}

/// What the session had used, where it is known.
fn counted(provider: Provider, session: &str) -> Option<Usage> {
    ledger().counted.get(&(provider, session.to_owned())).copied()
}

pub(crate) fn note(provider: Provider, session: &str, usage: Usage) {
    let key = (provider, session.to_owned());
    let mut ledger = ledger();
    if ledger.counted.insert(key.clone(), usage).is_none() {
        ledger.order.push_back(key);
    }
    if ledger.order.len() > MAX_SESSIONS
        && let Some(oldest) = ledger.order.pop_front()
    {
        ledger.counted.remove(&oldest);
    }
}

/// What the session that is resumed has used. Others may have gone on with it since it was here: its own log knows best.
pub(crate) async fn used_before(agent: &AgentRequest, resume: Option<&str>) -> Option<Usage> {
    let (provider, session) = (agent.provider, resume?);
    let logged = match provider.descriptor().session_log {
        Some(log) => session_log::counted(log, |name| agent.variable(name), session).await,
        None => None,
    };
    logged.or_else(|| counted(provider, session))
}
