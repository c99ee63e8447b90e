//! The queue to the host program, in the order of the wire: events, replies, requests, exits. There is only one, so that a reply
//! never overtakes the events before it.
//!
//! Items are JSON arrays `[kind, ...]`, kept as text and joined to batches: a flood costs the host one string and one parse for
//! hundreds of events. The host is woken once and takes batch after batch, with a turn of its event loop between two. It is woken
//! again only after it has found nothing. Over [`Outbox::MAX_BYTES`] the reader waits, and with it the peer.
//!
//! An event without a subscriber is never parsed by the host. While the host is idle, such an event is dropped at once. While the
//! host is behind, it is kept until its turn comes, because an item before it may cause a subscription. So a batch ends before
//! the first event without a subscriber, and after every reply.
//!
//! | item | meaning |
//! |---|---|
//! | `[0, session, event]` | an event of a session that has a subscriber |
//! | `[1, call, result]` | a call succeeded |
//! | `[2, call, fault]` | a call failed |
//! | `[3, id, method, params]` | a request of the peer |
//! | `[4, method, params]` | a notification of the peer |
//! | `[5, exit]` | the process is gone, the connection over |
//! | `[6, line]` | a line of the process's stderr |

use ground::error::Error;
use ground::lock::lock;
use ground::task::found;
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;
use wires::jsonrpc::quote;

/// The current selection of a session's events for the host.
#[derive(Debug, Default)]
pub struct Filter(Mutex<Wanted>);

#[derive(Debug, Default)]
struct Wanted {
    all: bool,
    kinds: HashSet<String>,
}

impl Filter {
    pub fn set(&self, all: bool, kinds: impl IntoIterator<Item = String>) {
        *self.lock() = Wanted { all, kinds: kinds.into_iter().collect() };
    }

    fn wants(&self, kind: &str) -> bool {
        let wanted = self.lock();
        wanted.all || wanted.kinds.contains(kind)
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        lock(&self.0)
    }
}

struct Item {
    text: String,
    /// For an event: its session's filter, and its type.
    event: Option<(Arc<Filter>, Arc<str>)>,
    ends_batch: bool,
}

impl Item {
    /// Whether both items have the same filter and type, so that the same decision applies.
    fn is_like(&self, other: &Item) -> bool {
        match (&self.event, &other.event) {
            (Some((filter, kind)), Some((its_filter, its_kind))) => {
                Arc::ptr_eq(filter, its_filter) && Arc::ptr_eq(kind, its_kind)
            }
            _ => false,
        }
    }

    fn is_wanted(&self) -> bool {
        self.event.as_ref().is_none_or(|(filter, kind)| filter.wants(kind))
    }
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    /// The host was woken and has not found the queue empty since.
    is_awake: bool,
    is_closed: bool,
}

/// The queue to the host.
pub struct Outbox {
    state: Mutex<State>,
    room: Notify,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Outbox {
    /// Most bytes held for a slow host: 4 MiB, and the message that is being read.
    pub const MAX_BYTES: usize = 4 << 20;
    /// Size of a batch. A batch is one string and one parse for the host. V8 puts strings over 128 KiB into separate pages, which
    /// costs ten times as much per byte.
    const BATCH_BYTES: usize = 112 << 10;
    const BATCH_ITEMS: usize = 256;

    /// `wake` makes the host take items. It is called from any thread and must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Outbox { state: Mutex::default(), room: Notify::new(), wake: Box::new(wake) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn push(&self, item: Item) {
        let mut state = self.lock();
        if state.is_closed || (!state.is_awake && !item.is_wanted()) {
            return;
        }
        state.bytes += item.text.len();
        state.items.push_back(item);
        let wakes = !std::mem::replace(&mut state.is_awake, true);
        drop(state);
        if wakes {
            (self.wake)();
        }
    }

    fn push_text(&self, text: String) {
        self.push(Item { text, event: None, ends_batch: false });
    }

    /// Queues an event as JSON text.
    pub fn push_event(&self, session: u32, filter: &Arc<Filter>, kind: &Arc<str>, event: &str) {
        let mut text = String::with_capacity(event.len() + 16);
        // Writing to a string can't fail.
        let _ = write!(text, "[0,{session},{event}]");
        self.push(Item { text, event: Some((Arc::clone(filter), Arc::clone(kind))), ends_batch: false });
    }

    pub fn push_result(&self, call: u32, result: Result<&str, &Error>) {
        let text = match result {
            Ok(result) => format!("[1,{call},{result}]"),
            Err(error) => format!("[2,{call},{}]", json!(error)),
        };
        self.push(Item { text, event: None, ends_batch: true });
    }

    pub fn push_request(&self, id: &str, method: &str, params: &str) {
        // The id is sent as text, so that it comes back unchanged.
        self.push_text(format!("[3,{},{},{params}]", quote(id), quote(method)));
    }

    pub fn push_notification(&self, method: &str, params: &str) {
        self.push_text(format!("[4,{},{params}]", quote(method)));
    }

    pub fn push_exit(&self, exit: &Value) {
        self.push_text(format!("[5,{exit}]"));
    }

    pub fn push_stderr(&self, line: &str) {
        self.push_text(format!("[6,{}]", quote(line)));
    }

