//! The sample session of a demo: it is embedded in the program, imported like any other session, and described in a few
//! lines.

use std::io::{self, Read, Write};

use agent::{CancellationToken, FrameSender, HistoryEntry, HistoryQuery, ImportReport};
use flate2::read::GzDecoder;
use protocol::{Message, Thread};
use serde::Serialize;
use tempfile::NamedTempFile;
use terminal::{format_tokens, sanitize_line, shorten};

use super::{check_running, print_text};
use crate::commands::CommandContext;
use crate::exit::{CliFailure, ExitReason};

/// The session, compressed. The build script makes it from a file of the repository.
const SESSION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/session.jsonl.gz"));
/// The name of the session's file.
const SESSION_NAME: &str = "flaky-test.jsonl";
/// The subject of the session.
const SUBJECT: &str = "A coding agent examines a flaky test";
/// The number of history entries that are read to find the last request.
const ENTRIES_READ_MAX: usize = 20;

/// The imported sample session.
pub(super) struct SampleThread {
    /// The thread that contains it.
    pub(super) thread: Thread,
    /// The estimated size of its messages in tokens.
    pub(super) tokens: u64,
    /// The import.
    pub(super) import: ImportReport,
}

/// The thread of the session in the output of `segue demo --json`.
#[derive(Serialize)]
pub(super) struct SampleThreadReport<'a> {
    /// The id of the thread.
    thread_id: protocol::ThreadId,
    /// Its name.
    name: Option<&'a str>,
    /// The number of its messages.
    messages: u64,
    /// The estimated size of its messages in tokens.
    tokens: u64,
}

impl SampleThread {
    /// Imports the session into the home folder of the demo. Cancelling stops the import.
    ///
    /// # Errors
    /// Fails if the home folder cannot be written, or if the import is cancelled.
    pub(super) async fn import(
        context: &CommandContext,
        cancel: &CancellationToken,
    ) -> Result<Self, CliFailure> {
        let frames = FrameSender::default();
        let file = write_session_file(context)?;
        let threads = context.agent.threads();
        let import = threads.import_upload(file, SESSION_NAME, &frames, cancel).await?;
        check_running(cancel)?;
        let imported = import.threads.first().ok_or_else(|| {
            CliFailure::new(ExitReason::Internal, "import the sample session: it contains no conversation")
        })?;
        let thread = threads.find(&imported.thread_id.to_string()).await?;
        let tokens = threads.context_report(thread.thread_id).await?.tokens;
        Ok(Self { thread, tokens, import })
    }

    /// Returns the fields of the report.
    pub(super) fn report(&self) -> SampleThreadReport<'_> {
        SampleThreadReport {
            thread_id: self.thread.thread_id,
            name: self.thread.name.as_deref(),
            messages: self.thread.message_count,
            tokens: self.tokens,
        }
    }

    /// Prints the size of the conversation, and its first and its last request.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or stdout cannot be written.
    pub(super) async fn print_overview(&self, context: &CommandContext) -> Result<(), CliFailure> {
        let screen = &context.screen;
        let (messages, tokens) = (self.thread.message_count, format_tokens(self.tokens));
        print_text(screen, &format!("{SUBJECT}: {messages} messages, {tokens} tokens."))?;
        let requests =
            [("begins  ", self.thread.first_prompt.clone()), ("ends    ", self.last_request(context).await?)];
        for (label, request) in requests {
            let Some(text) = request else { continue };
            let columns = screen.text_columns().saturating_sub(label.len() + 2);
            let text = sanitize_line(&text);
            screen.print_line(format!("  {}{}", screen.style.dim(label), shorten(&text, columns)))?;
        }
        Ok(())
    }

    /// Returns the last message of the user among the newest [`ENTRIES_READ_MAX`] entries.
    async fn last_request(&self, context: &CommandContext) -> Result<Option<String>, CliFailure> {
        let query = HistoryQuery { limit: ENTRIES_READ_MAX, ..HistoryQuery::default() };
        let page = context.agent.threads().history_page(self.thread.thread_id, &query).await?;
        let messages = page.entries.iter().rev().filter_map(HistoryEntry::message);
        Ok(messages.filter(|message| matches!(message, Message::Human(_))).map(Message::text).next())
    }
}

/// Writes the session to a temporary file in the home folder.
///
/// # Errors
/// Fails if the file cannot be written.
fn write_session_file(context: &CommandContext) -> io::Result<NamedTempFile> {
    let mut session = Vec::new();
    GzDecoder::new(SESSION).read_to_end(&mut session)?;
    let mut file = NamedTempFile::new_in(context.agent.home().root())?;
    file.write_all(&session)?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_session_is_the_example_of_the_repository() {
        let mut session = Vec::new();
        GzDecoder::new(SESSION).read_to_end(&mut session).unwrap();
        assert!(session == include_bytes!("../../../../../../examples/flaky-test.jsonl"));
        assert!(SESSION.len() < 80_000, "{} bytes in the program", SESSION.len());
    }
}
