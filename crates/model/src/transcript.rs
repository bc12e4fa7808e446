//! Legal conversations: the step that turns every conversation into a form that the provider accepts before it is
//! sent. It changes what is sent, never what is stored, and it selects no messages; [`fit_conversation`] shortens
//! them to a budget before.
//!
//! Every provider gets the strictest form that any of them requires, because that form is valid everywhere: the
//! first and the last message are a person's or, at the end, a tool's; no two messages in a row have the same
//! role; and each batch of tool calls is followed by its results in the order of the calls. Providers differ in
//! the ids that they accept, in the reasoning that they can read back and in the media that they accept.
//! [`find_violations`] checks the result independently.

mod budget;
mod conversation;
mod image_size;
mod legal_ids;
mod legalize;
mod media;
mod pairing;
mod violation;

use serde_json::Value;

use crate::name::Provider;

pub use budget::{
    ConversationTooLarge, FittedConversation, PROTECTED_MESSAGES, TokenBudget, fit_conversation,
};
pub use conversation::{
    CallArguments, Conversation, ConversationMessage, MediaBytes, MessagePiece, ProviderBlock, Speaker,
};
pub use legalize::{CONTINUE_PROMPT, EARLIER_MESSAGES_NOTE, NO_OUTPUT, NO_RESULT, legalize};
pub use media::AvailableMedia;
pub use pairing::pair_results;
pub use violation::{ConversationRule, Violation, find_violations};

pub(crate) use media::PDF;

/// The rules in which providers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProviderProfile {
    /// The provider. Its own reasoning and opaque blocks are sent back to it; those of other providers are left
    /// out.
    pub provider: Provider,
    /// The most characters of a tool call's id. Legal characters are `a–z A–Z 0–9 _ -`.
    pub call_id_chars_max: usize,
    /// The most characters of a tool's name. The same characters are legal.
    pub tool_name_chars_max: usize,
}

impl ProviderProfile {
    /// Returns the profile of a provider.
    pub const fn for_provider(provider: Provider) -> Self {
        let call_id_chars_max = match provider {
            Provider::OpenAiChat => 40,
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => 64,
        };
        Self { provider, call_id_chars_max, tool_name_chars_max: 64 }
    }

    /// Returns whether a message may end with reasoning. Gemini signs an empty part at the end of a message. The
    /// other providers refuse reasoning that nothing follows.
    const fn allows_trailing_thinking(&self) -> bool {
        match self.provider {
            Provider::Gemini => true,
            Provider::Anthropic | Provider::OpenAi | Provider::OpenAiChat => false,
        }
    }

    /// Returns whether the provider signs reasoning. A tool loop must then contain all of its reasoning or none.
    const fn has_signed_thinking(&self) -> bool {
        match self.provider {
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => true,
            Provider::OpenAiChat => false,
        }
    }

    /// Returns whether the provider accepts its block of reasoning in this form.
    fn accepts_thinking(&self, raw: &Value) -> bool {
        let has_text =
            |field: &str| raw.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        match self.provider {
            Provider::Anthropic => match raw.get("type").and_then(Value::as_str) {
                Some("thinking") => has_text("signature"),
                Some("redacted_thinking") => has_text("data"),
                Some(_) | None => false,
            },
            // Without encrypted content the provider looks up the item by its id. It does not find it, because
            // requests are sent with `store: false`.
            Provider::OpenAi => {
                raw.get("type").and_then(Value::as_str) == Some("reasoning") && has_text("encrypted_content")
            }
            Provider::OpenAiChat => has_text("reasoning_content") || has_text("reasoning"),
            Provider::Gemini => has_text("thoughtSignature"),
        }
    }

    /// Returns whether the provider accepts an opaque block of its own in this form.
    fn accepts_opaque(&self, raw: &Value) -> bool {
        match self.provider {
            Provider::Anthropic | Provider::OpenAi => raw.get("type").is_some_and(Value::is_string),
            Provider::OpenAiChat => false,
            Provider::Gemini => raw.as_object().is_some_and(|fields| !fields.is_empty()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
