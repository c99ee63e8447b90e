//! A turn to start a program, which is lent for a moment only.

use ground::lock::lock;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// A start that hangs (on a dead network folder) must not keep the others waiting: after this, they take its turn back. Nobody
/// else needs a clock for it.
const TURN: Duration = Duration::from_millis(50);

/// Programs being started at once: more would only fight over the cores, with the JavaScript thread too.
static TURNS: OnceLock<Turns> = OnceLock::new();

/// Turns that are lent, and those that are free.
struct Turns {
    free: Semaphore,
    /// Held by the first of those who wait. It alone has a clock.
    first: Semaphore,
    lent: Mutex<Vec<(Instant, Weak<Place>)>>,
}

type Place = Mutex<Option<SemaphorePermit<'static>>>;

/// A turn that two hold: the thread that starts the program, and the run that waits for it. Who is first gives it back.
#[derive(Clone)]
pub(crate) struct Turn(Arc<Place>);

impl Turn {
    pub(crate) fn give_back(&self) {
        drop(lock(&self.0).take());
    }
}

fn is_held(turn: &Weak<Place>) -> bool {
    turn.upgrade().is_some_and(|turn| lock(&turn).is_some())
}

impl Turns {
    fn new(most: usize) -> Turns {
        Turns { free: Semaphore::new(most), first: Semaphore::new(1), lent: Mutex::new(Vec::new()) }
    }

    async fn take(&'static self) -> Turn {
        if let Ok(permit) = self.free.try_acquire() {
            return self.lend(Some(permit));
        }
        tokio::task::yield_now().await;
        let _first = self.first.acquire().await;
        let mut place = std::pin::pin!(self.free.acquire());
        loop {
            let next = self.take_back(Instant::now());
            match tokio::time::timeout_at(next, &mut place).await {
                // The semaphore is never closed.
                Ok(permit) => return self.lend(permit.ok()),
                Err(_over) => {}
            }
        }
    }

    fn lend(&self, permit: Option<SemaphorePermit<'static>>) -> Turn {
        let turn = Arc::new(Mutex::new(permit));
        let mut lent = lock(&self.lent);
        lent.retain(|(_, turn)| is_held(turn));
        lent.push((Instant::now(), Arc::downgrade(&turn)));
        Turn(turn)
    }

    /// Takes back the turns that have been lent for too long, and says when the next one will have been.
    fn take_back(&self, now: Instant) -> Instant {
        let mut lent = lock(&self.lent);
        lent.retain(|(since, turn)| {
            if now < *since + TURN {
                return is_held(turn);
            }
            if let Some(turn) = turn.upgrade() {
                Turn(turn).give_back();
            }
            false
        });
        lent.first().map_or(now, |(since, _)| *since) + TURN
    }
}

/// Waits for a turn: first come, first served. Whoever has to wait yields first.
pub(crate) async fn take_turn() -> Turn {
    let turns = TURNS.get_or_init(|| {
        let most = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 8));
        Turns::new(most)
    });
    turns.take().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_of(most: usize) -> &'static Turns {
        Box::leak(Box::new(Turns::new(most)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_held_for_long_is_taken_back_by_those_who_wait() {
        let turns = turns_of(1);
        let first = turns.take().await;
        tokio::time::advance(TURN / 2).await;
        let began = Instant::now();
        let second = turns.take().await;
        assert_eq!(began.elapsed().as_millis(), (TURN / 2).as_millis());
        // It has nothing to give back any more.
        first.give_back();
        assert_eq!(turns.free.available_permits(), 0);
        drop(second);
        assert_eq!(turns.free.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_others_who_wait_a_turn_is_held_as_long_as_it_takes() {
        let turns = turns_of(1);
        let first = turns.take().await;
        tokio::time::advance(TURN * 10).await;
        assert_eq!(turns.free.available_permits(), 0);
        first.give_back();
        let began = Instant::now();
        drop(turns.take().await);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
