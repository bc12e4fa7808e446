//! One entry of a foreign conversation in one vocabulary for all formats. It does not say how an entry becomes an
//! event of the journal.

use jiff::Timestamp;
use protocol::ToolStatus;
use serde::Serialize;
use serde_json::Value;

use crate::json::content::FlattenedContent;
use crate::json::result_repair::RepairRecord;

/// One thing that was said, thought, done or noted, in file order.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEntry {
    /// The id the file gives it; not unique, because redacted logs repeat placeholders.
    pub native_id: Option<String>,
    /// The native id of what it follows, as a hint.
    pub parent: Option<String>,
    /// When it happened; the time of the entry before it when the file does not say.
    pub created_at: Option<Timestamp>,
    /// The track: the conversation itself or a sub-agent.
    pub track: EntryTrack,
    /// The repair that was made while reading, if any.
    pub repair: Option<RepairRecord>,
    /// The content of the entry.
    pub body: EntryBody,
}

/// The track that an entry belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EntryTrack {
    /// The conversation.
    #[default]
    Main,
    /// A sub-agent or side chain.
    Side,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryBody {
    /// Text of a person, of the harness in a person's name, or of the assistant.
    Text {
        /// The author of the text.
        author: Author,
        /// The text; an image leaves `[image]` where the format has a place for it.
        text: String,
        /// The images that came with it, by reference.
        media: Vec<MediaReference>,
    },
    /// Reasoning of the assistant.
    Thinking {
        /// The readable part.
        text: String,
    },
    /// A request to run a tool.
    ToolCall {
        /// The id that links the result.
        call_id: Option<String>,
        /// The tool's name; empty when the file has none.
        tool: String,
        /// The arguments, always an object.
        args: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        call_id: Option<String>,
        /// The tool's name, if the file or the call told.
        tool: Option<String>,
        /// The output.
        text: String,
        /// The images that came with it, by reference.
        media: Vec<MediaReference>,
        /// The outcome of the call.
        status: ToolStatus,
    },
    /// The summary a model wrote at a boundary.
    Summary {
        /// The text.
        text: String,
    },
    /// A place where the other agent compacted its context.
    Boundary {
        /// The format's name for the boundary.
        label: String,
        /// The format's details of the boundary.
        details: Value,
    },
    /// Injected text, system prompts and session notes.
    Note {
        /// In whose name it stands in the file.
        role: EntryRole,
        /// The text.
        text: String,
    },
}

/// The author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// A person.
    Person,
    /// The harness, in the place where a person's words stand: reminders, interruptions, observations.
    Harness,
    /// The assistant.
    Assistant,
}

protocol::named_enum! {
    /// In whose name an entry stands.
    pub enum EntryRole {
        /// The system prompt or a developer's instruction.
        System = "system",
        /// The user.
        User = "user",
        /// The assistant.
        Assistant = "assistant",
        /// A tool.
        Tool = "tool",
        /// Nobody: a mark in the file.
        Marker = "marker",
    }
}

protocol::named_enum! {
    /// The kinds of [`Body`], without what they hold.
    pub enum EntryKind {
        /// [`Body::Text`].
        Text = "text",
        /// [`Body::Thinking`].
        Thinking = "thinking",
        /// [`Body::ToolCall`].
        ToolCall = "tool_call",
        /// [`Body::ToolResult`].
        ToolResult = "tool_result",
        /// [`Body::Summary`].
        Summary = "summary",
        /// [`Body::Boundary`].
        Boundary = "boundary",
        /// [`Body::Note`].
        Note = "meta",
    }
}

/// An image or file by reference; its bytes are never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaReference {
    /// The media type; empty when the file does not say.
    pub media_type: String,
    /// Lowercase hex SHA-256 of the decoded bytes, if they were in the file.
    pub sha256: Option<String>,
    /// Size of the decoded bytes.
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

    /// Returns in whose name the entry stands in the file.
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

    /// Returns the text of the entry; the label of a boundary, and nothing for a tool call.
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

    /// Returns the text when a person wrote it on the main track: what a title or a last request may use.
    pub fn human_text(&self) -> Option<&str> {
        let EntryBody::Text { author: Author::Person, text, .. } = &self.body else { return None };
        (self.track == EntryTrack::Main).then_some(text)
    }
}

/// Fields shared by the records of one file when they are turned into entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryOrigin {
    pub(crate) native_id: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) track: EntryTrack,
}

impl EntryOrigin {
    /// Returns the entry with `body` that came from here.
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

    pub(crate) fn assistant_text(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Text { author: Author::Assistant, text: text.into(), media: Vec::new() })
    }

    /// Returns a piece of reasoning.
    pub(crate) fn thinking(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Thinking { text: text.into() })
    }

    pub(crate) fn note(&self, role: EntryRole, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Note { role, text: text.into() })
    }

    pub(crate) fn tool_call(
        &self,
        call_id: Option<String>,
        tool: Option<String>,
        args: Value,
    ) -> TranscriptEntry {
        self.build_entry(EntryBody::ToolCall { call_id, tool: tool.unwrap_or_default(), args })
    }

    /// Returns what a tool returned: the id of its call, its name, its output and whether it succeeded.
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

    /// Returns a compaction boundary. `details` are what the file says about it, with the keys of its format.
    pub(crate) fn boundary(&self, label: &str, details: &impl Serialize) -> TranscriptEntry {
        let details = serde_json::to_value(details).unwrap_or_default();
        self.build_entry(EntryBody::Boundary { label: label.to_owned(), details })
    }

    pub(crate) fn summary(&self, text: impl Into<String>) -> TranscriptEntry {
        self.build_entry(EntryBody::Summary { text: text.into() })
    }
}
