//! Checks of whether an answer is usable: complete, not empty, and not an error or a refusal in place of an
//! answer. The content itself is not judged.

use protocol::message::StopReason;
use protocol::{AiMessage, Message};

use crate::tokens;

/// The number of graphemes at the beginning of a text that are searched for the words of an error.
const BEGINNING_GRAPHEMES: usize = 40;

/// The reason why an answer cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusableAnswer {
    /// The answer reached the token limit, or it is incomplete.
    #[error("it was cut off")]
    CutOff,
    /// The model or the provider's filter declined to answer.
    #[error("the model declined to write it")]
    Refused,
    /// The answer has no visible text.
    #[error("it is empty")]
    Empty,
}

/// Returns the text of a complete answer that is not empty.
///
/// # Errors
/// Returns the reason why the answer cannot be used.
pub fn answer_text(answer: AiMessage) -> Result<String, UnusableAnswer> {
    match answer.stop {
        Some(StopReason::MaxTokens) => return Err(UnusableAnswer::CutOff),
        Some(StopReason::Refusal) => return Err(UnusableAnswer::Refused),
        Some(StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other) | None => {}
    }
    if answer.incomplete {
        return Err(UnusableAnswer::CutOff);
    }
    let text = Message::Ai(answer).text();
    if text.trim().is_empty() { Err(UnusableAnswer::Empty) } else { Ok(text) }
}

/// The beginnings of texts that providers and models write in place of an answer, in lower case.
const ERROR_BEGINNINGS: [&str; 26] = [
    "error:",
    "error code",
    "error 4",
    "error 5",
    "an error ",
    "api error",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "overloaded",
    "rate limit",
    "too many requests",
    "request timed out",
    "http 4",
    "http 5",
    "status code",
    "prompt is too long",
    "context length exceeded",
    "i cannot",
    "i can't",
    "i can’t",
    "i'm sorry",
    "i’m sorry",
    "i am unable",
    "i'm unable",
];

/// Returns whether a text begins like an error or a refusal.
pub fn is_error_text(text: &str) -> bool {
    let lower = tokens::truncate_graphemes(text.trim_start(), BEGINNING_GRAPHEMES).to_lowercase();
    ERROR_BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, stop: Option<StopReason>, expected: Result<&str, UnusableAnswer>) {
        let mut answer = AiMessage { stop, ..AiMessage::default() };
        answer.content = vec![protocol::ContentBlock::text(text)];
        assert_eq!(answer_text(answer).as_deref(), expected.as_deref(), "{text:?}");
    }

    #[test]
    fn e8_an_incomplete_answer_cannot_be_used() {
        check("All of it.", Some(StopReason::EndTurn), Ok("All of it."));
        check("All of it.", None, Ok("All of it."));
        check(" \n\t", Some(StopReason::EndTurn), Err(UnusableAnswer::Empty));
        check("Half of", Some(StopReason::MaxTokens), Err(UnusableAnswer::CutOff));
        check("No.", Some(StopReason::Refusal), Err(UnusableAnswer::Refused));
        assert_eq!(
            answer_text(AiMessage { incomplete: true, ..AiMessage::default() }),
            Err(UnusableAnswer::CutOff)
        );
    }

    #[test]
    fn e8_error_texts_are_recognised_by_their_beginning() {
        for text in ["API Error: 529 overloaded", " I'm sorry, I can't do that.", "HTTP 503", "Error: no"] {
            assert!(is_error_text(text), "{text:?}");
        }
        for text in ["The API error was fixed.", "They were sorry.", ""] {
            assert!(!is_error_text(text), "{text:?}");
        }
    }
}
