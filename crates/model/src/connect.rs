//! The client of a provider: sends a request, retries after transient failures, and streams the answer. Wire
//! formats and legal conversations are implemented elsewhere, and the caller reads the environment.

mod call;
pub mod embeddings;
mod failure;
mod request_body;
mod request_forms;
mod retry;
mod route;
mod sse;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use crate::Result;
use crate::chat::known_limits;
use crate::chat::{AnswerStream, ChatModel, ChatRequest, ModelLimits};
use crate::name::ModelName;
use crate::settings::ProviderSettings;
use crate::wire::{self, CallIds, OptionalFields, RequestTarget};
use call::ModelCall;
use failure::AttemptFailure;
use route::ModelRoute;
use sse::AnswerReader;

pub use request_body::encode_request;
#[cfg(feature = "fuzzing")]
pub use sse::fuzzing;

/// The headers in which providers send the id of a request.
const REQUEST_ID_HEADERS: [&str; 3] = ["request-id", "x-request-id", "x-goog-request-id"];

/// The most bytes of an error response that are read.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// Returns a client for the model of that name. Nothing is sent before the first request.
///
/// # Errors
/// [`crate::Error::Setup`] when a required key is missing, or the key, the base URL or a header is invalid.
pub fn connect(name: ModelName, settings: ProviderSettings) -> Result<Arc<dyn ChatModel>> {
    let route = ModelRoute::new(name, &settings)?;
    let http = route.client(&settings)?;
    let mut limits = known_limits::known_limits(&route.name.name);
    limits.context_tokens = settings.context_tokens.or(limits.context_tokens);
    Ok(Arc::new(ProviderClient { route: Arc::new(route), http, limits, settings }))
}

/// A client for one model of one provider.
#[derive(Clone)]
struct ProviderClient {
    /// The URL, headers and secrets of the requests.
    route: Arc<ModelRoute>,
    /// The HTTP client of this route.
    http: reqwest::Client,
    /// The size limits of the model.
    limits: ModelLimits,
    /// The settings of the provider.
    settings: ProviderSettings,
}

#[async_trait]
impl ChatModel for ProviderClient {
    fn name(&self) -> &ModelName {
        &self.route.name
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    async fn stream(&self, request: &ChatRequest) -> Result<AnswerStream> {
        ModelCall::new(self.clone(), request.clone())?.start().await
    }
}

impl ProviderClient {
    /// Returns the body of the HTTP request.
    fn encode_body(&self, request: &ChatRequest, fields: OptionalFields) -> Result<Vec<u8>> {
        let target = RequestTarget {
            model: &self.route.name.name,
            effort: self.settings.effort,
            output_tokens: self.limits.output_tokens,
            endpoint: self.route.endpoint,
            fields,
        };
        request_body::encode_for_target(&self.route.name, request, &target)
    }

    /// Sends the request once, and reads the answer up to its first part.
    async fn send_once(&self, body: Bytes, ids: CallIds) -> Result<AnswerReader, AttemptFailure> {
        let request = self
            .http
            .post(self.route.url.clone())
            .headers(self.route.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let idle_timeout = self.settings.idle_timeout;
        let response = match tokio::time::timeout(idle_timeout, request.send()).await {
            Ok(result) => result.map_err(|error| self.route.unreachable_failure(&error))?,
            Err(_) => return Err(self.route.idle_timeout_failure(idle_timeout)),
        };
        let response = self.check_response(response).await?;
        let decoder = wire::new_decoder(&self.route.name, ids);
        let mut reader = AnswerReader::new(response, decoder, idle_timeout);
        if let Some(part) = reader.next().await.map_err(|stop| self.route.read_failure(stop))? {
            reader.put_back(part);
        }
        Ok(reader)
    }

    /// Returns the response if it is an event stream, otherwise its failure.
    async fn check_response(&self, response: Response) -> Result<Response, AttemptFailure> {
        let status = response.status().as_u16();
        let kind =
            header_value(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
        let is_stream = kind.is_empty() || kind.starts_with("text/event-stream");
        if status == 200 && is_stream {
            return Ok(response);
        }
        let request_id = REQUEST_ID_HEADERS.iter().find_map(|name| header_value(response.headers(), name));
        let retry_after = retry::retry_after(response.headers(), Timestamp::now());
        let body = self.read_error_body(response).await;
        Err(self.route.response_failure(status, &kind, &body).with_headers(request_id, retry_after))
    }

    /// Returns the beginning of an error response. A read error just ends it, because the status already
    /// identifies the failure.
    async fn read_error_body(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        while body.len() < FAILURE_BYTES_MAX {
            match tokio::time::timeout(self.settings.idle_timeout, response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        body.truncate(FAILURE_BYTES_MAX);
        String::from_utf8_lossy(&body).into_owned()
    }
}

/// Returns the value of a header, if it is text.
fn header_value(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
