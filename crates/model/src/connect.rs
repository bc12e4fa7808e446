//! The wrapped provider client: sends a request, retries what may pass, and streams the answer. The wire formats, the
//! legal form of a conversation and the rules of waiting are next door; the environment is the caller's to read.

mod body;
mod failure;
mod retry;
mod route;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use uuid::Uuid;

use crate::Result;
use crate::chat::limits;
use crate::chat::{ChatModel, ChatRequest, Limits, PartStream};
use crate::name::ModelName;
use crate::settings::Settings;
use crate::wire::{self, CallIds, Target};
use failure::Failure;
use route::Route;
use sse::Reading;

pub use body::encode;

/// Headers in which providers give the id of a request.
const REQUEST_ID_HEADERS: [&str; 3] = ["request-id", "x-request-id", "x-goog-request-id"];

/// Bytes of a failure's body that are read.
const FAILURE_BYTES_MAX: usize = 64 << 10;

/// Returns the model of that name.
///
/// # Errors
/// [`crate::Error::Setup`] when a required key is missing, or the key, the base URL or a header cannot be used.
/// Nothing is sent before the first request.
pub fn connect(name: ModelName, settings: Settings) -> Result<Arc<dyn ChatModel>> {
    let route = Route::new(name, &settings)?;
    let http = route.client(&settings)?;
    let mut limits = limits::limits(&route.name.name);
    limits.context_tokens = settings.context_tokens.or(limits.context_tokens);
    Ok(Arc::new(Client { route: Arc::new(route), http, limits, settings }))
}

/// One model of one provider.
struct Client {
    route: Arc<Route>,
    http: reqwest::Client,
    limits: Limits,
    settings: Settings,
}

#[async_trait]
impl ChatModel for Client {
    fn name(&self) -> &ModelName {
        &self.route.name
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    async fn stream(&self, request: &ChatRequest) -> Result<PartStream> {
        let body = Bytes::from(self.body(request)?);
        let ids = CallIds::of(request.messages.clone(), Uuid::now_v7().simple().to_string());
        let reading =
            retry::until_passed(&self.route.name, &self.settings, || self.attempt(body.clone(), ids.clone()))
                .await
                .map_err(|failure| failure.error)?;
        Ok(parts(self.route.clone(), reading, self.settings.silence_max))
    }
}

impl Client {
    /// Returns the bytes to send.
    fn body(&self, request: &ChatRequest) -> Result<Vec<u8>> {
        let target = Target {
            model: &self.route.name.name,
            effort: self.settings.effort,
            output_tokens: self.limits.output_tokens,
            endpoint: self.route.endpoint,
        };
        body::of(&self.route.name, request, &target)
    }

    /// Sends the request once and reads up to the first part.
    async fn attempt(&self, body: Bytes, ids: CallIds) -> Result<Reading, Failure> {
        let request = self
            .http
            .post(self.route.url.clone())
            .headers(self.route.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let silence_max = self.settings.silence_max;
        let response = match tokio::time::timeout(silence_max, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.route.unreachable(&error))?,
            Err(_) => return Err(self.route.silent(silence_max)),
        };
        let response = self.accepted(response).await?;
        let decoder = wire::decoder(&self.route.name, ids);
        let mut reading = Reading::new(response, decoder, silence_max);
        if let Some(part) =
            reading.next().await.map_err(|stopped| self.route.stopped(stopped, silence_max))?
        {
            reading.put_back(part);
        }
        Ok(reading)
    }

    /// Returns the response if it is a stream of events, and what is wrong with it otherwise.
    async fn accepted(&self, response: Response) -> Result<Response, Failure> {
        let status = response.status().as_u16();
        let kind = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
        let is_stream = kind.is_empty() || kind.starts_with("text/event-stream");
        if status == 200 && is_stream {
            return Ok(response);
        }
        let request_id = REQUEST_ID_HEADERS.iter().find_map(|name| header(response.headers(), name));
        let retry_after = retry::retry_after(response.headers(), Timestamp::now());
        let body = self.beginning(response).await;
        Err(self.route.refused(status, &kind, &body).with(request_id, retry_after))
    }

    /// Returns the beginning of a body; what cannot be read is left out, because the status already says enough.
    async fn beginning(&self, mut response: Response) -> String {
        let mut body = Vec::new();
        while body.len() < FAILURE_BYTES_MAX {
            match tokio::time::timeout(self.settings.silence_max, response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        body.truncate(FAILURE_BYTES_MAX);
        String::from_utf8_lossy(&body).into_owned()
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Returns the parts of an answer that has begun; dropping the stream closes the connection.
fn parts(route: Arc<Route>, reading: Reading, silence_max: Duration) -> PartStream {
    stream::unfold((route, reading), move |(route, mut reading)| async move {
        let part = match reading.next().await {
            Ok(part) => Ok(part?),
            Err(stopped) => Err(route.stopped(stopped, silence_max).error),
        };
        Some((part, (route, reading)))
    })
    .boxed()
}
