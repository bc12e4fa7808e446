//! The entry type into which all formats are read. The conversion of an entry to an event of the journal is in
//! [`crate::event`].

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Serialize;
use serde_json::Value;

use crate::json::content::FlattenedContent;
use crate::json::result_repair::RepairRecord;

/// One text, reasoning block, tool call, tool result, summary, compaction boundary or note of a conversation.
///
/// Entries are in file order, which may differ from the order of their times: some agents write records late.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEntry {
    /// The id of the record in the file. It is not unique, because redacted logs repeat placeholders.
    pub native_id: Option<String>,
    /// The native id of the preceding record. It is only a hint: the record may be missing in the file.
    pub parent: Option<String>,
    /// The time of the record, else the time of the entry before it. `None` until the file contains a time.
    pub created_at: Option<Timestamp>,
    /// The track: the conversation itself or a sub-agent.
    pub track: EntryTrack,
    /// The repair of a tool result that was made while reading, if any.
    pub repair: Option<RepairRecord>,
    /// The content of the entry.
    pub body: EntryBody,
}

/// The track that an entry belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryTrack {
    /// The conversation with the user.
    #[default]
    Main,
    /// The work of a sub-agent (a side chain).
    Side,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// Text of the user or the assistant, or text that the harness put into a user message.
    Text {
        /// The author of the text.
        author: Author,
        /// The text. `[image]` marks the position of an image, where the format has one.
        text: String,
        /// References to the images in the message.
        media: Vec<MediaReference>,
    },
    /// Reasoning of the assistant.
    Thinking {
        /// The readable part; signatures and encrypted reasoning are dropped.
        text: String,
    },
    /// A request to run a tool.
    ToolCall {
        /// The id that links the call to its result.
        call_id: Option<String>,
        /// The name of the tool; empty if the file has none.
        tool: String,
        /// The arguments, always as a JSON object.
        args: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        call_id: Option<String>,
        /// The name of the tool, from the result or from the call with the same id.
        tool: Option<String>,
        /// The output.
        text: String,
        /// References to the images in the output.
        media: Vec<MediaReference>,
        /// The outcome of the call. Formats without an error flag report success unless the output contains an exit
        /// code.
        status: ToolStatus,
    },
    /// The summary that a model wrote at a compaction boundary.
    Summary {
        /// The text of the summary.
        text: String,
    },
    /// A compaction boundary: the other agent compacted its context here.
    Boundary {
        /// The format's name for the boundary.
        label: String,
        /// The format's own fields of the boundary, such as token counts.
        details: Value,
    },
    /// Injected text, a system prompt or a note about the session. It is not part of the conversation.
    Note {
        /// The role under which the file has the text.
        role: EntryRole,
        /// The text.
        text: String,
    },
}

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The user.
    Person,
    /// The harness, in a message with the role `user`: reminders, interruptions, tool output.
    Harness,
    /// The assistant.
    Assistant,
}

protocol::named_enum! {
    /// The role of an entry.
    pub enum EntryRole {
        /// A system prompt or developer message.
        System = "system",
        /// The user.
        User = "user",
        /// The assistant.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
        /// No participant: an annotation in the file, such as a title or a compaction boundary.
        Marker = "marker",
    }
}

protocol::named_enum! {
    /// The kind of an [`EntryBody`], without its content.
    pub enum EntryKind {
        /// [`EntryBody::Text`].
        Text = "text",
        /// [`EntryBody::Thinking`].
        Thinking = "thinking",
        /// [`EntryBody::ToolCall`].
        ToolCall = "tool_call",
        /// [`EntryBody::ToolResult`].
        ToolResult = "tool_result",
        /// [`EntryBody::Summary`].
        Summary = "summary",
        /// [`EntryBody::Boundary`].
        Boundary = "boundary",
        /// [`EntryBody::Note`].
        Note = "meta",
    }
}

/// A reference to an image. The bytes of the image are never stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaReference {
    /// The media type, such as `image/png`; empty if the file does not contain it.
    pub media_type: String,
    /// SHA-256 of the decoded bytes in lowercase hex; `None` if the file has only a URL or the bytes cannot be decoded.
    pub sha256: Option<String>,
    /// Number of decoded bytes, if [`sha256`](Self::sha256) is known.
    pub bytes: Option<u64>,
}

impl TranscriptEntry {
    /// Returns the kind of the body.
    pub const fn kind(&self) -> EntryKind {
        match self.body {
            EntryBody::Text { .. } => EntryKind::Text,
            EntryBody::Thinking { .. } => EntryKind::Thinking,
            EntryBody::ToolCall { .. } => EntryKind::ToolCall,
            EntryBody::ToolResult { .. } => EntryKind::ToolResult,
            EntryBody::Summary { .. } => EntryKind::Summary,
            EntryBody::Boundary { .. } => EntryKind::Boundary,
            EntryBody::Note { .. } => EntryKind::Note,
        }
    }

