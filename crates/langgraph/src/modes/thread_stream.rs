//! Following a thread for one client, run after run, for as long as the client stays. What is told of each run is the
//! follower's work; of runs that came and went unseen the journal tells.

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

/// The events of runs that a client wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadStreamKind {
    /// The modes that each run was requested with.
    RunModes,
    /// The start and the end of runs.
    Lifecycle,
}

/// Where a client begins that follows a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadStreamStart {
    /// Behind this event, of whatever run.
    after: Option<EventId>,
    /// The last event that it knows, or does not want to know of.
    last_known_seq: Seq,
    missed_runs: MissedRuns,
}

/// Records whether runs ended while the client was not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissedRuns {
    None,
    Possible,
    Certain,
}

impl ThreadStreamStart {
    /// Returns where a client with that cursor begins in a thread whose last event is `last_seq`.
    pub(crate) fn from_cursor(cursor: Option<Cursor>, last_seq: Seq) -> Self {
        let nowhere = Self { after: None, last_known_seq: last_seq, missed_runs: MissedRuns::None };
        match cursor.map(|cursor| cursor.clamp_to_thread(last_seq)) {
            None | Some(Cursor::Beginning) => nowhere,
            Some(Cursor::After(id)) => {
                Self { after: Some(id), last_known_seq: id.position.seq, missed_runs: MissedRuns::Possible }
            }
            Some(Cursor::Foreign) => Self { missed_runs: MissedRuns::Certain, ..nowhere },
        }
    }
}

/// A thread, followed for one client.
pub(crate) struct ThreadModeStream {
    caller: Caller,
    thread_id: ThreadId,
    runs: ThreadRuns,
    kind: ThreadStreamKind,
    start: ThreadStreamStart,
    run: Option<RunModeStream>,
}

impl ThreadModeStream {
    /// Returns a follower of the runs of the thread that `live` has, and of those to come.
    pub(crate) fn new(
        caller: Caller,
        thread_id: ThreadId,
        live: ThreadReader,
        kind: ThreadStreamKind,
        start: ThreadStreamStart,
    ) -> Self {
        Self { runs: ThreadRuns::new(&caller, live), caller, thread_id, kind, start, run: None }
    }

    async fn begin_run(&mut self, live: RunReader) -> Result<RunModeStream, ApiError> {
        let (run, request) = runs::find_run_with_request(&self.caller, live.thread_id, live.run_id).await?;
        let modes = self.stream_modes(&request);
        let about = runs::run_origin(&run, &request);
        let asked = self.caller.clone();
        // What the run had begun to say when it was given up is said anew: the client is told so.
        let place = self.start.after.map(|EventId { position: at, index: n }| StreamPosition {
            seq: at.seq,
            sub: at.sub,
            index: n,
        });
        let cut = place.and_then(|place| self.caller.server.scheduler.run_reader(live.run_id, Some(place)));
        let live = cut.filter(RunReader::has_initial_gap).unwrap_or(live);
        let follow = RunModeStream::new(asked, about, live, StreamView { modes, event_ids: EventIds::Sent });
        Ok(follow.within_thread(self.start.after))
    }

    fn stream_modes(&self, request: &RunRequest) -> StreamModes {
        match self.kind {
            ThreadStreamKind::RunModes => {
                StreamModes::from_names(request.stream_mode.iter().map(String::as_str))
                    .unwrap_or(StreamModes::NONE)
            }
            ThreadStreamKind::Lifecycle => StreamModes::NONE,
        }
    }

    /// Tells what the journal has of runs that came and went unseen, if any did; those that work are told of by themselves.
    async fn catch_up(&mut self) -> Result<Option<Bytes>, ApiError> {
        let unseen = std::mem::replace(&mut self.start.missed_runs, MissedRuns::None);
        if unseen == MissedRuns::None {
            return Ok(None);
        }
        // What ends after this is told by its own frames.
        let newest = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        let had = FramePosition { seq: self.start.last_known_seq, sub: 0 };
        let asked = &self.caller;
        if unseen == MissedRuns::Possible && !newest.has_missed(asked, had.seq).await? {
            return Ok(None);
        }
        let state = match self.caller.agent.threads().state(self.thread_id).await {
            Err(agent::Error::Thread(agent::ThreadError::Unknown(_))) => None,
            state => state?,
        };
        let at = head_position(state.as_ref(), had);
        let mut out = ModeWriter::new(StreamModes::NONE, EventIds::Sent);
        out.write_gap(None, self.start.after.unwrap_or(last_event_at(had)), last_event_at(at));
        let mut told = out.take_bytes().to_vec();
        if let Some(state) = state {
            let ended = newest.ended_after(&self.caller, had.seq).await?;
            for run in select_missed_runs(&state, had.seq, ended, &newest) {
                told.extend(
                    self.replay_run(
                        run,
                        &MissedState { state: &state, last_known_seq: had.seq, position: at },
                        &newest,
                    )
                    .await?,
                );
            }
        }
        self.runs.mark_completed(newest.ended_runs());
        self.start = ThreadStreamStart {
            after: self.start.after.max(Some(last_event_at(at))),
            last_known_seq: at.seq,
            missed_runs: MissedRuns::None,
        };
        Ok(Some(told.into()))
    }

