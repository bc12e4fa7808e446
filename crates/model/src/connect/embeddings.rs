//! The client of an embedding model: sends texts to an endpoint of OpenAI's format (`POST …/embeddings`), which OpenAI, Ollama,
//! llama.cpp, vLLM and TEI have, and returns their vectors. It makes one attempt; the caller decides when to try again.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use crate::tokens;

/// The last part of the path of the endpoint.
const PATH: &str = "embeddings";
/// The most bytes of an answer that are read, 64 MiB: a thousand vectors of 3,000 dimensions have half of it as JSON.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The largest factor by which a reported number of tokens may differ from the estimate. Another number is an error of the endpoint,
/// and a budget must not depend on it.
const ESTIMATE_FACTOR_MAX: u64 = 4;
/// The most characters of an error message of the endpoint that are shown.
const MESSAGE_CHARS_MAX: usize = 200;

/// The settings of an embedding model.
#[derive(Debug, Clone)]
pub struct EmbeddingSettings {
    /// The base URL, such as `http://127.0.0.1:11434/v1`, with or without `/embeddings`.
    pub base_url: String,
    /// The name of the model at the endpoint.
    pub model: String,
    /// The API key, if the endpoint needs one.
    pub api_key: Option<SecretString>,
    /// The number of dimensions to ask for; `None` leaves it to the model.
    pub dimensions: Option<u32>,
}

/// A client for one embedding model.
pub struct EmbeddingClient {
    http: reqwest::Client,
    url: Url,
    authorization: Option<HeaderValue>,
    settings: EmbeddingSettings,
}

/// The vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingAnswer {
    /// One vector for each text, in the order of the request. All have the same number of dimensions.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens of the texts: as reported by the endpoint, or estimated if it reports none or an impossible number.
    pub tokens: u64,
}

/// An error of an embedding model.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// A setting is invalid.
    #[error("use the embedding model: {reason}")]
    Setup {
        /// The reason.
        reason: String,
    },
    /// The endpoint could not be reached, or the connection broke.
    #[error("reach the embedding model at {endpoint}: {reason}")]
    Unreachable {
        /// The scheme, host and port. Never the path, which may contain a key.
        endpoint: String,
        /// The error of the network layer.
        reason: String,
    },
    /// The answer did not arrive in time.
    #[error("wait for the embedding model at {endpoint}: no answer within {} ms", after.as_millis())]
    Timeout {
        /// The scheme, host and port.
        endpoint: String,
        /// The time limit.
        after: Duration,
    },
    /// The endpoint refused the request.
    #[error("use the embedding model `{model}` at {endpoint}: it refused the request ({status}): {message}")]
    Refused {
        /// The name of the model.
        model: String,
        /// The scheme, host and port.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// The endpoint's message, cut to one line.
        message: String,
        /// The time after which the endpoint allows another request, if it said so.
        retry_after: Option<Duration>,
    },
    /// The answer has another form than that of OpenAI.
    #[error("read the answer of the embedding model at {endpoint}: {reason}")]
    Malformed {
        /// The scheme, host and port.
        endpoint: String,
        /// The reason.
        reason: String,
    },
}

impl EmbeddingError {
    /// Returns whether the same request can succeed later without a change of the settings or the texts.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Refused { status, .. } => *status == 408 || *status == 429 || *status >= 500,
            Self::Setup { .. } | Self::Malformed { .. } => false,
        }
    }
}

/// The body of a request.
#[derive(Serialize)]
struct RequestBody<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

/// The body of an answer.
#[derive(Deserialize)]
struct AnswerBody {
    data: Vec<AnswerVector>,
    #[serde(default)]
    usage: Option<AnswerUsage>,
}

/// A vector of an answer.
#[derive(Deserialize)]
struct AnswerVector {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// The tokens of an answer.
#[derive(Deserialize)]
struct AnswerUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

impl EmbeddingClient {
    /// Returns a client. Nothing is sent before the first request.
    ///
    /// # Errors
    /// [`EmbeddingError::Setup`] when the URL, the model or the key is invalid.
    pub fn new(settings: EmbeddingSettings) -> Result<Self, EmbeddingError> {
        let setup_error = |reason: &str| EmbeddingError::Setup { reason: reason.to_owned() };
        let mut url = Url::parse(settings.base_url.trim())
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| setup_error("`search.embeddings.url` is not an http or https URL"))?;
        if settings.model.trim().is_empty() {
            return Err(setup_error("`search.embeddings.model` is empty"));
        }
        let path = url.path().trim_end_matches('/');
        if !path.ends_with(&format!("/{PATH}")) {
            url.set_path(&format!("{path}/{PATH}"));
        }
        let authorization = match &settings.api_key {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret().trim()))
                    .map_err(|_| setup_error("the key contains characters that are not allowed in a key"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let mut builder = http_client::client_builder(&url).connect_timeout(crate::settings::CONNECT_TIMEOUT);
        if http_client::is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| setup_error(&error.without_url().to_string()))?;
        Ok(Self { http, url, authorization, settings })
    }

