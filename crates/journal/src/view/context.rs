//! What a model is sent of a thread: the conversation from where its context begins, without side branches and hidden
//! notes. The result need not be legal for a provider yet; the `model` room makes it so.

use std::collections::{BTreeMap, BTreeSet};

use protocol::event::body::ImportedSummary;
use protocol::{ClippedResult, Compaction, CompactionUndone, Event, Message, Seq, TurnsArchived};

use super::{Part, is_side};

/// Where a context begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// An imported session's own agent had compacted here; the summary it wrote follows as an event.
    Boundary {
        /// The boundary.
        seq: Seq,
    },
    /// Everything up to an event was condensed.
    Compacted {
        /// The marker.
        seq: Seq,
        /// What it holds.
        compaction: Box<Compaction>,
    },
}

/// Where a thread's context begins, and what else differs from the conversation: found from the newest event back, so
/// that nothing older than the context is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beginning {
    /// Where it begins; `None` means with the first event.
    pub start: Option<Start>,
    /// The newest event that changed how the context begins or what of it is clipped; 0 when there is none.
    pub changed_seq: Seq,
    undone: BTreeSet<Seq>,
    clips: BTreeMap<Seq, String>,
    /// What left the context for a summary of memory: both ends of each stretch.
    archived: Vec<(Seq, Seq)>,
    /// What the newest of these says of everything before it.
    left: Option<Left>,
}

/// A context that begins behind turns that memory has.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Left {
    /// Nothing before this event is sent, …
    before: Seq,
    /// … as long as this compaction is in effect; `None`: there was none.
    marker_seq: Option<Seq>,
}

impl Beginning {
    /// Looks at a page of events, in ascending order; pages come from the newest back.
    pub fn look(&mut self, page: &[Event]) {
        for event in page.iter().rev().filter(|event| changes_beginning(event)) {
            let is_found = self.start.is_some();
            match Part::of(event) {
                Part::Undone => {
                    if let Ok(undone) = event.body::<CompactionUndone>() {
                        self.undone.insert(undone.marker_seq);
                        self.undone.extend(undone.clip_seqs);
                    }
                }
                Part::Clip if !self.undone.contains(&event.seq) => {
                    if let Ok(clip) = event.body::<ClippedResult>() {
                        self.clips.entry(clip.seq).or_insert(clip.text);
                    }
                }
                Part::Marker if !is_found && !self.undone.contains(&event.seq) => {
                    // One that cannot be read condenses nothing: the messages are still there.
                    if let Ok(compaction) = event.body().map(Box::new) {
                        self.start = Some(Start::Compacted { seq: event.seq, compaction });
                    }
                }
                Part::Boundary if !is_found => {
                    self.start = Some(Start::Boundary { seq: event.seq });
                }
                Part::Archive => self.look_archived(event),
                // What came back is told by what is no longer there.
                Part::Clip | Part::Marker | Part::Boundary | Part::Restored => {}
                Part::Message | Part::ImportedSummary | Part::Failed | Part::Beside => {}
            }
            self.changed_seq = self.changed_seq.max(event.seq);
        }
    }

    fn look_archived(&mut self, event: &Event) {
        let Some(archived) = archived(event) else { return };
        self.archived.push((archived.first_seq, archived.last_seq));
        let is_in_effect = archived.marker_seq.is_none_or(|marker| !self.undone.contains(&marker));
        let is_newest = self.start.is_none() && is_in_effect && self.left.is_none();
        if let Some(before) = archived.context_from.filter(|_| is_newest) {
            self.left = Some(Left { before, marker_seq: archived.marker_seq });
        }
    }

    /// Returns the compaction that must be looked at although it is older than the context; see [`Self::look_at_marker`].
    pub fn marker_wanted(&self) -> Option<Seq> {
        let marker_seq = self.left.filter(|_| self.start.is_none())?.marker_seq?;
        (!self.undone.contains(&marker_seq)).then_some(marker_seq)
    }

    /// Looks at the compaction that [`Self::marker_wanted`] named; `None` when it is not there.
    pub fn look_at_marker(&mut self, marker: Option<&Event>) {
        match marker.and_then(|event| Some((event.seq, Box::new(event.body().ok()?)))) {
            Some((seq, compaction)) => self.start = Some(Start::Compacted { seq, compaction }),
            None => self.left = None,
        }
    }

