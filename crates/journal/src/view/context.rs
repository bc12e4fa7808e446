//! The context view: the messages of a thread that are sent to a model, from the point where the context begins,
//! without messages of sub-agents and notes. The `model` crate makes the result legal for a provider.

use std::collections::{BTreeMap, BTreeSet};

use protocol::event::body::ImportedSummary;
use protocol::{ClippedResult, Compaction, CompactionUndone, Event, Message, Seq, TurnsArchived};

use super::{ViewEventKind, is_from_subagent};

/// The point at which a context begins.
#[derive(Debug, Clone, PartialEq)]
pub enum ContextStart {
    /// The original agent of an imported session had compacted here. The summary that it wrote follows as an event.
    ImportedBoundary {
        /// The seq of the boundary.
        seq: Seq,
    },
    /// All events up to a certain event were compacted.
    Compacted {
        /// The seq of the marker.
        seq: Seq,
        /// The compaction.
        compaction: Box<Compaction>,
    },
}

/// The outline of a thread's context: where it begins, and how it differs from the events. It is determined from the
/// newest event backwards, so that nothing older than the context is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContextOutline {
    /// The point at which the context begins; `None` means the first event.
    pub start: Option<ContextStart>,
    /// The seq of the newest event that changed the context; 0 if there is none.
    pub changed_seq: Seq,
    /// The seqs of undone compaction markers, and of the clips that were undone with them.
    undone_markers: BTreeSet<Seq>,
    /// The shortened texts of tool results, by the seq of the result.
    clips: BTreeMap<Seq, String>,
    /// Ranges of seqs that left the context because memory summaries cover them. Both ends are inclusive.
    archived_ranges: Vec<(Seq, Seq)>,
    /// The statement of the newest archive event that no earlier message is in the context.
    archive_cutoff: Option<ArchiveCutoff>,
}

/// The start of a context from which memory has removed all earlier messages.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ArchiveCutoff {
    /// No event before this seq is sent, …
    before: Seq,
    /// … as long as this compaction is in effect. `None` if there was no compaction.
    marker_seq: Option<Seq>,
}

impl ContextOutline {
    /// Scans a page of events in ascending order. Pages must be passed from the newest to the oldest.
    pub fn scan_page(&mut self, page: &[Event]) {
        for event in page.iter().rev().filter(|event| is_context_change(event)) {
            let has_start = self.start.is_some();
            match ViewEventKind::of_event(event) {
                ViewEventKind::CompactionUndone => {
                    if let Ok(undone) = event.body::<CompactionUndone>() {
                        self.undone_markers.insert(undone.marker_seq);
                        self.undone_markers.extend(undone.clip_seqs);
                    }
                }
                ViewEventKind::Clip if !self.undone_markers.contains(&event.seq) => {
                    if let Ok(clip) = event.body::<ClippedResult>() {
                        self.clips.entry(clip.seq).or_insert(clip.text);
                    }
                }
                ViewEventKind::Compaction if !has_start && !self.undone_markers.contains(&event.seq) => {
                    // An unreadable compaction has no effect, because its messages are still in the journal.
                    if let Ok(compaction) = event.body().map(Box::new) {
                        self.start = Some(ContextStart::Compacted { seq: event.seq, compaction });
                    }
                }
                ViewEventKind::ImportedBoundary if !has_start => {
                    self.start = Some(ContextStart::ImportedBoundary { seq: event.seq });
                }
                ViewEventKind::TurnsArchived => self.scan_archived(event),
                // Restored messages need no handling here, because the superseded archive events are no longer
                // visible.
                ViewEventKind::Clip
                | ViewEventKind::Compaction
                | ViewEventKind::ImportedBoundary
                | ViewEventKind::TurnsRestored => {}
                ViewEventKind::Message
                | ViewEventKind::ImportedSummary
                | ViewEventKind::CompactionFailed
                | ViewEventKind::Audit
                | ViewEventKind::Side => {}
            }
            self.changed_seq = self.changed_seq.max(event.seq);
        }
    }

    /// Scans an event that archived messages.
    fn scan_archived(&mut self, event: &Event) {
        let Some(archived) = archived_turns(event) else { return };
        self.archived_ranges.push((archived.first_seq, archived.last_seq));
        let is_in_effect = archived.marker_seq.is_none_or(|marker| !self.undone_markers.contains(&marker));
        let is_newest = self.start.is_none() && is_in_effect && self.archive_cutoff.is_none();
        if let Some(before) = archived.context_from.filter(|_| is_newest) {
            self.archive_cutoff = Some(ArchiveCutoff { before, marker_seq: archived.marker_seq });
        }
    }

    /// Returns the compaction that must be passed to [`Self::scan_marker`], although it is older than the context.
    pub fn needed_marker_seq(&self) -> Option<Seq> {
        let marker_seq = self.archive_cutoff.filter(|_| self.start.is_none())?.marker_seq?;
        (!self.undone_markers.contains(&marker_seq)).then_some(marker_seq)
    }

    /// Scans the compaction that [`Self::needed_marker_seq`] returned; `None` if it does not exist.
    pub fn scan_marker(&mut self, marker: Option<&Event>) {
        match marker.and_then(|event| Some((event.seq, Box::new(event.body().ok()?)))) {
            Some((seq, compaction)) => self.start = Some(ContextStart::Compacted { seq, compaction }),
            None => self.archive_cutoff = None,
        }
    }

