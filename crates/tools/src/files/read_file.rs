//! The tool `read_file`: returns lines of a text file, an image or PDF, or the stored full text of an earlier output
//! (`artifact:<name>`).
//!
//! Reading a text file records its content hash, which allows the agent to change the file afterwards. Detecting that
//! the file has changed in between is the task of [`crate::files::file_change`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Artifact, Write};
use model::ToolSpec;
use protocol::{ContentBlock, ThreadId};
use runtime::{CallReview, GraphUpdate, RepeatSafety, Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::files::line_range::{self, LINES_MAX, LinePage, LineRange};
use crate::files::media::{self, MediaFormat};
use crate::files::read_tracker::{self, ReadTracker};
use crate::files::review_read;
use crate::workspace::Workspace;
use crate::workspace::confined_file::FolderCreation;
use crate::{BINARY_PROBE_BYTES, parse_args};

/// Maximum number of bytes of a file that a call reads to reach the requested lines.
const SCANNED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum size in bytes of a file whose content is recorded. A larger file can be read, but not changed afterwards.
const TRACKED_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Prefix of a path that names a stored output instead of a file.
pub(crate) const ARTIFACT_PREFIX: &str = "artifact:";

/// The tool `read_file`.
pub(crate) struct ReadFileTool {
    /// Records the content of the files that were read.
    read_tracker: Arc<ReadTracker>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFileArgs {
    /// The file, relative to the workspace, or artifact:<name>.
    path: String,
    /// The first line. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// The number of lines. Default: as many as fit.
    #[serde(default)]
    #[schemars(range(min = 1, max = LINES_MAX))]
    limit: Option<u64>,
}

/// The content of a file as the tool returns it.
enum ReadFileOutput {
    /// Numbered lines.
    Text(String),
    /// An image or a PDF.
    Media { format: MediaFormat, bytes: Vec<u8> },
}

/// The blocking part of one call. It owns its data, because it runs on the blocking thread pool.
struct ReadFileJob {
    read_tracker: Arc<ReadTracker>,
    root: PathBuf,
    thread_id: ThreadId,
    cancel: CancellationToken,
}

impl ReadFileTool {
    /// Returns the tool. It records the files it has shown in `read_tracker`.
    pub fn new(read_tracker: Arc<ReadTracker>) -> Self {
        Self { read_tracker }
    }
}

#[async_trait]
impl Tool for ReadFileTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec::for_args::<ReadFileArgs>(
            "read_file",
            "Shows lines of a text file of the workspace, each with its number; an image or a PDF to \
                          look at; or all of an earlier output that was too long, as artifact:<name>.",
        )
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    fn check_args(&self, args: &Value) -> Result<(), String> {
        parse_args::<ReadFileArgs>(args).map(drop)
    }

    async fn review(&self, args: &Value, context: &ToolContext) -> CallReview {
        match parse_args::<ReadFileArgs>(args) {
            Ok(args) if args.path.starts_with(ARTIFACT_PREFIX) => CallReview::default(),
            Ok(args) => review_read(&context.workspace, &args.path),
            Err(_) => CallReview::default(),
        }
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args: ReadFileArgs = match parse_args(args) {
            Ok(args) => args,
            Err(reason) => return ToolOutput::error(reason),
        };
        if let Some(name) = args.path.strip_prefix(ARTIFACT_PREFIX) {
            let name = name.to_owned();
            return read_artifact(&name, args, context).await;
        }
        let job = ReadFileJob {
            read_tracker: Arc::clone(&self.read_tracker),
            root: context.workspace.clone(),
            thread_id: context.thread_id,
            cancel: context.cancel.clone(),
        };
        match tokio::task::spawn_blocking(move || job.read(&args)).await {
            Ok(Ok(ReadFileOutput::Text(text))) => ToolOutput::success(text),
            Ok(Ok(ReadFileOutput::Media { format, bytes })) => media_output(context.thread_id, format, bytes),
            Ok(Err(reason)) => ToolOutput::error(reason),
            Err(_) => ToolOutput::error(
                "the tool failed unexpectedly; the call may be repeated with narrower arguments",
            ),
        }
    }
}

impl ReadFileJob {
    /// Reads the file: a page of lines, or the whole content of an image or PDF.
    ///
    /// # Errors
    /// Returns the message for the model if the file is missing, outside the workspace, binary, too large, or the range
    /// begins after its end.
    fn read(&self, args: &ReadFileArgs) -> Result<ReadFileOutput, String> {
        let failed = |error: io::Error| io_error_text(&args.path, &error);
        let workspace = Workspace::open(&self.root)?;
        let path = workspace.resolve_existing(&args.path)?;
        if path.is_dir() {
            return Err(format!("{:?} is a folder; ls lists it", args.path));
        }
        let entry = workspace.resolve(&args.path)?.open_parent(FolderCreation::MustExist).map_err(failed)?;
        let file = entry.open().map_err(failed)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let size = file.metadata().map_err(failed)?.len();
        let mut reader = BufReader::new(file);
        let probe = reader.fill_buf().map_err(failed)?;
        if let Some(format) = media::detect_media(probe) {
            return self.read_media(args, format, size, reader);
        }
        if probe[..probe.len().min(BINARY_PROBE_BYTES)].contains(&0) {
            return Err(format!("{:?} is a binary file of {size} bytes", args.path));
        }
        if size <= TRACKED_BYTES_MAX {
            self.read_tracked_lines(args, &path, reader).map(ReadFileOutput::Text)
        } else {
            let mut scanned = reader.take(SCANNED_BYTES_MAX);
            let range = LineRange::from_options(args.offset, args.limit);
            let page = line_range::read_page(&mut scanned, range, &self.cancel).map_err(failed)?;
            if page.is_end_reached && size > SCANNED_BYTES_MAX {
                return Err(format!(
                    "{:?} has {size} bytes, too many to count its lines; grep finds text in it",
                    args.path
                ));
            }
            page_text(&args.path, page, range).map(ReadFileOutput::Text)
        }
    }

    /// Reads lines of a file that is small enough to be changed afterwards, and records the hash of its whole content.
    fn read_tracked_lines(
        &self,
        args: &ReadFileArgs,
        path: &Path,
        mut reader: BufReader<File>,
    ) -> Result<String, String> {
        let failed = |error: io::Error| io_error_text(&args.path, &error);
        let mut bytes = Vec::new();
        reader.by_ref().take(TRACKED_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
        let range = LineRange::from_options(args.offset, args.limit);
        let page = line_range::read_page(&mut Cursor::new(&bytes), range, &self.cancel).map_err(failed)?;
        let text = page_text(&args.path, page, range)?;
        self.read_tracker.record_read(self.thread_id, path, read_tracker::hash_content(&bytes));
        Ok(text)
    }

    /// Reads an image or a PDF as a whole.
    fn read_media(
        &self,
        args: &ReadFileArgs,
        format: MediaFormat,
        size: u64,
        mut reader: BufReader<File>,
    ) -> Result<ReadFileOutput, String> {
        let failed = |error: io::Error| io_error_text(&args.path, &error);
        if size > format.bytes_max {
            return Err(format!(
                "{:?} is {} of {size} bytes; only up to {} bytes can be viewed",
                args.path, format.media_type, format.bytes_max
            ));
        }
        let mut bytes = Vec::new();
        reader.rewind().map_err(failed)?;
        reader.take(format.bytes_max).read_to_end(&mut bytes).map_err(failed)?;
        Ok(ReadFileOutput::Media { format, bytes })
    }
}

/// Returns an output that refers to the file by its SHA-256, with a write that stores the bytes as an artifact of the
/// thread. The message itself stays small.
fn media_output(thread_id: ThreadId, format: MediaFormat, bytes: Vec<u8>) -> ToolOutput {
    let sha256 = protocol::sha256_hex(&bytes);
    let (media_type, size) = (format.media_type.to_owned(), bytes.len() as u64);
    let block = ContentBlock::Media {
        media_type: media_type.clone(),
        sha256: Some(sha256.clone()),
        bytes: Some(size),
    };
    let artifact = Artifact { thread_id, sha256, media_type, bytes, created_at: Timestamp::now() };
    let mut output = ToolOutput::success(format!("{}, {size} bytes", format.media_type));
    output.content.push(block);
    output.with_update(GraphUpdate { writes: vec![Write::PutArtifact(artifact)], ..GraphUpdate::default() })
}

/// Returns the content of an artifact of this thread: lines of a text, or an image or PDF. The format is detected from
/// the bytes, not from the stored media type. `name` is the artifact's SHA-256 or the beginning of it.
async fn read_artifact(name: &str, args: ReadFileArgs, context: &ToolContext) -> ToolOutput {
    let artifact = match context.store.artifact(context.thread_id, name).await {
        Ok(Some(artifact)) => artifact,
        Ok(None) => return ToolOutput::error(format!("nothing is stored as {:?} in this thread", args.path)),
        Err(error) => return ToolOutput::error(format!("{:?} cannot be read: {error}", args.path)),
    };
    if let Some(format) = media::detect_media(&artifact.bytes) {
        return media_output(context.thread_id, format, artifact.bytes);
    }
    let cancel = context.cancel.clone();
    crate::run_blocking(move || artifact_lines(&args, &artifact, &cancel)).await
}

/// Returns lines of a stored text. A long line is wrapped into several, because no other tool can show its end.
///
/// # Errors
/// Returns the message for the model if the artifact is binary or the range begins after its end.
fn artifact_lines(
    args: &ReadFileArgs,
    artifact: &Artifact,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let bytes = &artifact.bytes;
    if bytes[..bytes.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        let (kind, size) = (&artifact.media_type, bytes.len());
        return Err(format!("{:?} is {kind} of {size} bytes, not text", args.path));
    }
    let text = String::from_utf8_lossy(bytes);
    let range = LineRange::from_options(args.offset, args.limit);
    let page =
        line_range::read_page(&mut Cursor::new(line_range::wrap_long_lines(&text).as_bytes()), range, cancel);
    page_text(&args.path, page.map_err(|error| io_error_text(&args.path, &error))?, range)
}

/// Returns the page's text.
///
/// # Errors
/// Returns the message for the model if the range begins after the last line.
fn page_text(path: &str, page: LinePage, range: LineRange) -> Result<String, String> {
    match page.lines {
        0 => Ok("(empty file)".to_owned()),
        lines if page.is_end_reached && range.offset > lines => {
            Err(format!("{path:?} has only {lines} lines"))
        }
        _ => Ok(page.text),
    }
}

/// Returns the message for the model about an I/O error.
fn io_error_text(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Interrupted => "cancelled".to_owned(),
        _ => format!("{path:?} cannot be read: {error}"),
    }
}
