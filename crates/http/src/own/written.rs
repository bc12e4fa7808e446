//! A thread as a file, and the files that belong to it. What could act in a browser is only ever handed out as a download.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use langgraph::extract::{InThread, Params, PathParams, path_id};
use langgraph::{Caller, Envelope, Fault};
use protocol::ThreadId;

/// What a browser may show by itself: pictures without a script in them, and text.
const SHOWN: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"];
/// What an artifact may do in a page, whatever it is.
const INERT: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
/// A name is kept for ever: it is the hash of the bytes.
const UNCHANGING: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// The fewest digits of a hash that name an artifact.
const HASH_DIGITS_MIN: usize = 8;

/// Returns a thread's transcript as a file
///
/// Reasoning is left out.
#[utoipa::path(get, path = "/api/threads/{thread_id}/export", tag = "segue", operation_id = "export_thread",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("format" = Option<String>, Query, description = "`md` or `json`; `md` unless given"),
    ),
    responses((status = 200, content((String = "text/markdown"), (Object = "application/json"))),
        (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn export(
    caller: Caller,
    InThread(thread_id): InThread,
    params: Params,
) -> Result<Response, Fault> {
    let mut thread = langgraph::thread(&caller, thread_id).await?;
    thread.assistant_id = thread.assistant_id.owned_by(None);
    let (ending, kind) = match params.text("format") {
        None | Some("md") => ("md", "text/markdown; charset=utf-8"),
        Some("json") => ("json", "application/json"),
        Some(other) => return Err(Fault::invalid(format!("`format`: `{other}` is none of md, json"))),
    };
    let entries = caller.agent.threads().history(thread_id).await?;
    let text = match ending {
        "json" => agent::export_json(&thread, entries).map_err(Fault::internal)?,
        _ => agent::export_markdown(&thread, &entries),
    };
    Ok(download(text, HeaderValue::from_static(kind), &format!("thread-{thread_id}.{ending}")))
}

/// Returns the bytes of an image, a document or a long result that belongs to a thread
#[utoipa::path(get, path = "/api/threads/{thread_id}/artifacts/{sha256}", tag = "segue", operation_id = "get_artifact",
    params(
        ("thread_id" = String, Path, format = Uuid),
        ("sha256" = String, Path, min_length = 8, max_length = 64, pattern = "^[0-9a-f]+$", description = "The SHA-256 of the bytes, or its beginning"),
    ),
    responses((status = 200, content_type = "application/octet-stream", description = "The bytes, as a download unless they are a picture or text"),
        (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn artifact(caller: Caller, path: PathParams) -> Result<Response, Fault> {
    let thread_id: ThreadId = path_id(&path, "thread")?;
    let sha256 = path.get("sha256");
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !(HASH_DIGITS_MIN..=64).contains(&sha256.len()) || !sha256.bytes().all(is_digit) {
        return Err(Fault::invalid("`sha256` must be 8 to 64 lowercase hex digits"));
    }
    langgraph::thread(&caller, thread_id).await?;
    let found = caller.agent.threads().artifact(thread_id, sha256).await?;
    let found =
        found.ok_or_else(|| Fault::not_found(format!("thread {thread_id} has no artifact {sha256}")))?;
    let kind = found.media_type.as_str();
    let is_shown = SHOWN.contains(&kind.split(';').next().unwrap_or_default().trim());
    let unknown = HeaderValue::from_static("application/octet-stream");
    let kind = HeaderValue::from_str(kind).unwrap_or(unknown);
    let name = format!("{}.{}", &found.sha256[..HASH_DIGITS_MIN], extension(&found.media_type));
    let mut response = match is_shown {
        true => ([(CONTENT_TYPE, kind)], found.bytes).into_response(),
        false => download(found.bytes, kind, &name),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, UNCHANGING);
    headers.insert(CONTENT_SECURITY_POLICY, INERT);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// Returns the ending of a file's name.
fn extension(media_type: &str) -> &'static str {
    match media_type {
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/html" => "html",
        "image/svg+xml" => "svg",
        _ => "bin",
    }
}

fn download(body: impl IntoResponse, kind: HeaderValue, name: &str) -> Response {
    let attached = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let attached = attached.unwrap_or(HeaderValue::from_static("attachment"));
    let headers: [(HeaderName, HeaderValue); 2] = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, attached)];
    (headers, body).into_response()
}
