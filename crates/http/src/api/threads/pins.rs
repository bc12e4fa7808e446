//! The pins of a thread: the texts that each of its model requests contains word for word.

use agent::{PinReceipt, PinRequest, UnpinReceipt, estimate_tokens};
use axum::Json;
use jiff::Timestamp;
use langgraph::extract::{JsonBody, PathParams, ThreadPath};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{MessageRole, Pin, Seq, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pinned text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PinShape {
    /// The number of the pin in its thread.
    number: u64,
    /// The text, in which secrets are redacted.
    text: String,
    /// `user` or `assistant`: the author of the text.
    #[schema(value_type = String)]
    author: MessageRole,
    /// The message that the pin quotes; `null` for a text that the user wrote, and for a pin of an earlier thread.
    message_seq: Option<Seq>,
    /// When it was pinned.
    #[schema(value_type = String, format = DateTime)]
    pinned_at: Timestamp,
    /// Its share of every request, in tokens; an estimate.
    tokens: u64,
}

impl From<Pin> for PinShape {
    fn from(pin: Pin) -> Self {
        let Pin { number, text, author, message_seq, pinned_at } = pin;
        Self { number, tokens: estimate_tokens(&text), text, author, message_seq, pinned_at }
    }
}

/// The pins of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PinsBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The pins, in the order of their numbers.
    pins: Vec<PinShape>,
}

/// A text or a message to pin: exactly one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinRequestBody {
    /// The text; `#` and a number stand for the message with that `seq`.
    text: Option<String>,
    /// The `seq` of a message of the user or the model, to be quoted word for word.
    message_seq: Option<Seq>,
}

/// The result of pinning a text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PinResultBody {
    /// The pin.
    pin: PinShape,
    /// True if the text was pinned already.
    was_pinned: bool,
    /// Number of secrets that were redacted.
    withheld: u64,
    /// All pins of the thread.
    pins: Vec<PinShape>,
}

/// The result of removing a pin.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UnpinResultBody {
    /// The removed pin.
    pin: PinShape,
    /// The other pins of the thread.
    pins: Vec<PinShape>,
}

/// Returns the pins of a thread
#[utoipa::path(get, path = "/api/threads/{thread_id}/pins", tag = "segue", operation_id = "list_pins",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = PinsBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn list(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<PinsBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let pins = caller.agent.memory().pins(thread_id).await?;
    Ok(Json(PinsBody { thread_id, pins: shapes(pins) }))
}

/// Pins a text or a message in a thread; secrets are redacted
///
/// Every model request of the thread contains it word for word from then on, over compactions and handoffs. A text that is
/// pinned already is not pinned again.
#[utoipa::path(post, path = "/api/threads/{thread_id}/pins", tag = "segue", operation_id = "pin",
    params(("thread_id" = String, Path, format = Uuid)),
    request_body = PinRequestBody,
    responses((status = 200, body = PinResultBody), (status = 404, body = ErrorBody),
        (status = 422, body = ErrorBody, description = "The text is empty or too long, the thread has too many pins, or the message does not exist or cannot be pinned")))]
pub(crate) async fn create(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(PinRequestBody { text, message_seq }): JsonBody<PinRequestBody>,
) -> Result<Json<PinResultBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let request = match (text, message_seq) {
        (Some(text), None) => PinRequest::from_text(&text),
        (None, Some(seq)) => PinRequest::Message(seq),
        (Some(_), Some(_)) | (None, None) => {
            return Err(ApiError::invalid("send either `text` or `message_seq`"));
        }
    };
    let receipt = caller.agent.memory().pin(thread_id, &request).await?;
    let PinReceipt { pin, was_already_pinned, redacted_secrets, pins } = receipt;
    Ok(Json(PinResultBody {
        pin: pin.into(),
        was_pinned: was_already_pinned,
        withheld: redacted_secrets,
        pins: shapes(pins),
    }))
}

/// Removes a pin from a thread
#[utoipa::path(delete, path = "/api/threads/{thread_id}/pins/{number}", tag = "segue", operation_id = "unpin",
    params(("thread_id" = String, Path, format = Uuid), ("number" = u64, Path)),
    responses((status = 200, body = UnpinResultBody),
        (status = 404, body = ErrorBody, description = "The thread does not exist, or has no pin with this number"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn delete(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: PathParams,
) -> Result<Json<UnpinResultBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let number = params.get("number");
    let number = number
        .parse()
        .map_err(|_| ApiError::invalid(format!("`number`: `{number}` is not the number of a pin")))?;
    let UnpinReceipt { pin, pins } = caller.agent.memory().unpin(thread_id, number).await?;
    Ok(Json(UnpinResultBody { pin: pin.into(), pins: shapes(pins) }))
}

/// Returns the shapes of pins.
fn shapes(pins: Vec<Pin>) -> Vec<PinShape> {
    pins.into_iter().map(PinShape::from).collect()
}
