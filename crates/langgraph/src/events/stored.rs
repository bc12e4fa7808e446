//! The channel `history`: every event as it is stored, in the shape in which the history shows it, so that a page which
//! follows a thread shows the same as one that is opened later. It is Segue's own; foreign clients do not ask for it.

use agent::{EventQuery, HistoryEntry};
use jiff::Timestamp;
use protocol::{Event, EventType, RunId, Seq, ThreadId};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::filter::HISTORY;
use super::out::{ChannelEvent, ChannelWriter};
use crate::caller::Caller;
use crate::fault::Fault;

/// Events that are read at a time.
const PAGE_ROWS: usize = 200;

/// An event that is stored.
#[derive(Debug, Serialize)]
struct Stored<'a> {
    event: &'static str,
    seq: Seq,
    event_type: &'a str,
    run_id: Option<RunId>,
    created_at: Timestamp,
    /// What people are shown of it, as the history has it.
    entry: Option<HistoryEntry>,
    /// What it says, where people are not shown it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
}

/// Tells an event.
pub(super) fn tell(event: &Event, out: &mut ChannelWriter) {
    send(out, || {
        let entry = agent::history_entry(event);
        let content = entry.is_none().then_some(&*event.content);
        Stored {
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
pub(super) fn missed(after: Seq, out: &mut ChannelWriter) {
    send(out, || json!({"event": "missed", "after_seq": after}));
}

fn send<T: Serialize>(out: &mut ChannelWriter, data: impl FnOnce() -> T) {
    out.send(ChannelEvent::new(HISTORY, data));
}

/// What was stored of a thread that no run tells of: names, what somebody took back, what was put into its state.
#[derive(Debug)]
pub(super) struct BesideRuns {
    thread_id: ThreadId,
    /// Everything up to here was looked at.
    looked: Seq,
}

impl BesideRuns {
    /// Returns what is stored after the place the client has, or from here on.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn of(caller: &Caller, thread_id: ThreadId, had: Seq) -> Result<Self, Fault> {
        let last_seq = last_seq(caller, thread_id).await?;
        let looked = if had > 0 { had.min(last_seq) } else { last_seq };
        Ok(Self { thread_id, looked })
    }

    /// Tells what came since the last look.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn tell(&mut self, caller: &Caller, out: &mut ChannelWriter) -> Result<(), Fault> {
        // What is stored behind this is news of its own.
        let until = last_seq(caller, self.thread_id).await?;
        while self.looked < until {
            let query = EventQuery { types: kinds(), ..EventQuery::after(self.looked, PAGE_ROWS) };
            let page = caller.agent.threads().events_page(self.thread_id, query).await?;
            for event in page.iter().filter(|event| event.run_id.is_none()) {
                out.clock(event.created_at);
                out.beside_runs(event.seq);
                tell(event, out);
            }
            self.looked = match page.last() {
                Some(event) if page.len() == PAGE_ROWS => event.seq,
                Some(_) | None => until,
            };
        }
        // The thread may have been removed, and another one begun under its id.
        self.looked = self.looked.min(until);
        Ok(())
    }
}

/// Returns the types of event that come of no run, or may.
fn kinds() -> Vec<EventType> {
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

async fn last_seq(caller: &Caller, thread_id: ThreadId) -> Result<Seq, Fault> {
    let thread = caller.agent.threads().get(thread_id).await?;
    Ok(thread.map_or(0, |thread| thread.last_seq))
}
