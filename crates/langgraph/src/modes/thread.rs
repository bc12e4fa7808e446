//! Following a thread for one client, run after run, for as long as the client stays. What is told of each run is the
//! follower's work; of runs that came and went unseen the journal tells.

use std::collections::HashSet;

use agent::{Position, State};
use axum::body::Bytes;
use axum::http::StatusCode;
use protocol::{RunId, RunRequest, Seq, ThreadId};
use scheduler::{Live, StreamPosition, ThreadLive};
use serde_json::json;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::follow::{Follow, View};
use crate::modes::mode::Modes;
use crate::modes::out::{Ids, ModeWriter, all_at};
use crate::runs;
use crate::sse::HEARTBEAT;
use crate::streams::follow::{Follower, StreamWriter, ThreadEvent, ThreadRuns, head};
use crate::streams::passed::Newest;
use crate::streams::translate::{Translator, Unfinished, missed_messages};

/// What a client wants to see of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// What each was asked to stream.
    Runs,
    /// That they begin and end.
    Lifecycle,
}

/// Where a client begins that follows a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    /// Behind this event, of whatever run.
    after: Option<EventId>,
    /// The last event that it knows, or does not want to know of.
    had: Seq,
    unseen: Unseen,
}

/// Whether runs came and went unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unseen {
    None,
    Perhaps,
    Some,
}

impl Begin {
    /// Returns where a client with that cursor begins in a thread whose last event is `last_seq`.
    pub(crate) fn of(cursor: Option<Cursor>, last_seq: Seq) -> Self {
        let nowhere = Self { after: None, had: last_seq, unseen: Unseen::None };
        match cursor.map(|cursor| cursor.within(last_seq)) {
            None | Some(Cursor::Beginning) => nowhere,
            Some(Cursor::After(id)) => Self { after: Some(id), had: id.at.seq, unseen: Unseen::Perhaps },
            Some(Cursor::Foreign) => Self { unseen: Unseen::Some, ..nowhere },
        }
    }
}

/// A thread, followed for one client.
pub(crate) struct FollowThread {
    caller: Caller,
    thread_id: ThreadId,
    runs: ThreadRuns,
    told: Told,
    begin: Begin,
    run: Option<Follow>,
}

impl FollowThread {
    /// Returns a follower of the runs of the thread that `live` has, and of those to come.
    pub(crate) fn new(
        caller: Caller,
        thread_id: ThreadId,
        live: ThreadLive,
        told: Told,
        begin: Begin,
    ) -> Self {
        Self { runs: ThreadRuns::new(&caller, live), caller, thread_id, told, begin, run: None }
    }

    async fn begin(&mut self, live: Live) -> Result<Follow, Fault> {
        let (run, request) = runs::found(&self.caller, live.thread_id, live.run_id).await?;
        let modes = self.modes(&request);
        let about = runs::about(&run, &request);
        let asked = self.caller.clone();
        // What the run had begun to say when it was given up is said anew: the client is told so.
        let place = self.begin.after.map(|EventId { at, n }| StreamPosition { seq: at.seq, sub: at.sub, n });
        let cut = place.and_then(|place| self.caller.server.dispatch.live(live.run_id, Some(place)));
        let live = cut.filter(Live::is_cut).unwrap_or(live);
        let follow = Follow::new(asked, about, live, View { modes, ids: Ids::Sent });
        Ok(follow.of_thread(self.begin.after))
    }

    fn modes(&self, request: &RunRequest) -> Modes {
        match self.told {
            Told::Runs => Modes::named(request.stream_mode.iter().map(String::as_str)).unwrap_or(Modes::NONE),
            Told::Lifecycle => Modes::NONE,
        }
    }

