//! Between the readers and the sink: begins a conversation once its key is known, fills in missing times,
//! counts. It knows nothing of any format.

use jiff::Timestamp;
use std::path::PathBuf;

use crate::conversation::{ConversationInfo, TranscriptProblem, TranscriptSink, text_digest};
use crate::entry::TranscriptEntry;
use crate::error::Error;

/// How many entries may wait for the key of their conversation; beyond it the key does without the first text.
const PENDING_ENTRIES_MAX: usize = 256;

/// How many bytes of text may wait for the key of their conversation.
const PENDING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// After how many bytes the sink hears of progress again.
const PROGRESS_INTERVAL_BYTES: u64 = 256 * 1024;

/// Counts of the entries that were read from one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Conversations in the source.
    pub conversations: u64,
    /// Conversations without any entry among them; the sink does not hear of these.
    pub empty: u64,
    /// Entries given to the sink.
    pub entries: u64,
    /// Problems given to the sink.
    pub problems: u64,
}

/// The one way from a reader to the sink.
pub(crate) struct SinkWriter<'a> {
    sink: &'a mut dyn TranscriptSink,
    display_name: PathBuf,
    stage: ConversationStage,
    last_created_at: Option<Timestamp>,
    line: Option<u64>,
    next_progress: u64,
    report: ReadReport,
}

/// Where the current conversation stands.
enum ConversationStage {
    /// No conversation is open.
    Idle,
    /// Its key is not yet known; the first entries wait.
    KeyPending { conversation: ConversationInfo, entries: Vec<TranscriptEntry>, bytes: usize },
    /// The sink knows it.
    Started(ConversationInfo),
}

impl<'a> SinkWriter<'a> {
    /// Returns an output to `sink` that names `shown_as` in problems.
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

    /// Starts a conversation; the one before it ends.
    pub(crate) fn open_conversation(&mut self, conversation: ConversationInfo) -> Result<(), Error> {
        self.close_conversation()?;
        self.report.conversations += 1;
        self.last_created_at = conversation.started_at;
        self.stage = ConversationStage::KeyPending { conversation, entries: Vec::new(), bytes: 0 };
        Ok(())
    }

    /// Returns the open conversation, to add what was learned about it.
    pub(crate) const fn conversation(&mut self) -> Option<&mut ConversationInfo> {
        match &mut self.stage {
            ConversationStage::Idle => None,
            ConversationStage::KeyPending { conversation, .. } | ConversationStage::Started(conversation) => {
                Some(conversation)
            }
        }
    }

    /// Adds the next entry of the open conversation.
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
                let human = entry.human_text().map(text_digest);
                entries.push(entry);
                let full = entries.len() >= PENDING_ENTRIES_MAX || *bytes >= PENDING_BYTES_MAX;
                if let Some(digest) = human {
                    conversation.first_text_digest = digest;
                    return self.begin_pending();
                }
                if full || !conversation.needs_first_text() { self.begin_pending() } else { Ok(()) }
            }
        }
    }

    /// Ends the open conversation, if there is one with entries.
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

    /// Sets the line that problems are reported on from here.
    pub(crate) const fn set_line(&mut self, line: u64) {
        self.line = Some(line);
    }

    /// Returns the current line, for a reader that looks into a record it was given.
    pub(crate) fn line(&self) -> u64 {
        self.line.unwrap_or(1)
    }

    /// Reports a damaged part of the file, at the current line.
    pub(crate) fn report_problem(&mut self, reason: impl Into<String>) {
        self.report.problems += 1;
        self.sink.report_problem(TranscriptProblem {
            path: self.display_name.clone(),
            line: self.line,
            reason: reason.into(),
        });
    }

    /// Tells the sink how far reading has come, not more often than is useful.
    pub(crate) fn report_progress(&mut self, bytes: u64) {
        if bytes >= self.next_progress {
            self.next_progress = bytes + PROGRESS_INTERVAL_BYTES;
            self.sink.report_progress(bytes);
        }
    }

    /// Ends the last conversation and returns what was counted.
    pub(crate) fn finish(mut self, bytes: u64) -> Result<ReadReport, Error> {
        self.close_conversation()?;
        self.sink.report_progress(bytes);
        Ok(self.report)
    }

    /// Shows the waiting conversation and its entries to the sink.
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
