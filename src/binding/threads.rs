//! The threads that the core runs on: one tokio runtime for all environments of the process.

use ground::trace;
use napi_derive::{module_init, napi};
use std::io;
use std::panic::catch_unwind;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Owner tasks are short and mostly wait; what blocks (the file system, a spawn) has threads of its own.
const WORKER_THREADS: usize = 1;

/// Why the addon can't be used.
static PROBLEM: OnceLock<String> = OnceLock::new();

/// Runs when the addon is loaded, where a panic would be the host's end.
#[module_init]
fn start_threads() {
    trace::install();
    let runtime = build().or_else(|error| {
        let _ = PROBLEM.set(format!(
            "sheepdog can't be loaded: the system gives it no thread ({error}); raise the limit of processes (`ulimit -u`)"
        ));
        // Nobody is ever served by it; without any, napi would try to make threads of its own, and end the host by that.
        Builder::new_current_thread().build()
    });
    if let Ok(runtime) = runtime {
        napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
    }
}

fn build() -> io::Result<Runtime> {
    // tokio panics when it is refused a thread: it is only asked when there was one a moment ago. Not joined: the loader holds a lock
    // that a thread needs in order to end.
    drop(std::thread::Builder::new().spawn(|| {})?);
    let build = || {
        Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("sheepdog")
            .enable_all()
            .build()
    };
    catch_unwind(build).unwrap_or_else(|_| Err(io::Error::other("refused")))
}

/// Why the addon can't be used; lib/native.ts throws it.
#[napi]
pub fn loading_problem() -> Option<String> {
    PROBLEM.get().cloned()
}
