//! The body of a request: the conversation is made legal, checked and serialized. Every request passes through
//! this module.

use crate::Result;
use crate::chat::ChatRequest;
use crate::error::Error;
use crate::name::ModelName;
use crate::transcript::{self, ProviderProfile};
use crate::wire::{self, Endpoint, OptionalFields, RequestTarget};

/// Returns the body of a request to a model at its provider's own endpoint, as [`crate::ChatModel::stream`] sends
/// it when no effort is set.
///
/// # Errors
/// [`Error::IllegalConversation`] when the legal form of the conversation still breaks a rule, which is a defect
/// of this program.
pub fn encode_request(model: &ModelName, request: &ChatRequest) -> Result<Vec<u8>> {
    let output_tokens = crate::chat::known_limits::known_limits(&model.name).output_tokens;
    encode_for_target(
        model,
        request,
        &RequestTarget {
            model: &model.name,
            effort: None,
            output_tokens,
            endpoint: Endpoint::Official,
            fields: OptionalFields::default(),
        },
    )
}

/// Returns the body of a request in the form that the target accepts.
pub(super) fn encode_for_target(
    model: &ModelName,
    request: &ChatRequest,
    target: &RequestTarget<'_>,
) -> Result<Vec<u8>> {
    let profile = ProviderProfile::for_provider(model.provider);
    let conversation = transcript::legalize(&request.messages, &request.media, &profile);
    if let Some(violation) = transcript::find_violations(&conversation, &profile).first() {
        return Err(Error::IllegalConversation { model: model.clone(), violation: *violation });
    }
    wire::request_body(model.provider, request, &conversation, target).map_err(|error| Error::Setup {
        what: "the body of the request".to_owned(),
        reason: error.to_string(),
    })
}
