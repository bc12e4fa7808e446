//! The channel `history`: every event as it is stored, in the shape in which the history shows it, so that a page which
//! follows a thread shows the same as one that is opened later. It is Segue's own; foreign clients do not ask for it.

use agent::{EventQuery, HistoryEntry};
use jiff::Timestamp;
use protocol::{Event, EventType, RunId, Seq, ThreadId};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::filter::HISTORY_CHANNEL;
use super::writer::{ChannelEvent, ChannelWriter};
use crate::caller::Caller;
use crate::error::ApiError;

/// Events that are read at a time.
const PAGE_ROWS: usize = 200;

/// An event that is stored.
#[derive(Debug, Serialize)]
struct StoredEventPayload<'a> {
    event: &'static str,
    seq: Seq,
    event_type: &'a str,
    run_id: Option<RunId>,
    created_at: Timestamp,
    /// The history entry of the event, if people are shown it.
    entry: Option<HistoryEntry>,
    /// The content of the event, if it has no history entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
}

/// Tells an event.
pub(super) fn send_stored_event(event: &Event, out: &mut ChannelWriter) {
    send_history(out, || {
        let entry = agent::page_entry(event);
        let content = entry.is_none().then_some(&*event.content);
        StoredEventPayload {
            event: "stored",
            seq: event.seq,
            event_type: &event.event_type,
            run_id: event.run_id,
            created_at: event.created_at,
            entry,
            content,
        }
    });
}

/// Tells that events were missed: what the history has after `after` is to be read again.
pub(super) fn send_missed_events(after: Seq, out: &mut ChannelWriter) {
    send_history(out, || json!({"event": "missed", "after_seq": after}));
}

fn send_history<T: Serialize>(out: &mut ChannelWriter, data: impl FnOnce() -> T) {
    out.send(ChannelEvent::new(HISTORY_CHANNEL, data));
}

/// Events of a thread outside runs: names, rewinds and state updates.
#[derive(Debug)]
pub(super) struct OutOfRunEvents {
    thread_id: ThreadId,
    /// Everything up to here was looked at.
    read_until: Seq,
}

impl OutOfRunEvents {
    /// Returns what is stored after the place the client has, or from here on.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn starting_at(
        caller: &Caller,
        thread_id: ThreadId,
        had: Seq,
    ) -> Result<Self, ApiError> {
        let last_seq = last_seq(caller, thread_id).await?;
        let looked = if had > 0 { had.min(last_seq) } else { last_seq };
        Ok(Self { thread_id, read_until: looked })
    }

    /// Tells what came since the last look.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn send_new_events(
        &mut self,
        caller: &Caller,
        out: &mut ChannelWriter,
    ) -> Result<(), ApiError> {
        // What is stored behind this is news of its own.
        let until = last_seq(caller, self.thread_id).await?;
        while self.read_until < until {
            let query = EventQuery {
                types: out_of_run_event_types(),
                ..EventQuery::after(self.read_until, PAGE_ROWS)
            };
            let page = caller.agent.threads().events_page(self.thread_id, query).await?;
            for event in page.iter().filter(|event| event.run_id.is_none()) {
                out.advance_clock(event.created_at);
                out.leave_run(event.seq);
                send_stored_event(event, out);
            }
            self.read_until = match page.last() {
                Some(event) if page.len() == PAGE_ROWS => event.seq,
                Some(_) | None => until,
            };
        }
        // The thread may have been removed, and another one begun under its id.
        self.read_until = self.read_until.min(until);
        Ok(())
    }
}

/// Returns the types of event that come of no run, or may.
fn out_of_run_event_types() -> Vec<EventType> {
    let of_runs = [
        EventType::RunStarted,
        EventType::RunStopRequested,
        EventType::RunInterrupted,
        EventType::RunEnded,
        EventType::RunFailed,
        EventType::ToolCallDecided,
        EventType::SubagentEnded,
        EventType::ModelCalled,
        EventType::MemoryRead,
    ];
    EventType::ALL.iter().copied().filter(|kind| !of_runs.contains(kind)).collect()
}

async fn last_seq(caller: &Caller, thread_id: ThreadId) -> Result<Seq, ApiError> {
    let thread = caller.agent.threads().get(thread_id).await?;
    Ok(thread.map_or(0, |thread| thread.last_seq))
}
