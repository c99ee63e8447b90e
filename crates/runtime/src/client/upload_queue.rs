//! PURE: the upload requests of a runtime, passed on as fast as the caller answers. Other runtimes request all their files at
//! once.

use crate::wire::runtime_message::UploadRequest;
use std::collections::VecDeque;

/// Upload requests that the caller may have open at a time.
const MAX_ASKED: usize = 32;
/// Limits for the requests that wait: their number and their size.
pub(super) const MAX_WAITING: usize = 100_000;
const MAX_WAITING_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(super) struct UploadQueue {
    waiting: VecDeque<UploadRequest>,
    waiting_bytes: usize,
    /// Requests that were passed on and have no answer yet.
    asked: usize,
}

impl UploadQueue {
    /// Queues a request. False when the queue is full.
    pub(super) fn push(&mut self, request: UploadRequest) -> bool {
        self.waiting_bytes += weight_of(&request);
        self.waiting.push_back(request);
        self.waiting.len() <= MAX_WAITING && self.waiting_bytes <= MAX_WAITING_BYTES
    }

    /// The next request for the caller, unless too many earlier ones are still open.
    pub(super) fn next(&mut self) -> Option<UploadRequest> {
        if self.asked >= MAX_ASKED {
            return None;
        }
        let request = self.waiting.pop_front()?;
        self.waiting_bytes -= weight_of(&request);
        self.asked += 1;
        Some(request)
    }

    /// The caller has answered a request.
    pub(super) fn on_answer(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }
}

fn weight_of(request: &UploadRequest) -> usize {
    let warning = request.warning.as_ref().map_or(0, String::len);
    request.filename.len()
        + request.filepath.len()
        + request.upload_id.as_ref().map_or(0, String::len)
        + warning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> UploadRequest {
        UploadRequest { filename: name.to_owned(), ..UploadRequest::default() }
    }

    #[test]
    fn as_many_are_asked_for_as_are_answered_in_the_order_they_came() {
        let mut queue = UploadQueue::default();
        assert!(queue.next().is_none());
        for number in 0..MAX_ASKED + 2 {
            assert!(queue.push(file(&number.to_string())));
        }
        for number in 0..MAX_ASKED {
            assert_eq!(queue.next().unwrap().filename, number.to_string());
        }
        assert!(queue.next().is_none(), "nothing is answered yet");
        queue.on_answer();
        assert_eq!(queue.next().unwrap().filename, MAX_ASKED.to_string());
        assert!(queue.next().is_none());
    }

    #[test]
    fn what_waits_is_bounded_by_its_bytes_and_what_is_handed_on_makes_room() {
        let mut queue = UploadQueue::default();
        let half = "x".repeat(MAX_WAITING_BYTES / 2);
        assert!(queue.push(file(&half)));
        assert!(queue.push(file(&half)));
        assert!(queue.next().is_some());
        assert!(queue.push(file(&half)), "there is room for another");
        assert!(!queue.push(file("one more")));
    }
}
