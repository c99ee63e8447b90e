//! The actions that are due after each event: upload requests, terminal messages, the confirm. `end_session` makes the decisions.

use super::{CONFIRM_LINGER, LOOK_AGAIN, Presence, Session};
use crate::end_session::{EndStep, Outstanding, hold_terminal, next_step};
use crate::request::CANCELLED;
use crate::wire::reply;
use crate::wire::runtime_message::UploadRequest;
use serde_json::Map;
use tokio::time::Instant;

impl Session {
    /// Takes the actions that are due. True when the session is over.
    pub(super) fn advance(&mut self) -> bool {
        let now = Instant::now();
        // A client could not come back while this process was stopped.
        let (_, gap) = self.awake.tick();
        if let Presence::Away(since) = &mut self.client.presence {
            *since += gap;
        }
        self.wake = None;
        if let Presence::Away(since) = self.client.presence {
            let until = since + self.service.grace;
            if now >= until {
                self.on_gone();
            } else {
                self.wake_at(until);
            }
        }
        let gone = self.client.presence == Presence::Gone;
        if !gone && !self.closing {
            while let Some((id, artifact)) = self.files.artifacts.ask() {
                self.client.outbox.push_tagged(reply::upload_request(UploadRequest {
                    filename: artifact.filename,
                    filepath: artifact.filepath,
                    upload_id: Some(id),
                    bytes: Some(artifact.stamp.bytes),
                    warning: artifact.warning,
                }));
            }
        }
        self.advance_request(now, gone);
        let idle = self.requests.running.is_none() && self.files.uploads.is_empty();
        if gone || self.closing {
            return idle;
        }
        self.advance_ending(now);
        self.ending.as_ref().is_some_and(|ending| ending.confirmed.is_some()) && self.is_said(now) && idle
    }

    pub(super) fn advance_request(&mut self, now: Instant, gone: bool) {
        let unanswered = self.files.artifacts.unanswered();
        let sweeps_done = self.files.sweeps_done;
        // When the session ends, its drain waits for the files, so the terminal message need not.
        let hurried = gone || self.closing || self.ending.is_some();
        let Some(running) = &mut self.requests.running else { return };
        let mut wake = None;
        if let Some(due) = running.next_heartbeat {
            if now >= due {
                let elapsed = u64::try_from((now - running.started).as_millis()).unwrap_or(u64::MAX);
                self.client.outbox.push_for(&running.ticket, reply::heartbeat(elapsed));
                running.next_heartbeat = self.service.heartbeat_interval.map(|interval| now + interval);
            }
            wake = running.next_heartbeat;
        }
        if let Some(deciding) = running.deciding.take() {
            let pending =
                Outstanding { looking: sweeps_done < deciding.sweep, unanswered, ..Outstanding::default() };
            let hold = hold_terminal(now - deciding.since, now - deciding.last_progress, pending);
            match hold.filter(|_| !hurried) {
                Some(left) => {
                    wake = Some(wake.map_or(now + left, |wake: Instant| wake.min(now + left)));
                    running.deciding = Some(deciding);
                }
                None => {
                    let ticket = running.ticket.clone();
                    self.requests.running = None;
                    self.client.outbox.finish(&ticket, deciding.terminal);
                    wake = None;
                }
            }
        }
        if let Some(wake) = wake {
            self.wake_at(wake);
        }
    }

    pub(super) fn advance_ending(&mut self, now: Instant) {
        if self.requests.running.is_none()
            && self.ending.as_ref().is_some_and(|ending| ending.sweep.is_none())
        {
            let sweep = self.look();
            if let Some(ending) = &mut self.ending {
                ending.sweep = Some(sweep);
            }
        }
        let Some(ending) = &self.ending else { return };
        if ending.confirmed.is_some() {
            return;
        }
        let pending = Outstanding {
            requests: usize::from(self.requests.running.is_some()),
            looking: ending.sweep.is_none_or(|sweep| self.files.sweeps_done < sweep),
            written: self.files.written.len(),
            unanswered: self.files.artifacts.unanswered(),
            uploading: self.files.artifacts.uploading(),
        };
        let budget = self.service.drain_timeout;
        match next_step(budget, now - ending.since, ending.taken_open_files, pending) {
            EndStep::Wait(until) => {
                let until = ending.since + until;
                self.wake_at(until);
                if !self.files.written.is_empty() {
                    if now >= self.files.last_sweep + LOOK_AGAIN
                        && self.files.sweeps_started == self.files.sweeps_done
                    {
                        self.look();
                    }
                    self.wake_at(self.files.last_sweep + LOOK_AGAIN);
                }
            }
            EndStep::TakeOpenFiles => {
                for file in std::mem::take(&mut self.files.written) {
                    self.take(&file, Some("the file was still open for writing"));
                }
                if let Some(ending) = &mut self.ending {
                    ending.taken_open_files = true;
                }
                // Requests the files, then the loop decides again.
                self.wake_at(now);
            }
            EndStep::Confirm => self.confirm_end(now),
        }
    }

    fn confirm_end(&mut self, now: Instant) {
        if let Some(running) = self.requests.running.take() {
            // The request did not stop in time. Its terminal message is still sent before the confirm.
            self.client.outbox.finish(&running.ticket, reply::error(CANCELLED, Map::new()));
        }
        let still_written: Vec<String> = self.files.written.iter().map(|file| self.path_of(file)).collect();
        let undelivered = self.files.artifacts.undelivered(still_written);
        self.client.outbox.push(reply::end_session_confirm(self.files.artifacts.delivered(), &undelivered));
        if let Some(ending) = &mut self.ending {
            ending.confirmed = Some(now);
        }
    }

    /// After the confirm: whether the client has it, as far as the server can know. Closes the socket then.
    pub(super) fn is_said(&mut self, now: Instant) -> bool {
        let Some(confirmed) = self.ending.as_ref().and_then(|ending| ending.confirmed) else { return false };
        let waits_for_client = self.client.id.is_some() && !self.client.outbox.is_empty();
        let linger = match self.client.presence {
            Presence::Connected(_) => confirmed + CONFIRM_LINGER,
            _ => confirmed + self.service.grace,
        };
        if waits_for_client && now < linger {
            self.wake_at(linger);
            return false;
        }
        self.client.outbox.close();
        true
    }

    pub(super) fn wake_at(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}
