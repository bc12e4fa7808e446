//! Following a thread by its events: what is kept is told again, then what happens, over runs, for as long as the client
//! stays. The thread need not be there yet.

use std::sync::Arc;

use agent::{Item, Position, StateMessage};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::{Run, RunRequest, ThreadId};
use scheduler::{Changes, Live, StreamPosition};

use super::filter::{Filter, FilterBody, HISTORY};
use super::out::ChannelWriter;
use super::stored::{self, BesideRuns};
use crate::caller::Caller;
use crate::extract::{Body, InThread};
use crate::fault::{Envelope, Fault};
use crate::runs;
use crate::sse::{self, HEARTBEAT};
use crate::streams::about::{About, Subgraphs};
use crate::streams::follow::{
    Follower, NOW, Progress, RunFollower, StreamWriter, ThreadEvent, ThreadRuns, head,
};
use crate::streams::passed::Newest;
use crate::streams::translate::{Translator, Unfinished, missed_messages};

/// Follows a thread by its events.
#[utoipa::path(
    post, path = "/threads/{thread_id}/stream/events", tag = "events", request_body = FilterBody,
    params(("thread_id" = Uuid, Path, description = "The thread; it need not exist yet.")),
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The filter makes no sense.", body = Envelope),
    )
)]
pub(super) async fn events(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<FilterBody>,
) -> Result<Response, Fault> {
    let filter = body.filter()?;
    let mut follow = Follow::new(caller, thread_id, filter);
    follow.look_beside().await?;
    Ok(sse::response(follow.chunks()))
}

/// A thread, followed for one client.
struct Follow {
    caller: Caller,
    thread_id: ThreadId,
    runs: ThreadRuns,
    run: Option<RunFollower>,
    /// What no run tells of, if that is wanted.
    beside: Option<BesideRuns>,
    /// When there may be some of it.
    changes: Option<Changes>,
    /// Whether it came with a place, and it is not known yet whether it is behind.
    may_be_behind: bool,
    out: ChannelWriter,
}

impl Follow {
    fn new(caller: Caller, thread_id: ThreadId, filter: Filter) -> Self {
        let live = caller.server.dispatch.thread_live(&caller.scope, thread_id);
        Self {
            thread_id,
            runs: ThreadRuns::new(&caller, live),
            run: None,
            beside: None,
            changes: None,
            may_be_behind: filter.since > 0,
            out: ChannelWriter::new(filter),
            caller,
        }
    }

    /// Waits for something to tell; `None` when the server goes.
    async fn advance(&mut self) -> Option<Result<(), Fault>> {
        if std::mem::take(&mut self.may_be_behind) {
            return Some(match self.look_behind().await {
                Ok(()) => self.tell_beside().await,
                Err(fault) => Err(fault),
            });
        }
        if let Some(run) = &mut self.run {
            let progress = run.advance(&self.caller.agent, &mut self.runs.heartbeat, &mut self.out).await;
            return Some(match progress {
                Ok(progress) => self.take_in(progress).await,
                Err(error) => Err(error.into()),
            });
        }
        let event = tokio::select! {
            biased;
            event = self.runs.next() => event?,
            () = changed(&mut self.changes) => return Some(self.tell_beside().await),
        };
        Some(match event {
            ThreadEvent::Heartbeat => {
                self.out.raw(HEARTBEAT);
                Ok(())
            }
            ThreadEvent::Run(live) => self.begin(live).await,
            ThreadEvent::Gap => self.passed_by(self.out.had()).await,
        })
    }

    /// Notes from where on it tells what no run tells of. What a client reads of the thread once it is answered is there by
    /// then, or told.
    async fn look_beside(&mut self) -> Result<(), Fault> {
        if self.out.filter.has(HISTORY) {
            self.changes = Some(self.runs.live.changes());
            let had = self.out.had().seq;
            self.beside = Some(BesideRuns::of(&self.caller, self.thread_id, had).await?);
        }
        Ok(())
    }

    async fn tell_beside(&mut self) -> Result<(), Fault> {
        match &mut self.beside {
            Some(beside) => beside.tell(&self.caller, &mut self.out).await,
            None => Ok(()),
        }
    }

