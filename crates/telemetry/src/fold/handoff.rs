//! Spans of handoffs: one for each draft (contract §10), one for each decision, and those of the acceptance.

use protocol::event::body::{
    DraftRequest, DraftTrace, HandoffAccepted, HandoffDeclined, HandoffEdited, HandoffFailed,
    HandoffMirrored, HandoffProposed, HandoffRefined, HandoffRequested, HandoffReverted, HandoffSeeded,
    HandoffTruncated,
};
use protocol::{Event, EventType, HandoffId};
use serde_json::{Map, Value, json};

use super::run::{OpenRun, abandon_draft};
use super::{ThreadOrigin, instant_span, text};
use crate::span::{SpanId, SpanOutcome, TraceSpan, TraceSpanKind};

/// Characters of the feedback that the metadata contains (contract §10).
const FEEDBACK_PREVIEW_CHARS: usize = 100;

/// Adds the metadata, input and outcome of a handoff event to its span. The user's texts are content and become the input;
/// only the beginning of the feedback is metadata (contract §10).
pub(super) fn describe_handoff(event: &Event, span: TraceSpan) -> TraceSpan {
    let (mut metadata, mut user_text, mut outcome) = (Map::new(), None, SpanOutcome::Done);
    if let Ok(requested) = event.body::<HandoffRequested>() {
        metadata = text::select_fields(&requested, &["initiated_by"]);
        user_text = requested.goal;
    } else if let Ok(refined) = event.body::<HandoffRefined>() {
        metadata = text::select_fields(&refined, &["iteration"]);
        if let DraftRequest::Feedback { feedback } = &refined.request {
            let preview: String = secrets::redact(feedback).chars().take(FEEDBACK_PREVIEW_CHARS).collect();
            metadata.insert("feedback_preview".to_owned(), Value::String(preview));
        }
    } else if let Ok(edited) = event.body::<HandoffEdited>() {
        metadata = text::select_fields(&edited, &["iteration"]);
    } else if let Ok(reverted) = event.body::<HandoffReverted>() {
        metadata = text::select_fields(&reverted, &["iteration", "reverted_to"]);
    } else if let Ok(truncated) = event.body::<HandoffTruncated>() {
        metadata = text::select_fields(&truncated, &["tokens_before", "tokens_after"]);
    } else if let Ok(declined) = event.body::<HandoffDeclined>() {
        user_text = declined.message;
    } else if let Ok(failed) = event.body::<HandoffFailed>() {
        outcome = SpanOutcome::Failed(text::brief_text(&failed.reason));
    }
    let input = user_text.map(|user_text| text::content_text(&user_text));
    TraceSpan { outcome, metadata, input, ..span }
}

/// Adds the outcome and the start of the export of an accepted summary to its span. The export begins at the acceptance.
pub(super) fn describe_export(body: &HandoffMirrored, span: TraceSpan) -> TraceSpan {
    let outcome = match &body.error {
        Some(error) => SpanOutcome::Failed(text::brief_text(error)),
        None => SpanOutcome::Done,
    };
    let start = body.accepted_at.filter(|accepted_at| *accepted_at <= span.start).unwrap_or(span.start);
    TraceSpan { outcome, ..span.extend_start(start) }
}

impl OpenRun {
    /// Records a model call for a draft. The draft's span begins with the first call and contains all of its calls.
    ///
    /// Returns the id of the draft's span, and the finished span of another draft that was in progress and is abandoned.
    pub(super) fn record_draft_call(
        &mut self,
        trace: &DraftTrace,
        event: &Event,
        outcome: &SpanOutcome,
    ) -> (SpanId, Option<TraceSpan>) {
        let (metadata, tags) = (text::small_fields(&trace.metadata), trace.tags.clone());
        let start = self.start_time(event);
        let draft = self.draft_span(&trace.name, event.handoff_id(), event);
        // A failed call may be repeated; the outcome counts only if the draft is abandoned after it.
        let interim_outcome =
            if matches!(outcome, SpanOutcome::Failed(_)) { outcome.clone() } else { SpanOutcome::Working };
        let span_id = draft.span_id;
        if let Some(open) = self.draft.as_mut().filter(|open| open.span_id == span_id) {
            open.outcome = interim_outcome;
            return (span_id, None);
        }
        let abandoned = self.draft.take().map(|draft| abandon_draft(draft, event, SpanOutcome::Stopped));
        let draft = draft.extend_start(start);
        self.draft = Some(TraceSpan { end: None, outcome: interim_outcome, metadata, tags, ..draft });
        (span_id, abandoned)
    }

    /// Ends the draft in progress as failed, because its handoff failed.
    pub(super) fn fail_draft(&mut self, body: &HandoffFailed, event: &Event) -> Option<TraceSpan> {
        let reason = text::brief_text(&body.reason);
        self.draft.take().map(|draft| draft.finish(event, SpanOutcome::Failed(reason)))
    }

