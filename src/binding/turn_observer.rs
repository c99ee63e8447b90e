//! Shows JavaScript the turns that native code runs. Names and order match lib/harness/seen_turn.ts.

use super::harness::NativeTurn;
use super::mcp_server::PairSpec;
use agents::harness::Turn;
use agents::harness::observer::OnTurn;
use napi::bindgen_prelude::Function;
use napi_derive::napi;
use serde_json::Value;
use std::sync::Arc;

/// The array that JavaScript's callback returns has variables for the turn's agent.
pub(super) fn showing(on_turn: &Function<'static, NativeSeenTurn, Vec<PairSpec>>) -> napi::Result<OnTurn> {
    let call = on_turn
        .build_threadsafe_function::<NativeSeenTurn>()
        // Weak: the callback does not keep the host alive.
        .weak::<true>()
        .callee_handled::<false>()
        .build()?;
    let call = Arc::new(call);
    Ok(Arc::new(move |facts: Value, turn: Turn| {
        let (call, seen) = (Arc::clone(&call), NativeSeenTurn { facts: facts.to_string(), turn });
        Box::pin(async move {
            let answered = call.call_async(seen).await.unwrap_or_default();
            answered.into_iter().map(|pair| (pair.name, pair.value)).collect()
        })
    }))
}

/// A turn of the agent, for its observer.
#[napi]
pub struct NativeSeenTurn {
    facts: String,
    turn: Turn,
}

#[napi]
impl NativeSeenTurn {
    /// The facts about the turn that began: `provider`, `prompt`, `model`, `cwd`, `resume`, as JSON.
    #[napi(getter)]
    pub fn facts(&self) -> String {
        self.facts.clone()
    }

    /// A handle that can't end the turn.
    #[napi]
    pub fn turn(&self) -> NativeTurn {
        NativeTurn::of(Ok(self.turn.clone()))
    }

    /// Releases the turn when it has no observer.
    #[napi]
    pub fn leave(&self) {
        self.turn.leave();
    }
}
