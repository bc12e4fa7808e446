//! Whether an answer is one: all of what a model was asked to write, and not the words of an error or a refusal in its
//! place. What it should have said is not known here.

use protocol::message::StopReason;
use protocol::{AiMessage, Message};

use crate::tokens;

/// Graphemes at the beginning of a text by which an error is told.
const BEGINNING_GRAPHEMES: usize = 40;

/// Why an answer is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// It ended where the limit was, or broke off.
    #[error("it was cut off")]
    CutOff,
    /// The model, or a filter of its provider, declined.
    #[error("the model declined to write it")]
    Refused,
    /// There is no visible text in it.
    #[error("it is empty")]
    Empty,
}

/// Returns the text of an answer that came to its end and has any.
///
/// # Errors
/// When it is none, and why.
pub fn said(answer: AiMessage) -> Result<String, NoAnswer> {
    match answer.stop {
        Some(StopReason::MaxTokens) => return Err(NoAnswer::CutOff),
        Some(StopReason::Refusal) => return Err(NoAnswer::Refused),
        Some(StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other) | None => {}
    }
    if answer.incomplete {
        return Err(NoAnswer::CutOff);
    }
    let text = Message::Ai(answer).text();
    if text.trim().is_empty() { Err(NoAnswer::Empty) } else { Ok(text) }
}

/// How texts begin that a provider or a model gives in place of an answer.
const ERRORS: [&str; 26] = [
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

/// Returns whether a text begins as errors and refusals do.
pub fn is_error(text: &str) -> bool {
    let lower = tokens::truncate_graphemes(text.trim_start(), BEGINNING_GRAPHEMES).to_lowercase();
    ERRORS.iter().any(|beginning| lower.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, stop: Option<StopReason>, expected: Result<&str, NoAnswer>) {
        let mut answer = AiMessage { stop, ..AiMessage::default() };
        answer.content = vec![protocol::Block::text(text)];
        assert_eq!(said(answer).as_deref(), expected.as_deref(), "{text:?}");
    }

    #[test]
    fn e8_an_answer_that_did_not_come_to_its_end_is_none() {
        check("All of it.", Some(StopReason::EndTurn), Ok("All of it."));
        check("All of it.", None, Ok("All of it."));
        check(" \n\t", Some(StopReason::EndTurn), Err(NoAnswer::Empty));
        check("Half of", Some(StopReason::MaxTokens), Err(NoAnswer::CutOff));
        check("No.", Some(StopReason::Refusal), Err(NoAnswer::Refused));
        assert_eq!(said(AiMessage { incomplete: true, ..AiMessage::default() }), Err(NoAnswer::CutOff));
    }

    #[test]
    fn e8_the_words_of_an_error_are_told_by_their_beginning() {
        for text in ["API Error: 529 overloaded", " I'm sorry, I can't do that.", "HTTP 503", "Error: no"] {
            assert!(is_error(text), "{text:?}");
        }
        for text in ["The API error was fixed.", "They were sorry.", ""] {
            assert!(!is_error(text), "{text:?}");
        }
    }
}