    /// The next batch as a JSON array of items. `None` when there is nothing; then the next item wakes the host again.
    pub fn take(&self) -> Option<String> {
        let mut state = self.lock();
        while state.items.front().is_some_and(|item| !item.is_wanted()) {
            let dropped = state.items.pop_front();
            state.bytes -= dropped.map_or(0, |item| item.text.len());
        }
        let (mut count, mut size) = (0, 2);
        // In a flood, events of one type follow each other. The selection can't change during this call.
        let mut like_last: Option<&Item> = None;
        for item in &state.items {
            let fits = count < Self::BATCH_ITEMS && size + item.text.len() <= Self::BATCH_BYTES;
            let is_wanted = like_last.is_some_and(|last| last.is_like(item)) || item.is_wanted();
            if count > 0 && !(fits && is_wanted) {
                break;
            }
            like_last = Some(item);
            count += 1;
            size += item.text.len() + 1;
            if item.ends_batch {
                break;
            }
        }
        // The string gets its final size at once, because growing it would copy a long event repeatedly.
        let mut batch = String::with_capacity(size);
        for (index, item) in state.items.drain(..count).enumerate() {
            batch.push(if index == 0 { '[' } else { ',' });
            batch.push_str(&item.text);
        }
        state.bytes = state.bytes.saturating_sub(batch.len() - count);
        state.is_awake = count > 0;
        let has_room = state.bytes < Self::MAX_BYTES;
        drop(state);
        if has_room {
            self.room.notify_waiters();
        }
        (count > 0).then(|| {
            batch.push(']');
            batch
        })
    }

    /// Resolves when there is room.
    pub async fn ready(&self) {
        // Called once per message: in the common case, no waiter is registered.
        if !self.has_room() {
            found(&self.room, || self.has_room().then_some(())).await;
        }
    }

    fn has_room(&self) -> bool {
        let state = self.lock();
        state.bytes < Self::MAX_BYTES || state.is_closed
    }

    /// The host is gone: nothing more is queued for it, and waiting for room ends.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.items.clear();
        state.bytes = 0;
        drop(state);
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::error::ErrorCode;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn outbox() -> (Arc<Outbox>, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        (
            Arc::new(Outbox::new(move || {
                counted.fetch_add(1, Ordering::SeqCst);
            })),
            wakes,
        )
    }

    fn all() -> Arc<Filter> {
        let filter = Arc::new(Filter::default());
        filter.set(true, []);
        filter
    }

    fn parse(batch: Option<String>) -> Value {
        batch.map_or(Value::Null, |batch| ground::json::read(&batch).unwrap())
    }

    #[test]
    fn a_batch_is_json_keeps_the_order_and_ends_after_a_reply() {
        let (outbox, wakes) = outbox();
        outbox.push_event(3, &all(), &"a".into(), r#"{"type":"a"}"#);
        outbox.push_request("\"q\"", "hooks.invoke", "{}");
        outbox.push_stderr("a \"line\"");
        let cause = Error::new(ErrorCode::RpcError, "x");
        outbox
            .push_result(7, Err(&Error::new(ErrorCode::RpcError, "no").with("rpcCode", 1).caused_by(cause)));
        outbox.push_result(8, Ok("null"));
        let batch = parse(outbox.take());
        assert_eq!(batch[0], serde_json::json!([0, 3, { "type": "a" }]));
        assert_eq!(batch[1], serde_json::json!([3, "\"q\"", "hooks.invoke", {}]));
        assert_eq!(batch[2], serde_json::json!([6, "a \"line\""]));
        assert_eq!(batch[3][2]["cause"]["message"], "x");
        assert_eq!(parse(outbox.take()), serde_json::json!([[1, 8, null]]));
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        assert!(outbox.take().is_none());
        outbox.push_event(3, &all(), &"a".into(), "{}");
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn an_event_that_nobody_wants_wakes_nobody() {
        let (outbox, wakes) = outbox();
        outbox.push_event(3, &Arc::default(), &"a".into(), "{}");
        assert_eq!(wakes.load(Ordering::SeqCst), 0);
        assert!(outbox.take().is_none());
    }

    #[test]
    fn an_event_behind_a_reply_waits_for_who_may_subscribe_to_it() {
        let (outbox, _) = outbox();
        let filter: Arc<Filter> = Arc::default();
        outbox.push_result(1, Ok("1"));
        outbox.push_event(3, &filter, &"a".into(), "10");
        outbox.push_event(3, &filter, &"b".into(), "11");
        outbox.push_event(3, &filter, &"a".into(), "12");
        assert_eq!(parse(outbox.take()), serde_json::json!([[1, 1, 1]]));
        filter.set(false, ["a".to_owned()]);
        assert_eq!(parse(outbox.take()), serde_json::json!([[0, 3, 10]]));
        filter.set(false, ["b".to_owned()]);
        assert_eq!(parse(outbox.take()), serde_json::json!([[0, 3, 11]]));
        assert!(outbox.take().is_none());
    }

    #[tokio::test]
    async fn a_slow_host_makes_the_reader_wait() {
        let (outbox, _) = outbox();
        let event = "x".repeat(1 << 20);
        for _ in 0..4 {
            outbox.ready().await;
            outbox.push_event(1, &all(), &"a".into(), &event);
        }
        let waiting = ground::task::spawn({
            let outbox = Arc::clone(&outbox);
            async move { outbox.ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        outbox.take().unwrap();
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_host_that_is_gone_holds_nobody_up() {
        let (outbox, _) = outbox();
        outbox.push_event(1, &all(), &"a".into(), &"x".repeat(Outbox::MAX_BYTES));
        outbox.close();
        outbox.ready().await;
        outbox.push_event(1, &all(), &"a".into(), "{}");
        assert!(outbox.take().is_none());
    }
}
