//! A failed attempt: the error a caller sees, and whether another attempt may help. When to make it is not decided
//! here.

use std::error::Error as _;
use std::time::Duration;

use crate::error::Error;
use crate::wire::{Fault, Report, classify, describe};

use super::route::Route;
use super::sse::Stopped;

/// A failed attempt.
#[derive(Debug)]
pub(super) struct Failure {
    /// What a caller sees.
    pub(super) error: Error,
    /// Whether it may pass by itself.
    pub(super) passing: bool,
    /// How long the provider asks to wait.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    const fn lasting(error: Error) -> Self {
        Self { error, passing: false, retry_after: None }
    }

    /// Adds what the headers of the answer say.
    pub(super) fn with(mut self, id: Option<String>, wait: Option<Duration>) -> Self {
        if let Error::Refused { request_id, .. } | Error::Failed { request_id, .. } = &mut self.error {
            *request_id = id;
        } else if let Error::Limited { retry_after, .. } = &mut self.error {
            *retry_after = wait;
        }
        self.retry_after = wait;
        self
    }
}

impl Route {
    /// Returns the failure to get any answer.
    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut root: &dyn std::error::Error = error;
        while let Some(source) = root.source() {
            root = source;
        }
        // Without a source the text of the error itself would name the URL.
        let reason = match error.source() {
            Some(_) => self.describe(&root.to_string()),
            None => "the connection failed".to_owned(),
        };
        // A closed port of this machine stays closed until a person starts the server.
        let passing = !(error.is_connect() && self.is_loopback());
        let error = Error::Unreachable { model: self.name.clone(), endpoint: self.origin.clone(), reason };
        Failure { error, passing, retry_after: None }
    }

    /// Returns the failure of an endpoint that says nothing. Waiting as long once more would not help.
    pub(super) fn silent(&self, after: Duration) -> Failure {
        Failure::lasting(Error::Silent { model: self.name.clone(), after })
    }

    /// Returns the failure that a response without a stream is.
    pub(super) fn refused(&self, status: u16, content_type: &str, body: &str) -> Failure {
        let is_page = content_type.contains("html") || body.trim_start().starts_with('<');
        let report = serde_json::from_str(body).ok().and_then(|body| Report::read(status, &body));
        match report {
            Some(report) if status == 200 => {
                self.reported(Report { status: report.status_of_kind(), ..report })
            }
            Some(report) => self.reported(report),
            None if status == 200 => {
                let kind = if is_page { "a web page" } else { "something" };
                let reason = format!("{} sent {kind} that is not a stream of events", self.origin);
                Failure::lasting(Error::Broken { model: self.name.clone(), reason })
            }
            None => {
                let message = match status {
                    300..=399 => "redirected; set the base URL to where it leads".to_owned(),
                    _ if is_page => "a web page".to_owned(),
                    _ => body.to_owned(),
                };
                self.reported(Report { status, message, ..Report::default() })
            }
        }
    }

    /// Returns the failure that ended the reading of an answer.
    pub(super) fn stopped(&self, stopped: Stopped, silence_max: Duration) -> Failure {
        let broken = |reason: String| Error::Broken { model: self.name.clone(), reason };
        match stopped {
            Stopped::Silent => self.silent(silence_max),
            Stopped::Closed | Stopped::Early => {
                Failure { error: broken(stopped.to_string()), passing: true, retry_after: None }
            }
            Stopped::TooLong => Failure::lasting(broken(stopped.to_string())),
            Stopped::Fault(Fault::Unreadable(reason)) => Failure::lasting(broken(self.describe(&reason))),
            Stopped::Fault(Fault::Reported(report)) => self.reported(report),
        }
    }

    fn reported(&self, report: Report) -> Failure {
        let (error, passing) = classify(&self.name, report, |words| self.describe(words));
        Failure { error, passing, retry_after: None }
    }

    fn describe(&self, words: &str) -> String {
        describe(words, self.secrets())
    }
}
