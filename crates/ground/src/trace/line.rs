//! PURE: one line of the log. `2026-11-22T14:25:58.123Z sheepdog run 7: exited code=0 after_ms=12`

use crate::record::{epoch_ms, utc};
use std::fmt::{Debug, Write};
use std::time::SystemTime;
use tracing::field::{Field, Visit};

/// The field that holds the owner's number.
const ID: &str = "id";
/// The field in which `tracing` passes the message.
const MESSAGE: &str = "message";

/// The fields of an event as text.
#[derive(Default)]
pub(super) struct Line {
    id: String,
    message: String,
    facts: String,
}

impl Line {
    pub(super) fn text(&self, at: SystemTime, target: &str) -> String {
        let Line { id, message, facts } = self;
        format!("{} {target} {id}: {message}{facts}\n", utc(epoch_ms(at)))
    }

    fn put(&mut self, field: &Field, value: impl std::fmt::Display) {
        // Writing to a string can't fail.
        let _ = match field.name() {
            ID => write!(self.id, "{value}"),
            MESSAGE => write!(self.message, "{value}"),
            name => write!(self.facts, " {name}={value}"),
        };
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, format_args!("{value:.0}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format_args!("{value:?}"));
    }
}
