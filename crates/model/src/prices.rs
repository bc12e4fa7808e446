//! Prices of well-known models: a dated table, matched by the beginning of the name. Prices of the caller take
//! precedence. This module reads no configuration, and an unknown model has no price instead of a guessed one.

use std::collections::BTreeMap;

use protocol::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The month of the price table. Current prices are on the providers' pages.
pub const PRICES_MONTH: &str = "2025-11";

/// The caller's own prices, by `provider/name`.
pub type Prices = BTreeMap<String, Price>;

/// The price of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of request tokens.
    pub input: f64,
    /// The price of answer tokens, including reasoning.
    pub output: f64,
    /// The price of tokens read from the provider's cache; `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// The price of tokens written to the provider's cache; `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// Prices for input, output, cache reads and cache writes. The first entry whose name is a prefix of the model's
/// name counts.
const KNOWN_PRICES: &[(&str, f64, f64, f64, f64)] = &[
    ("claude-3-haiku", 0.25, 1.25, 0.03, 0.30),
    ("claude-3-5-haiku", 0.80, 4.00, 0.08, 1.00),
    ("claude-3-opus", 15.00, 75.00, 1.50, 18.75),
    ("claude-3-", 3.00, 15.00, 0.30, 3.75),
    ("claude-haiku-4", 1.00, 5.00, 0.10, 1.25),
    ("claude-opus-4-5", 5.00, 25.00, 0.50, 6.25),
    ("claude-opus-4-0", 15.00, 75.00, 1.50, 18.75),
    ("claude-opus-4-1", 15.00, 75.00, 1.50, 18.75),
    ("claude-opus-4-2025", 15.00, 75.00, 1.50, 18.75),
    ("claude-sonnet-4", 3.00, 15.00, 0.30, 3.75),
    ("gpt-5-pro", 15.00, 120.00, 15.00, 15.00),
    ("gpt-5-nano", 0.05, 0.40, 0.005, 0.05),
    ("gpt-5-mini", 0.25, 2.00, 0.025, 0.25),
    ("gpt-5.1-codex-mini", 0.25, 2.00, 0.025, 0.25),
    ("gpt-5.1", 1.25, 10.00, 0.125, 1.25),
    ("gpt-5-", 1.25, 10.00, 0.125, 1.25),
    ("gpt-4.1-nano", 0.10, 0.40, 0.025, 0.10),
    ("gpt-4.1-mini", 0.40, 1.60, 0.10, 0.40),
    ("gpt-4.1", 2.00, 8.00, 0.50, 2.00),
    ("gpt-4o-mini", 0.15, 0.60, 0.075, 0.15),
    ("gpt-4o", 2.50, 10.00, 1.25, 2.50),
    ("codex-mini", 1.50, 6.00, 0.375, 1.50),
    ("o1-mini", 1.10, 4.40, 0.55, 1.10),
    ("o1-pro", 150.00, 600.00, 150.00, 150.00),
    ("o1", 15.00, 60.00, 7.50, 15.00),
    ("o3-mini", 1.10, 4.40, 0.55, 1.10),
    ("o3-pro", 20.00, 80.00, 20.00, 20.00),
    ("o3-deep-research", 10.00, 40.00, 2.50, 10.00),
    ("o3", 2.00, 8.00, 0.50, 2.00),
    ("o4-mini-deep-research", 2.00, 8.00, 0.50, 2.00),
    ("o4-mini", 1.10, 4.40, 0.275, 1.10),
    ("gemini-3-pro", 2.00, 12.00, 0.20, 2.00),
    ("gemini-2.5-pro", 1.25, 10.00, 0.125, 1.25),
    ("gemini-2.5-flash-lite", 0.10, 0.40, 0.01, 0.10),
    ("gemini-2.5-flash", 0.30, 2.50, 0.03, 0.30),
    ("gemini-2.0-flash-lite", 0.075, 0.30, 0.075, 0.075),
    ("gemini-2.0-flash", 0.10, 0.40, 0.025, 0.10),
];

