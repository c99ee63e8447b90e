//! A callback for the result of a request.

use ground::error::{Error, ErrorCode};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Call = Box<dyn for<'a> FnOnce(Result<&'a str, Error>) + Send>;

/// Called exactly once with a result, JSON text, or with the error that ended the wait. If it is dropped before, by a panic or
/// together with a task, it fails with `CONNECTION_LOST`. So no caller waits for abandoned work.
pub struct Completion(Option<Call>);

impl Completion {
    pub fn new(call: impl for<'a> FnOnce(Result<&'a str, Error>) + Send + 'static) -> Self {
        Completion(Some(Box::new(call)))
    }

    pub fn settle(mut self, result: Result<&str, Error>) {
        if let Some(call) = self.0.take() {
            call(result);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let Some(call) = self.0.take() else { return };
        let error = Error::new(
            ErrorCode::ConnectionLost,
            "The request was dropped: the task that worked on it is gone. Start the client again",
        );
        // The callback may panic. A second panic while one is under way would abort the host.
        let _ = catch_unwind(AssertUnwindSafe(|| call(Err(error))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    type Told = Arc<Mutex<Vec<Result<String, ErrorCode>>>>;

    fn record() -> (Completion, Told) {
        let told = Told::default();
        let teller = Arc::clone(&told);
        let completion = Completion::new(move |result| {
            teller.lock().unwrap().push(result.map(str::to_owned).map_err(|error| error.code()));
        });
        (completion, told)
    }

    #[test]
    fn is_called_once() {
        let (completion, told) = record();
        completion.settle(Ok("1"));
        assert_eq!(*told.lock().unwrap(), [Ok("1".to_owned())]);
    }

    #[test]
    fn fails_when_its_owner_panics_even_if_it_panics_itself() {
        let (completion, told) = record();
        let bad = Completion::new(|_| panic!("as well"));
        let owner = std::thread::spawn(move || {
            let _held = (completion, bad);
            panic!("the owner");
        });
        assert!(owner.join().is_err());
        assert_eq!(*told.lock().unwrap(), [Err(ErrorCode::ConnectionLost)]);
    }
}
