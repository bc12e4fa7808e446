//! Detection of context overflow: whether a provider's code or message says that a request exceeds the model's
//! window. The lists contain what services and servers in use send. Statuses are evaluated elsewhere.

/// Substrings of codes that report an overflow, whatever the message says.
const OVERFLOW_CODES: [&str; 9] = [
    "context_length_exceeded",
    "exceed_context_size",
    "context_window_exceeded",
    "contextwindowexceeded",
    "max_prompt_tokens_exceeded",
    "prompt_too_long",
    "request_too_large",
    "string_above_max_length",
    "tokens_limit_reached",
];

/// Phrases of messages that report an overflow. A message matches if it contains all texts of one row. Each row
/// comes from at least one service; two texts in a row have a number between them.
const OVERFLOW_PHRASES: [&[&str]; 26] = [
    // Anthropic, and services that forward its messages.
    &["prompt is too long"],
    &["context limit"],
    // OpenAI and Azure, OpenRouter, vLLM, DeepSeek, Mistral, Together, LM Studio.
    &["context length"],
    &["context window"],
    &["contextwindowexceeded"],
    &["input tokens exceed"],
    &["string too long", "maximum length"],
    &["reduce the length of the messages"],
    &["reduce the length of the prompt"],
    &["reduce the length of the input"],
    &["maximum model length"],
    // Gemini: the developer API and Vertex.
    &["input token count", "exceeds"],
    &["input token count", "only supports"],
    // Bedrock.
    &["input is too long"],
    &["number of input tokens exceeds"],
    &["too many tokens"],
    // llama.cpp and Ollama.
    &["context size"],
    &["prompt too long"],
    // xAI, Moonshot, Zhipu, Alibaba.
    &["maximum prompt length"],
    &["exceeded model token limit"],
    &["prompt exceeds max length"],
    &["range of input length"],
    // Copilot, Cohere, text-generation-inference.
    &["prompt token count", "exceeds the limit"],
    &["number of tokens in the prompt exceeds"],
    &["size limit exceeded", "fewer inputs"],
    &["`inputs` tokens", "must be <="],
];

/// Substrings of codes that report a rate limit.
const RATE_CODES: [&str; 4] = ["throttl", "rate_limit", "ratelimit", "too_many_requests"];

/// Texts of messages that are about tokens over time instead of the tokens of one request.
const RATE_WORDS: [&str; 10] = [
    "rate limit",
    "rate_limit",
    "rate exceeded",
    "per min",
    "per hour",
    "per day",
    "throttl",
    "please wait",
    "try again in",
    "quota",
];

/// Returns whether the provider's code says that the request exceeds the window.
pub(super) fn is_overflow_code(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    OVERFLOW_CODES.iter().any(|code| kind.contains(code)) && !is_rate_code(&kind)
}

/// Returns whether the provider's message says that the request exceeds the window. Messages about tokens per
/// minute do not.
pub(super) fn is_overflow_message(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let is_match = |words: &&[&str]| words.iter().all(|word| message.contains(word));
    OVERFLOW_PHRASES.iter().any(is_match) && !RATE_WORDS.iter().any(|word| message.contains(word))
}