    /// Ends the span of a draft whose proposal was stored. A draft by the offline summary, which calls no model, has no span
    /// until then; its span is made here.
    pub(super) fn finish_draft(
        &mut self,
        origin: &ThreadOrigin,
        body: &HandoffProposed,
        event: &Event,
        feedback: Option<&str>,
    ) -> Option<TraceSpan> {
        let (iteration, handoff_id) = (body.iteration, body.handoff_id);
        let mut draft = match self.draft.take() {
            Some(draft) => draft,
            None => {
                let summary_type = if feedback.is_some() { "refinement" } else { "initial" };
                let start = self.start_time(event);
                let name = format!("generate_handoff_summary_iter_{iteration}");
                let preview = secrets::redact(feedback.unwrap_or_default());
                let preview: String = preview.chars().take(FEEDBACK_PREVIEW_CHARS).collect();
                TraceSpan {
                    tags: vec![
                        "handoff-summary".to_owned(),
                        format!("iteration-{iteration}"),
                        summary_type.to_owned(),
                    ],
                    metadata: text::small_fields(&Map::from_iter(
                        [
                            ("handoff_iteration", json!(iteration)),
                            ("has_feedback", json!(feedback.is_some())),
                            ("feedback_preview", json!(preview)),
                            ("summary_type", json!(summary_type)),
                            ("parent_thread_id", json!(origin.thread_id)),
                            ("assistant_id", json!(origin.assistant_id)),
                            ("handoff_id", json!(handoff_id)),
                        ]
                        .map(|(key, value)| (key.to_owned(), value)),
                    )),
                    ..self.draft_span(&name, Some(handoff_id), event).extend_start(start)
                }
            }
        };
        draft.metadata.extend(text::select_fields(body, &["summary_sha256"]));
        Some(draft.finish(event, SpanOutcome::Done))
    }

    /// Returns the instant span of a change in a handoff's state.
    pub(super) fn decision_span(&self, kind: EventType, event: &Event) -> TraceSpan {
        describe_handoff(event, self.handoff_instant(TraceSpanKind::Decision, kind.as_str(), event))
    }

    /// Begins the span of an acceptance, which ends when the block in the child's `agent.md` was written.
    pub(super) fn start_accept(&mut self, body: &HandoffAccepted, event: &Event) {
        let keys = ["handoff_id", "iteration", "summary_sha256", "child_thread_id"];
        let span = TraceSpan {
            end: None,
            outcome: SpanOutcome::Working,
            metadata: text::select_fields(body, &keys),
            ..self.handoff_instant(TraceSpanKind::Accept, "accept_handoff", event)
        };
        let start = self.start_time(event);
        self.accept = Some((span.extend_start(start), event.created_at));
    }

    /// Ends the spans of writing the block and of the acceptance. If the block could not be written, only the first failed:
    /// the child still has its summary.
    pub(super) fn finish_accept(&mut self, body: &HandoffSeeded, event: &Event) -> Vec<TraceSpan> {
        let accept = self.accept.take();
        let start = accept.as_ref().map_or(event.created_at, |(_, accepted_at)| *accepted_at);
        let outcome = match &body.error {
            Some(error) => SpanOutcome::Failed(text::brief_text(error)),
            None => SpanOutcome::Done,
        };
        let mut seed = TraceSpan {
            outcome,
            metadata: Map::new(),
            ..self.handoff_instant(TraceSpanKind::Seed, "seed_agent_md", event).extend_start(start)
        };
        if let Some((accept, _)) = &accept {
            seed.parent_id = Some(accept.span_id);
        }
        let accept = accept.map(|(accept, _)| accept.finish(event, SpanOutcome::Done));
        [Some(seed), accept].into_iter().flatten().collect()
    }

    /// Returns the span of a draft. Its id depends only on the run, the handoff and the name, so all model calls for a draft
    /// find the same span.
    fn draft_span(&self, name: &str, handoff_id: Option<HandoffId>, event: &Event) -> TraceSpan {
        let key = format!("draft:{}:{name}", handoff_id.map(|id| id.to_string()).unwrap_or_default());
        let span_id = SpanId::in_run(self.run_id, &key);
        TraceSpan { handoff_id, ..instant_span(TraceSpanKind::Draft, name, self.context(span_id), event) }
    }

    /// Returns an instant span of this run for an event of a handoff.
    fn handoff_instant(&self, kind: TraceSpanKind, name: &str, event: &Event) -> TraceSpan {
        let span_id = SpanId::in_run(self.run_id, &format!("{name}:{}", event.seq));
        TraceSpan { handoff_id: event.handoff_id(), ..instant_span(kind, name, self.context(span_id), event) }
    }
}
