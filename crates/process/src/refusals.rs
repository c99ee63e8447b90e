//! The attempts of a run that its sandbox refused. The list is bounded: each target has a row with the number of attempts, and all targets
//! beyond the bound share one row for each kind.

use ground::lock::lock;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// More targets than this have no row of their own.
const MOST: usize = 100;
/// A longer name is cut.
const MAX_NAME_BYTES: usize = 300;

ground::named! {
    /// The kind of target that was refused.
    pub enum Kind {
        /// A host, by its name or its address.
        Host = "host",
        /// A Unix socket.
        Socket = "socket",
    }
}

impl Kind {
    /// The row of all targets that have none of their own. No host and no path is called so.
    fn rest(self) -> &'static str {
        match self {
            Kind::Host => "further hosts",
            Kind::Socket => "further sockets",
        }
    }
}

/// A target that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub kind: Kind,
    pub what: String,
    /// The name of the program that tried first, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    pub count: u64,
}

impl Refused {
    /// Whether this row stands for all targets of its kind that have no row of their own.
    pub fn is_rest(&self) -> bool {
        self.what == self.kind.rest()
    }
}

/// A list that several watchers of a run write to.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<State>);

#[derive(Debug, Default)]
struct State {
    list: Mutex<Vec<Refused>>,
    /// The length of the list.
    length: watch::Sender<usize>,
}

impl Refusals {
    pub fn add(&self, kind: Kind, what: String, program: Option<String>) {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(MAX_NAME_BYTES));
            text.replace(|character: char| character.is_control(), "?")
        };
        let (mut what, mut program) = (cut(what), program.map(cut));
        let mut list = lock(&self.0.list);
        let place = |list: &[Refused], what: &str| {
            list.iter().position(|known| known.kind == kind && known.what == what)
        };
        let mut known = place(&list, &what);
        if known.is_none() && list.len() >= MOST {
            (what, program) = (kind.rest().to_owned(), None);
            known = place(&list, &what);
        }
        match known.and_then(|at| list.get_mut(at)) {
            Some(known) => known.count += 1,
            None => {
                list.push(Refused { kind, what, program, count: 1 });
                self.0.length.send_replace(list.len());
            }
        }
    }

    pub fn list(&self) -> Vec<Refused> {
        lock(&self.0.list).clone()
    }

    /// Watches for targets that are refused, those so far included.
    pub fn watch(&self) -> NewRefusals {
        NewRefusals { refusals: self.clone(), length: self.0.length.subscribe(), told: 0 }
    }
}

/// Targets that were refused and that nobody has taken yet.
#[derive(Debug)]
pub struct NewRefusals {
    refusals: Refusals,
    length: watch::Receiver<usize>,
    told: usize,
}

impl NewRefusals {
    /// Resolves when there are any.
    pub async fn wait(&mut self) {
        let told = self.told;
        // The sender lives as long as this borrow of it.
        let _ = self.length.wait_for(|length| *length > told).await;
    }

    pub fn take(&mut self) -> Vec<Refused> {
        let new = lock(&self.refusals.0.list).get(self.told..).unwrap_or_default().to_vec();
        self.told += new.len();
        new
    }

    /// Everything that was refused, whether or not it was taken.
    pub fn all(&self) -> Vec<Refused> {
        self.refusals.list()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_by_target_and_bounded() {
        let refusals = Refusals::default();
        for program in [Some("curl".to_owned()), None] {
            refusals.add(Kind::Host, "a.example:443".into(), program);
        }
        refusals.add(Kind::Socket, "a.example:443".into(), None);
        let list = refusals.list();
        assert_eq!((list.len(), list[0].count, list[0].program.as_deref()), (2, 2, Some("curl")));
        for number in 0..1000 {
            refusals.add(Kind::Host, format!("{number}\n{}", "ü".repeat(1000)), None);
        }
        let list = refusals.list();
        assert_eq!(list.len(), MOST + 1);
        assert!(
            list.iter().all(|refused| refused.what.len() <= MAX_NAME_BYTES && !refused.what.contains('\n'))
        );
    }

    #[test]
    fn targets_beyond_the_bound_are_counted_by_kind() {
        let refusals = Refusals::default();
        let mut new = refusals.watch();
        for number in 0..MOST + 5 {
            refusals.add(Kind::Host, number.to_string(), Some("a".into()));
        }
        refusals.add(Kind::Socket, "/run/docker.sock".into(), None);
        refusals.add(Kind::Host, "0".into(), None);
        let list = refusals.list();
        assert_eq!((list.len(), list[0].count), (MOST + 2, 2));
        let rest: Vec<_> = list[MOST..].iter().map(|row| (row.what.as_str(), row.count)).collect();
        assert_eq!(rest, [("further hosts", 5), ("further sockets", 1)]);
        assert!(list[MOST].program.is_none(), "it was more than one");
        assert!(list[MOST].is_rest() && !list[MOST - 1].is_rest());
        // A watcher learns that there are more.
        assert_eq!(new.take().len(), MOST + 2);
    }

    #[tokio::test]
    async fn a_watcher_takes_each_target_once() {
        let refusals = Refusals::default();
        let mut new = refusals.watch();
        let early = tokio::time::timeout(std::time::Duration::from_millis(20), new.wait()).await;
        assert!(early.is_err(), "nothing was refused");
        for what in ["a", "b", "a"] {
            refusals.add(Kind::Host, what.into(), None);
        }
        new.wait().await;
        let names: Vec<_> = new.take().into_iter().map(|refused| refused.what).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(new.take().is_empty());
        assert_eq!(new.all().len(), 2);
        let waiting = ground::task::spawn(async move {
            new.wait().await;
            new.take()
        });
        refusals.add(Kind::Socket, "a".into(), None);
        assert_eq!(waiting.await.unwrap().len(), 1);
    }
}