/// Returns whether the provider's code reports a rate limit.
pub(super) fn is_rate_code(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    RATE_CODES.iter().any(|code| kind.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages about an overflow, each with the service that sends it.
    const OVERFLOW_MESSAGES: &[(&str, &str)] = &[
        ("Anthropic", "prompt is too long: 213462 tokens > 200000 maximum"),
        (
            "Anthropic",
            "input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000, decrease input \
                 length or `max_tokens` and try again",
        ),
        (
            "OpenAI",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130012 \
                 tokens. Please reduce the length of the messages.",
        ),
        (
            "OpenAI",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        (
            "OpenAI",
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300012 tokens.",
        ),
        (
            "OpenAI",
            "Invalid 'input[2].content': string too long. Expected a string with maximum length 10485760, but \
                 got a string with length 12582912 instead.",
        ),
        ("Gemini", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
        (
            "Vertex",
            "Unable to submit request because the input token count is 1052403 but model only supports up to \
                 1048576. Reduce the input token count and try again.",
        ),
        (
            "OpenRouter",
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens \
                 (42832 of text input). Please reduce the length of either one, or use the \"middle-out\" transform \
                 to compress your prompt automatically.",
        ),
        ("vLLM", "The decoder prompt (length 21535) is longer than the maximum model length of 16384."),
        ("vLLM", "The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
        (
            "vLLM",
            "'max_tokens' or 'max_completion_tokens' is too large: 10000. This model's maximum context length is \
                 16384 tokens and your request has 13000 input tokens",
        ),
        ("SGLang", "The input (516368 tokens) is longer than the model's context length (262144 tokens)."),
        (
            "llama.cpp",
            "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
        ),
        ("llama.cpp", "Context size has been exceeded."),
        ("Ollama", "prompt too long; exceeded max context length by 4096 tokens"),
        ("Ollama", "input length exceeds the context length"),
        (
            "LM Studio",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
        ),
        ("Groq", "Please reduce the length of the messages or completion."),
        ("Cerebras", "Please reduce the length of the messages or completion. Current length is 9012."),
        ("Mistral", "Prompt contains 65673 tokens, too large for model with 32768 maximum context length"),
        (
            "DeepSeek",
            "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 \
                 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
        ),
        ("Bedrock", "Input is too long for requested model."),
        (
            "Bedrock",
            "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to \
                 try again.",
        ),
        (
            "Bedrock",
            "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum",
        ),
        ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        ("Moonshot", "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
        ("Zhipu", "Prompt exceeds max length"),
        ("Alibaba", "Range of input length should be [1, 98304]"),
        ("MiniMax", "invalid params, context window exceeds limit (2013)"),
        ("Copilot", "prompt token count of 133112 exceeds the limit of 128000"),
        ("Fireworks", "The prompt is too long: 267657, model maximum context length: 262143"),
        ("Cohere", "too many tokens: total number of tokens in the prompt exceeds the limit of 4081"),
        (
            "text-generation-inference",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: 40211 `inputs` \
                 tokens and 512 `max_new_tokens`",
        ),
        ("LiteLLM", "litellm.BadRequestError: litellm.ContextWindowExceededError: AnthropicError"),
    ];

    #[test]
    fn l11_the_overflow_message_of_every_service_is_recognised() {
        for (service, words) in OVERFLOW_MESSAGES {
            assert!(is_overflow_message(words), "{service}: {words}");
        }
    }

    #[test]
    fn l11_a_limit_of_tokens_per_minute_is_not_an_overflow() {
        for words in [
            "Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Used 29012, \
             Requested 2001. Please try again in 2.02s.",
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389. The input or output \
             tokens must be reduced in order to run successfully.",
            "This request would exceed your organization's rate limit of 400,000 input tokens per minute. Please reduce \
             the prompt length or the maximum tokens requested, or try again later.",
            "Too many tokens, please wait before trying again.",
            "Too many tokens per day, please wait before trying again.",
            "You exceeded your current quota. Quota exceeded for metric: generate_content_free_tier_input_token_count, \
             limit: 250000",
            "Rate limit exceeded: too many tokens in the context window of one minute",
        ] {
            assert!(!is_overflow_message(words), "{words}");
        }
    }

    #[test]
    fn l11_a_limit_of_the_answer_is_not_an_overflow() {
        for words in [
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided \
             100000.",
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for this model",
            "`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the \
             `context_window` for this model",
            "Unable to submit request because it has a maxOutputTokens value of 70000 but the supported range is from 1 \
             (inclusive) to 65537 (exclusive).",
            "`max_tokens` must be greater than `thinking.budget_tokens`",
            "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, but can only \
             afford 1234.",
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
            "tools.0.custom.name: String should have at most 64 characters",
        ] {
            assert!(!is_overflow_message(words), "{words}");
        }
    }

    #[test]
    fn l11_overflow_codes_and_rate_codes_are_distinguished() {
        for (kind, is_overflow, is_rate) in [
            ("context_length_exceeded invalid_request_error", true, false),
            ("exceed_context_size_error", true, false),
            ("model_context_window_exceeded", true, false),
            ("model_max_prompt_tokens_exceeded", true, false),
            ("ContextWindowExceededError", true, false),
            ("request_too_large", true, false),
            ("tokens_limit_reached", true, false),
            ("rate_limit_exceeded tokens", false, true),
            ("ThrottlingException", false, true),
            ("too_many_requests", false, true),
            ("invalid_request_error", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_overflow_code(kind), is_rate_code(kind)), (is_overflow, is_rate), "{kind}");
        }
    }
}
