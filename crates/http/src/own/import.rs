//! `POST /api/import`: a session of another agent, sent as a file, becomes a thread. The bytes go to a temporary file as they
//! arrive; reading them is the same as on the command line.

use std::path::Path;
use std::time::Duration;

use agent::{CancellationToken, Frames, ImportReport};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use futures::{Stream, StreamExt};
use langgraph::extract::Params;
use langgraph::{Caller, Envelope, Fault};
use protocol::ThreadId;
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::server::Gateway;

/// Bytes of a session, at most.
const SESSION_BYTES_MAX: usize = 256 << 20;
/// Bytes around it in a form.
const FORM_BYTES_MAX: usize = 64 << 10;
/// How long the next piece of a session may take to arrive.
const PIECE_WITHIN: Duration = Duration::from_secs(30);
/// How long all of it may take: a place is not held for ever.
const SESSION_WITHIN: Duration = Duration::from_secs(15 * 60);
/// How long a file that is not changed may still be one that is read.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The folder in the home folder that sessions are written to while they arrive.
const ARRIVING: &str = "arriving";
/// Characters of a name that reports repeat.
const NAME_CHARS_MAX: usize = 120;

/// Returns the endpoint.
pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(import))
        .layer(DefaultBodyLimit::max(SESSION_BYTES_MAX + FORM_BYTES_MAX))
}

/// What an import did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportBody {
    /// The threads, in the order of the file.
    threads: Vec<ImportedShape>,
    /// What was damaged, and skipped or repaired.
    problems: Vec<ProblemShape>,
    /// Bytes read.
    bytes: u64,
}

/// One conversation of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportedShape {
    /// The thread it is in.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// What it is called.
    name: Option<String>,
    /// How it begins.
    first_prompt: Option<String>,
    /// The format it was read from.
    format: String,
    /// Events this import added; a session that was imported before gets only what is new.
    events_new: u64,
    /// Events of the session.
    events_total: u64,
    /// Whether this import created the thread.
    is_new: bool,
}

/// A damaged part.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemShape {
    /// The line, where lines mean something.
    line: Option<u64>,
    /// What is wrong, and what became of it.
    reason: String,
}

impl From<ImportReport> for ImportBody {
    fn from(report: ImportReport) -> Self {
        let threads = report.threads.into_iter().map(|thread| ImportedShape {
            thread_id: thread.thread_id,
            name: thread.name,
            first_prompt: thread.first_prompt,
            format: thread.format,
            events_new: thread.events_new,
            events_total: thread.events_total,
            is_new: thread.is_new,
        });
        let problems = report
            .problems
            .into_iter()
            .map(|problem| ProblemShape { line: problem.line, reason: problem.reason });
        Self { threads: threads.collect(), problems: problems.collect(), bytes: report.bytes }
    }
}

/// A session as a field of a form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read as a stream")]
struct SessionForm {
    /// The session file.
    #[schema(format = Binary, content_media_type = "application/octet-stream")]
    file: String,
}

/// Imports a session of another agent: the file as the body, or as the first file of a form
///
/// The format is detected. Up to 256 MiB; importing a session again adds only what is new.
#[utoipa::path(post, path = "/api/import", tag = "segue", operation_id = "import_session",
    params(("name" = Option<String>, Query, description = "The file's name, for reports")),
    request_body(content((String = "application/octet-stream"), (SessionForm = "multipart/form-data"))),
    responses((status = 200, body = ImportBody), (status = 408, body = Envelope, description = "It stopped arriving"),
        (status = 413, body = Envelope), (status = 422, body = Envelope, description = "It holds no session that can be read")))]
async fn import(
    State(gateway): State<Gateway>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Json<ImportBody>, Fault> {
    let _place = gateway.imports.take(&caller.scope, "imports")?;
    let name = params.text("name").map(str::to_owned);
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let file = arriving(caller.agent.home().root())?;
    let report = if kind.starts_with("multipart/form-data") {
        let refused =
            |error: &dyn std::fmt::Display| Fault::invalid(format!("the form cannot be read: {error}"));
        let mut form = Multipart::from_request(request, &()).await.map_err(|error| refused(&error))?;
        let field = tokio::time::timeout(PIECE_WITHIN, form.next_field()).await.map_err(|_| stopped())?;
        let field = field.map_err(|error| refused(&error))?;
        let field = field.ok_or_else(|| Fault::invalid("the form has no file in it"))?;
        let name = name.or_else(|| field.file_name().map(str::to_owned));
        receive(&caller, field, file, name).await?
    } else {
        receive(&caller, request.into_body().into_data_stream(), file, name).await?
    };
    Ok(Json(report.into()))
}

/// Imports what arrives, once it has.
async fn receive<E: std::error::Error>(
    caller: &Caller,
    pieces: impl Stream<Item = Result<Bytes, E>>,
    file: NamedTempFile,
    name: Option<String>,
) -> Result<ImportReport, Fault> {
    let written = write_down(pieces, file.reopen().map_err(Fault::internal)?);
    tokio::time::timeout(SESSION_WITHIN, written).await.map_err(|_| stopped())??;
    let name = shown(name.as_deref().unwrap_or("request body"));
    let (frames, cancel) = (Frames::default(), CancellationToken::new());
    Ok(caller.agent.threads().import_sent(file, &name, &frames, &cancel).await?)
}

/// Returns a file for what arrives. Those that a server left which was killed go.
fn arriving(home: &Path) -> Result<NamedTempFile, Fault> {
    let folder = home.join(ARRIVING);
    std::fs::create_dir_all(&folder).map_err(Fault::internal)?;
    for left in std::fs::read_dir(&folder).map_err(Fault::internal)?.flatten() {
        let changed = left.metadata().and_then(|metadata| metadata.modified()).ok();
        let is_left = changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > LEFT_AFTER);
        if is_left {
            // Another server may have been faster.
            let _ = std::fs::remove_file(left.path());
        }
    }
    NamedTempFile::new_in(folder).map_err(Fault::internal)
}

