//! The client side of the health check: one request to `/ok` of a running server. It needs no key and no home folder. The
//! endpoint itself is in `server::system`.

use std::error::Error as _;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde_json::Value;

use crate::{Error, Result};

/// Maximum time of a health check, in seconds.
const HEALTH_CHECK_SECONDS_MAX: u64 = 5;

/// Maximum size of the response to a health check, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// The problem of a text that does not name a server.
const INVALID_URL: &str = "it is neither an http or https URL nor HOST:PORT";

/// The URL of a running server. Its text form has no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

impl FromStr for ServerUrl {
    type Err = &'static str;

    /// Parses an http or https URL. A text without a scheme, such as `localhost:2024`, is the address of an http server.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
        let is_http = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let mut url = url.ok().filter(is_http).ok_or(INVALID_URL)?;
        url.set_query(None);
        url.set_fragment(None);
        // A server that listens on all addresses of this machine is asked at the loopback address.
        let loopback = match url.host_str() {
            Some("0.0.0.0") => Some("127.0.0.1"),
            Some("[::]") => Some("[::1]"),
            _ => None,
        };
        if loopback.is_some() {
            url.set_host(loopback).map_err(|_| INVALID_URL)?;
        }
        Ok(Self(url))
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.0.path().trim_end_matches('/');
        write!(formatter, "{}{path}", self.0.origin().ascii_serialization())
    }
}

impl ServerUrl {
    /// Returns the URL of the request.
    fn health_endpoint(&self) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/ok", url.path().trim_end_matches('/')));
        url.set_query(Some("check_db=true"));
        url
    }

    /// Returns the error of a server that did not answer.
    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let reason = match error.is_timeout() {
            true => format!("there was no answer within {HEALTH_CHECK_SECONDS_MAX} s"),
            false => innermost_message(error),
        };
        Error::Unreachable { url: self.to_string(), reason }
    }
}

/// Asks a running server whether it works and can read its database.
///
/// # Errors
/// [`Error::Unreachable`] if there is no response within five seconds, and [`Error::Unhealthy`] if the response is anything
/// but that of a healthy server of Segue.
pub async fn check_health(server: &ServerUrl) -> Result<()> {
    let timeout = Duration::from_secs(HEALTH_CHECK_SECONDS_MAX);
    let mut builder = http_client::client_builder(&server.0).timeout(timeout);
    if http_client::is_loopback(&server.0) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| server.unreachable(&error))?;
    let request = client.get(server.health_endpoint()).send().await;
    let mut response = request.map_err(|error| server.unreachable(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| server.unreachable(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > RESPONSE_BYTES_MAX {
            break;
        }
    }
    match problem_of_response(response.status(), &body) {
        None => Ok(()),
        Some(reason) => Err(Error::Unhealthy { url: server.to_string(), reason }),
    }
}

/// Returns the problem that a response shows; `None` for the response of a healthy server.
fn problem_of_response(status: StatusCode, body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if status == StatusCode::OK && body["ok"] == true {
        return None;
    }
    Some(match body["detail"].as_str() {
        Some(detail) => detail.to_owned(),
        None => format!("it answered with status {}, as no server of Segue does", status.as_u16()),
    })
}

/// Returns the message of the innermost cause. The outer ones only repeat that the request failed.
fn innermost_message(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn std::error::Error> = error.source();
    let mut message = None;
    while let Some(inner) = cause {
        message = Some(inner.to_string());
        cause = inner.source();
    }
    message.unwrap_or_else(|| "the request failed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        let url = text.parse::<ServerUrl>().ok();
        let parts = url.map(|url| (url.to_string(), url.health_endpoint().to_string()));
        let expected = expected.map(|(shown, endpoint)| (shown.to_owned(), endpoint.to_owned()));
        assert_eq!(parts, expected, "{text}");
    }

    #[test]
    fn a_server_is_named_by_its_url_or_by_its_host_and_port() {
        check(
            "http://127.0.0.1:2024",
            Some(("http://127.0.0.1:2024", "http://127.0.0.1:2024/ok?check_db=true")),
        );
        check("localhost:3000", Some(("http://localhost:3000", "http://localhost:3000/ok?check_db=true")));
        check("[::1]:3000", Some(("http://[::1]:3000", "http://[::1]:3000/ok?check_db=true")));
        check("0.0.0.0:2024", Some(("http://127.0.0.1:2024", "http://127.0.0.1:2024/ok?check_db=true")));
        check("[::]:2024", Some(("http://[::1]:2024", "http://[::1]:2024/ok?check_db=true")));
        check(
            "https://a.example/segue/",
            Some(("https://a.example/segue", "https://a.example/segue/ok?check_db=true")),
        );
        for invalid in ["", "ftp://a.example", "http://", "127.0.0.1:99999", "a b"] {
            check(invalid, None);
        }
    }

    #[test]
    fn the_text_form_of_a_url_has_no_credentials() {
        let url: ServerUrl = "https://ada:hunter2@a.example/?key=hunter2#hunter2".parse().unwrap();
        assert_eq!(url.to_string(), "https://a.example");
    }

    #[test]
    fn only_the_response_of_a_healthy_server_has_no_problem() {
        let problem = |status: u16, body: &str| {
            problem_of_response(StatusCode::from_u16(status).unwrap(), body.as_bytes())
        };
        assert_eq!(problem(200, r#"{"ok": true, "services": {}}"#), None);
        let unavailable = problem(503, r#"{"code": "unavailable", "detail": "the database cannot be read"}"#);
        assert_eq!(unavailable.as_deref(), Some("the database cannot be read"));
        for (status, body) in [(200, "{}"), (200, "<html>"), (301, ""), (404, "not here"), (502, "[]")] {
            assert!(problem(status, body).unwrap().contains(&status.to_string()), "{status} {body}");
        }
    }
}