    async fn begin(&mut self, mut live: Live) -> Result<(), Fault> {
        let (run, request) = runs::found(&self.caller, live.thread_id, live.run_id).await?;
        let mut translator = translator(&run, &request);
        self.out.of(run.run_id, run.created_at);
        let Position { seq, sub } = self.out.had();
        let place = StreamPosition { seq, sub, n: 0 };
        let again = || self.caller.server.dispatch.live(run.run_id, Some(place)).filter(|_| seq > 0);
        // What it had begun to say when it was given up is said anew.
        let cut = again().filter(Live::is_cut);
        let mut first = if cut.is_some() { None } else { live.try_next() };
        if cut.is_some() || matches!(first, Some(Item::Gap { .. })) {
            // The beginning is gone, but what follows the client's place may be there.
            if let Some(mut again) = cut.or_else(again) {
                first = again.try_next();
                if first.is_none() && again.is_closed() {
                    // The client has had this run to its end.
                    return Ok(());
                }
                live = again;
                translator.lose_sight();
            }
        }
        let run = self.run.insert(RunFollower::new(Some(live), translator));
        if first.is_none() {
            return Ok(());
        }
        let progress = run.gather(&self.caller.agent, first, &mut self.out).await?;
        self.take_in(progress).await
    }

    async fn take_in(&mut self, progress: Progress) -> Result<(), Fault> {
        match progress {
            Progress::Paused => Ok(()),
            Progress::Lost(after) => self.lost(after).await,
            Progress::Over => {
                self.over().await?;
                if self.run.is_none() { self.tell_beside().await } else { Ok(()) }
            }
        }
    }

    /// Tells what the journal has instead of frames that were lost, and goes on from there.
    async fn lost(&mut self, after: Position) -> Result<(), Fault> {
        let Some(run_id) = self.run.as_ref().map(RunFollower::run_id) else { return Ok(()) };
        // Whatever happens from here on is heard, also where the frames behind the journal's newest message are gone too.
        let now = self.caller.server.dispatch.live(run_id, Some(NOW));
        self.catch_up(after).await?;
        let Position { seq, sub } = self.out.place().max(after);
        let behind = || self.caller.server.dispatch.live(run_id, Some(StreamPosition { seq, sub, n: 0 }));
        let is_whole = behind().is_some_and(|mut live| !matches!(live.try_next(), Some(Item::Gap { .. })));
        let next = if is_whole { behind() } else { now };
        match (next, &mut self.run) {
            (Some(next), Some(run)) => {
                run.live = Some(next);
                Ok(())
            }
            (Some(_) | None, _) => self.over().await,
        }
    }

    /// Leaves a run whose stream is over. One whose end was not told here is looked up: it has ended, or goes on elsewhere.
    async fn over(&mut self) -> Result<(), Fault> {
        let (run_id, is_ended) = match &self.run {
            Some(run) => (run.run_id(), run.translator.is_ended()),
            None => return Ok(()),
        };
        if is_ended {
            self.end_as(None);
            return Ok(());
        }
        let run = self.caller.agent.runs().get(run_id).await?;
        match run {
            Some(run) if run.status.is_active() && !self.caller.server.closing.is_cancelled() => {
                self.go_on(&run).await
            }
            Some(run) if !run.status.is_active() => {
                self.catch_up(self.out.had()).await?;
                self.end_as(Some(run));
                Ok(())
            }
            // It was taken back, or the server goes.
            Some(_) | None => {
                self.end_as(None);
                Ok(())
            }
        }
    }

    /// Goes on with a run that goes on without the stream it had: in another one of this process, or in another process.
    async fn go_on(&mut self, run: &Run) -> Result<(), Fault> {
        let Position { seq, sub } = self.out.had();
        let place = Some(StreamPosition { seq, sub, n: 0 });
        let next = self.caller.server.dispatch.follow(&self.caller.scope, run, place).await?;
        match (next, &mut self.run) {
            (Some(next), Some(run)) => run.live = Some(next),
            (Some(_) | None, _) => self.run = None,
        }
        Ok(())
    }

