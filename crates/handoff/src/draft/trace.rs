//! The trace span of one draft (contract §10): its name, metadata and tags.
//!
//! The journal stores them with the event about the model call. Exporting traces is done in the crate `telemetry`.

use protocol::event::body::DraftTrace;
use protocol::{AssistantId, Handoff, HandoffId, ThreadId};
use secrets::redact;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::draft::DraftInput;

/// The maximum length of the feedback preview in a span, in characters.
const FEEDBACK_PREVIEW_CHARS: usize = 100;

/// The name, metadata and tags of the span of one draft.
#[derive(Debug, Serialize)]
pub(crate) struct DraftSpan {
    /// `generate_handoff_summary_iter_{n}`.
    name: String,
    /// The attributes of the span.
    metadata: DraftSpanMetadata,
    /// `handoff-summary`, `iteration-{n}`, and `initial` or `refinement`.
    tags: [String; 3],
}

/// The attributes of the span, under the names that contract §10 gives them.
#[derive(Debug, Serialize)]
struct DraftSpanMetadata {
    /// The iteration of the draft, from 0.
    handoff_iteration: u32,
    /// True if the draft follows a person's feedback.
    has_feedback: bool,
    /// The first [`FEEDBACK_PREVIEW_CHARS`] characters of the feedback, redacted.
    feedback_preview: String,
    /// `initial` or `refinement`.
    summary_type: &'static str,
    /// The thread that is handed off.
    parent_thread_id: ThreadId,
    /// The assistant of both threads.
    assistant_id: AssistantId,
    /// The handoff.
    handoff_id: HandoffId,
}

impl DraftSpan {
    /// Returns the span for the draft of the present iteration of `handoff` from `input`. A draft that is written from
    /// the previous proposal is a refinement, with feedback or without.
    pub(crate) fn for_draft(handoff: &Handoff, input: &DraftInput) -> Self {
        let iteration = handoff.iteration;
        let feedback = input.feedback.as_deref();
        let summary_type = if input.previous_summary.is_some() { "refinement" } else { "initial" };
        let preview = redact(feedback.unwrap_or_default());
        Self {
            name: format!("generate_handoff_summary_iter_{iteration}"),
            metadata: DraftSpanMetadata {
                handoff_iteration: iteration,
                has_feedback: feedback.is_some(),
                feedback_preview: preview.chars().take(FEEDBACK_PREVIEW_CHARS).collect(),
                summary_type,
                parent_thread_id: handoff.parent_thread_id,
                assistant_id: handoff.assistant_id.clone(),
                handoff_id: handoff.handoff_id,
            },
            tags: ["handoff-summary".to_owned(), format!("iteration-{iteration}"), summary_type.to_owned()],
        }
    }

    /// Returns the span in the form that the journal stores.
    ///
    /// # Errors
    ///
    /// When the metadata cannot be serialized.
    pub(crate) fn to_draft_trace(&self) -> serde_json::Result<DraftTrace> {
        let metadata = match serde_json::to_value(&self.metadata)? {
            Value::Object(metadata) => metadata,
            other => Map::from_iter([("metadata".to_owned(), other)]),
        };
        Ok(DraftTrace { name: self.name.clone(), metadata, tags: self.tags.to_vec() })
    }

    /// Returns the `tracing` span in which the model is called.
    pub(crate) fn span(&self) -> tracing::Span {
        let DraftSpanMetadata {
            handoff_iteration,
            has_feedback,
            feedback_preview,
            summary_type,
            parent_thread_id,
            assistant_id,
            handoff_id,
        } = &self.metadata;
        tracing::info_span!(
            "generate_handoff_summary",
            otel.name = self.name,
            handoff_iteration,
            has_feedback,
            feedback_preview,
            summary_type,
            parent_thread_id = %parent_thread_id,
            assistant_id = %assistant_id,
            handoff_id = %handoff_id,
            tags = self.tags.join(","),
        )
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::HandoffStatus;
    use serde_json::{Value, json};

    use super::*;

    fn traced(iteration: u32, feedback: Option<&str>) -> Value {
        let handoff = Handoff {
            handoff_id: HandoffId::generate(),
            assistant_id: protocol::AssistantId::default(),
            parent_thread_id: ThreadId::generate(),
            child_thread_id: ThreadId::generate(),
            status: HandoffStatus::Drafting,
            iteration,
            goal: None,
            run_id: None,
            options: Value::Null,
            accepted_sha256: None,
            note: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        let input = DraftInput {
            previous_summary: (iteration > 0).then(|| "Before.".to_owned()),
            feedback: feedback.map(str::to_owned),
            ..DraftInput::default()
        };
        serde_json::to_value(DraftSpan::for_draft(&handoff, &input)).unwrap()
    }

    #[test]
    fn g4_each_iteration_has_its_name_tags_and_metadata() {
        let first = traced(0, None);
        assert_eq!(first["name"], "generate_handoff_summary_iter_0");
        assert_eq!(first["tags"], json!(["handoff-summary", "iteration-0", "initial"]));
        assert_eq!(first["metadata"]["has_feedback"], false);
        let second = traced(2, Some("name the file"));
        assert_eq!(second["name"], "generate_handoff_summary_iter_2");
        assert_eq!(second["tags"], json!(["handoff-summary", "iteration-2", "refinement"]));
        assert_eq!(second["metadata"]["feedback_preview"], "name the file");
        assert_eq!(second["metadata"]["summary_type"], "refinement");
        let newer = traced(3, None);
        assert_eq!(newer["tags"], json!(["handoff-summary", "iteration-3", "refinement"]));
        assert_eq!(newer["metadata"]["has_feedback"], false);
    }

    #[test]
    fn m16_a_trace_shows_little_of_the_feedback_and_no_secret() {
        let long = format!("{} password=hunter2hunter2", "x".repeat(90));
        let shown = traced(1, Some(&long))["metadata"]["feedback_preview"].as_str().unwrap().to_owned();
        assert!(shown.chars().count() <= 100 && !shown.contains("hunter2"), "{shown}");
    }
}
