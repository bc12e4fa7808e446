//! A message that the model streams, as far as it came.

/// The kind of a message segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Text,
    Reasoning,
}

/// Selects whether a delta starts a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentChange {
    Opened,
    Extended,
}

/// A message that is being streamed: pieces of one kind that follow each other are one segment.
#[derive(Debug, Default)]
pub(crate) struct StreamedMessage {
    /// The message.
    pub(crate) id: String,
    /// Its segments; the last one may grow.
    pub(crate) segments: Vec<(SegmentKind, String)>,
    /// The indices of its calls that were announced.
    pub(crate) announced_calls: Vec<usize>,
}

impl StreamedMessage {
    /// Returns the message before anything of it was streamed.
    pub(crate) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Adds a piece.
    pub(crate) fn append(&mut self, kind: SegmentKind, text: &str) -> SegmentChange {
        match self.segments.last_mut() {
            Some((last, so_far)) if *last == kind => {
                so_far.push_str(text);
                SegmentChange::Extended
            }
            Some(_) | None => {
                self.segments.push((kind, text.to_owned()));
                SegmentChange::Opened
            }
        }
    }

    /// Returns everything of a kind.
    pub(crate) fn text_of(&self, kind: SegmentKind) -> String {
        self.segments.iter().filter(|(of, _)| *of == kind).map(|(_, text)| text.as_str()).collect()
    }
}

/// Returns what of `whole` follows `streamed`; nothing when it is another text, which is in the state whole.
pub(crate) fn unstreamed_rest<'a>(whole: &'a str, streamed: &str) -> &'a str {
    whole.strip_prefix(streamed).unwrap_or_default()
}
