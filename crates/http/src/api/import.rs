//! `POST /api/import`: imports a session file of another agent as threads. The upload is written to a temporary file;
//! the import itself is the same as on the command line.
//!
//! The body is streamed to the file and never in memory as a whole. An upload has a limit on its size, on the pause
//! between two chunks, and on its total time, because an upload occupies one of its user's permits until it ends.

use std::path::Path;
use std::time::Duration;

use agent::{CancellationToken, FrameSender, ImportReport};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use futures::{Stream, StreamExt};
use langgraph::extract::QueryParams;
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::ThreadId;
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::threads::shapes::redacted;
use crate::server::AppState;

/// Maximum size of a session, in bytes.
const SESSION_BYTES_MAX: usize = 256 << 20;
/// Additional bytes for the other parts of a form.
const FORM_BYTES_MAX: usize = 64 << 10;
/// Maximum time to wait for the next chunk of an upload.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time of a whole upload, so that a slow client cannot occupy its permit for an unlimited time.
const SESSION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The age after which an unchanged upload file counts as left by a killed server.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The folder for uploads, inside the home folder.
const UPLOADS_FOLDER: &str = "arriving";
/// Maximum length of a file name in reports, in characters.
const NAME_CHARS_MAX: usize = 120;

/// Returns the endpoint, with a larger limit on the body than the others.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(import))
        .layer(DefaultBodyLimit::max(SESSION_BYTES_MAX + FORM_BYTES_MAX))
}

/// The result of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportBody {
    /// The threads, in the order of the file.
    threads: Vec<ImportedThreadShape>,
    /// Damaged parts of the file that were skipped or repaired.
    problems: Vec<ImportProblemShape>,
    /// Number of bytes read.
    bytes: u64,
}

/// An imported thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedThreadShape {
    /// The thread that holds the conversation.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The name of the thread.
    name: Option<String>,
    /// The first message of the thread.
    first_prompt: Option<String>,
    /// The format of the session.
    format: String,
    /// Number of events that this import added. Importing a session again adds only new events.
    events_new: u64,
    /// Number of events in the session.
    events_total: u64,
    /// True if this import created the thread.
    is_new: bool,
}

/// A damaged part of a session file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportProblemShape {
    /// The line number, if the format has lines.
    line: Option<u64>,
    /// The problem, and whether the part was skipped or repaired.
    reason: String,
}

impl From<ImportReport> for ImportBody {
    fn from(report: ImportReport) -> Self {
        let threads = report.threads.into_iter().map(|thread| ImportedThreadShape {
            thread_id: thread.thread_id,
            name: redacted(thread.name.as_deref()),
            first_prompt: redacted(thread.first_prompt.as_deref()),
            format: thread.format,
            events_new: thread.events_new,
            events_total: thread.events_total,
            is_new: thread.is_new,
        });
        let problems = report
            .problems
            .into_iter()
            .map(|problem| ImportProblemShape { line: problem.line, reason: problem.reason });
        Self { threads: threads.collect(), problems: problems.collect(), bytes: report.bytes }
    }
}

/// A form with a session file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents a form, which is read as a stream")]
struct SessionForm {
    /// The session file.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    file: String,
}

/// Imports a session of another agent, sent as the body or as the first file of a form
///
/// The format is detected. A session may have up to 256 MiB. Importing it again adds only what is new.
#[utoipa::path(post, path = "/api/import", tag = "segue", operation_id = "import_session",
    params(("name" = Option<String>, Query, description = "The file name for reports")),
    request_body(content((String = "application/octet-stream"), (SessionForm = "multipart/form-data"))),
    responses((status = 200, body = ImportBody), (status = 408, body = ErrorBody, description = "The upload stalled"),
        (status = 413, body = ErrorBody), (status = 422, body = ErrorBody, description = "The file contains no session that can be read")))]
async fn import(
    State(state): State<AppState>,
    caller: Caller,
    params: QueryParams,
    request: Request,
) -> Result<Json<ImportBody>, ApiError> {
    let _permit = state.imports.acquire(&caller.scope, "imports")?;
    let name = params.text("name").map(str::to_owned);
    let content_type =
        request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let file = create_upload_file(caller.agent.home().root())?;
    let report = if content_type.starts_with("multipart/form-data") {
        let invalid_form =
            |error: &dyn std::fmt::Display| ApiError::invalid(format!("the form is invalid: {error}"));
        let mut form = Multipart::from_request(request, &()).await.map_err(|error| invalid_form(&error))?;
        let field =
            tokio::time::timeout(CHUNK_TIMEOUT, form.next_field()).await.map_err(|_| upload_timeout())?;
        let field = field.map_err(|error| invalid_form(&error))?;
        let field = field.ok_or_else(|| ApiError::invalid("the form contains no file"))?;
        let name = name.or_else(|| field.file_name().map(str::to_owned));
        receive_session(&caller, field, file, name).await?
    } else {
        receive_session(&caller, request.into_body().into_data_stream(), file, name).await?
    };
    Ok(Json(report.into()))
}

