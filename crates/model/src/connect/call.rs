//! One model call: its attempts before and in the middle of the answer, and the stream of its parts. The delays are
//! chosen in `retry`, and the forms of the request in `request_forms`.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use uuid::Uuid;

use super::ProviderClient;
use super::failure::AttemptFailure;
use super::request_forms::RequestForms;
use super::retry::RetryBudget;
use super::sse::AnswerReader;
use crate::chat::{AnswerPart, AnswerStream, ChatRequest, RetryNotice};
use crate::wire::CallIds;
use crate::{Error, Result};

/// The most times that an answer is requested again after it broke off. Each attempt costs tokens.
const ANSWER_RESTARTS_MAX: usize = 3;

/// A call of a model.
pub(super) struct ModelCall {
    /// The client.
    client: ProviderClient,
    /// The request.
    request: ChatRequest,
    /// The forms of the request that were not refused.
    forms: RequestForms,
    /// The body of the request in its current form.
    body: Bytes,
    /// The retries that are left.
    budget: RetryBudget,
    /// The number of answers that broke off.
    restarts: usize,
    /// The state of the call.
    state: CallState,
}

/// The state of a call.
enum CallState {
    /// The next attempt follows after this wait.
    Waiting(Duration),
    /// The answer is read.
    Reading(AnswerReader),
    /// No part follows.
    Ended,
}

impl ModelCall {
    /// Returns a call that has not been sent yet.
    ///
    /// # Errors
    /// Fails when the request cannot be encoded.
    pub(super) fn new(client: ProviderClient, request: ChatRequest) -> Result<Self> {
        let forms = RequestForms::new(&client.route, &request);
        let body = client.encode_body(&request, forms.current())?.into();
        let budget = RetryBudget::new(client.route.name.clone(), &client.settings);
        Ok(Self { client, request, forms, body, budget, restarts: 0, state: CallState::Ended })
    }

    /// Makes the first attempt, and returns the stream of the parts. If the attempt may be repeated, the stream
    /// begins with a [`AnswerPart::Retry`]. Dropping the stream closes the connection.
    ///
    /// # Errors
    /// Returns the error of an attempt that must not be repeated.
    pub(super) async fn start(mut self) -> Result<AnswerStream> {
        let first = match self.attempt().await {
            Ok(reader) => {
                self.state = CallState::Reading(reader);
                None
            }
            Err(failure) => Some(Ok(self.plan_retry(failure)?)),
        };
        let rest = stream::unfold(self, |mut call| async move { Some((call.next_part().await?, call)) });
        Ok(stream::iter(first).chain(rest).boxed())
    }

    /// Returns the next part, or `None` after the last one.
    async fn next_part(&mut self) -> Option<Result<AnswerPart>> {
        loop {
            match std::mem::replace(&mut self.state, CallState::Ended) {
                CallState::Ended => return None,
                CallState::Waiting(delay) => {
                    tokio::time::sleep(delay).await;
                    match self.attempt().await {
                        Ok(reader) => self.state = CallState::Reading(reader),
                        Err(failure) => return Some(self.plan_retry(failure)),
                    }
                }
                CallState::Reading(mut reader) => match reader.next().await {
                    Ok(Some(part)) => {
                        self.state = CallState::Reading(reader);
                        return Some(Ok(part));
                    }
                    Ok(None) => return None,
                    Err(stop) => {
                        let failure = self.client.route.read_failure(stop);
                        self.restarts += 1;
                        // An answer with a schema is a draft, and each draft costs one call.
                        let is_draft = self.request.answer_schema.is_some();
                        let can_restart = !is_draft && self.restarts <= ANSWER_RESTARTS_MAX;
                        return Some(if can_restart { self.plan_retry(failure) } else { Err(failure.error) });
                    }
                },
            }
        }
    }

    /// Plans the next attempt after a failure, and returns the part that announces it.
    ///
    /// # Errors
    /// Returns the failure's error if there must not be another attempt.
    fn plan_retry(&mut self, failure: AttemptFailure) -> std::result::Result<AnswerPart, Error> {
        let Some(wait) = self.budget.next_delay(&failure) else { return Err(failure.error) };
        self.state = CallState::Waiting(wait);
        Ok(AnswerPart::Retry(RetryNotice { reason: failure.error.to_string(), wait }))
    }

    /// Sends the request, and after each refusal its next form. A further attempt continues with the form that was
    /// not refused.
    async fn attempt(&mut self) -> std::result::Result<AnswerReader, AttemptFailure> {
        loop {
            let ids =
                CallIds::for_conversation(self.request.messages.clone(), Uuid::now_v7().simple().to_string());
            match self.client.send_once(self.body.clone(), ids).await {
                Ok(reader) => {
                    self.forms.remember_accepted();
                    return Ok(reader);
                }
                Err(failure) => self.forms.advance(failure)?,
            }
            let body = self.client.encode_body(&self.request, self.forms.current());
            self.body = body.map_err(AttemptFailure::permanent)?.into();
        }
    }
}
