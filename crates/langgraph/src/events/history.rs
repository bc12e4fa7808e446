//! The channel `history`: every stored event, in the shape of an entry of the thread's history. A page that follows a
//! thread live therefore shows the same as a page that is opened later.
//!
//! The channel is Segue's own extension of the protocol, for its web page. Other clients never receive its events,
//! because they do not name the channel in their filter.

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

/// The number of events in one read of the journal.
const PAGE_ROWS: usize = 200;

/// The data of a `stored` event.
#[derive(Debug, Serialize)]
struct StoredEventPayload<'a> {
    /// Always `stored`.
    event: &'static str,
    /// The sequence number of the event in its thread.
    seq: Seq,
    /// The type of the event in the journal.
    event_type: &'a str,
    /// The run that the event belongs to; `null` for an event outside runs.
    run_id: Option<RunId>,
    /// The time at which the event was stored.
    created_at: Timestamp,
    /// The history entry of the event; `null` if the history does not show the event.
    entry: Option<HistoryEntry>,
    /// The content of the event as it is stored. Absent if `entry` is a message or a marker.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
}

/// Sends a stored event.
pub(super) fn send_stored_event(event: &Event, out: &mut ChannelWriter) {
    send_history(out, || {
        let entry = agent::page_entry(event);
        // Clients of earlier versions read the content of events that the history now shows.
        let is_message_or_marker =
            entry.as_ref().is_some_and(|entry| !matches!(entry.item, agent::HistoryItem::Audit(_)));
        let content = (!is_message_or_marker).then_some(&*event.content);
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

/// Sends a `missed` event: the client has to read the history after `after` again, because events may be missing.
pub(super) fn send_missed_events(after: Seq, out: &mut ChannelWriter) {
    send_history(out, || json!({"event": "missed", "after_seq": after}));
}

/// Sends an event on the channel `history`. Events that the client does not want are not built.
fn send_history<T: Serialize>(out: &mut ChannelWriter, data: impl FnOnce() -> T) {
    out.send(ChannelEvent::new(HISTORY_CHANNEL, data));
}

/// A reader of a thread's events that belong to no run, such as names, rewinds and state updates. The streams of runs
/// do not contain them.
#[derive(Debug)]
pub(super) struct OutOfRunEvents {
    thread_id: ThreadId,
    /// The sequence number of the last event that was read, whether it was sent or not.
    read_until: Seq,
}

impl OutOfRunEvents {
    /// Returns a reader that starts after `received`, the last event that the client has received, or at the thread's
    /// current end if that is 0.
    ///
    /// # Errors
    /// If the journal fails.
    pub(super) async fn starting_at(
        caller: &Caller,
        thread_id: ThreadId,
        received: Seq,
    ) -> Result<Self, ApiError> {
        let last_seq = last_seq(caller, thread_id).await?;
        let read_until = if received > 0 { received.min(last_seq) } else { last_seq };
        Ok(Self { thread_id, read_until })
    }

    /// Sends the events that were stored since the last call. Reads the journal page by page up to its current end.
    ///
    /// # Errors
    /// If the journal fails. Events that were sent before the failure are not sent again.
    pub(super) async fn send_new_events(
        &mut self,
        caller: &Caller,
        out: &mut ChannelWriter,
    ) -> Result<(), ApiError> {
        // Each later commit sends a notification of its own, and with it a call of this function.
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
        // The thread may have been deleted and created again with the same id: its events then start from the
        // beginning.
        self.read_until = self.read_until.min(until);
        Ok(())
    }
}

/// Returns the event types that can occur outside a run: all but those that only a run writes.
fn out_of_run_event_types() -> Vec<EventType> {
    let only_in_runs = [
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
    EventType::ALL.iter().copied().filter(|kind| !only_in_runs.contains(kind)).collect()
}

/// Returns the sequence number of the thread's last event; 0 if the thread does not exist.
async fn last_seq(caller: &Caller, thread_id: ThreadId) -> Result<Seq, ApiError> {
    let thread = caller.agent.threads().get(thread_id).await?;
    Ok(thread.map_or(0, |thread| thread.last_seq))
}
