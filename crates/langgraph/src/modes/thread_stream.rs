//! The stream of a thread for one client: the events of one run after another, until the client disconnects.
//!
//! A [`RunModeStream`] writes the events of each run. Runs that started and ended while the client was not connected,
//! or whose frames were lost, are replayed from the journal.

use std::collections::HashSet;

use agent::{FramePosition, ThreadSnapshot};
use axum::body::Bytes;
use axum::http::StatusCode;
use protocol::{RunId, RunRequest, Seq, ThreadId};
use scheduler::{RunReader, StreamPosition, ThreadReader};
use serde_json::json;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::follow::{RunModeStream, StreamView};
use crate::modes::mode::StreamModes;
use crate::modes::writer::{EventIds, ModeWriter, last_event_at};
use crate::runs;
use crate::sse::HEARTBEAT;
use crate::streams::follow::{ChunkStream, StreamWriter, ThreadEvent, ThreadRuns, head_position};
use crate::streams::recent_runs::RecentRuns;
use crate::streams::translate::{PartialMessagePolicy, RunTranslator, missed_messages};

/// The events of the runs that a client requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadStreamKind {
    /// The events of the modes with which each run was requested.
    RunModes,
    /// Only the start and the end of each run.
    Lifecycle,
}

/// The position at which the stream of a thread starts or continues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadStreamStart {
    /// The last event that the client has received, of any run; `None` if it is unknown.
    after: Option<EventId>,
    /// The last event of the journal that is not replayed, because the client has received it or did not request it.
    last_known_seq: Seq,
    missed_runs: MissedRuns,
}

/// Records whether the client has missed runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissedRuns {
    /// It has missed none.
    None,
    /// Runs may have ended while the client was not connected. The journal must be checked.
    Possible,
    /// Runs were missed, because frames were lost or the client's position is unknown.
    Certain,
}

impl ThreadStreamStart {
    /// Returns the start for a client with that cursor, in a thread whose last event is `last_seq`.
    ///
    /// Without a cursor, and with one at the beginning, the stream contains the runs whose frames are available, and
    /// nothing from the journal.
    pub(crate) fn from_cursor(cursor: Option<Cursor>, last_seq: Seq) -> Self {
        let without_replay = Self { after: None, last_known_seq: last_seq, missed_runs: MissedRuns::None };
        match cursor.map(|cursor| cursor.clamp_to_thread(last_seq)) {
            None | Some(Cursor::Beginning) => without_replay,
            Some(Cursor::After(id)) => {
                Self { after: Some(id), last_known_seq: id.position.seq, missed_runs: MissedRuns::Possible }
            }
            Some(Cursor::Foreign) => Self { missed_runs: MissedRuns::Certain, ..without_replay },
        }
    }
}

/// The stream of a thread for one client.
pub(crate) struct ThreadModeStream {
    caller: Caller,
    thread_id: ThreadId,
    runs: ThreadRuns,
    kind: ThreadStreamKind,
    /// The position after the runs that were sent.
    start: ThreadStreamStart,
    /// The stream of the current run.
    run: Option<RunModeStream>,
}

impl ThreadModeStream {
    /// Returns a stream of the runs that the reader returns: those whose frames are available, and those that start
    /// later.
    pub(crate) fn new(
        caller: Caller,
        thread_id: ThreadId,
        reader: ThreadReader,
        kind: ThreadStreamKind,
        start: ThreadStreamStart,
    ) -> Self {
        Self { runs: ThreadRuns::new(&caller, reader), caller, thread_id, kind, start, run: None }
    }

