//! The types that budgets and prices have on their way from JavaScript. Names match lib/harness/budget.ts.

use agents::harness::Budget;
use agents::harness::spending::{Caps, Prices};
use napi_derive::napi;
use serde::Deserialize;

#[napi(object, object_to_js = false)]
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PricesSpec {
    pub input_per_million: f64,
    pub output_per_million: f64,
    pub cached_per_million: Option<f64>,
}

impl From<PricesSpec> for Prices {
    fn from(spec: PricesSpec) -> Self {
        let PricesSpec { input_per_million, output_per_million, cached_per_million } = spec;
        Prices { input_per_million, output_per_million, cached_per_million }
    }
}

#[napi(object, object_to_js = false)]
pub struct BudgetSpec {
    pub max_tokens: Option<f64>,
    pub max_cost_usd: Option<f64>,
    pub prices: Option<PricesSpec>,
}

pub(super) fn to_caps(max_tokens: Option<f64>, max_cost_usd: Option<f64>) -> Caps {
    Caps { max_tokens: max_tokens.map(|max| max as u64), max_cost_usd }
}

/// A budget that several turns share.
#[napi]
pub struct NativeBudget {
    pub(super) budget: Budget,
}

#[napi]
impl NativeBudget {
    #[napi(constructor)]
    pub fn new(spec: BudgetSpec) -> Self {
        let BudgetSpec { max_tokens, max_cost_usd, prices } = spec;
        let caps = to_caps(max_tokens, max_cost_usd);
        NativeBudget { budget: Budget::new(caps, prices.map(Into::into)) }
    }

    #[napi(getter)]
    pub fn used_tokens(&self) -> f64 {
        self.budget.spent().tokens as f64
    }

    #[napi(getter)]
    pub fn used_cost_usd(&self) -> f64 {
        self.budget.spent().cost_usd()
    }

    /// Tokens left; infinite without a cap.
    #[napi(getter)]
    pub fn tokens_left(&self) -> f64 {
        let (tokens, _) = self.budget.caps().left(self.budget.spent());
        tokens.map_or(f64::INFINITY, |tokens| tokens as f64)
    }

    /// US dollars left; infinite without a cap.
    #[napi(getter)]
    pub fn cost_usd_left(&self) -> f64 {
        let (_, cost) = self.budget.caps().left(self.budget.spent());
        cost.unwrap_or(f64::INFINITY)
    }
}