/// Returns the price of the model `provider/name`: the caller's own, else the one of the table. Returns `None`
/// for a model in neither.
///
/// As with context windows, the table considers only the last part of a name with slashes, so that the
/// `anthropic/claude-…` of a proxy is found. In Anthropic's names, dots count as dashes.
pub fn find_price(model: &str, own: &Prices) -> Option<Price> {
    if let Some(price) = own.get(model) {
        return Some(*price);
    }
    let mut name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if name.starts_with("claude-") {
        name = name.replace('.', "-");
    }
    // The added dash makes an exact name such as `gpt-5` match the entry `gpt-5-`.
    let dashed = format!("{name}-");
    let known = KNOWN_PRICES.iter().find(|(prefix, ..)| dashed.starts_with(prefix));
    known.map(|(_, input, output, cache_read, cache_write)| Price {
        input: *input,
        output: *output,
        cache_read: Some(*cache_read),
        cache_write: Some(*cache_write),
    })
}

/// Returns the cost of a call in US dollars. Discounts of a provider and surcharges for long requests are not
/// considered.
pub fn cost(usage: &Usage, price: &Price) -> f64 {
    let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = *usage;
    let uncached = input_tokens.saturating_sub(cache_read_tokens).saturating_sub(cache_write_tokens);
    let dollars = |tokens: u64, per_million: f64| tokens as f64 * per_million / 1e6;
    dollars(uncached, price.input)
        + dollars(cache_read_tokens, price.cache_read.unwrap_or(price.input))
        + dollars(cache_write_tokens, price.cache_write.unwrap_or(price.input))
        + dollars(output_tokens, price.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_models_have_a_price_and_others_none() {
        for (model, input) in [
            ("anthropic/claude-sonnet-4-5-20250929", Some(3.0)),
            ("openai-chat/anthropic/claude-opus-4.1", Some(15.0)),
            ("anthropic/claude-opus-4-20250514", Some(15.0)),
            ("anthropic/claude-3-5-haiku-latest", Some(0.8)),
            ("openai/gpt-5", Some(1.25)),
            ("openai/gpt-5-mini-2025-08-07", Some(0.25)),
            ("openai/o3", Some(2.0)),
            ("gemini/gemini-2.5-flash", Some(0.3)),
            ("openai-chat/qwen3:8b", None),
            ("openai/gpt-50", None),
            ("", None),
        ] {
            assert_eq!(find_price(model, &Prices::new()).map(|price| price.input), input, "{model}");
        }
    }

    #[test]
    fn a_callers_own_price_comes_first() {
        let own = Price { input: 1.0, output: 2.0, cache_read: None, cache_write: None };
        let prices =
            Prices::from([("openai/gpt-5".to_owned(), own), ("openai-chat/qwen3:8b".to_owned(), own)]);
        assert_eq!(find_price("openai/gpt-5", &prices), Some(own));
        assert_eq!(find_price("openai-chat/qwen3:8b", &prices), Some(own));
        assert_eq!(find_price("openai/gpt-5-mini", &prices).map(|price| price.input), Some(0.25));
    }

    #[test]
    fn a24_cached_tokens_are_counted_once_and_at_their_own_price() {
        let price = Price { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: Some(3.75) };
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_read_tokens: 800_000,
            cache_write_tokens: 100_000,
        };
        assert!((cost(&usage, &price) - (0.3 + 0.24 + 0.375 + 1.5)).abs() < 1e-9);
        let flat = Price { cache_read: None, cache_write: None, ..price };
        assert!((cost(&usage, &flat) - (3.0 + 1.5)).abs() < 1e-9);
    }

    #[test]
    fn a_price_reads_from_configuration_and_a_misspelt_one_does_not() {
        let read = |text: &str| serde_json::from_str::<Price>(text);
        let price = read(r#"{"input": 1, "output": 2.5}"#).expect("it is read");
        assert_eq!(price, Price { input: 1.0, output: 2.5, cache_read: None, cache_write: None });
        assert!(read(r#"{"input": 1, "output": 2, "cashe_read": 1}"#).is_err());
    }
}
