//! The events of a transfer: the summary in each of its threads, and the model calls.

use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::{ArchiveReason, MediumTermSummary, NewEvent, SCHEMA_VERSION, TurnsArchived, Usage};

use super::TurnDeparture;
use crate::tiers::coverage::ThreadTurns;
use crate::tiers::model_summary::SummarizerCall;

/// Returns the body of a thread's `turns_archived` event. The caller sets the fields about the writer.
pub(super) fn turns_archived_body(
    departure: &TurnDeparture,
    thread: &ThreadTurns,
    summary: &MediumTermSummary,
) -> TurnsArchived {
    let (reason, first_seq, last_seq, context_from, marker_seq) = match *departure {
        // `context_from` is unknown, because older messages may still be in the context.
        TurnDeparture::Request => (ArchiveReason::Request, thread.first_seq, thread.last_seq, None, None),
        TurnDeparture::Compaction { marker_seq } => {
            (ArchiveReason::Compaction, thread.first_seq, thread.last_seq, None, Some(marker_seq))
        }
        TurnDeparture::Budget { first_seq, last_seq, context_from, marker_seq } => {
            (ArchiveReason::Budget, first_seq, last_seq, context_from, marker_seq)
        }
    };
    TurnsArchived {
        schema_version: SCHEMA_VERSION,
        summary_id: summary.id,
        reason,
        first_seq,
        last_seq,
        context_from,
        turn_count: thread.turns,
        turn_range_start: summary.turn_range_start,
        turn_range_end: summary.turn_range_end,
        summary: summary.summary_text.clone(),
        model: String::new(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq,
    }
}

/// Returns one `model_called` event for each call (A19).
pub(in crate::tiers) fn model_call_events(
    calls: &[SummarizerCall],
) -> Result<Vec<NewEvent>, serde_json::Error> {
    calls
        .iter()
        .map(|call| {
            let called = ModelCalled {
                purpose: ModelCallPurpose::Transfer,
                handoff_id: None,
                model: Some(call.model.clone()),
                usage: Some(call.usage),
                prompt_sha256: Some(call.prompt_sha256.clone()),
                problem: call.problem.clone(),
                trace: None,
                continuity: None,
                part: None,
            };
            NewEvent::from_body(&called, call.ended_at)?.with_duration(call.duration)
        })
        .collect()
}
