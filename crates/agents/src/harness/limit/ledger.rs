//! Usage of sessions at the end of their last turn in this process, for CLIs that count on over a session. Subtracting it gives
//! the usage of the next turn alone. One ledger serves the whole host, since sessions outlive harnesses. It is bounded: the
//! oldest entry goes first.

use crate::harness::agent_request::AgentRequest;
use crate::harness::event::Usage;
use crate::harness::provider::Provider;
use crate::harness::provider::session_log;
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

/// The session's usage so far, if this process knows it.
pub(crate) fn counted(provider: Provider, session: &str) -> Option<Usage> {
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

/// The usage of the session that is resumed. Another host may have continued it, so the session's own log is preferred.
pub(crate) async fn used_before(agent: &AgentRequest, resume: Option<&str>) -> Option<Usage> {
    let (provider, session) = (agent.provider, resume?);
    let logged = match provider.descriptor().session_log {
        Some(log) => session_log::counted(log, |name| agent.variable(name), session).await,
        None => None,
    };
    logged.or_else(|| counted(provider, session))
}