    /// Returns the role of the entry. A summary has the role `user`, because agents insert it as a user message.
    pub const fn role(&self) -> EntryRole {
        match &self.body {
            EntryBody::Text { author: Author::Person | Author::Harness, .. } | EntryBody::Summary { .. } => {
                EntryRole::User
            }
            EntryBody::Text { author: Author::Assistant, .. }
            | EntryBody::Thinking { .. }
            | EntryBody::ToolCall { .. } => EntryRole::Assistant,
            EntryBody::ToolResult { .. } => EntryRole::Tool,
            EntryBody::Boundary { .. } => EntryRole::Marker,
            EntryBody::Note { role, .. } => *role,
        }
    }

    /// Returns true if the event of the entry is a message, and false if it describes the session.
    pub const fn is_message(&self) -> bool {
        match self.body {
            EntryBody::Text { .. }
            | EntryBody::Thinking { .. }
            | EntryBody::ToolCall { .. }
            | EntryBody::ToolResult { .. } => true,
            EntryBody::Summary { .. } | EntryBody::Boundary { .. } | EntryBody::Note { .. } => false,
        }
    }

    /// Returns the text of the entry: the label for a boundary, and the empty string for a tool call.
    pub fn text(&self) -> &str {
        match &self.body {
            EntryBody::Text { text, .. }
            | EntryBody::Thinking { text }
            | EntryBody::ToolResult { text, .. }
            | EntryBody::Summary { text }
            | EntryBody::Note { text, .. } => text,
            EntryBody::Boundary { label, .. } => label,
            EntryBody::ToolCall { .. } => "",
        }
    }

    /// Returns the text if the user wrote it on the main track. Titles and last requests use only such text, so that
    /// text injected by a harness is never shown as the user's request.
    pub fn human_text(&self) -> Option<&str> {
        let EntryBody::Text { author: Author::Person, text, .. } = &self.body else { return None };
        (self.track == EntryTrack::Main).then_some(text)
    }
}

/// The record from which one or more entries are built: the fields that these entries share.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryOrigin {
    /// The id of the record.
    pub(crate) native_id: Option<String>,
    /// The id of the preceding record.
    pub(crate) parent: Option<String>,
    /// The time of the record.
    pub(crate) created_at: Option<Timestamp>,
    /// The track of the record.
    pub(crate) track: EntryTrack,
}

impl EntryOrigin {
    /// Returns an entry with this origin and `body`.
    pub(crate) fn build_entry(&self, body: EntryBody) -> TranscriptEntry {
        TranscriptEntry {
            native_id: self.native_id.clone(),
            parent: self.parent.clone(),
            created_at: self.created_at,
            track: self.track,
            repair: None,
            body,
        }
    }

    /// Returns a text of the assistant, without images.
    pub(crate) fn assistant_text(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Text { author: Author::Assistant, text: text.into(), media: Vec::new() })
    }

    /// Returns a reasoning entry.
    pub(crate) fn thinking(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Thinking { text: text.into() })
    }

    /// Returns a note with `role`.
    pub(crate) fn note(&self, role: EntryRole, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Note { role, text: text.into() })
    }

    /// Returns a tool call. `args` must be an object; see [`parse_arguments`](crate::json::content::parse_arguments).
    pub(crate) fn tool_call(
        &self,
        call_id: Option<String>,
        tool: Option<String>,
        args: Value,
    ) -> TranscriptEntry {
        self.build_entry(EntryBody::ToolCall { call_id, tool: tool.unwrap_or_default(), args })
    }

    /// Returns a tool result.
    pub(crate) fn tool_result(
        &self,
        call_id: Option<String>,
        tool: Option<String>,
        output: FlattenedContent,
        status: ToolStatus,
    ) -> TranscriptEntry {
        let FlattenedContent { text, media } = output;
        self.build_entry(EntryBody::ToolResult { call_id, tool, text, media, status })
    }

    /// Returns a compaction boundary. `details` keep the key names of the format.
    pub(crate) fn boundary(&self, label: &str, details: &impl Serialize) -> TranscriptEntry {
        let details = serde_json::to_value(details).unwrap_or_default();
        self.build_entry(EntryBody::Boundary { label: label.to_owned(), details })
    }

    /// Returns a compaction summary.
    pub(crate) fn summary(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Summary { text: text.into() })
    }
}
