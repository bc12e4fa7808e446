//! A message of the model while it is streamed: the text and the reasoning that have arrived so far.

/// The kind of a message segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Text,
    Reasoning,
}

/// The effect of a delta on the segments of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentChange {
    /// It started a segment.
    Opened,
    /// It extended the last segment.
    Extended,
}

/// A message that is being streamed. Consecutive deltas of the same kind form one segment.
#[derive(Debug, Default)]
pub(crate) struct StreamedMessage {
    /// The id under which the message will be stored.
    pub(crate) id: String,
    /// The segments in order; the last one may grow.
    pub(crate) segments: Vec<(SegmentKind, String)>,
    /// The indices of the tool calls that were announced.
    pub(crate) announced_calls: Vec<usize>,
}

impl StreamedMessage {
    /// Returns a message of which nothing was streamed yet.
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Appends a delta. Returns whether it started a segment or extended the last one.
    pub(crate) fn append(&mut self, kind: SegmentKind, text: &str) -> SegmentChange {
        match self.segments.last_mut() {
            Some((last_kind, segment)) if *last_kind == kind => {
                segment.push_str(text);
                SegmentChange::Extended
            }
            Some(_) | None => {
                self.segments.push((kind, text.to_owned()));
                SegmentChange::Opened
            }
        }
    }

    /// Returns the text of all segments of a kind. Costs a copy of the text.
    pub(crate) fn text_of(&self, kind: SegmentKind) -> String {
        self.segments
            .iter()
            .filter(|(segment_kind, _)| *segment_kind == kind)
            .map(|(_, text)| text.as_str())
            .collect()
    }
}

/// Returns the part of `whole` after the prefix `streamed`. Returns an empty text if the prefix does not match,
/// because then nothing can be appended; the client finds the complete text in the state.
pub(crate) fn unstreamed_rest<'a>(whole: &'a str, streamed: &str) -> &'a str {
    whole.strip_prefix(streamed).unwrap_or_default()
}
