//! Downloads of a thread: its transcript and its artifacts. Content that a browser could execute is always sent as an
//! attachment.

use agent::TranscriptFormat;
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use langgraph::extract::{PathParams, QueryParams, ThreadPath, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::ThreadId;

/// Media types that a browser may show inline: images without scripts, and plain text.
const INLINE_MEDIA_TYPES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"];
/// The content security policy of an artifact: a browser runs no scripts of it and loads nothing for it.
const SANDBOX_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
/// The cache policy of an artifact. Its name is the hash of its content, so it never changes.
const IMMUTABLE_CACHE: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// Minimum number of hex digits that identify an artifact.
const HASH_DIGITS_MIN: usize = 8;

/// Returns a thread's transcript as a file
///
/// Reasoning of the model is not included.
#[utoipa::path(get, path = "/api/threads/{thread_id}/export", tag = "segue", operation_id = "export_thread",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("format" = Option<String>, Query, description = "`md` or `json`; `md` by default"),
    ),
    responses((status = 200, content((String = "text/markdown"), (Object = "application/json"))),
        (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn export_thread(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Response, ApiError> {
    let mut thread = langgraph::find_thread(&caller, thread_id).await?;
    thread.assistant_id = thread.assistant_id.with_owner(None);
    let (format, extension, media_type) = match params.text("format") {
        None | Some("md") => (TranscriptFormat::Markdown, "md", "text/markdown; charset=utf-8"),
        Some("json") => (TranscriptFormat::Json, "json", "application/json"),
        Some(format) => {
            return Err(ApiError::invalid(format!("`format`: `{format}` is not one of md, json")));
        }
    };
    let export = caller.agent.threads().export(&thread, format).await?;
    // A failure after this ends the response without its last chunk, so that a client notices it.
    let parts = futures::stream::try_unfold(export, move |mut export| async move {
        let part = export.next_part().await;
        let part =
            part.inspect_err(|error| tracing::warn!(%thread_id, %error, "failed to complete an export"))?;
        Ok::<_, agent::Error>(part.map(|part| (part, export)))
    });
    Ok(attachment_response(
        Body::from_stream(parts),
        HeaderValue::from_static(media_type),
        &format!("thread-{thread_id}.{extension}"),
    ))
}

/// Returns the bytes of an artifact: an image, a document or a long tool result of a thread
#[utoipa::path(get, path = "/api/threads/{thread_id}/artifacts/{sha256}", tag = "segue", operation_id = "get_artifact",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("sha256" = String, Path, min_length = 8, max_length = 64, pattern = "^[0-9a-f]+$", description = "The SHA-256 of the bytes in hex, or at least its first 8 digits"),
    ),
    responses((status = 200, content_type = "application/octet-stream", description = "The bytes, as a download unless they are an image or plain text"),
        (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn get_artifact(caller: Caller, path: PathParams) -> Result<Response, ApiError> {
    let thread_id: ThreadId = parse_path_id(&path, "thread")?;
    let sha256 = path.get("sha256");
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !(HASH_DIGITS_MIN..=64).contains(&sha256.len()) || !sha256.bytes().all(is_digit) {
        return Err(ApiError::invalid("`sha256` must be 8 to 64 lowercase hex digits"));
    }
    langgraph::find_thread(&caller, thread_id).await?;
    let artifact = caller.agent.threads().artifact(thread_id, sha256).await?;
    let artifact = artifact
        .ok_or_else(|| ApiError::not_found(format!("thread {thread_id} has no artifact {sha256}")))?;
    let media_type = artifact.media_type.as_str();
    let is_inline = INLINE_MEDIA_TYPES.contains(&media_type.split(';').next().unwrap_or_default().trim());
    let fallback = HeaderValue::from_static("application/octet-stream");
    let media_type = HeaderValue::from_str(media_type).unwrap_or(fallback);
    let name = format!("{}.{}", &artifact.sha256[..HASH_DIGITS_MIN], file_extension(&artifact.media_type));
    let mut response = match is_inline {
        true => ([(CONTENT_TYPE, media_type)], artifact.bytes).into_response(),
        false => attachment_response(artifact.bytes, media_type, &name),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, IMMUTABLE_CACHE);
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX_POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// Returns the file extension for a media type.
fn file_extension(media_type: &str) -> &'static str {
    match media_type {
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/html" => "html",
        "image/svg+xml" => "svg",
        _ => "bin",
    }
}

/// Returns a response that a browser saves as a file.
fn attachment_response(body: impl IntoResponse, media_type: HeaderValue, name: &str) -> Response {
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    let headers: [(HeaderName, HeaderValue); 2] =
        [(CONTENT_TYPE, media_type), (CONTENT_DISPOSITION, disposition)];
    (headers, body).into_response()
}