    /// Tells what the journal has of runs that came and went unseen, if any did; those that work are told of by themselves.
    async fn catch_up(&mut self) -> Result<Option<Bytes>, Fault> {
        let unseen = std::mem::replace(&mut self.begin.unseen, Unseen::None);
        if unseen == Unseen::None {
            return Ok(None);
        }
        // What ends after this is told by its own frames.
        let newest = Newest::of(&self.caller, self.thread_id).await?;
        let had = Position { seq: self.begin.had, sub: 0 };
        let asked = &self.caller;
        if unseen == Unseen::Perhaps && !newest.has_missed(asked, had.seq).await? {
            return Ok(None);
        }
        let state = match self.caller.agent.threads().state(self.thread_id).await {
            Err(agent::Error::Thread(agent::ThreadError::Unknown(_))) => None,
            state => state?,
        };
        let at = head(state.as_ref(), had);
        let mut out = ModeWriter::new(Modes::NONE, Ids::Sent);
        out.gap(None, self.begin.after.unwrap_or(all_at(had)), all_at(at));
        let mut told = out.take().to_vec();
        if let Some(state) = state {
            let ended = newest.ended_behind(&self.caller, had.seq).await?;
            for run in unseen_runs(&state, had.seq, ended, &newest) {
                told.extend(self.retell(run, &Unheard { state: &state, had: had.seq, at }, &newest).await?);
            }
        }
        self.runs.note_whole(newest.ended());
        self.begin =
            Begin { after: self.begin.after.max(Some(all_at(at))), had: at.seq, unseen: Unseen::None };
        Ok(Some(told.into()))
    }

    /// Tells what the journal has of one run; behind the last one, how the thread stands.
    async fn retell(
        &mut self,
        UnseenRun { run_id, rank }: UnseenRun,
        unheard: &Unheard<'_>,
        newest: &Newest,
    ) -> Result<Bytes, Fault> {
        let (run, request) = match runs::found(&self.caller, self.thread_id, run_id).await {
            Err(fault) if fault.status() == StatusCode::NOT_FOUND => return Ok(Bytes::new()),
            found => found?,
        };
        let mut out = ModeWriter::new(self.modes(&request), Ids::Sent);
        let mut translator = Translator::new(runs::about(&run, &request), Unfinished::Completed);
        out.tell("metadata", &json!({"run_id": run_id, "attempt": 1}));
        out.set_position(unheard.at);
        let missed = missed_messages(unheard.state, run_id, unheard.had);
        match rank {
            Rank::Earlier => translator.retell(&missed, &mut out),
            Rank::Last => translator.catch_up(unheard.state, &missed, &mut out),
        }
        if newest.has_ended(run_id) {
            translator.end_as(&run, &mut out);
            out.done(run_id);
        }
        Ok(out.take())
    }
}

impl Follower for FollowThread {
    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(run) = &mut self.run {
                if let Some(chunk) = run.chunk(&mut self.runs.heartbeat).await {
                    return Some(chunk);
                }
                self.begin.had = self.begin.had.max(run.had().seq);
                self.runs.note_whole([run.run_id()]);
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
                ThreadEvent::Run(live) => match self.begin(live).await {
                    Ok(run) => self.run = Some(run),
                    // It was taken back or forgotten, or the thread removed; others may follow.
                    Err(fault) if fault.status() == StatusCode::NOT_FOUND => {}
                    Err(fault) => {
                        tracing::error!(error = %fault, "failed to follow a run of a thread");
                        return None;
                    }
                },
                ThreadEvent::Gap => self.begin.unseen = Unseen::Some,
            }
        }
    }
}

/// The state of the thread, the last event that the client has had, and the place at which the rest is told.
struct Unheard<'a> {
    state: &'a State,
    had: Seq,
    at: Position,
}

/// A run that came and went unseen.
#[derive(Debug, Clone, Copy)]
struct UnseenRun {
    run_id: RunId,
    rank: Rank,
}

/// Whether others are told behind a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Earlier,
    Last,
}

/// Returns the runs of what was said behind `had` and those that `ended` there, in order; the newest that has ended where
/// there are none.
fn unseen_runs(state: &State, had: Seq, ended: Vec<(Seq, RunId)>, newest: &Newest) -> Vec<UnseenRun> {
    let unseen = state.messages.iter().filter(|message| message.seq > had);
    let said = unseen.filter_map(|message| Some((message.seq, message.run_id?)));
    let mut runs: Vec<(Seq, RunId)> = said.chain(ended).collect();
    runs.sort_unstable();
    let mut known = HashSet::new();
    let mut runs: Vec<RunId> =
        runs.into_iter().map(|(_, run_id)| run_id).filter(|run_id| known.insert(*run_id)).collect();
    if runs.is_empty() {
        runs.extend(newest.ended().next());
    }
    let last = runs.last().copied();
    let rank = |run_id| if last == Some(run_id) { Rank::Last } else { Rank::Earlier };
    runs.into_iter().map(|run_id| UnseenRun { run_id, rank: rank(run_id) }).collect()
}
