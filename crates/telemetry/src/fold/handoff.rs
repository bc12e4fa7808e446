//! Drafts and decisions of handoffs within a run: the span of each draft (contract §10), of what was decided, and of the
//! acceptance.

use protocol::event::body::{
    DraftRequest, DraftTrace, HandoffAccepted, HandoffDeclined, HandoffFailed, HandoffMirrored,
    HandoffProposed, HandoffRefined, HandoffRequested, HandoffReverted, HandoffSeeded, HandoffTruncated,
};
use protocol::{Event, EventType, HandoffId};
use serde_json::{Map, Value, json};

use super::run::{OpenRun, given_up};
use super::{Place, moment, text};
use crate::span::{Kind, Outcome, Span, SpanId};

/// Characters of the feedback that a trace shows (contract §10).
const FEEDBACK_PREVIEW_CHARS: usize = 100;

/// Says of a moment what happened to the handoff. What people said of it is content, but for the beginning of the feedback (contract §10).
pub(super) fn told(event: &Event, moment: Span) -> Span {
    let (mut metadata, mut said, mut outcome) = (Map::new(), None, Outcome::Done);
    if let Ok(requested) = event.body::<HandoffRequested>() {
        metadata = text::chosen(&requested, &["initiated_by"]);
        said = requested.goal;
    } else if let Ok(refined) = event.body::<HandoffRefined>() {
        metadata = text::chosen(&refined, &["iteration"]);
        if let DraftRequest::Feedback { feedback } = &refined.request {
            let preview: String = facts::redact(feedback).chars().take(FEEDBACK_PREVIEW_CHARS).collect();
            metadata.insert("feedback_preview".to_owned(), Value::String(preview));
        }
    } else if let Ok(reverted) = event.body::<HandoffReverted>() {
        metadata = text::chosen(&reverted, &["iteration", "reverted_to"]);
    } else if let Ok(truncated) = event.body::<HandoffTruncated>() {
        metadata = text::chosen(&truncated, &["tokens_before", "tokens_after"]);
    } else if let Ok(declined) = event.body::<HandoffDeclined>() {
        said = declined.message;
    } else if let Ok(failed) = event.body::<HandoffFailed>() {
        outcome = Outcome::Failed(text::brief(&failed.reason));
    }
    let input = said.map(|said| text::content(&said));
    Span { outcome, metadata, input, ..moment }
}

/// Says of a moment that the summary arrived in the mirror, or why it did not; it was on its way since the acceptance.
pub(super) fn mirrored(body: &HandoffMirrored, moment: Span) -> Span {
    let outcome = match &body.error {
        Some(error) => Outcome::Failed(text::brief(error)),
        None => Outcome::Done,
    };
    let start = body.accepted_at.filter(|at| *at <= moment.start).unwrap_or(moment.start);
    Span { outcome, ..moment.began(start) }
}

impl OpenRun {
    /// A model was called for a draft: its span begins with the first call, and takes in those that follow.
    /// Returns which it is, and another draft that was under way and came to nothing.
    pub(super) fn drafting(
        &mut self,
        trace: &DraftTrace,
        event: &Event,
        outcome: &Outcome,
    ) -> (SpanId, Option<Span>) {
        let (metadata, tags) = (text::small(&trace.metadata), trace.tags.clone());
        let start = self.start_of(event);
        let draft = self.draft_span(&trace.name, event.handoff_id(), event);
        let so_far = if matches!(outcome, Outcome::Failed(_)) { outcome.clone() } else { Outcome::Working };
        let span_id = draft.span_id;
        if let Some(open) = self.draft.as_mut().filter(|open| open.span_id == span_id) {
            open.outcome = so_far;
            return (span_id, None);
        }
        let before = self.draft.take().map(|draft| given_up(draft, event, Outcome::Stopped));
        self.draft = Some(Span { end: None, outcome: so_far, metadata, tags, ..draft.began(start) });
        (span_id, before)
    }

