//! Failures of attempts: the error for the caller, and whether another attempt may succeed. When to retry is
//! decided in `retry`.

use std::error::Error as _;
use std::time::Duration;

use crate::error::Error;
use crate::wire::{AnswerFault, FailureReport, classify_failure, redact_message};

use super::route::ModelRoute;
use super::sse::ReadStop;

/// A failed attempt to get an answer.
#[derive(Debug)]
pub(super) struct AttemptFailure {
    /// The error for the caller.
    pub(super) error: Error,
    /// True if another attempt may succeed without any change.
    pub(super) is_transient: bool,
    /// The time that the provider asks to wait, if it does.
    pub(super) retry_after: Option<Duration>,
}

impl AttemptFailure {
    /// Returns a failure for which another attempt would not help.
    pub(super) const fn permanent(error: Error) -> Self {
        Self { error, is_transient: false, retry_after: None }
    }

    /// Adds the request's id and the wait time from the response headers.
    pub(super) fn with_headers(mut self, header_id: Option<String>, header_wait: Option<Duration>) -> Self {
        if let Error::Refused { request_id, .. } | Error::Failed { request_id, .. } = &mut self.error {
            *request_id = header_id;
        } else if let Error::RateLimited { retry_after, .. } = &mut self.error {
            *retry_after = header_wait;
        }
        self.retry_after = header_wait;
        self
    }
}

impl ModelRoute {
    /// Returns the failure for an endpoint that could not be reached.
    pub(super) fn unreachable_failure(&self, error: &reqwest::Error) -> AttemptFailure {
        let mut root: &dyn std::error::Error = error;
        while let Some(source) = root.source() {
            root = source;
        }
        // An error without a source would contain the URL in its own text.
        let reason = match error.source() {
            Some(_) => self.redact(&root.to_string()),
            None => "the connection failed".to_owned(),
        };
        // A closed port of this machine stays closed until a person starts the server, so a retry would not help.
        let is_transient = !(error.is_connect() && self.is_loopback());
        let error =
            Error::Unreachable { model: self.name.clone(), endpoint: self.display_origin.clone(), reason };
        AttemptFailure { error, is_transient, retry_after: None }
    }

    /// Returns the failure for an endpoint that sent no event within a time limit. It is permanent, because
    /// waiting as long again would hardly help.
    pub(super) fn idle_timeout_failure(&self, after: Duration) -> AttemptFailure {
        AttemptFailure::permanent(Error::IdleTimeout { model: self.name.clone(), after })
    }

    /// Returns the failure for a response that is not an event stream.
    pub(super) fn response_failure(&self, status: u16, content_type: &str, body: &str) -> AttemptFailure {
        let is_page = content_type.contains("html") || body.trim_start().starts_with('<');
        let report = serde_json::from_str(body).ok().and_then(|body| FailureReport::from_body(status, &body));
        match report {
            Some(report) if status == 200 => {
                self.reported_failure(FailureReport { status: report.status_of_kind(), ..report })
            }
            Some(report) => self.reported_failure(report),
            None if status == 200 => {
                let content = if is_page { "a web page" } else { "content" };
                let reason = format!("{} sent {content} that is not a stream of events", self.display_origin);
                AttemptFailure::permanent(Error::MalformedAnswer { model: self.name.clone(), reason })
            }
            None => {
                let message = match status {
                    300..=399 => "redirected; set the base URL to the target of the redirect".to_owned(),
                    _ if is_page => "a web page".to_owned(),
                    _ => body.to_owned(),
                };
                self.reported_failure(FailureReport { status, message, ..FailureReport::default() })
            }
        }
    }

    /// Returns the failure for the error that ended the reading of an answer.
    pub(super) fn read_failure(&self, stop: ReadStop) -> AttemptFailure {
        let malformed = |reason: String| Error::MalformedAnswer { model: self.name.clone(), reason };
        match stop {
            ReadStop::IdleTimeout { after } => self.idle_timeout_failure(after),
            ReadStop::Closed | ReadStop::Truncated => {
                AttemptFailure { error: malformed(stop.to_string()), is_transient: true, retry_after: None }
            }
            ReadStop::AnswerTooLarge | ReadStop::EventTooLarge | ReadStop::Fault(AnswerFault::TooLarge) => {
                AttemptFailure::permanent(malformed(stop.to_string()))
            }
            ReadStop::Fault(AnswerFault::Unreadable(reason)) => {
                AttemptFailure::permanent(malformed(self.redact(&reason)))
            }
            ReadStop::Fault(AnswerFault::Reported(report)) => self.reported_failure(report),
        }
    }

    /// Returns the failure for a failure that the provider reported.
    fn reported_failure(&self, report: FailureReport) -> AttemptFailure {
        let (error, is_transient) = classify_failure(&self.name, report, |message| self.redact(message));
        AttemptFailure { error, is_transient, retry_after: None }
    }

    /// Returns the message without the secrets of this route, cut to one line.
    fn redact(&self, message: &str) -> String {
        redact_message(message, self.secrets())
    }
}