    fn end_as(&mut self, run: Option<Run>) {
        if let (Some(mut follower), Some(run)) = (self.run.take(), run) {
            follower.translator.end_as(&run, &mut self.out);
        }
    }

    /// Tells what the journal has of the run after `after`.
    async fn catch_up(&mut self, after: Position) -> Result<(), Fault> {
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let Some(run) = &mut self.run else { return Ok(()) };
        let had = self.out.had().seq.max(after.seq);
        let missed = missed_messages(&state, run.run_id(), had);
        self.out.instead(after, head(Some(&state), after));
        stored::missed(had, &mut self.out);
        run.translator.catch_up(&state, &missed, &mut self.out);
        Ok(())
    }

    /// Finds out what a client has not had that comes with a place, as far as nothing tells it by itself.
    async fn look_behind(&mut self) -> Result<(), Fault> {
        let thread = self.caller.agent.threads().get(self.thread_id).await?;
        let last_seq = thread.map_or(0, |thread| thread.last_seq);
        let had = self.out.had();
        if had.seq > last_seq {
            // It is a place of another thread or server.
            self.out.forget_since();
            return self.passed_by(Position { seq: last_seq, sub: 0 }).await;
        }
        let newest = Newest::of(&self.caller, self.thread_id).await?;
        match newest.has_missed(&self.caller, had.seq).await? {
            true => self.retell(had, newest).await,
            false => Ok(()),
        }
    }

    /// Tells what the journal has of runs that came and went unseen. One that works is told of by itself.
    async fn passed_by(&mut self, had: Position) -> Result<(), Fault> {
        let newest = Newest::of(&self.caller, self.thread_id).await?;
        self.retell(had, newest).await
    }

    async fn retell(&mut self, had: Position, newest: Newest) -> Result<(), Fault> {
        let mut runs = newest.ended_behind(&self.caller, had.seq).await?;
        runs.sort_unstable();
        if runs.is_empty() {
            runs.extend(newest.ended().next().map(|run_id| (had.seq, run_id)));
        }
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let is_over = |message: &StateMessage| message.run_id.is_none_or(|run_id| newest.has_ended(run_id));
        let is_missed = |message: &&Arc<StateMessage>| message.seq > had.seq && is_over(message);
        let missed: Vec<_> = state.messages.iter().filter(is_missed).cloned().collect();
        self.runs.note_whole(newest.ended());
        let at = missed.last().map_or(had, |message| Position { seq: message.seq, sub: 0 });
        let mut rest = missed.as_slice();
        for (index, (_, run_id)) in runs.iter().enumerate() {
            let (run, request) = runs::found(&self.caller, self.thread_id, *run_id).await?;
            let mut translator = translator(&run, &request);
            self.out.of(run.run_id, run.created_at);
            self.out.instead(had, at);
            if index == 0 {
                stored::missed(had.seq, &mut self.out);
            }
            match runs.get(index + 1) {
                Some((next, _)) => {
                    let (own, later) = rest.split_at(rest.partition_point(|message| message.seq < *next));
                    translator.retell(own, &mut self.out);
                    rest = later;
                }
                None => translator.catch_up(&state, rest, &mut self.out),
            }
            translator.end_as(&run, &mut self.out);
        }
        Ok(())
    }
}

impl Follower for Follow {
    async fn chunk(&mut self) -> Option<Bytes> {
        while self.out.len() == 0 {
            match self.advance().await? {
                Ok(()) => {}
                // The run was taken back or forgotten, or the thread removed; others may follow, also under the same id.
                Err(fault) if fault.status() == StatusCode::NOT_FOUND => self.run = None,
                Err(fault) => {
                    let thread_id = self.thread_id;
                    tracing::error!(thread_id = %thread_id, error = %fault, "failed to follow thread {thread_id}");
                    return None;
                }
            }
        }
        Some(self.out.take())
    }
}

/// Returns the translator of a run. What its sub-agents do is in namespaces of their own, which clients filter by.
fn translator(run: &Run, request: &RunRequest) -> Translator {
    let about = About { subgraphs: Subgraphs::Told, ..runs::about(run, request) };
    Translator::new(about, Unfinished::Repeated)
}

async fn changed(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}