fn stopped() -> Fault {
    Fault::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the session stopped arriving")
}

/// Returns a name for reports: no folder, nothing that cannot be seen.
fn shown(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    name.chars().filter(|character| !character.is_control()).take(NAME_CHARS_MAX).collect()
}

/// Writes the pieces into the file as they arrive, up to the limit. What breaks off, or stops, is no shorter session.
async fn write_down<E: std::error::Error>(
    pieces: impl Stream<Item = Result<Bytes, E>>,
    file: std::fs::File,
) -> Result<(), Fault> {
    let (mut pieces, mut file) = (std::pin::pin!(pieces), File::from_std(file));
    let mut bytes = 0;
    loop {
        let piece = tokio::time::timeout(PIECE_WITHIN, pieces.next()).await.map_err(|_| stopped())?;
        let Some(piece) = piece else { break };
        let piece = piece.map_err(|error| Fault::bad_request(format!("the session broke off: {error}")))?;
        bytes += piece.len();
        if bytes > SESSION_BYTES_MAX {
            let most = SESSION_BYTES_MAX >> 20;
            return Err(Fault::too_large(format!("the session has more than {most} MiB"))
                .with_hint("`segue import PATH` reads files of any size"));
        }
        file.write_all(&piece).await.map_err(Fault::internal)?;
    }
    file.flush().await.map_err(Fault::internal)
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;

    use super::*;

    type Pieces = Vec<io::Result<Bytes>>;

    async fn written(
        pieces: Pieces,
        then: impl Stream<Item = io::Result<Bytes>>,
    ) -> Result<String, StatusCode> {
        let file = NamedTempFile::new().unwrap();
        let arriving = stream::iter(pieces).chain(then);
        write_down(arriving, file.reopen().unwrap()).await.map_err(|fault| fault.status())?;
        Ok(std::fs::read_to_string(file.path()).unwrap())
    }

    fn pieces(parts: &[&'static str]) -> Pieces {
        parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes()))).collect()
    }

    #[tokio::test]
    async fn a_session_is_written_down_whole_and_one_that_breaks_off_is_refused() {
        let whole = written(pieces(&["one ", "", "two"]), stream::empty()).await;
        assert_eq!(whole.as_deref(), Ok("one two"));
        let broken = stream::iter([Err(io::Error::other("gone"))]);
        assert_eq!(written(pieces(&["one"]), broken).await, Err(StatusCode::BAD_REQUEST));
    }

    #[tokio::test(start_paused = true)]
    async fn h5_a_session_that_stops_arriving_waits_for_nobody() {
        let stalled = written(Vec::new(), stream::pending()).await;
        assert_eq!(stalled, Err(StatusCode::REQUEST_TIMEOUT));
    }

    #[test]
    fn what_a_killed_server_left_of_a_session_goes_with_the_next_one() {
        let home = tempfile::tempdir().unwrap();
        let old = arriving(home.path()).unwrap().into_temp_path();
        let (young, left) = (arriving(home.path()).unwrap(), old.keep().unwrap());
        let long_ago = std::time::SystemTime::now() - LEFT_AFTER - Duration::from_secs(1);
        std::fs::File::options().write(true).open(&left).unwrap().set_modified(long_ago).unwrap();
        arriving(home.path()).unwrap();
        assert!(!left.exists() && young.path().exists());
    }

    #[test]
    fn k6_a_name_is_shown_without_its_folders() {
        assert_eq!(shown("../../etc/passwd"), "passwd");
        assert_eq!(shown("C:\\x\\a\u{1b}b.jsonl"), "ab.jsonl");
        assert_eq!(shown(&"é".repeat(500)).chars().count(), NAME_CHARS_MAX);
    }
}