    /// Returns the stream of a run that the thread's reader returned.
    ///
    /// # Errors
    /// 404 if the run or the thread was removed meanwhile, and an internal error if the journal fails.
    async fn begin_run(&mut self, reader: RunReader) -> Result<RunModeStream, ApiError> {
        let (run, request) =
            runs::find_run_with_request(&self.caller, reader.thread_id, reader.run_id).await?;
        let view = StreamView { modes: self.stream_modes(&request), event_ids: EventIds::Sent };
        let origin = runs::run_origin(&run, &request);
        // The client's position may lie in a step that was abandoned and started again. The gap tells the client that
        // the frames of the abandoned step are void.
        let position = self.start.after.map(|EventId { position, index }| StreamPosition {
            seq: position.seq,
            sub: position.sub,
            index,
        });
        let scheduler = &self.caller.server.scheduler;
        let at_position = position.and_then(|position| scheduler.run_reader(reader.run_id, Some(position)));
        let reader = at_position.filter(RunReader::has_initial_gap).unwrap_or(reader);
        let stream = RunModeStream::new(self.caller.clone(), origin, reader, view);
        Ok(stream.within_thread(self.start.after))
    }

    /// Returns the modes in which a run with that request is shown.
    fn stream_modes(&self, request: &RunRequest) -> StreamModes {
        match self.kind {
            ThreadStreamKind::RunModes => {
                StreamModes::from_names(request.stream_mode.iter().map(String::as_str))
                    .unwrap_or(StreamModes::NONE)
            }
            ThreadStreamKind::Lifecycle => StreamModes::NONE,
        }
    }

    /// Returns events from the journal if the client has missed runs, and `None` otherwise. An active run is not a
    /// missed one, because its frames follow.
    ///
    /// The events are a `gap`, then the messages of each missed run, and the current state with the last one.
    async fn catch_up(&mut self) -> Result<Option<Bytes>, ApiError> {
        let missed_runs = std::mem::replace(&mut self.start.missed_runs, MissedRuns::None);
        if missed_runs == MissedRuns::None {
            return Ok(None);
        }
        // Fetched before the state: the end of a run that is still active here arrives as a frame.
        let recent = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        let received = FramePosition { seq: self.start.last_known_seq, sub: 0 };
        if missed_runs == MissedRuns::Possible && !recent.has_missed(&self.caller, received.seq).await? {
            return Ok(None);
        }
        let state = match self.caller.agent.threads().state(self.thread_id).await {
            Err(agent::Error::Thread(agent::ThreadError::Unknown(_))) => None,
            state => state?,
        };
        let head = head_position(state.as_ref(), received);
        let mut out = ModeWriter::new(StreamModes::NONE, EventIds::Sent);
        out.write_gap(None, self.start.after.unwrap_or(last_event_at(received)), last_event_at(head));
        let mut bytes = out.take_bytes().to_vec();
        if let Some(state) = state {
            let ended = recent.ended_after(&self.caller, received.seq).await?;
            let missed = MissedState { state: &state, last_known_seq: received.seq, position: head };
            for run in select_missed_runs(&state, received.seq, ended, &recent) {
                bytes.extend(self.replay_run(run, &missed, &recent).await?);
            }
        }
        self.runs.mark_completed(recent.ended_runs());
        self.start = ThreadStreamStart {
            after: self.start.after.max(Some(last_event_at(head))),
            last_known_seq: head.seq,
            missed_runs: MissedRuns::None,
        };
        Ok(Some(bytes.into()))
    }

    /// Returns the events of one run from the journal: its start, the missed messages, and its end if it has ended.
    /// The last run also gets the current state. A run that was removed meanwhile has no events.
    async fn replay_run(
        &mut self,
        MissedRun { run_id, rank }: MissedRun,
        missed: &MissedState<'_>,
        recent: &RecentRuns,
    ) -> Result<Bytes, ApiError> {
        let (run, request) = match runs::find_run_with_request(&self.caller, self.thread_id, run_id).await {
            Err(error) if error.status() == StatusCode::NOT_FOUND => return Ok(Bytes::new()),
            result => result?,
        };
        let mut out = ModeWriter::new(self.stream_modes(&request), EventIds::Sent);
        let mut translator =
            RunTranslator::new(runs::run_origin(&run, &request), PartialMessagePolicy::Complete);
        out.write_without_id("metadata", &json!({"run_id": run_id, "attempt": 1}));
        out.set_position(missed.position);
        let messages = missed_messages(missed.state, run_id, missed.last_known_seq);
        match rank {
            MissedRunRank::Earlier => translator.replay_messages(&messages, &mut out),
            MissedRunRank::Last => translator.catch_up(missed.state, &messages, &mut out),
        }
        if recent.has_ended(run_id) {
            translator.send_end_of(&run, &mut out);
            out.write_run_done(run_id);
        }
        Ok(out.take_bytes())
    }
}

