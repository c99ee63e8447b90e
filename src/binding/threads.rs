//! The threads that the core runs on: one tokio runtime for all environments of the process.

use napi_derive::module_init;

/// Owner tasks are short and mostly wait; what blocks (the file system, a spawn) has threads of its own.
const WORKER_THREADS: usize = 1;

#[module_init]
fn start_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .thread_name("sheepdog")
        .enable_all()
        .build();
    // Without it napi makes one of its own at the first use.
    if let Ok(runtime) = runtime {
        napi::bindgen_prelude::create_custom_tokio_runtime(runtime);
    }
}
