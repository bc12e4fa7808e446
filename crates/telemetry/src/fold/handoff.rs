//! Drafts and decisions of handoffs within a run: the span of each draft (contract §10), of what was decided, and of the
//! acceptance.

use protocol::{Event, EventType, HandoffId};
use serde_json::{Map, Value, json};

use super::run::{OpenRun, given_up};
use super::{Place, moment, text};
use crate::span::{Kind, Outcome, Span, SpanId};

/// Characters of the feedback that a trace shows (contract §10).
const FEEDBACK_PREVIEW_CHARS: usize = 100;

/// Returns the handoff that an event's content is about.
pub(super) fn id(content: &Value) -> Option<HandoffId> {
    content.get("handoff_id").and_then(Value::as_str).and_then(|text| text.parse().ok())
}

/// Says of a moment what happened to the handoff. What people said of it is content, but for the beginning of the feedback (contract §10).
pub(super) fn told(kind: EventType, content: &Value, moment: Span) -> Span {
    let failed = || Outcome::Failed(text::brief(&text::field(content, "reason").unwrap_or_default()));
    let outcome = if kind == EventType::HandoffFailed { failed() } else { Outcome::Done };
    let keys = ["initiated_by", "iteration", "reverted_to", "tokens_before", "tokens_after"];
    let mut metadata = text::chosen(content, &keys);
    if let Some(feedback) = text::field(content, "feedback") {
        let preview: String = ledger::redact(&feedback).chars().take(FEEDBACK_PREVIEW_CHARS).collect();
        metadata.insert("feedback_preview".to_owned(), Value::String(preview));
    }
    let said = ["goal", "message"].iter().find_map(|key| text::field(content, key));
    let input = said.map(|said| text::content(&said));
    Span { outcome, metadata, input, ..moment }
}

/// Says of a moment that the summary arrived in the mirror, or why it did not; it was on its way since the acceptance.
pub(super) fn mirrored(content: &Value, moment: Span) -> Span {
    let accepted_at = text::field(content, "accepted_at").and_then(|at| at.parse().ok());
    let outcome = match text::field(content, "error") {
        Some(error) => Outcome::Failed(text::brief(&error)),
        None => Outcome::Done,
    };
    let start = accepted_at.filter(|at| *at <= moment.start).unwrap_or(moment.start);
    Span { outcome, ..moment.began(start) }
}

impl OpenRun {
    /// A model was called for a draft: its span begins with the first call, and takes in those that follow.
    /// Returns which it is, and another draft that was under way and came to nothing.
    pub(super) fn drafting(
        &mut self,
        trace: &Value,
        content: &Value,
        (event, outcome): (&Event, &Outcome),
    ) -> (SpanId, Option<Span>) {
        let name = text::field(trace, "name").unwrap_or_default();
        let metadata = trace.get("metadata").map(text::small).unwrap_or_default();
        let tags = trace.get("tags").and_then(Value::as_array).map(|tags| words(tags)).unwrap_or_default();
        let start = self.start_of(event);
        let draft = self.draft_span(&name, id(content), event);
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
    pub(super) fn draft_failed(&mut self, content: &Value, event: &Event) -> Option<Span> {
        let reason = text::brief(&text::field(content, "reason").unwrap_or_default());
        self.draft.take().map(|draft| draft.ended(event, Outcome::Failed(reason)))
    }

    /// A draft is stored. One that no model was called for has its span made here.
    pub(super) fn proposed(
        &mut self,
        place: &Place,
        content: &Value,
        event: &Event,
        feedback: Option<&str>,
    ) -> Option<Span> {
        let iteration = content.get("iteration").and_then(Value::as_u64).unwrap_or(0);
        let mut draft = match self.draft.take() {
            Some(draft) => draft,
            None => {
                let summary_type = if feedback.is_some() { "refinement" } else { "initial" };
                let start = self.start_of(event);
                let name = format!("generate_handoff_summary_iter_{iteration}");
                let preview = ledger::redact(feedback.unwrap_or_default());
                let preview: String = preview.chars().take(FEEDBACK_PREVIEW_CHARS).collect();
                Span {
                    tags: vec![
                        "handoff-summary".to_owned(),
                        format!("iteration-{iteration}"),
                        summary_type.to_owned(),
                    ],
                    metadata: text::small(&json!({
                        "handoff_iteration": iteration,
                        "has_feedback": feedback.is_some(),
                        "feedback_preview": preview,
                        "summary_type": summary_type,
                        "parent_thread_id": place.thread_id,
                        "assistant_id": place.assistant_id,
                        "handoff_id": id(content),
                    })),
                    ..self.draft_span(&name, id(content), event).began(start)
                }
            }
        };
        draft.metadata.extend(text::chosen(content, &["summary_sha256"]));
        Some(draft.ended(event, Outcome::Done))
    }

    /// Something happened to a handoff at this moment.
    pub(super) fn handoff_decided(&self, kind: EventType, content: &Value, event: &Event) -> Span {
        told(kind, content, self.of_handoff(Kind::Decision, kind.as_str(), content, event))
    }

    /// The acceptance: done once the child's block is written.
    pub(super) fn accepted(&mut self, content: &Value, event: &Event) {
        let keys = ["handoff_id", "iteration", "summary_sha256", "child_thread_id"];
        let span = Span {
            end: None,
            outcome: Outcome::Working,
            metadata: text::chosen(content, &keys),
            ..self.of_handoff(Kind::Accept, "accept_handoff", content, event)
        };
        let start = self.start_of(event);
        self.accept = Some((span.began(start), event.created_at));
    }

    /// The block was written, or could not be: the child has its summary anyway.
    pub(super) fn seeded(&mut self, content: &Value, event: &Event) -> Vec<Span> {
        let accept = self.accept.take();
        let start = accept.as_ref().map_or(event.created_at, |(_, at)| *at);
        let outcome = match text::field(content, "error") {
            Some(error) => Outcome::Failed(text::brief(&error)),
            None => Outcome::Done,
        };
        let mut seed = Span {
            outcome,
            metadata: Map::new(),
            ..self.of_handoff(Kind::Seed, "seed_agent_md", content, event).began(start)
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
        Span {
            handoff_id,
            ..moment(Kind::Draft, name, (self.trace_id, span_id, Some(self.root.span_id)), event)
        }
    }

    fn of_handoff(&self, kind: Kind, name: &str, content: &Value, event: &Event) -> Span {
        let span_id = SpanId::within(self.run_id, &format!("{name}:{}", event.seq));
        Span {
            handoff_id: id(content),
            ..moment(kind, name, (self.trace_id, span_id, Some(self.root.span_id)), event)
        }
    }
}

fn words(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
