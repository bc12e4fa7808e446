//! Between the readers and the sink: begins a conversation once its key is known, fills in missing times,
//! counts. It knows nothing of any format.

use jiff::Timestamp;
use std::path::PathBuf;

use crate::conversation::{Conversation, Problem, Sink, text_digest};
use crate::entry::Entry;
use crate::error::Error;

/// How many entries may wait for the key of their conversation; beyond it the key does without the first text.
const WAITING_ENTRIES_MAX: usize = 256;

/// How many bytes of text may wait for the key of their conversation.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// After how many bytes the sink hears of progress again.
const PROGRESS_EVERY_BYTES: u64 = 256 * 1024;

/// What was read from one source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
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
pub(crate) struct Output<'a> {
    sink: &'a mut dyn Sink,
    shown_as: PathBuf,
    stage: Stage,
    last_at: Option<Timestamp>,
    line: Option<u64>,
    next_progress: u64,
    report: Report,
}

/// Where the current conversation stands.
enum Stage {
    /// No conversation is open.
    Idle,
    /// Its key is not yet known; the first entries wait.
    Waiting { conversation: Conversation, entries: Vec<Entry>, bytes: usize },
    /// The sink knows it.
    Begun(Conversation),
}

impl<'a> Output<'a> {
    /// Returns an output to `sink` that names `shown_as` in problems.
    pub(crate) fn new(sink: &'a mut dyn Sink, shown_as: PathBuf) -> Self {
        Self {
            sink,
            shown_as,
            stage: Stage::Idle,
            last_at: None,
            line: None,
            next_progress: PROGRESS_EVERY_BYTES,
            report: Report::default(),
        }
    }

    /// Starts a conversation; the one before it ends.
    pub(crate) fn open(&mut self, conversation: Conversation) -> Result<(), Error> {
        self.close()?;
        self.report.conversations += 1;
        self.last_at = conversation.started_at;
        self.stage = Stage::Waiting { conversation, entries: Vec::new(), bytes: 0 };
        Ok(())
    }

    /// Returns the open conversation, to add what was learned about it.
    pub(crate) const fn conversation(&mut self) -> Option<&mut Conversation> {
        match &mut self.stage {
            Stage::Idle => None,
            Stage::Waiting { conversation, .. } | Stage::Begun(conversation) => Some(conversation),
        }
    }

    /// Adds the next entry of the open conversation.
    pub(crate) fn push(&mut self, mut entry: Entry) -> Result<(), Error> {
        entry.at = entry.at.or(self.last_at);
        self.last_at = entry.at;
        match &mut self.stage {
            Stage::Idle => Ok(()),
            Stage::Begun(_) => {
                self.report.entries += 1;
                self.sink.entry(entry).map_err(Error::Sink)
            }
            Stage::Waiting { conversation, entries, bytes } => {
                conversation.started_at = conversation.started_at.or(entry.at);
                *bytes += entry.text().len();
                let human = entry.human_text().map(text_digest);
                entries.push(entry);
                let full = entries.len() >= WAITING_ENTRIES_MAX || *bytes >= WAITING_BYTES_MAX;
                if let Some(digest) = human {
                    conversation.first_text_digest = digest;
                    return self.begin();
                }
                if full || !conversation.needs_first_text() { self.begin() } else { Ok(()) }
            }
        }
    }

    /// Ends the open conversation, if there is one with entries.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        if matches!(&self.stage, Stage::Waiting { entries, .. } if !entries.is_empty()) {
            self.begin()?;
        }
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Begun(conversation) => self.sink.end(&conversation).map_err(Error::Sink),
            Stage::Waiting { .. } => {
                self.report.empty += 1;
                Ok(())
            }
            Stage::Idle => Ok(()),
        }
    }

    /// Sets the line that problems are reported on from here.
    pub(crate) const fn at_line(&mut self, line: u64) {
        self.line = Some(line);
    }

    /// Returns the current line, for a reader that looks into a record it was given.
    pub(crate) fn line(&self) -> u64 {
        self.line.unwrap_or(1)
    }

    /// Reports a damaged part of the file, at the current line.
    pub(crate) fn problem(&mut self, reason: impl Into<String>) {
        self.report.problems += 1;
        self.sink.problem(Problem { path: self.shown_as.clone(), line: self.line, reason: reason.into() });
    }

    /// Tells the sink how far reading has come, not more often than is useful.
    pub(crate) fn progress(&mut self, bytes: u64) {
        if bytes >= self.next_progress {
            self.next_progress = bytes + PROGRESS_EVERY_BYTES;
            self.sink.progress(bytes);
        }
    }

    /// Ends the last conversation and returns what was counted.
    pub(crate) fn finish(mut self, bytes: u64) -> Result<Report, Error> {
        self.close()?;
        self.sink.progress(bytes);
        Ok(self.report)
    }

    /// Shows the waiting conversation and its entries to the sink.
    fn begin(&mut self) -> Result<(), Error> {
        if let Stage::Waiting { conversation, entries, .. } = std::mem::replace(&mut self.stage, Stage::Idle)
        {
            self.sink.begin(&conversation).map_err(Error::Sink)?;
            self.report.entries += entries.len() as u64;
            for entry in entries {
                self.sink.entry(entry).map_err(Error::Sink)?;
            }
            self.stage = Stage::Begun(conversation);
        }
        Ok(())
    }
}