    /// The handoff failed, and with it a draft that was under way.
    pub(super) fn draft_failed(&mut self, body: &HandoffFailed, event: &Event) -> Option<Span> {
        let reason = text::brief(&body.reason);
        self.draft.take().map(|draft| draft.ended(event, Outcome::Failed(reason)))
    }

    /// A draft is stored. One that no model was called for has its span made here.
    pub(super) fn proposed(
        &mut self,
        place: &Place,
        body: &HandoffProposed,
        event: &Event,
        feedback: Option<&str>,
    ) -> Option<Span> {
        let (iteration, handoff_id) = (body.iteration, body.handoff_id);
        let mut draft = match self.draft.take() {
            Some(draft) => draft,
            None => {
                let summary_type = if feedback.is_some() { "refinement" } else { "initial" };
                let start = self.start_of(event);
                let name = format!("generate_handoff_summary_iter_{iteration}");
                let preview = facts::redact(feedback.unwrap_or_default());
                let preview: String = preview.chars().take(FEEDBACK_PREVIEW_CHARS).collect();
                Span {
                    tags: vec![
                        "handoff-summary".to_owned(),
                        format!("iteration-{iteration}"),
                        summary_type.to_owned(),
                    ],
                    metadata: text::small(&Map::from_iter(
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
                    ..self.draft_span(&name, Some(handoff_id), event).began(start)
                }
            }
        };
        draft.metadata.extend(text::chosen(body, &["summary_sha256"]));
        Some(draft.ended(event, Outcome::Done))
    }

    /// Something happened to a handoff at this moment.
    pub(super) fn handoff_decided(&self, kind: EventType, event: &Event) -> Span {
        told(event, self.of_handoff(Kind::Decision, kind.as_str(), event))
    }

    /// The acceptance: done once the child's block is written.
    pub(super) fn accepted(&mut self, body: &HandoffAccepted, event: &Event) {
        let keys = ["handoff_id", "iteration", "summary_sha256", "child_thread_id"];
        let span = Span {
            end: None,
            outcome: Outcome::Working,
            metadata: text::chosen(body, &keys),
            ..self.of_handoff(Kind::Accept, "accept_handoff", event)
        };
        let start = self.start_of(event);
        self.accept = Some((span.began(start), event.created_at));
    }

    /// The block was written, or could not be: the child has its summary anyway.
    pub(super) fn seeded(&mut self, body: &HandoffSeeded, event: &Event) -> Vec<Span> {
        let accept = self.accept.take();
        let start = accept.as_ref().map_or(event.created_at, |(_, at)| *at);
        let outcome = match &body.error {
            Some(error) => Outcome::Failed(text::brief(error)),
            None => Outcome::Done,
        };
        let mut seed = Span {
            outcome,
            metadata: Map::new(),
            ..self.of_handoff(Kind::Seed, "seed_agent_md", event).began(start)
        };
        if let Some((accept, _)) = &accept {
            seed.parent_id = Some(accept.span_id);
        }
        let accept = accept.map(|(accept, _)| accept.ended(event, Outcome::Done));
        [Some(seed), accept].into_iter().flatten().collect()
    }

    fn draft_span(&self, name: &str, handoff_id: Option<HandoffId>, event: &Event) -> Span {
        let key = format!("draft:{}:{name}", handoff_id.map(|id| id.to_string()).unwrap_or_default());
        let span_id = SpanId::within(self.run_id, &key);
        Span { handoff_id, ..moment(Kind::Draft, name, self.context(span_id), event) }
    }

    fn of_handoff(&self, kind: Kind, name: &str, event: &Event) -> Span {
        let span_id = SpanId::within(self.run_id, &format!("{name}:{}", event.seq));
        Span { handoff_id: event.handoff_id(), ..moment(kind, name, self.context(span_id), event) }
    }
}