    /// Returns the seq of the first event that must have been scanned, or `None` while it is not known.
    pub fn first_seq(&self) -> Option<Seq> {
        match (&self.start, self.archive_cutoff) {
            (Some(ContextStart::ImportedBoundary { seq }), _) => Some(*seq),
            (Some(ContextStart::Compacted { seq, compaction }), cutoff) => {
                let cutoff =
                    cutoff.filter(|cutoff| cutoff.marker_seq == Some(*seq)).map_or(0, |cutoff| cutoff.before);
                Some(cutoff.max(compaction.last_seq + 1))
            }
            (None, Some(ArchiveCutoff { before, marker_seq: None })) => Some(before),
            (None, _) => None,
        }
    }

    /// Returns whether an event left the context because a memory summary covers it.
    fn is_archived(&self, seq: Seq) -> bool {
        self.archived_ranges.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// Returns the compaction in effect, with the seq of its marker.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        match &self.start {
            Some(ContextStart::Compacted { seq, compaction }) => Some((*seq, compaction)),
            Some(ContextStart::ImportedBoundary { .. }) | None => None,
        }
    }

    /// Returns the seq of the person's last request, if it was compacted. It is sent verbatim after the summary.
    pub fn request_seq(&self) -> Option<Seq> {
        let (_, compaction) = self.compaction()?;
        // A request after the compacted range is sent at its own position.
        compaction.last_request_seq.filter(|seq| *seq <= compaction.last_seq)
    }

    /// Returns the messages at the beginning of the context: the summary of the compaction, and the `request` that is
    /// sent verbatim.
    pub fn opening_messages(&self, request: Option<&Event>) -> Vec<(Seq, Message)> {
        let Some((seq, compaction)) = self.compaction() else { return Vec::new() };
        let summary = (seq, summary_message(&compaction.summary));
        let request = request.and_then(|event| Some((event.seq, event.message()?)));
        std::iter::once(summary).chain(request).collect()
    }

    /// Returns the messages of these events that are sent. The events must be in order, and may begin before the
    /// context.
    pub fn project_messages(&self, events: &[Event]) -> Vec<(Seq, Message)> {
        let first = self.first_seq().unwrap_or(0);
        let start = events.partition_point(|event| event.seq < first);
        let is_sent = |event: &&Event| {
            !is_from_subagent(event)
                && (ViewEventKind::of_event(event) != ViewEventKind::Message || !self.is_archived(event.seq))
        };
        let sent = events[start..].iter().filter(is_sent);
        sent.filter_map(|event| Some((event.seq, self.clip_message(event.seq, context_message(event)?))))
            .collect()
    }

    /// Returns the message, with the shortened text if it is a clipped tool result.
    fn clip_message(&self, seq: Seq, mut message: Message) -> Message {
        if let (Some(text), Message::Tool(result)) = (self.clips.get(&seq), &mut message) {
            result.content = vec![protocol::ContentBlock::text(text.as_str())];
        }
        message
    }
}

/// Returns the context of a thread: the messages that are sent to a model, each with the seq of its event. `events`
/// must be all events of the thread.
///
/// After a compaction, the context begins with the summary, as a message of the conversation, and the person's last
/// request. Messages that a memory summary covers are left out; the memory hook adds their summaries to the request.
/// The context of an imported session whose original agent had compacted begins at its last boundary, with the
/// summary of that agent. Everything earlier stays in the journal.
pub fn context(events: &[Event]) -> Vec<(Seq, Message)> {
    let mut outline = ContextOutline::default();
    outline.scan_page(events);
    let request = outline.request_seq().and_then(|seq| events.iter().find(|event| event.seq == seq));
    let mut context = outline.opening_messages(request);
    context.extend(outline.project_messages(events));
    context
}

/// Returns whether an event changes where a context begins, or how its messages are sent.
pub fn is_context_change(event: &Event) -> bool {
    match ViewEventKind::of_event(event) {
        ViewEventKind::ImportedBoundary => !is_from_subagent(event),
        ViewEventKind::TurnsArchived => archived_turns(event).is_some(),
        ViewEventKind::Compaction
        | ViewEventKind::CompactionUndone
        | ViewEventKind::Clip
        | ViewEventKind::TurnsRestored => true,
        ViewEventKind::Message
        | ViewEventKind::ImportedSummary
        | ViewEventKind::CompactionFailed
        | ViewEventKind::Audit
        | ViewEventKind::Side => false,
    }
}

/// Returns the messages that left the context by an event. `None` if none did, or the event cannot be parsed.
fn archived_turns(event: &Event) -> Option<TurnsArchived> {
    let archived: TurnsArchived = event.body().ok()?;
    archived.reason.is_removed_from_context().then_some(archived)
}

/// Returns the message that an event adds to a context.
fn context_message(event: &Event) -> Option<Message> {
    match ViewEventKind::of_event(event) {
        ViewEventKind::Message => event.message(),
        ViewEventKind::ImportedSummary => {
            let ImportedSummary { text } = event.body().ok()?;
            Some(summary_message(&text))
        }
        ViewEventKind::ImportedBoundary
        | ViewEventKind::Compaction
        | ViewEventKind::CompactionUndone
        | ViewEventKind::CompactionFailed
        | ViewEventKind::Clip
        | ViewEventKind::TurnsArchived
        | ViewEventKind::TurnsRestored
        | ViewEventKind::Audit
        | ViewEventKind::Side => None,
    }
}

/// Returns a summary as a message of the conversation. The text is delimited data and not an instruction, because no
/// person wrote it.
pub fn summary_message(text: &str) -> Message {
    // Without a `<`, the text can neither close its element nor open another one.
    let text = text.replace('<', "&lt;");
    Message::human(format!("<earlier_conversation_summary>\n{text}\n</earlier_conversation_summary>"))
}
