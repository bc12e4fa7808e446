//! The estimate of the calls that a long conversation needs before its draft, so that a person knows the cost before it
//! arises.

use std::sync::Arc;

use model::ChatModel;
use protocol::Usage;
use serde::Serialize;

use super::PartPlan;

/// A function that returns the price of tokens of the model with this name, in US dollars; `None` if it is unknown.
pub type PriceUsage = dyn Fn(&str, &Usage) -> Option<f64> + Send + Sync;

/// An estimate of the model calls that summarize the parts of a conversation before its draft.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PartsEstimate {
    /// The number of calls; 0 when the conversation fits into the call that drafts, or its parts are summarized already.
    pub calls: u64,
    /// The approximate input of one call, in tokens.
    pub tokens_per_call: u64,
    /// The approximate price of all calls in US dollars; `None` if it is unknown.
    pub dollars: Option<f64>,
    /// The name of the model, `provider/name`; `None` when no model drafts.
    pub model: Option<String>,
}

impl PartsEstimate {
    /// Returns the estimate for a plan.
    pub(crate) fn from_plan(plan: &PartPlan, model: &Arc<dyn ChatModel>, price: &PriceUsage) -> Self {
        let (calls, input_tokens) = plan
            .unsummarized_parts()
            .fold((0, 0), |(calls, tokens), part| (calls + 1, tokens + part.input_tokens()));
        let output_tokens = calls * plan.limits.summary_tokens;
        let model = model.name().to_string();
        let usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        Self {
            calls,
            tokens_per_call: input_tokens.checked_div(calls).unwrap_or(0),
            dollars: price(&model, &usage).filter(|_| calls > 0),
            model: Some(model),
        }
    }

    /// Returns the sentence that tells a person about the calls; `None` if there are none.
    pub fn notice(&self) -> Option<String> {
        let price = self.dollars.map(|dollars| format!(" (≈ ${dollars:.2})")).unwrap_or_default();
        let tokens = round_tokens(self.tokens_per_call);
        match self.calls {
            0 => None,
            1 => Some(format!(
                "This conversation needs 1 more call of about {tokens} tokens{price} before the draft."
            )),
            calls => Some(format!(
                "This conversation needs {calls} more calls of about {tokens} tokens each{price} before the draft."
            )),
        }
    }
}

/// Returns a number of tokens with the precision of an estimate.
fn round_tokens(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..10_000 => format!("{:.1}k", tokens as f64 / 1_000.0),
        _ => format!("{}k", (tokens + 500) / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_states_calls_tokens_and_price() {
        let estimate = PartsEstimate { calls: 3, tokens_per_call: 47_600, dollars: Some(0.449), model: None };
        let notice = |estimate: &PartsEstimate| estimate.notice().unwrap_or_default();
        assert_eq!(
            notice(&estimate),
            "This conversation needs 3 more calls of about 48k tokens each (≈ $0.45) before the draft."
        );
        let one = PartsEstimate { calls: 1, tokens_per_call: 3_960, dollars: None, model: None };
        assert_eq!(
            notice(&one),
            "This conversation needs 1 more call of about 4.0k tokens before the draft."
        );
        assert_eq!(PartsEstimate::default().notice(), None);
    }
}
