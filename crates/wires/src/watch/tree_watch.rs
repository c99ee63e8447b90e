//! The task that owns a tree: it waits for requests, events and, where necessary, a timer. [`super::tree`] makes the decisions.

use super::tree::{FoundFile, Sweep, Tree};
use ground::error::{Error, ErrorCode};
use ground::mpsc;
use ground::os::FolderEvent;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;

/// Events of the kernel that may wait for the task. When the queue was full, events may be lost and the tree is scanned.
const EVENT_QUEUE: usize = 4096;

/// The options of a watched tree. The defaults suit all users; tests lower the limits.
#[derive(Clone, Debug)]
pub struct WatchSpec {
    /// Most directories watched by the kernel. Beyond it, the tree is scanned.
    pub watch_limit: usize,
    /// Pause between two scans of a tree that the kernel can't watch.
    pub scan_interval: Duration,
    /// How long a new file may stay unclosed before the task checks which process writes it.
    pub unclosed_interval: Duration,
}

impl Default for WatchSpec {
    fn default() -> Self {
        WatchSpec {
            watch_limit: 65_536,
            scan_interval: Duration::from_millis(500),
            unclosed_interval: Duration::from_millis(250),
        }
    }
}

enum Order {
    AddRoot {
        number: usize,
        directory: PathBuf,
        pinned: Option<String>,
        reply: oneshot::Sender<std::io::Result<()>>,
    },
    Sweep {
        reply: oneshot::Sender<Sweep>,
    },
}

/// The handle of a watched tree. Clones refer to the same tree; dropping the last one ends the watch.
#[derive(Clone, Debug)]
pub struct TreeWatch {
    orders: mpsc::Sender<Order>,
}

impl TreeWatch {
    /// Starts the task. Must be called within tokio. The receiver gets finished files as they are found.
    pub fn start(spec: WatchSpec) -> (TreeWatch, mpsc::Receiver<FoundFile>) {
        let (orders, order_queue) = mpsc::channel(16);
        let (found, found_queue) = mpsc::channel(1024);
        ground::task::spawn(run(spec, order_queue, found));
        (TreeWatch { orders }, found_queue)
    }

    /// Registers a directory, which is created when missing. Resolves once it is watched. The files in it follow under the given
    /// number. `pinned`: ignore rules that take precedence over the directory's own.
    ///
    /// # Errors
    /// The system's error when the directory can't be created or the path is not a directory.
    pub async fn add_root(
        &self,
        number: usize,
        directory: PathBuf,
        pinned: Option<String>,
    ) -> std::io::Result<()> {
        let (reply, answer) = oneshot::channel();
        let ended = |_| std::io::Error::other("the watch has ended");
        self.orders.send(Order::AddRoot { number, directory, pinned, reply }).await.map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }

    /// Reads all directories now. The result does not contain files that the receiver was given before.
    ///
    /// # Errors
    /// `RUNTIME_CLOSED` when the task has ended, which it does only with the process.
    pub async fn sweep(&self) -> Result<Sweep, Error> {
        let ended = || Error::new(ErrorCode::RuntimeClosed, "the watch has ended");
        let (reply, answer) = oneshot::channel();
        self.orders.send(Order::Sweep { reply }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())
    }
}

async fn run(spec: WatchSpec, mut orders: mpsc::Receiver<Order>, found: mpsc::Sender<FoundFile>) {
    let (event_sender, mut events) = mpsc::channel(EVENT_QUEUE);
    let mut tree = Tree::new(event_sender, spec.watch_limit);
    loop {
        let wait = if tree.needs_scanning() {
            spec.scan_interval
        } else if tree.has_unclosed() {
            spec.unclosed_interval
        } else {
            Duration::MAX
        };
        let mut batch = Vec::new();
        // Requests come first: a sweep also covers the events that are waiting.
        let (back, finished) = tokio::select! {
            biased;
            order = orders.recv() => match order {
                None => return,
                Some(order) => on_order(tree, order).await,
            },
            _ = events.recv_many(&mut batch, EVENT_QUEUE) => on_events(tree, batch).await,
            () = sleep(wait) => on_clock(tree).await,
        };
        let Some(back) = back else { return };
        tree = back;
        for file in finished {
            // Sending fails only when the receiver is gone.
            if found.send(file).await.is_err() {
                return;
            }
        }
    }
}

async fn sleep(duration: Duration) {
    match duration {
        Duration::MAX => std::future::pending().await,
        duration => tokio::time::sleep(duration).await,
    }
}

/// Passes the tree to a blocking thread. `None` only when that thread was lost at the end of the process.
async fn lend<T: Send + 'static>(
    mut tree: Tree,
    work: impl FnOnce(&mut Tree) -> T + Send + 'static,
) -> (Option<Tree>, Option<T>) {
    match ground::os::blocking(move || {
        let done = work(&mut tree);
        (tree, done)
    })
    .await
    {
        Ok((tree, done)) => (Some(tree), Some(done)),
        Err(_) => (None, None),
    }
}

async fn on_order(tree: Tree, order: Order) -> (Option<Tree>, Vec<FoundFile>) {
    match order {
        Order::AddRoot { number, directory, pinned, reply } => {
            let (tree, added) =
                lend(tree, move |tree| tree.add_root(number, &directory, pinned.as_deref())).await;
            let (answer, finished) = match added {
                Some(Ok(finished)) => (Ok(()), finished),
                Some(Err(error)) => (Err(error), Vec::new()),
                None => return (None, Vec::new()),
            };
            let _ = reply.send(answer);
            (tree, finished)
        }
        Order::Sweep { reply } => {
            let (tree, sweep) = lend(tree, Tree::sweep).await;
            if let Some(sweep) = sweep {
                let _ = reply.send(sweep);
            }
            (tree, Vec::new())
        }
    }
}

async fn on_events(tree: Tree, batch: Vec<FolderEvent>) -> (Option<Tree>, Vec<FoundFile>) {
    let overflowed = batch.len() >= EVENT_QUEUE;
    let (tree, finished) = lend(tree, move |tree| {
        let mut finished = tree.on_events(batch);
        if overflowed {
            finished.extend(tree.sweep().finished);
        }
        finished
    })
    .await;
    (tree, finished.unwrap_or_default())
}

async fn on_clock(tree: Tree) -> (Option<Tree>, Vec<FoundFile>) {
    let (tree, finished) =
        lend(tree, |tree| if tree.needs_scanning() { tree.sweep().finished } else { tree.check_unclosed() })
            .await;
    (tree, finished.unwrap_or_default())
}
