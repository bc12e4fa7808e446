//! The writer between the readers and the sink. It delays the start of a conversation until its key is known, fills in
//! missing times and counts entries. It is the same for all formats.

use jiff::Timestamp;
use std::path::PathBuf;

use crate::conversation::{ConversationInfo, TranscriptProblem, TranscriptSink, text_digest};
use crate::entry::TranscriptEntry;
use crate::error::Error;

/// Maximum number of entries that are buffered until the key of their conversation is known. At this limit the
/// conversation starts with an empty digest of the first text.
const PENDING_ENTRIES_MAX: usize = 256;

/// Maximum size of the texts that are buffered until the key of their conversation is known, in bytes.
const PENDING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Minimum number of bytes between two progress reports.
const PROGRESS_INTERVAL_BYTES: u64 = 256 * 1024;

/// Totals of one read of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Number of conversations in the source, with or without entries.
    pub conversations: u64,
    /// Number of conversations without entries. They are not passed to the sink.
    pub empty: u64,
    /// Number of entries passed to the sink.
    pub entries: u64,
    /// Number of problems passed to the sink.
    pub problems: u64,
}

/// The output of all readers. It writes to the sink and keeps the state of the open conversation.
pub(crate) struct SinkWriter<'a> {
    sink: &'a mut dyn TranscriptSink,
    /// The source's path or name, as problems show it.
    display_name: PathBuf,
    stage: ConversationStage,
    /// The time of the last entry, for entries without a time.
    last_created_at: Option<Timestamp>,
    /// The current line of the source, counted from 1; `None` before the first line and in databases.
    line: Option<u64>,
    /// The position, in bytes, from which the next progress report is due.
    next_progress: u64,
    report: ReadReport,
}

/// The state of the current conversation.
enum ConversationStage {
    /// No conversation is open.
    Idle,
    /// The key is not known yet, and the first entries are buffered.
    KeyPending {
        /// The metadata known so far.
        conversation: ConversationInfo,
        /// The buffered entries, in file order.
        entries: Vec<TranscriptEntry>,
        /// Total size of the texts of `entries`, in bytes.
        bytes: usize,
    },
    /// The sink has received the start of the conversation.
    Started(ConversationInfo),
}

impl<'a> SinkWriter<'a> {
    /// Returns a writer to `sink` that uses `display_name` as the path of problems.
    pub(crate) fn new(sink: &'a mut dyn TranscriptSink, display_name: PathBuf) -> Self {
        Self {
            sink,
            display_name,
            stage: ConversationStage::Idle,
            last_created_at: None,
            line: None,
            next_progress: PROGRESS_INTERVAL_BYTES,
            report: ReadReport::default(),
        }
    }

    /// Opens a conversation and closes the previous one.
    ///
    /// The sink receives the start of the conversation only with its first entries.
    pub(crate) fn open_conversation(&mut self, conversation: ConversationInfo) -> Result<(), Error> {
        self.close_conversation()?;
        self.report.conversations += 1;
        self.last_created_at = conversation.started_at;
        self.stage = ConversationStage::KeyPending { conversation, entries: Vec::new(), bytes: 0 };
        Ok(())
    }

    /// Returns the metadata of the open conversation, so that a reader can fill in fields.
    pub(crate) const fn conversation(&mut self) -> Option<&mut ConversationInfo> {
        match &mut self.stage {
            ConversationStage::Idle => None,
            ConversationStage::KeyPending { conversation, .. } | ConversationStage::Started(conversation) => {
                Some(conversation)
            }
        }
    }

    /// Adds the next entry of the open conversation. Without an open conversation the entry is dropped.
    ///
    /// An entry without a time gets the time of the entry before it. Entries are buffered until the key is known: until
    /// the first text of the user if the key contains its digest, and at most up to [`PENDING_ENTRIES_MAX`] entries or
    /// [`PENDING_BYTES_MAX`] bytes.
    pub(crate) fn push_entry(&mut self, mut entry: TranscriptEntry) -> Result<(), Error> {
        entry.created_at = entry.created_at.or(self.last_created_at);
        self.last_created_at = entry.created_at;
        match &mut self.stage {
            ConversationStage::Idle => Ok(()),
            ConversationStage::Started(_) => {
                self.report.entries += 1;
                self.sink.push_entry(entry).map_err(Error::Sink)
            }
            ConversationStage::KeyPending { conversation, entries, bytes } => {
                conversation.started_at = conversation.started_at.or(entry.created_at);
                *bytes += entry.text().len();
                let human_text_digest = entry.human_text().map(text_digest);
                entries.push(entry);
                let full = entries.len() >= PENDING_ENTRIES_MAX || *bytes >= PENDING_BYTES_MAX;
                if let Some(digest) = human_text_digest {
                    conversation.first_text_digest = digest;
                    return self.begin_pending();
                }
                if full || !conversation.needs_first_text() { self.begin_pending() } else { Ok(()) }
            }
        }
    }

    /// Closes the open conversation, if any. A conversation without entries is counted and not passed to the sink.
    pub(crate) fn close_conversation(&mut self) -> Result<(), Error> {
        if matches!(&self.stage, ConversationStage::KeyPending { entries, .. } if !entries.is_empty()) {
            self.begin_pending()?;
        }
        match std::mem::replace(&mut self.stage, ConversationStage::Idle) {
            ConversationStage::Started(conversation) => {
                self.sink.end_conversation(&conversation).map_err(Error::Sink)
            }
            ConversationStage::KeyPending { .. } => {
                self.report.empty += 1;
                Ok(())
            }
            ConversationStage::Idle => Ok(()),
        }
    }

    /// Sets the line of the problems that are reported from now on.
    pub(crate) const fn set_line(&mut self, line: u64) {
        self.line = Some(line);
    }

    /// Returns the current line, for readers that walk the inside of a record; 1 if no line is known.
    pub(crate) fn line(&self) -> u64 {
        self.line.unwrap_or(1)
    }

    /// Reports a damaged part of the source at the current line. `reason` is a lowercase fragment.
    pub(crate) fn report_problem(&mut self, reason: impl Into<String>) {
        self.report.problems += 1;
        self.sink.report_problem(TranscriptProblem {
            path: self.display_name.clone(),
            line: self.line,
            reason: reason.into(),
        });
    }

    /// Reports to the sink that `bytes` of the source have been read. Reports within 256 KiB of the last one are
    /// dropped.
    pub(crate) fn report_progress(&mut self, bytes: u64) {
        if bytes >= self.next_progress {
            self.next_progress = bytes + PROGRESS_INTERVAL_BYTES;
            self.sink.report_progress(bytes);
        }
    }

    /// Closes the last conversation, reports `bytes` as the final progress and returns the totals.
    pub(crate) fn finish(mut self, bytes: u64) -> Result<ReadReport, Error> {
        self.close_conversation()?;
        self.sink.report_progress(bytes);
        Ok(self.report)
    }

    /// Passes the start of the pending conversation and its buffered entries to the sink.
    fn begin_pending(&mut self) -> Result<(), Error> {
        if let ConversationStage::KeyPending { conversation, entries, .. } =
            std::mem::replace(&mut self.stage, ConversationStage::Idle)
        {
            self.sink.begin_conversation(&conversation).map_err(Error::Sink)?;
            self.report.entries += entries.len() as u64;
            for entry in entries {
                self.sink.push_entry(entry).map_err(Error::Sink)?;
            }
            self.stage = ConversationStage::Started(conversation);
        }
        Ok(())
    }
}
