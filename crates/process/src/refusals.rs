//! The attempts of a run that its sandbox refused. The list is bounded, and each attempt is counted once a target.

use ground::lock::lock;
use serde::Serialize;
use std::sync::{Arc, Mutex};

/// More targets than this are not listed.
const MOST: usize = 100;
/// A longer name is cut.
const MAX_NAME_BYTES: usize = 300;

/// The kind of target that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A host, by its name or its address.
    Host,
    /// A Unix socket.
    Socket,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Socket => "socket",
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

/// A list that several watchers of a run write to.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Vec<Refused>>>);

impl Refusals {
    pub fn add(&self, kind: Kind, what: String, program: Option<String>) {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(MAX_NAME_BYTES));
            text.replace(|character: char| character.is_control(), "?")
        };
        let (what, program) = (cut(what), program.map(cut));
        let mut list = lock(&self.0);
        if let Some(known) = list.iter_mut().find(|known| known.kind == kind && known.what == what) {
            known.count += 1;
        } else if list.len() < MOST {
            list.push(Refused { kind, what, program, count: 1 });
        }
    }

    pub fn list(&self) -> Vec<Refused> {
        lock(&self.0).clone()
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
        assert_eq!(list.len(), MOST);
        assert!(
            list.iter().all(|refused| refused.what.len() <= MAX_NAME_BYTES && !refused.what.contains('\n'))
        );
    }
}