/// Writes an upload to the file and imports it.
async fn receive_session<E: std::error::Error>(
    caller: &Caller,
    chunks: impl Stream<Item = Result<Bytes, E>>,
    file: NamedTempFile,
    name: Option<String>,
) -> Result<ImportReport, ApiError> {
    let written = write_chunks(chunks, file.reopen().map_err(ApiError::file_failure)?);
    tokio::time::timeout(SESSION_TIMEOUT, written).await.map_err(|_| upload_timeout())??;
    let name = sanitize_name(name.as_deref().unwrap_or("request body"));
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    Ok(caller.agent.threads().import_upload(file, &name, &frames, &cancel).await?)
}

/// Creates a file for an upload, and deletes old files that a killed server left.
fn create_upload_file(home: &Path) -> Result<NamedTempFile, ApiError> {
    let folder = home.join(UPLOADS_FOLDER);
    std::fs::create_dir_all(&folder).map_err(ApiError::file_failure)?;
    for entry in std::fs::read_dir(&folder).map_err(ApiError::file_failure)?.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_stale =
            modified.and_then(|modified_at| modified_at.elapsed().ok()).is_some_and(|age| age > STALE_AFTER);
        if is_stale {
            // Another server may have deleted it already.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    NamedTempFile::new_in(folder).map_err(ApiError::file_failure)
}

/// Returns the error for an upload that stalled.
fn upload_timeout() -> ApiError {
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the upload of the session stalled")
}

/// Returns the file name for reports, without folders and control characters.
fn sanitize_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.chars().filter(|character| !character.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Writes an upload to the file, up to the size limit. An interrupted or stalled upload is an error, not a shorter
/// session.
async fn write_chunks<E: std::error::Error>(
    chunks: impl Stream<Item = Result<Bytes, E>>,
    file: std::fs::File,
) -> Result<(), ApiError> {
    let (mut chunks, mut file) = (std::pin::pin!(chunks), File::from_std(file));
    let mut bytes = 0;
    loop {
        let chunk = tokio::time::timeout(CHUNK_TIMEOUT, chunks.next()).await.map_err(|_| upload_timeout())?;
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|error| {
            ApiError::bad_request(format!("the upload of the session was interrupted: {error}"))
        })?;
        bytes += chunk.len();
        if bytes > SESSION_BYTES_MAX {
            let mebibytes_max = SESSION_BYTES_MAX >> 20;
            return Err(ApiError::too_large(format!("the session is larger than {mebibytes_max} MiB"))
                .with_hint("`segue import PATH` imports files of any size"));
        }
        file.write_all(&chunk).await.map_err(ApiError::file_failure)?;
    }
    file.flush().await.map_err(ApiError::file_failure)
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;

    use super::*;

    type ChunkList = Vec<io::Result<Bytes>>;

    async fn write_to_file(
        chunks: ChunkList,
        rest_of_upload: impl Stream<Item = io::Result<Bytes>>,
    ) -> Result<String, StatusCode> {
        let file = NamedTempFile::new().unwrap();
        let upload = stream::iter(chunks).chain(rest_of_upload);
        write_chunks(upload, file.reopen().unwrap()).await.map_err(|fault| fault.status())?;
        Ok(std::fs::read_to_string(file.path()).unwrap())
    }

    fn chunks(texts: &[&'static str]) -> ChunkList {
        texts.iter().map(|text| Ok(Bytes::from_static(text.as_bytes()))).collect()
    }

    #[tokio::test]
    async fn a_session_is_written_completely_and_an_interrupted_one_is_refused() {
        let whole = write_to_file(chunks(&["one ", "", "two"]), stream::empty()).await;
        assert_eq!(whole.as_deref(), Ok("one two"));
        let broken = stream::iter([Err(io::Error::other("gone"))]);
        assert_eq!(write_to_file(chunks(&["one"]), broken).await, Err(StatusCode::BAD_REQUEST));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_upload_that_does_not_fit_on_the_disk_is_a_full_disk() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let upload = stream::iter(chunks(&["one", "two"]));
        let error = write_chunks(upload, full).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::INSUFFICIENT_STORAGE);
    }

    #[tokio::test(start_paused = true)]
    async fn h5_a_stalled_upload_times_out() {
        let stalled = write_to_file(Vec::new(), stream::pending()).await;
        assert_eq!(stalled, Err(StatusCode::REQUEST_TIMEOUT));
    }

    #[test]
    fn the_files_of_a_killed_server_are_deleted_with_the_next_upload() {
        let home = tempfile::tempdir().unwrap();
        let stale_upload = create_upload_file(home.path()).unwrap().into_temp_path();
        let (fresh, stale) = (create_upload_file(home.path()).unwrap(), stale_upload.keep().unwrap());
        let long_ago = std::time::SystemTime::now() - STALE_AFTER - Duration::from_secs(1);
        std::fs::File::options().write(true).open(&stale).unwrap().set_modified(long_ago).unwrap();
        create_upload_file(home.path()).unwrap();
        assert!(!stale.exists() && fresh.path().exists());
    }

    #[test]
    fn k6_a_name_is_shown_without_its_folders() {
        assert_eq!(sanitize_name("../../etc/passwd"), "passwd");
        assert_eq!(sanitize_name("C:\\x\\a\u{1b}b.jsonl"), "ab.jsonl");
        assert_eq!(sanitize_name(&"é".repeat(500)).chars().count(), NAME_CHARS_MAX);
    }
}
