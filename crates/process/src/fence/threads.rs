//! The threads of one tree's fence, where its calls may block. They are the tree's alone: a program whose connections hang keeps nobody
//! else waiting. They have less rights than this process, because they open paths in the program's place.

use super::answer::Fence;
use super::notice::{Answer, Notice};
use super::rights;
use ground::os::Crew;
use nix::errno::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// An idle thread ends after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(2);
const STACK_BYTES: usize = 256 * 1024;

/// A call, and the place that it takes until it is answered.
type Call = (Notice, OwnedSemaphorePermit);

/// Idle threads end when it is dropped.
#[derive(Debug)]
pub(super) struct Threads(Arc<Crew<Call>>);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Threads {
    /// At most so many. A call is refused without a thread of its own: in the queue it would wait for a call that may hang.
    pub(super) fn new(most: usize) -> Threads {
        Threads(Arc::new(Crew::new(most, KEEP_ALIVE, false)))
    }

    /// Has a thread answer. Without any thread the call is refused.
    pub(super) fn answer(&self, fence: &Arc<Fence>, notice: Notice, place: OwnedSemaphorePermit) {
        let start = || {
            let (crew, fence) = (self.0.clone(), fence.clone());
            let thread =
                std::thread::Builder::new().name("sheepdog-fence".to_owned()).stack_size(STACK_BYTES);
            thread.spawn(move || work(&crew, &fence)).map(drop)
        };
        if let Err((_, Some((notice, _)))) = self.0.put((notice, place), start) {
            fence.listener.answer(&notice, Answer::Failed(Errno::EACCES));
        }
    }
}

fn work(crew: &Crew<Call>, fence: &Fence) {
    let has_less = rights::give_up();
    crew.work(|(notice, _place)| {
        let answered = has_less.is_ok() && catch_unwind(AssertUnwindSafe(|| fence.answer(&notice))).is_ok();
        if !answered {
            fence.listener.answer(&notice, Answer::Failed(Errno::EACCES));
        }
    });
}