    /// Tells what the journal has of one run; behind the last one, how the thread stands.
    async fn replay_run(
        &mut self,
        MissedRun { run_id, rank }: MissedRun,
        unheard: &MissedState<'_>,
        newest: &RecentRuns,
    ) -> Result<Bytes, ApiError> {
        let (run, request) = match runs::find_run_with_request(&self.caller, self.thread_id, run_id).await {
            Err(fault) if fault.status() == StatusCode::NOT_FOUND => return Ok(Bytes::new()),
            found => found?,
        };
        let mut out = ModeWriter::new(self.stream_modes(&request), EventIds::Sent);
        let mut translator =
            RunTranslator::new(runs::run_origin(&run, &request), PartialMessagePolicy::Complete);
        out.write_without_id("metadata", &json!({"run_id": run_id, "attempt": 1}));
        out.set_position(unheard.position);
        let missed = missed_messages(unheard.state, run_id, unheard.last_known_seq);
        match rank {
            MissedRunRank::Earlier => translator.replay_messages(&missed, &mut out),
            MissedRunRank::Last => translator.catch_up(unheard.state, &missed, &mut out),
        }
        if newest.has_ended(run_id) {
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
                Ok(told) => return told,
                Err(fault) => {
                    tracing::error!(thread_id = %self.thread_id, error = %fault, "failed to follow thread {}", self.thread_id);
                    return None;
                }
            }
            match self.runs.next().await? {
                ThreadEvent::Heartbeat => return Some(Bytes::from_static(HEARTBEAT)),
                ThreadEvent::Run(live) => match self.begin_run(live).await {
                    Ok(run) => self.run = Some(run),
                    // It was taken back or forgotten, or the thread removed; others may follow.
                    Err(fault) if fault.status() == StatusCode::NOT_FOUND => {}
                    Err(fault) => {
                        tracing::error!(error = %fault, "failed to follow a run of a thread");
                        return None;
                    }
                },
                ThreadEvent::Gap => self.start.missed_runs = MissedRuns::Certain,
            }
        }
    }
}

/// The state of the thread, the last event that the client has had, and the place at which the rest is told.
struct MissedState<'a> {
    state: &'a ThreadSnapshot,
    last_known_seq: Seq,
    position: FramePosition,
}

/// A run that came and went unseen.
#[derive(Debug, Clone, Copy)]
struct MissedRun {
    run_id: RunId,
    rank: MissedRunRank,
}

/// Selects whether events of other runs follow behind a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissedRunRank {
    Earlier,
    Last,
}

/// Returns the runs of what was said behind `had` and those that `ended` there, in order; the newest that has ended where
/// there are none.
fn select_missed_runs(
    state: &ThreadSnapshot,
    had: Seq,
    ended: Vec<(Seq, RunId)>,
    newest: &RecentRuns,
) -> Vec<MissedRun> {
    let unseen = state.messages.iter().filter(|message| message.seq > had);
    let said = unseen.filter_map(|message| Some((message.seq, message.run_id?)));
    let mut runs: Vec<(Seq, RunId)> = said.chain(ended).collect();
    runs.sort_unstable();
    let mut known = HashSet::new();
    let mut runs: Vec<RunId> =
        runs.into_iter().map(|(_, run_id)| run_id).filter(|run_id| known.insert(*run_id)).collect();
    if runs.is_empty() {
        runs.extend(newest.ended_runs().next());
    }
    let last = runs.last().copied();
    let rank = |run_id| if last == Some(run_id) { MissedRunRank::Last } else { MissedRunRank::Earlier };
    runs.into_iter().map(|run_id| MissedRun { run_id, rank: rank(run_id) }).collect()
}
