//! The forms in which a Chat Completions request is sent until the server accepts one, and the memory of the
//! accepted form of each server and model.
//!
//! A refusal is recognised by its status and by the fields of the refused request. The servers' messages differ too
//! much to say which field is meant.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use super::failure::AttemptFailure;
use super::route::ModelRoute;
use crate::chat::ChatRequest;
use crate::error::Error;
use crate::name::Provider;
use crate::wire::{AnswerConstraint, Endpoint, KnownFields, OptionalFields, UsageRequest};

/// The most endpoints that are remembered. Beyond it all are forgotten, which costs some refused requests.
const ENDPOINTS_MAX: usize = 1_000;

/// The statuses of a refusal that may be due to an optional field.
const REFUSAL_STATUSES: [u16; 2] = [400, 422];

/// The optional fields that servers accept, by URL and model. Shared by all clients of the process.
static KNOWN_FIELDS: Mutex<BTreeMap<(String, String), KnownFields>> = Mutex::new(BTreeMap::new());

/// The forms of one request that were not refused yet.
pub(super) struct RequestForms {
    /// The key of the server and model in the memory; `None` if there is only one form.
    endpoint: Option<(String, String)>,
    /// The constraint of the request on its answer.
    constraint: AnswerConstraint,
    /// The form that is sent.
    current: OptionalFields,
    /// The forms for the case that the current one is refused.
    remaining: VecDeque<OptionalFields>,
    /// The refusal of the first form.
    first_refusal: Option<AttemptFailure>,
}

impl RequestForms {
    /// Returns the forms of a request. Only servers of Chat Completions differ in the fields that they accept.
    pub(super) fn new(route: &ModelRoute, request: &ChatRequest) -> Self {
        let constraint = AnswerConstraint::of_request(request);
        let endpoint = (route.name.provider == Provider::OpenAiChat)
            .then(|| (route.url_without_credentials(), route.name.name.clone()));
        let mut remaining: VecDeque<OptionalFields> = match &endpoint {
            Some(endpoint) => {
                let mut known = KNOWN_FIELDS.lock().get(endpoint).copied().unwrap_or_default();
                if route.endpoint == Endpoint::Official {
                    known.usage_request = Some(UsageRequest::StreamOptions);
                }
                known.forms(constraint).into()
            }
            None => VecDeque::new(),
        };
        let current = remaining.pop_front().unwrap_or_default();
        Self { endpoint, constraint, current, remaining, first_refusal: None }
    }

    /// Returns the form to send.
    pub(super) const fn current(&self) -> OptionalFields {
        self.current
    }

    /// Remembers that the server accepted the current form.
    pub(super) fn remember_accepted(&self) {
        let Some(endpoint) = &self.endpoint else { return };
        let mut known = KNOWN_FIELDS.lock();
        if known.len() >= ENDPOINTS_MAX && !known.contains_key(endpoint) {
            known.clear();
        }
        known.entry(endpoint.clone()).or_default().add_accepted(self.current, self.constraint);
    }

    /// Selects the next form after a failure of the current one.
    ///
    /// # Errors
    /// Returns the failure to report if it is no refusal, or if no form is left. That is then the refusal of the
    /// first form, because the request is refused for another reason.
    pub(super) fn advance(&mut self, failure: AttemptFailure) -> Result<(), AttemptFailure> {
        if !is_refusal(&failure) {
            return Err(failure);
        }
        let first_refusal = self.first_refusal.take().unwrap_or(failure);
        let Some(next) = self.remaining.pop_front() else { return Err(first_refusal) };
        tracing::info!(refused = ?self.current, ?next, "sending the request in another form after a failure to {}",
            first_refusal.error);
        self.first_refusal = Some(first_refusal);
        self.current = next;
        Ok(())
    }
}

/// Returns whether the server refused the content of the request.
fn is_refusal(failure: &AttemptFailure) -> bool {
    matches!(&failure.error, Error::Refused { status, .. } if REFUSAL_STATUSES.contains(status))
}