    /// Returns the first event that must have been looked at; `None` while it is not known.
    pub fn first_seq(&self) -> Option<Seq> {
        match (&self.start, self.left) {
            (Some(Start::Boundary { seq }), _) => Some(*seq),
            (Some(Start::Compacted { seq, compaction }), left) => {
                let left = left.filter(|left| left.marker_seq == Some(*seq)).map_or(0, |left| left.before);
                Some(left.max(compaction.last_seq + 1))
            }
            (None, Some(Left { before, marker_seq: None })) => Some(before),
            (None, _) => None,
        }
    }

    /// Returns whether the event left the context for a summary of memory.
    fn is_archived(&self, seq: Seq) -> bool {
        self.archived.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// Returns the marker and the compaction in effect.
    pub fn compaction(&self) -> Option<(Seq, &Compaction)> {
        match &self.start {
            Some(Start::Compacted { seq, compaction }) => Some((*seq, compaction)),
            Some(Start::Boundary { .. }) | None => None,
        }
    }

    /// Returns the person's request among what is condensed, which is sent verbatim all the same.
    pub fn request_seq(&self) -> Option<Seq> {
        let (_, compaction) = self.compaction()?;
        // One that is not condensed is sent in its place.
        compaction.last_request_seq.filter(|seq| *seq <= compaction.last_seq)
    }

    /// Returns what the context begins with: the summary of what was condensed, and the `request` that was kept.
    pub fn opening(&self, request: Option<&Event>) -> Vec<(Seq, Message)> {
        let Some((seq, compaction)) = self.compaction() else { return Vec::new() };
        let summary = (seq, summary_message(&compaction.summary));
        let request = request.and_then(|event| Some((event.seq, event.message()?)));
        std::iter::once(summary).chain(request).collect()
    }

    /// Returns what is sent of these events, which are in order and may begin before the context does.
    pub fn project(&self, events: &[Event]) -> Vec<(Seq, Message)> {
        let first = self.first_seq().unwrap_or(0);
        let from = events.partition_point(|event| event.seq < first);
        let is_sent = |event: &&Event| {
            !is_side(event) && (Part::of(event) != Part::Message || !self.is_archived(event.seq))
        };
        let sent = events[from..].iter().filter(is_sent);
        sent.filter_map(|event| Some((event.seq, self.clipped(event.seq, contextual(event)?)))).collect()
    }

    /// Returns the message, in place of a result that is clipped its ends.
    fn clipped(&self, seq: Seq, mut message: Message) -> Message {
        if let (Some(text), Message::Tool(result)) = (self.clips.get(&seq), &mut message) {
            result.content = vec![protocol::Block::text(text.as_str())];
        }
        message
    }
}

/// Returns what a model is sent of a thread, each message with the event it comes from; `events` are all of the thread's.
///
/// After a compaction it begins with the summary, as a message of the conversation, and the person's last request. What
/// a summary of memory stands for is not sent: whoever asks the model says what memory has. An
/// imported session whose own agent had compacted begins at its last boundary, with the summary that agent wrote.
/// Everything before it stays in the journal.
pub fn context(events: &[Event]) -> Vec<(Seq, Message)> {
    let mut beginning = Beginning::default();
    beginning.look(events);
    let request = beginning.request_seq().and_then(|seq| events.iter().find(|event| event.seq == seq));
    let mut context = beginning.opening(request);
    context.extend(beginning.project(events));
    context
}

/// Returns whether the event changes where a context begins, or what is sent of what it holds.
pub fn changes_beginning(event: &Event) -> bool {
    match Part::of(event) {
        Part::Boundary => !is_side(event),
        Part::Archive => archived(event).is_some(),
        Part::Marker | Part::Undone | Part::Clip | Part::Restored => true,
        Part::Message | Part::ImportedSummary | Part::Failed | Part::Beside => false,
    }
}

/// Returns what left the context by the event; `None` when nothing did, or it cannot be read.
fn archived(event: &Event) -> Option<TurnsArchived> {
    let archived: TurnsArchived = event.body().ok()?;
    archived.reason.leaves_context().then_some(archived)
}

fn contextual(event: &Event) -> Option<Message> {
    match Part::of(event) {
        Part::Message => event.message(),
        Part::ImportedSummary => {
            let ImportedSummary { text } = event.body().ok()?;
            Some(summary_message(&text))
        }
        Part::Boundary
        | Part::Marker
        | Part::Undone
        | Part::Failed
        | Part::Clip
        | Part::Archive
        | Part::Restored
        | Part::Beside => None,
    }
}

/// Returns a summary as a message of the conversation. It is what nobody said: data, delimited, and no instruction.
pub fn summary_message(text: &str) -> Message {
    // Without a single `<` the text can neither close its element nor open another.
    let text = text.replace('<', "&lt;");
    Message::human(format!("<earlier_conversation_summary>\n{text}\n</earlier_conversation_summary>"))
}
