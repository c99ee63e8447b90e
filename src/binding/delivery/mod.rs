//! Delivers Rust streams to JavaScript iterators. Blocks of text pass through one threadsafe function for all runs of an
//! environment. lib/delivery.ts is the other half.

mod byte_sink;
mod event_lines;
mod line_sink;
mod multiplexer;
mod pace;

use super::environment_objects::{EnvironmentObject, EnvironmentObjects};
pub(super) use byte_sink::ByteSink;
pub(super) use event_lines::EventLines;
use ground::text::Text;
pub(super) use line_sink::{LineSink, Selection, Skipped};
pub(super) use multiplexer::{Block, Channel, Multiplexer};
use napi::bindgen_prelude::{
    Array, BufferSlice, Function, ToNapiValue, Uint32Array, within_runtime_if_available,
};
use napi::threadsafe_function::ThreadsafeFunctionCallMode;
use napi::{Env, JsString, sys};
use napi_derive::napi;
use process::{Missed, StopReason, Stream, WeakProcess};

/// One per JavaScript environment: delivers text, and ends the environment's runs with it.
#[napi]
pub struct Delivery {
    pub(super) multiplexer: Multiplexer,
    /// The runs that end with the environment.
    pub(super) runs: EnvironmentObjects<WeakProcess>,
}

#[napi]
impl Delivery {
    /// `onFlush` gets `[channel, kind, text, weight, ...]`.
    ///
    /// - Kind 0 is stdout, kind 1 is stderr.
    /// - Add 2 for text beyond Latin-1, or 4 for bytes instead of text.
    /// - Kind -1 is the end of the channel. Kinds -2 and -3 are the end after a line of stdout or stderr that was too long. Kinds -4
    ///   and -5 are the end of a reader that came too late: the text is the number of bytes of stdout or stderr that were dropped.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        #[napi(ts_arg_type = "(blocks: unknown[]) => void")] on_flush: Function<'_, Blocks, ()>,
    ) -> napi::Result<Self> {
        let flush = on_flush
            .build_threadsafe_function::<Blocks>()
            // Weak: the run's own promise keeps the host alive.
            .weak::<true>()
            .callee_handled::<false>()
            .build()?;
        let multiplexer = within_runtime_if_available(|| {
            Multiplexer::new(move |blocks| {
                flush.call(Blocks(blocks), ThreadsafeFunctionCallMode::NonBlocking);
            })
        });
        Ok(Delivery { multiplexer, runs: EnvironmentObjects::of(&env)? })
    }

    /// Reports that the event loop has handled this many flushes, and what readers took: `taken` is channel, weight, channel,
    /// weight …. One call reports everything: a hundred calls cost a tenth of the main thread.
    #[napi]
    pub fn acknowledge(&self, flushes: u32, taken: Uint32Array) {
        let taken = taken.chunks_exact(2).map(|pair| (pair[0], pair[1] as usize));
        self.multiplexer.acknowledge(flushes as usize, taken);
    }
}

impl EnvironmentObject for WeakProcess {
    fn end(&self) {
        self.stop(StopReason::HostClosing);
    }

    fn is_over(&self) -> bool {
        WeakProcess::is_over(self)
    }
}

/// Blocks to be delivered. They become strings on the JavaScript thread.
pub struct Blocks(Vec<Block>);

impl ToNapiValue for Blocks {
    unsafe fn to_napi_value(raw_env: sys::napi_env, blocks: Self) -> napi::Result<sys::napi_value> {
        let env = Env::from_raw(raw_env);
        let array = to_array(&env, &blocks.0)?;
        // SAFETY: the array was made in this environment, on its thread.
        unsafe { ToNapiValue::to_napi_value(raw_env, array) }
    }
}

fn to_array<'env>(env: &'env Env, blocks: &[Block]) -> napi::Result<Array<'env>> {
    let mut array = env.create_array(blocks.len() as u32 * 4)?;
    for (index, block) in blocks.iter().enumerate() {
        let at = index as u32 * 4;
        array.set(at, block.channel)?;
        let Some((stream, text)) = &block.text else {
            let kind = |first: i32, stream| first - i32::from(stream == Stream::Stderr);
            match block.missed {
                None => array.set(at + 1, -1)?,
                Some(Missed::LineTooLong(stream)) => array.set(at + 1, kind(-2, stream))?,
                Some(Missed::Dropped { stream, bytes }) => {
                    array.set(at + 1, kind(-4, stream))?;
                    array.set(at + 2, bytes as f64)?;
                }
            }
            continue;
        };
        let form = match text {
            Text::Latin1(_) => 0,
            Text::Utf16(_) => 2,
            Text::Raw(_) => 4,
        };
        array.set(at + 1, i32::from(*stream == Stream::Stderr) + form)?;
        match text {
            Text::Latin1(bytes) => array.set(at + 2, env.create_string_latin1(bytes)?)?,
            Text::Utf16(units) => array.set(at + 2, env.create_string_utf16(units)?)?,
            // The bytes are copied into the engine's own memory, because the engine frees external memory late.
            Text::Raw(bytes) => array.set(at + 2, BufferSlice::copy_from(env, bytes)?)?,
        }
        array.set(at + 3, block.weight as u32)?;
    }
    Ok(array)
}

/// The longest text that the engine accepts as UTF-8. Its limit is documented in characters but checked in bytes.
const MOST_UTF8_BYTES: usize = (512 << 20) - 24;

/// Creates a JavaScript string. Plain ASCII is passed as Latin-1: one byte per character, no decoding. Invalid text grows up to
/// threefold in bytes when it is replaced, but not in characters. Text that is too long as UTF-8 is passed as UTF-16.
pub(super) fn create_text<'env>(env: &'env Env, text: &str) -> napi::Result<JsString<'env>> {
    if text.is_ascii() {
        env.create_string_latin1(text)
    } else if text.len() < MOST_UTF8_BYTES {
        env.create_string(text)
    } else {
        env.create_string_utf16(text.encode_utf16().collect::<Vec<u16>>())
    }
}
