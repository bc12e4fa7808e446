//! The optional fields of a Chat Completions request that some servers refuse, and the order in which a request
//! does without them. The memory of what a server accepts is in `connect`.

use crate::chat::ChatRequest;

/// The form of a request's optional fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OptionalFields {
    /// The enforcement of the answer's schema. Without meaning for a request without a schema.
    pub(crate) answer_format: AnswerFormat,
    /// The request for the usage of the answer.
    pub(crate) usage_request: UsageRequest,
}

/// The way in which a request asks for an answer that follows a schema, from the strictest to the loosest. The
/// caller's instructions describe the answer in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AnswerFormat {
    /// `response_format` with the schema.
    #[default]
    JsonSchema,
    /// `response_format` that asks for any JSON object.
    JsonObject,
    /// No `response_format`.
    Plain,
}

/// The request for the usage of a streamed answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UsageRequest {
    /// `stream_options` with `include_usage`.
    #[default]
    StreamOptions,
    /// No `stream_options`. Some servers send the usage anyway.
    None,
}

/// The constraint of a request on the content of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerConstraint {
    /// The answer may be any text.
    None,
    /// The answer must follow a schema.
    Schema,
}

impl AnswerConstraint {
    /// Returns the constraint of a request.
    pub(crate) const fn of_request(request: &ChatRequest) -> Self {
        if request.answer_schema.is_some() { Self::Schema } else { Self::None }
    }
}

/// The optional fields that a server is known to accept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KnownFields {
    /// The strictest format that it accepted, if it answered a request with a schema.
    pub(crate) answer_format: Option<AnswerFormat>,
    /// The request for the usage that it accepted, if it answered a request.
    pub(crate) usage_request: Option<UsageRequest>,
}

impl KnownFields {
    /// Adds the fields of a request that was answered.
    pub(crate) fn add_accepted(&mut self, fields: OptionalFields, constraint: AnswerConstraint) {
        self.usage_request = Some(fields.usage_request);
        if constraint == AnswerConstraint::Schema {
            self.answer_format = Some(fields.answer_format);
        }
    }

    /// Returns the forms in which to send a request, in order; each further one if the server refuses the one
    /// before it.
    ///
    /// The format becomes looser even if a strict one was accepted before, because a server may refuse one schema
    /// and accept another. The request for the usage is the same in all requests, so it is not tried again.
    pub(crate) fn forms(self, constraint: AnswerConstraint) -> Vec<OptionalFields> {
        let strictest = self.answer_format.unwrap_or_default();
        let answer_formats: Vec<AnswerFormat> = match constraint {
            AnswerConstraint::Schema => {
                [AnswerFormat::JsonSchema, AnswerFormat::JsonObject, AnswerFormat::Plain]
                    .into_iter()
                    .filter(|format| *format >= strictest)
                    .collect()
            }
            AnswerConstraint::None => vec![AnswerFormat::default()],
        };
        let usage_requests = match self.usage_request {
            Some(known) => vec![known],
            None => vec![UsageRequest::StreamOptions, UsageRequest::None],
        };
        usage_requests
            .into_iter()
            .flat_map(|usage_request| {
                answer_formats
                    .iter()
                    .map(move |format| OptionalFields { answer_format: *format, usage_request })
            })
            .collect()
    }
}