    /// Returns the identity of the model: its name, and the dimensions that are asked for. Vectors of different identities cannot be
    /// compared. The endpoint is no part of it, because the same model can move to another machine.
    pub fn identity(&self) -> String {
        let EmbeddingSettings { model, dimensions, .. } = &self.settings;
        let dimensions = dimensions.map(|dimensions| format!("/{dimensions}")).unwrap_or_default();
        format!("{model}{dimensions}")
    }

    /// Returns the scheme, host and port of the endpoint.
    pub fn endpoint(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// Returns the vectors of texts. The texts are sent as they are, so they must not contain secrets.
    ///
    /// # Errors
    /// When no answer arrives within `time_max`, and when the endpoint refuses the request or answers in another form.
    pub async fn embed(
        &self,
        texts: &[String],
        time_max: Duration,
    ) -> Result<EmbeddingAnswer, EmbeddingError> {
        match tokio::time::timeout(time_max, self.request(texts)).await {
            Ok(answer) => answer,
            Err(_) => Err(EmbeddingError::Timeout { endpoint: self.endpoint(), after: time_max }),
        }
    }

    /// Sends one request and reads its answer.
    async fn request(&self, texts: &[String]) -> Result<EmbeddingAnswer, EmbeddingError> {
        let EmbeddingSettings { model, dimensions, .. } = &self.settings;
        let body = RequestBody { model, input: texts, encoding_format: "float", dimensions: *dimensions };
        let body = serde_json::to_vec(&body).expect("texts and numbers are JSON");
        let mut request =
            self.http.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let body = self.read_body(response).await?;
        if status != 200 {
            return Err(EmbeddingError::Refused {
                model: self.settings.model.clone(),
                endpoint: self.endpoint(),
                status,
                message: self.error_message(status, &body),
                retry_after,
            });
        }
        // The error of the parser repeats a part of the answer, which may contain anything.
        let answer = serde_json::from_slice(&body).map_err(|error| {
            let reason = match error.classify() {
                Category::Data => "it has another form than OpenAI's",
                Category::Io | Category::Syntax | Category::Eof => "it is not JSON",
            };
            self.malformed(reason.to_owned())
        })?;
        self.check_answer(answer, texts)
    }

    /// Returns the vectors of an answer in the order of the texts.
    fn check_answer(&self, answer: AnswerBody, texts: &[String]) -> Result<EmbeddingAnswer, EmbeddingError> {
        let AnswerBody { data, usage } = answer;
        if data.len() != texts.len() {
            return Err(self.malformed(format!("it has {} vectors for {} texts", data.len(), texts.len())));
        }
        let mut vectors = vec![Vec::new(); texts.len()];
        for (position, AnswerVector { index, embedding }) in data.into_iter().enumerate() {
            let vector = vectors.get_mut(index.unwrap_or(position)).filter(|vector| vector.is_empty());
            match vector {
                Some(vector) if !embedding.is_empty() => *vector = embedding,
                Some(_) | None => return Err(self.malformed("a vector is empty or out of order".to_owned())),
            }
        }
        if vectors.iter().any(|vector| vector.len() != vectors[0].len()) {
            return Err(self.malformed("its vectors have different numbers of dimensions".to_owned()));
        }
        let reported = usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens));
        let estimated: u64 = texts.iter().map(|text| tokens::estimate_tokens(text)).sum();
        let plausible = estimated / ESTIMATE_FACTOR_MAX..=estimated.saturating_mul(ESTIMATE_FACTOR_MAX);
        let tokens = reported.filter(|tokens| *tokens > 0 && plausible.contains(tokens)).unwrap_or(estimated);
        Ok(EmbeddingAnswer { vectors, tokens })
    }

    /// Reads the body of a response.
    async fn read_body(&self, mut response: Response) -> Result<Vec<u8>, EmbeddingError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(self.malformed(format!("it has more than {ANSWER_BYTES_MAX} bytes")));
            }
        }
        Ok(body)
    }

    /// Returns the message of an error response in one line, without the key.
    fn error_message(&self, status: u16, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let message = parsed.as_ref().and_then(|body| {
            let error = body.get("error").or_else(|| body.get("detail")).or_else(|| body.get("message"))?;
            error.get("message").unwrap_or(error).as_str()
        });
        let line = message.unwrap_or(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            return match status {
                300..=399 => "redirects are not followed",
                _ => "it gave no reason",
            }
            .to_owned();
        }
        let line = match self.settings.api_key.as_ref().map(|key| key.expose_secret().trim()) {
            Some(key) if !key.is_empty() => line.replace(key, "[redacted]"),
            Some(_) | None => line,
        };
        line.chars().take(MESSAGE_CHARS_MAX).collect()
    }

    /// Returns the error of the network layer.
    fn unreachable(&self, error: reqwest::Error) -> EmbeddingError {
        let error = error.without_url();
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            reason = cause.to_string();
            source = cause.source();
        }
        EmbeddingError::Unreachable { endpoint: self.endpoint(), reason }
    }

    /// Returns the error of an answer in another form.
    fn malformed(&self, reason: String) -> EmbeddingError {
        EmbeddingError::Malformed { endpoint: self.endpoint(), reason }
    }
}

#[cfg(test)]
mod tests;