impl ChunkStream for ThreadModeStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(run) = &mut self.run {
                if let Some(chunk) = run.next_chunk(&mut self.runs.heartbeat).await {
                    return Some(chunk);
                }
                self.start.last_known_seq = self.start.last_known_seq.max(run.client_position().seq);
                self.runs.mark_completed([run.run_id()]);
                self.run = None;
            }
            match self.catch_up().await {
                Ok(None) => {}
                Ok(bytes) => return bytes,
                Err(error) => {
                    tracing::error!(thread_id = %self.thread_id, %error, "failed to follow thread {}", self.thread_id);
                    return None;
                }
            }
            match self.runs.next().await? {
                ThreadEvent::Heartbeat => return Some(Bytes::from_static(HEARTBEAT)),
                ThreadEvent::Run(reader) => match self.begin_run(reader).await {
                    Ok(run) => self.run = Some(run),
                    // The run was rolled back, or the thread was removed. Other runs may follow.
                    Err(error) if error.status() == StatusCode::NOT_FOUND => {}
                    Err(error) => {
                        tracing::error!(thread_id = %self.thread_id, %error, "failed to follow a run of thread {}", self.thread_id);
                        return None;
                    }
                },
                ThreadEvent::Gap => self.start.missed_runs = MissedRuns::Certain,
            }
        }
    }
}

/// The data for the replay of missed runs.
struct MissedState<'a> {
    /// The current state of the thread.
    state: &'a ThreadSnapshot,
    /// The last event of the journal that is not replayed.
    last_known_seq: Seq,
    /// The position that all replayed events get.
    position: FramePosition,
}

/// A run that the client has missed.
#[derive(Debug, Clone, Copy)]
struct MissedRun {
    run_id: RunId,
    rank: MissedRunRank,
}

/// Selects whether the current state is sent with a missed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissedRunRank {
    /// Other missed runs follow. Only the messages of the run are sent.
    Earlier,
    /// The last missed run, with which the current state is sent.
    Last,
}

/// Returns the runs with a message after `received` and the runs in `ended`, in the order of their first event after
/// `received`. If there are none, returns the newest ended run, so that the client gets the current state.
fn select_missed_runs(
    state: &ThreadSnapshot,
    received: Seq,
    ended: Vec<(Seq, RunId)>,
    recent: &RecentRuns,
) -> Vec<MissedRun> {
    let missed = state.messages.iter().filter(|message| message.seq > received);
    let with_messages = missed.filter_map(|message| Some((message.seq, message.run_id?)));
    let mut runs: Vec<(Seq, RunId)> = with_messages.chain(ended).collect();
    runs.sort_unstable();
    let mut selected = HashSet::new();
    let mut runs: Vec<RunId> =
        runs.into_iter().map(|(_, run_id)| run_id).filter(|run_id| selected.insert(*run_id)).collect();
    if runs.is_empty() {
        runs.extend(recent.ended_runs().next());
    }
    let last = runs.last().copied();
    let rank = |run_id| if last == Some(run_id) { MissedRunRank::Last } else { MissedRunRank::Earlier };
    runs.into_iter().map(|run_id| MissedRun { run_id, rank: rank(run_id) }).collect()
}
