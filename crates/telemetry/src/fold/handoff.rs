//! Drafts and decisions of handoffs within a run: the span of each draft (contract §10), of what was decided, and of the
//! acceptance.

use protocol::event::body::{
    DraftRequest, DraftTrace, HandoffAccepted, HandoffDeclined, HandoffFailed, HandoffMirrored,
    HandoffProposed, HandoffRefined, HandoffRequested, HandoffReverted, HandoffSeeded, HandoffTruncated,
};
use protocol::{Event, EventType, HandoffId};
use serde_json::{Map, Value, json};

use super::run::{OpenRun, abandon_draft};
use super::{ThreadOrigin, instant_span, text};
use crate::span::{SpanId, SpanOutcome, TraceSpan, TraceSpanKind};

/// Characters of the feedback that a trace shows (contract §10).
const FEEDBACK_PREVIEW_CHARS: usize = 100;

/// Says of a moment what happened to the handoff. What people said of it is content, but for the beginning of the feedback (contract §10).
pub(super) fn describe_handoff(event: &Event, moment: TraceSpan) -> TraceSpan {
    let (mut metadata, mut said, mut outcome) = (Map::new(), None, SpanOutcome::Done);
    if let Ok(requested) = event.body::<HandoffRequested>() {
        metadata = text::select_fields(&requested, &["initiated_by"]);
        said = requested.goal;
    } else if let Ok(refined) = event.body::<HandoffRefined>() {
        metadata = text::select_fields(&refined, &["iteration"]);
        if let DraftRequest::Feedback { feedback } = &refined.request {
            let preview: String = facts::redact(feedback).chars().take(FEEDBACK_PREVIEW_CHARS).collect();
            metadata.insert("feedback_preview".to_owned(), Value::String(preview));
        }
    } else if let Ok(reverted) = event.body::<HandoffReverted>() {
        metadata = text::select_fields(&reverted, &["iteration", "reverted_to"]);
    } else if let Ok(truncated) = event.body::<HandoffTruncated>() {
        metadata = text::select_fields(&truncated, &["tokens_before", "tokens_after"]);
    } else if let Ok(declined) = event.body::<HandoffDeclined>() {
        said = declined.message;
    } else if let Ok(failed) = event.body::<HandoffFailed>() {
        outcome = SpanOutcome::Failed(text::brief_text(&failed.reason));
    }
    let input = said.map(|said| text::content_text(&said));
    TraceSpan { outcome, metadata, input, ..moment }
}

/// Says of a moment that the summary arrived in the mirror, or why it did not; it was on its way since the acceptance.
pub(super) fn describe_export(body: &HandoffMirrored, moment: TraceSpan) -> TraceSpan {
    let outcome = match &body.error {
        Some(error) => SpanOutcome::Failed(text::brief_text(error)),
        None => SpanOutcome::Done,
    };
    let start = body.accepted_at.filter(|at| *at <= moment.start).unwrap_or(moment.start);
    TraceSpan { outcome, ..moment.extend_start(start) }
}

impl OpenRun {
    /// A model was called for a draft: its span begins with the first call, and takes in those that follow.
    /// Returns which it is, and another draft that was under way and came to nothing.
    pub(super) fn record_draft_call(
        &mut self,
        trace: &DraftTrace,
        event: &Event,
        outcome: &SpanOutcome,
    ) -> (SpanId, Option<TraceSpan>) {
        let (metadata, tags) = (text::small_fields(&trace.metadata), trace.tags.clone());
        let start = self.start_time(event);
        let draft = self.draft_span(&trace.name, event.handoff_id(), event);
        let so_far =
            if matches!(outcome, SpanOutcome::Failed(_)) { outcome.clone() } else { SpanOutcome::Working };
        let span_id = draft.span_id;
        if let Some(open) = self.draft.as_mut().filter(|open| open.span_id == span_id) {
            open.outcome = so_far;
            return (span_id, None);
        }
        let before = self.draft.take().map(|draft| abandon_draft(draft, event, SpanOutcome::Stopped));
        self.draft =
            Some(TraceSpan { end: None, outcome: so_far, metadata, tags, ..draft.extend_start(start) });
        (span_id, before)
    }

    /// The handoff failed, and with it a draft that was under way.
    pub(super) fn fail_draft(&mut self, body: &HandoffFailed, event: &Event) -> Option<TraceSpan> {
        let reason = text::brief_text(&body.reason);
        self.draft.take().map(|draft| draft.finish(event, SpanOutcome::Failed(reason)))
    }

    /// A draft is stored. One that no model was called for has its span made here.
    pub(super) fn finish_draft(
        &mut self,
        place: &ThreadOrigin,
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
                let preview = facts::redact(feedback.unwrap_or_default());
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
                            ("parent_thread_id", json!(place.thread_id)),
                            ("assistant_id", json!(place.assistant_id)),
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

    /// Something happened to a handoff at this moment.
    pub(super) fn decision_span(&self, kind: EventType, event: &Event) -> TraceSpan {
        describe_handoff(event, self.handoff_instant(TraceSpanKind::Decision, kind.as_str(), event))
    }

    /// The acceptance: done once the child's block is written.
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

    /// The block was written, or could not be: the child has its summary anyway.
    pub(super) fn finish_accept(&mut self, body: &HandoffSeeded, event: &Event) -> Vec<TraceSpan> {
        let accept = self.accept.take();
        let start = accept.as_ref().map_or(event.created_at, |(_, at)| *at);
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

    fn draft_span(&self, name: &str, handoff_id: Option<HandoffId>, event: &Event) -> TraceSpan {
        let key = format!("draft:{}:{name}", handoff_id.map(|id| id.to_string()).unwrap_or_default());
        let span_id = SpanId::in_run(self.run_id, &key);
        TraceSpan { handoff_id, ..instant_span(TraceSpanKind::Draft, name, self.context(span_id), event) }
    }

    fn handoff_instant(&self, kind: TraceSpanKind, name: &str, event: &Event) -> TraceSpan {
        let span_id = SpanId::in_run(self.run_id, &format!("{name}:{}", event.seq));
        TraceSpan { handoff_id: event.handoff_id(), ..instant_span(kind, name, self.context(span_id), event) }
    }
}
