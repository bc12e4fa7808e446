//! The one step every conversation passes before it leaves the process: it becomes a form that the provider accepts.
//! It changes what is sent, never what is stored, and it chooses no messages: [`fit`] shortens to a budget before.
//!
//! All providers get the strictest form any of them asks for, because it costs nothing where it is not needed: a person
//! speaks first and last, nobody speaks twice in a row, and each batch of tool calls is followed by its results in
//! call order. They differ in the ids they take, in whose reasoning they read and in the files they look at.

mod budget;
mod conversation;
mod legal;
mod media;
mod pairing;
mod pixels;
mod rename;
mod violation;

use serde_json::Value;

use crate::name::Provider;

pub use budget::{Budget, Fitted, KEPT_MESSAGES, TooLarge, fit};
pub use conversation::{Args, Conversation, Media, Own, Piece, Said, Speaker};
pub use legal::{EARLIER_NOT_SHOWN, GO_ON, NO_OUTPUT, NO_RESULT, legal};
pub use media::Available;
pub use pairing::pair;
pub use violation::{Rule, Violation, violations};

pub(crate) use media::PDF;

/// What a provider accepts, where providers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Whose reasoning and opaque blocks are sent back; those of others are left out.
    pub provider: Provider,
    /// Characters of a tool call's id at most; legal ones are `a–z A–Z 0–9 _ -`.
    pub call_id_chars_max: usize,
    /// Characters of a tool's name at most; the same ones are legal.
    pub tool_name_chars_max: usize,
}

impl Profile {
    /// Returns the profile of a provider.
    pub const fn of(provider: Provider) -> Self {
        let call_id_chars_max = match provider {
            Provider::OpenAiChat => 40,
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => 64,
        };
        Self { provider, call_id_chars_max, tool_name_chars_max: 64 }
    }

    /// Returns whether a message may end in reasoning. Gemini signs a closing empty part; elsewhere reasoning
    /// without what it led to is refused.
    const fn ends_in_thinking(&self) -> bool {
        match self.provider {
            Provider::Gemini => true,
            Provider::Anthropic | Provider::OpenAi | Provider::OpenAiChat => false,
        }
    }

    /// Returns whether the provider signs reasoning, so that a tool loop needs all of it or none.
    const fn signs_thinking(&self) -> bool {
        match self.provider {
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => true,
            Provider::OpenAiChat => false,
        }
    }

    /// Returns whether the provider takes back a block of reasoning in this form.
    fn takes_thinking(&self, raw: &Value) -> bool {
        let holds = |field: &str| raw.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        match self.provider {
            Provider::Anthropic => match raw.get("type").and_then(Value::as_str) {
                Some("thinking") => holds("signature"),
                Some("redacted_thinking") => holds("data"),
                Some(_) | None => false,
            },
            // Without its encrypted content the provider looks the item up by id, and it was never stored.
            Provider::OpenAi => {
                raw.get("type").and_then(Value::as_str) == Some("reasoning") && holds("encrypted_content")
            }
            Provider::OpenAiChat => holds("reasoning_content") || holds("reasoning"),
            Provider::Gemini => holds("thoughtSignature"),
        }
    }

    /// Returns whether the provider takes back a block of its own in this form.
    fn takes_opaque(&self, raw: &Value) -> bool {
        match self.provider {
            Provider::Anthropic | Provider::OpenAi => raw.get("type").is_some_and(Value::is_string),
            Provider::OpenAiChat => false,
            Provider::Gemini => raw.as_object().is_some_and(|fields| !fields.is_empty()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
