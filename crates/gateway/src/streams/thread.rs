//! Following a thread for one client, run after run, for as long as the client stays. What is told of each run is the
//! follower's work; of runs that came and went unseen the journal tells.

use std::collections::HashSet;

use agent::{CancellationToken, Position, State};
use axum::body::Bytes;
use dispatch::{Live, StreamPosition, ThreadItem, ThreadLive};
use futures::{Stream, stream};
use http::StatusCode;
use protocol::{RunId, RunRequest, Seq, ThreadId};
use serde_json::json;
use tokio::time::Interval;

use crate::error::Fault;
use crate::extract::Caller;
use crate::runs;
use crate::server::Gateway;
use crate::server::metrics::OpenStream;
use crate::sse::{self, HEARTBEAT};
use crate::streams::cursor::{Cursor, EventId};
use crate::streams::follow::{Follow, View, head};
use crate::streams::mode::Modes;
use crate::streams::out::{Ids, Out, all_at};
use crate::streams::passed::Newest;
use crate::streams::translate::Translator;

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
    gateway: Gateway,
    caller: Caller,
    thread_id: ThreadId,
    live: ThreadLive,
    told: Told,
    begin: Begin,
    /// Runs that had ended when others had passed unseen: the client has had them, or was told of them then.
    had_whole: HashSet<RunId>,
    run: Option<Follow>,
    heartbeat: Option<Interval>,
    closing: CancellationToken,
    _counted: OpenStream,
}

impl FollowThread {
    /// Returns a follower of the runs of the thread that `live` has, and of those to come.
    pub(crate) fn new(
        (gateway, caller): (Gateway, Caller),
        (thread_id, live): (ThreadId, ThreadLive),
        told: Told,
        begin: Begin,
    ) -> Self {
        let (closing, _counted) = (gateway.closing.clone(), gateway.counters.stream());
        let (had_whole, heartbeat) = (HashSet::new(), Some(sse::heartbeat()));
        Self {
            gateway,
            caller,
            thread_id,
            live,
            told,
            begin,
            had_whole,
            run: None,
            heartbeat,
            closing,
            _counted,
        }
    }

    /// Returns what is sent, as it comes.
    pub(crate) fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, async |mut follow| {
            let chunk = follow.chunk().await?;
            Some((chunk, follow))
        })
    }

    async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(run) = &mut self.run {
                if let Some(chunk) = run.chunk().await {
                    return Some(chunk);
                }
                self.begin.had = self.begin.had.max(run.had().seq);
                self.had_whole.insert(run.run_id());
                self.heartbeat = self.run.take().map(Follow::into_heartbeat);
            }
            match self.catch_up().await {
                Ok(None) => {}
                Ok(told) => return told,
                Err(fault) => {
                    tracing::error!(thread_id = %self.thread_id, error = %fault, "failed to follow thread {}", self.thread_id);
                    return None;
                }
            }
            let heartbeat = self.heartbeat.get_or_insert_with(sse::heartbeat);
            let item = tokio::select! {
                biased;
                () = self.closing.cancelled() => return None,
                _ = heartbeat.tick() => return Some(Bytes::from_static(HEARTBEAT)),
                item = self.live.next() => item?,
            };
            match item {
                ThreadItem::Run(live) if self.had_whole.contains(&live.run_id) => {}
                ThreadItem::Run(live) => match self.begin(live).await {
                    Ok(run) => self.run = Some(run),
                    // It was taken back or forgotten, or the thread removed; others may follow.
                    Err(fault) if fault.status() == StatusCode::NOT_FOUND => {}
                    Err(fault) => {
                        tracing::error!(error = %fault, "failed to follow a run of a thread");
                        return None;
                    }
                },
                ThreadItem::Gap => self.begin.unseen = Unseen::Some,
            }
        }
    }

    async fn begin(&mut self, live: Live) -> Result<Follow, Fault> {
        let (run, request) = runs::found(&self.caller, live.thread_id, live.run_id).await?;
        let modes = self.modes(&request);
        let about = runs::about(&run, &request);
        let heartbeat = self.heartbeat.take().unwrap_or_else(sse::heartbeat);
        let asked = (self.gateway.clone(), self.caller.clone());
        // What the run had begun to say when it was given up is said anew: the client is told so.
        let place = self.begin.after.map(|EventId { at, n }| StreamPosition { seq: at.seq, sub: at.sub, n });
        let cut = place.and_then(|place| self.gateway.dispatch.live(live.run_id, Some(place)));
        let live = cut.filter(Live::is_cut).unwrap_or(live);
        let follow = Follow::new(asked, about, live, View { modes, ids: Ids::Sent });
        Ok(follow.of_thread(self.begin.after, heartbeat))
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
        let asked = (&self.gateway, &self.caller);
        if unseen == Unseen::Perhaps && !newest.has_missed(asked, had.seq).await? {
            return Ok(None);
        }
        let state = match self.caller.agent.state(self.thread_id).await {
            Err(agent::Error::UnknownThread { .. }) => None,
            state => state?,
        };
        let at = head(state.as_ref(), had);
        let mut out = Out::new(Modes::NONE, Ids::Sent);
        out.gap(None, (self.begin.after.unwrap_or(all_at(had)), all_at(at)));
        let mut told = out.take().to_vec();
        if let Some(state) = state {
            let ended = newest.ended_behind(&self.caller, had.seq).await?;
            for run_id in unseen_runs(&state, (had.seq, ended), &newest) {
                told.extend(self.retell(run_id, (&state, had.seq, at), &newest).await?);
            }
        }
        self.had_whole.extend(newest.ended());
        self.begin =
            Begin { after: self.begin.after.max(Some(all_at(at))), had: at.seq, unseen: Unseen::None };
        Ok(Some(told.into()))
    }

    /// Tells what the journal has of one run; behind the last one, how the thread stands.
    async fn retell(
        &mut self,
        (run_id, rank): (RunId, Rank),
        (state, had, at): (&State, Seq, Position),
        newest: &Newest,
    ) -> Result<Bytes, Fault> {
        let (run, request) = match runs::found(&self.caller, self.thread_id, run_id).await {
            Err(fault) if fault.status() == StatusCode::NOT_FOUND => return Ok(Bytes::new()),
            found => found?,
        };
        let mut out = Out::new(self.modes(&request), Ids::Sent);
        let mut translator = Translator::new(runs::about(&run, &request));
        out.tell("metadata", &json!({"run_id": run_id, "attempt": 1}));
        match rank {
            Rank::Earlier => translator.retell(at, (state, had), &mut out),
            Rank::Last => translator.catch_up(at, (state, had), &mut out),
        }
        if newest.has_ended(run_id) {
            translator.end_as(&run, &mut out);
            out.done(run_id);
        }
        Ok(out.take())
    }
}

/// Whether others are told behind a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Earlier,
    Last,
}

/// Returns the runs of what was said behind `had` and those that `ended` there, in order; the newest that has ended where
/// there are none.
fn unseen_runs(state: &State, (had, ended): (Seq, Vec<(Seq, RunId)>), newest: &Newest) -> Vec<(RunId, Rank)> {
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
    runs.into_iter().map(|run_id| (run_id, rank(run_id))).collect()
}
