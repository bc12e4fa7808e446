//! Size limits of well-known models: a table, matched by the beginning of the name. If the table is wrong, the
//! provider's refusal of a request that is too long decides.

use super::ModelLimits;

/// The context window and the longest answer, both in tokens. The first entry that is a prefix of the model's
/// name counts.
const KNOWN_LIMITS: &[(&str, u64, u64)] = &[
    ("claude-3-haiku", 200_000, 4_096),
    ("claude-3-opus", 200_000, 4_096),
    ("claude-3-5", 200_000, 8_192),
    ("claude-3-7", 200_000, 64_000),
    ("claude-opus-4-0", 200_000, 32_000),
    ("claude-opus-4-1", 200_000, 32_000),
    ("claude-opus-4-2025", 200_000, 32_000),
    ("claude-", 200_000, 64_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("chatgpt-4o", 128_000, 16_384),
    ("gpt-4-turbo", 128_000, 4_096),
    ("gpt-4", 8_192, 8_192),
    ("gpt-3.5", 16_385, 4_096),
    ("gpt-5-chat", 128_000, 16_384),
    ("gpt-5", 400_000, 128_000),
    ("codex-mini", 200_000, 100_000),
    ("gpt-oss", 131_072, 131_072),
    ("o1-preview", 128_000, 32_768),
    ("o1-mini", 128_000, 65_536),
    ("o1", 200_000, 100_000),
    ("o3", 200_000, 100_000),
    ("o4-mini", 200_000, 100_000),
    ("gemini-1.5-pro", 2_097_152, 8_192),
    ("gemini-1.5", 1_048_576, 8_192),
    ("gemini-2.0", 1_048_576, 8_192),
    ("gemini-", 1_048_576, 65_536),
    ("deepseek-", 128_000, 8_192),
];

/// Returns the limits of a model by its name at the provider; unknown limits for a model that is not in the
/// table. Only the last part of a name with slashes counts, so that the `anthropic/claude-…` of a proxy is found.
pub(crate) fn known_limits(model: &str) -> ModelLimits {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    match KNOWN_LIMITS.iter().find(|(prefix, _, _)| name.starts_with(prefix)) {
        Some((_, context, output)) => {
            ModelLimits { context_tokens: Some(*context), output_tokens: Some(*output) }
        }
        None => ModelLimits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::known_limits;

    #[test]
    fn well_known_models_have_a_window_and_others_none() {
        for (model, context) in [
            ("claude-sonnet-4-5-20250929", Some(200_000)),
            ("anthropic/claude-opus-4.1", Some(200_000)),
            ("gpt-4.1-mini", Some(1_047_576)),
            ("gpt-4o", Some(128_000)),
            ("gpt-4", Some(8_192)),
            ("gpt-5.1-codex", Some(400_000)),
            ("models/gemini-2.5-pro", Some(1_048_576)),
            ("qwen3:8b", None),
            ("", None),
        ] {
            assert_eq!(known_limits(model).context_tokens, context, "{model}");
        }
    }
}
