//! The threads that the core runs on: one tokio runtime for all environments of the process.

use ground::trace;
use napi_derive::{module_init, napi};
use std::io;
use std::panic::catch_unwind;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// One thread is enough: owner tasks are short and mostly wait. Blocking work (the file system, a spawn) has threads of its own.
const WORKER_THREADS: usize = 1;

/// The reason why the addon can't be used.
static PROBLEM: OnceLock<String> = OnceLock::new();

/// Runs when the addon is loaded. A panic here would end the host process.
#[module_init]
fn start_threads() {
    trace::install();
    let runtime = build().or_else(|error| {
        let _ = PROBLEM.set(format!(
            "sheepdog can't be loaded: the system gives it no thread ({error}); raise the limit of processes (`ulimit -u`)"
        ));
        // This runtime is never used. Without any runtime, napi would try to start threads of its own, and that failure would end
        // the host.
        Builder::new_current_thread().build()
    });
    if let Ok(runtime) = runtime {
        napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
    }
}

fn build() -> io::Result<Runtime> {
    // tokio panics when it is refused a thread, so a thread is started here first as a test. It is not joined: the loader holds a
    // lock that a thread needs in order to end.
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

/// The reason why the addon can't be used. lib/native.ts throws it.
#[napi]
pub fn loading_problem() -> Option<String> {
    PROBLEM.get().cloned()
}
