//! A request becomes the bytes that leave: made legal, checked, written. Every request passes here; sending is done
//! elsewhere.

use crate::Result;
use crate::chat::ChatRequest;
use crate::error::Error;
use crate::name::ModelName;
use crate::transcript::{self, Profile};
use crate::wire::{self, Endpoint, Target};

/// Returns the bytes that a request to a model at its provider's own endpoint has, as [`crate::ChatModel::stream`] sends
/// them when no effort is set.
///
/// # Errors
/// [`Error::Illegal`] when the legal form of the conversation is not legal, which is a fault of this program.
pub fn encode(model: &ModelName, request: &ChatRequest) -> Result<Vec<u8>> {
    let output_tokens = crate::chat::limits::limits(&model.name).output_tokens;
    of(
        model,
        request,
        &Target { model: &model.name, effort: None, output_tokens, endpoint: Endpoint::Official },
    )
}

/// Returns the body of a request in the form the target takes.
pub(super) fn of(model: &ModelName, request: &ChatRequest, target: &Target<'_>) -> Result<Vec<u8>> {
    let profile = Profile::of(model.provider);
    let conversation = transcript::legal(&request.messages, &request.media, &profile);
    if let Some(violation) = transcript::violations(&conversation, &profile).first() {
        return Err(Error::Illegal { model: model.clone(), violation: *violation });
    }
    wire::body(model.provider, request, &conversation, target).map_err(|error| Error::Setup {
        what: "the body of the request".to_owned(),
        reason: error.to_string(),
    })
}
