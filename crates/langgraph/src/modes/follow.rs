//! Following one run for one client: frames as they come, what the journal has where frames were lost, heartbeats in
//! between, and the end. It holds what is not sent yet and nothing else: a client that does not read falls behind in the
//! run's one ring, and is told so. What a frame becomes is the translator's work.

use std::sync::Arc;

use agent::{Frame, Item, Position, State};
use axum::body::Bytes;
use futures::Stream;
use protocol::{Run, RunId, RunStatus};
use scheduler::{CancelAction, Live, StreamPosition};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Interval;

use crate::caller::Caller;
use crate::caller::OpenStream;
use crate::fault::Fault;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::mode::Modes;
use crate::modes::out::{Ids, ModeWriter, all_at};
use crate::sse::{self, END};
use crate::streams::about::About;
use crate::streams::follow::{Follower, NOW, Progress, RunFollower, StreamWriter, head};
use crate::streams::translate::{Translator, Unfinished, missed_messages};

/// How a client wants to see a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) modes: Modes,
    pub(crate) ids: Ids,
}

/// One run, followed for one client.
pub(crate) struct Follow {
    caller: Caller,
    run: RunFollower,
    about: About,
    out: ModeWriter,
    /// Whether what the journal tells of an ended run was gone on with: there is no more to it than that.
    is_read_again: bool,
    /// What the client came with, where it had to be read anew: going away from it may stop the run.
    held: Option<Live>,
    /// Stops the run when the client goes away that wants so.
    _stops: Option<StopBehind>,
    finish: Finish,
}

/// A stream of one run alone.
struct RunStream {
    follow: Follow,
    heartbeat: Interval,
    _counted: OpenStream,
}

/// How a client is told that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The stream ends.
    End,
    /// The stream goes on with the thread's next run.
    RunDone,
}

/// What becomes of a run when a client goes away that joined it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It goes on.
    GoesOn,
    /// It is stopped.
    Stops,
}

/// How a client comes back to a run, or comes later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejoinOptions {
    pub(crate) view: View,
    /// Where it wants to go on; one without a cursor sees what happens from now on.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) leaving: Leaving,
}

/// What became of the rest of a run where its stream ends before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Nobody has told it yet.
    Untold,
    /// What is durable of it was told just now.
    Told,
}

impl Follow {
    /// Returns a follower of all that `live` tells.
    pub(crate) fn new(caller: Caller, about: About, live: Live, view: View) -> Self {
        let mut follow = Self::silent(caller, about, view);
        follow.run.live = Some(live);
        follow
    }

    fn silent(caller: Caller, about: About, view: View) -> Self {
        Self {
            run: RunFollower::new(None, Translator::new(about.clone(), Unfinished::Completed)),
            about,
            out: ModeWriter::new(view.modes, view.ids),
            is_read_again: false,
            held: None,
            _stops: None,
            finish: Finish::End,
            caller,
        }
    }

    /// Returns a follower of one run among those of a thread, for a client that has had everything up to `after`.
    pub(crate) fn of_thread(mut self, after: Option<EventId>) -> Self {
        if let Some(after) = after {
            self.out.had(after);
        }
        self.finish = Finish::RunDone;
        self
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.about.run_id
    }

    /// Returns a follower for a client that comes back, or that comes later; one without a cursor sees what happens from
    /// now on.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn rejoin(
        caller: Caller,
        about: About,
        run: &Run,
        RejoinOptions { view, cursor, leaving }: RejoinOptions,
    ) -> Result<Self, Fault> {
        let mut follow = Self::silent(caller, about, view);
        let (dispatch, scope) = (Arc::clone(&follow.caller.server.dispatch), follow.caller.scope.clone());
        let mut live = dispatch.follow(&scope, run, None).await?;
        if live.is_none() && matches!(cursor, Some(Cursor::Beginning | Cursor::After(_))) {
            live = dispatch.retold(&scope, run).await?;
        }
        match (live, cursor) {
            (Some(_), Some(Cursor::Foreign)) => follow.lost(Position::default()).await?,
            (Some(live), None) => follow.join_now(live).await?,
            (Some(live), Some(Cursor::Beginning)) => follow.join_again(live, None).await?,
            (Some(live), Some(Cursor::After(id))) => follow.join_again(live, Some(id)).await?,
            (None, _) => follow.finish(),
        }
        if leaving == Leaving::Stops && follow.run.live.is_some() {
            let caller = follow.caller.clone();
            follow._stops = Some(StopBehind { caller, run: run.clone() });
        }
        Ok(follow)
    }

    /// Returns what is sent, as it comes.
    pub(crate) fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let _counted = self.caller.server.streams.open();
        RunStream { follow: self, heartbeat: sse::heartbeat(), _counted }.chunks()
    }

    /// Returns the next bytes; `None` when the stream is over.
    pub(crate) async fn chunk(&mut self, heartbeat: &mut Interval) -> Option<Bytes> {
        while self.out.len() == 0 {
            self.run.live.as_ref()?;
            if let Err(fault) = self.advance(heartbeat).await {
                // Without an end the client comes back and finds out; a run does not fail because one reader does.
                tracing::error!(run_id = %self.about.run_id, error = %fault, "failed to follow run {}", self.about.run_id);
                self.run.live = None;
                return None;
            }
        }
        Some(self.out.take())
    }

    async fn advance(&mut self, heartbeat: &mut Interval) -> Result<(), Fault> {
        let progress = self.run.advance(&self.caller.agent, heartbeat, &mut self.out).await?;
        self.take_in(progress).await
    }

    async fn take_in(&mut self, progress: Progress) -> Result<(), Fault> {
        match progress {
            Progress::Paused => Ok(()),
            Progress::Lost(after) => self.lost(after).await,
            Progress::Over => self.ended(Rest::Untold).await,
        }
    }

    /// Passes over what the run has told already.
    async fn join_now(&mut self, mut live: Live) -> Result<(), Fault> {
        self.out.pass_over();
        let (mut began, mut gap) = (false, false);
        while let Some(item) = live.try_next() {
            match item {
                Item::Frame(position, frame) => {
                    began |= matches!(&*frame, Frame::RunStarted { .. });
                    self.run.translator.frame(position, &frame, &mut self.out);
                }
                Item::Gap { .. } => gap = true,
            }
        }
        self.out.forget_cursor();
        self.out.passed();
        // Where nothing follows, nothing is begun.
        if (began || gap) && !self.run.translator.is_ended() {
            self.out.tell("metadata", &json!({"run_id": self.about.run_id, "attempt": 1}));
        }
        if gap {
            self.run.translator.lose_sight();
            self.listen_from_now();
        } else {
            self.run.live = Some(live);
        }
        Ok(())
    }

    /// Goes on behind `after`, or from the beginning; what is told again is what was told before.
    async fn join_again(&mut self, mut live: Live, after: Option<EventId>) -> Result<(), Fault> {
        if let Some(after) = after {
            self.out.had(after);
        }
        let place = after.map(|EventId { at, n }| StreamPosition { seq: at.seq, sub: at.sub, n });
        // What it had begun to say when it was given up is said anew.
        if let Some(cut) = place.and_then(|place| live.again(place)).filter(Live::is_cut) {
            live = cut;
        }
        let mut first = live.try_next();
        if let (Some(Item::Gap { .. }), Some(again)) = (&first, place.and_then(|place| live.again(place))) {
            // The beginning is gone, but what follows the client's place may be there.
            live = again;
            first = live.try_next();
        }
        self.run.live = Some(live);
        if first.is_none() {
            return Ok(());
        }
        let progress = self.run.gather(&self.caller.agent, first, &mut self.out).await?;
        self.take_in(progress).await
    }

    fn listen_from_now(&mut self) {
        let now = self.caller.server.dispatch.live(self.about.run_id, Some(NOW));
        if let Some(before) = std::mem::replace(&mut self.run.live, now) {
            self.held.get_or_insert(before);
        }
    }

    /// Returns up to where the client has had everything.
    pub(crate) fn had(&self) -> Position {
        self.out.cursor().at.max(self.out.place())
    }

    /// Goes on with a run whose stream ended before it: in another one of this process, or with what the journal tells. `None`
    /// where there is nothing to go on with.
    async fn go_on(&mut self, run: &Run) -> Result<Option<()>, Fault> {
        // What was read and not sent is read again: whoever has had nothing of it loses nothing with it.
        let had = self.out.last();
        let place = StreamPosition { seq: had.at.seq, sub: had.at.sub, n: had.n };
        let (dispatch, scope) = (&self.caller.server.dispatch, &self.caller.scope);
        let live = match dispatch.follow(scope, run, Some(place)).await? {
            None => dispatch.retold(scope, run).await?.and_then(|live| live.again(place)),
            live => live,
        };
        Ok(live.map(|live| {
            self.out.had(had);
            self.run.translator.lose_sight();
            self.run.live = Some(live);
        }))
    }

    /// Tells that frames were lost, then what the journal has instead; from there on the stream goes on.
    async fn lost(&mut self, after: Position) -> Result<(), Fault> {
        // Whatever happens from here on is heard; what happened before is read.
        self.listen_from_now();
        self.run.translator.lose_sight();
        let state = self.caller.agent.threads().state(self.about.thread_id).await?;
        // What the client came with may be further than what this server knows that it has had.
        let requested = self.out.cursor().max(EventId { at: after, n: 0 });
        let after = requested.at;
        let at = head(state.as_ref(), after);
        if after == Position::default() {
            self.out.tell("metadata", &json!({"run_id": self.about.run_id, "attempt": 1}));
        }
        let latest = all_at(at);
        if !std::mem::take(&mut self.run.is_told_of_gap) {
            self.out.gap(Some(self.about.run_id), requested, latest);
        }
        self.out.forget_cursor();
        if let Some(state) = state {
            self.catch_up(at, &state, after);
        }
        self.out.had(latest);
        if self.run.live.is_none() {
            return self.ended(Rest::Told).await;
        }
        Ok(())
    }

    /// Tells what a state of the journal has behind `had`, all of it at one place.
    fn catch_up(&mut self, at: Position, state: &State, had: Position) {
        self.out.set_position(at);
        let missed = missed_messages(state, self.about.run_id, had.seq);
        self.run.translator.catch_up(state, &missed, &mut self.out);
    }

    /// Ends the stream where nothing follows: at the run's end, or where this server lost sight of it.
    async fn ended(&mut self, rest: Rest) -> Result<(), Fault> {
        if let Some(ended) = self.run.live.take() {
            self.held.get_or_insert(ended);
        }
        if self.run.translator.is_ended() {
            self.finish();
            return Ok(());
        }
        match self.caller.agent.runs().get(self.about.run_id).await? {
            Some(run) if run.status.is_active() && self.caller.server.closing.is_cancelled() => {}
            Some(run) if run.status.is_active() || (rest == Rest::Untold && !self.is_read_again) => {
                self.is_read_again = !run.status.is_active();
                if self.go_on(&run).await?.is_none() && !run.status.is_active() {
                    self.end_with(&run, self.had()).await?;
                }
            }
            Some(run) => self.end_with(&run, self.had()).await?,
            // It was taken back, and everything it did.
            None => self.finish(),
        }
        Ok(())
    }

    fn finish(&mut self) {
        match self.finish {
            Finish::End => self.out.raw(END),
            Finish::RunDone => self.out.done(self.about.run_id),
        }
    }

    /// Ends the stream of a run whose end is known from the journal alone.
    async fn end_with(&mut self, run: &Run, had: Position) -> Result<(), Fault> {
        if run.status != RunStatus::Cancelled
            && let Some(state) = self.caller.agent.threads().state(self.about.thread_id).await?
        {
            self.catch_up(head(Some(&state), had), &state, had);
        }
        self.run.translator.end_as(run, &mut self.out);
        self.finish();
        Ok(())
    }
}

impl Follower for RunStream {
    async fn chunk(&mut self) -> Option<Bytes> {
        self.follow.chunk(&mut self.heartbeat).await
    }
}

/// Stops a run when it is dropped, wherever that works.
struct StopBehind {
    caller: Caller,
    run: Run,
}

impl Drop for StopBehind {
    fn drop(&mut self) {
        // A server that goes takes its clients' leave; its runs go on at the next start.
        let handle = Handle::try_current().ok().filter(|_| !self.caller.server.closing.is_cancelled());
        let Some(handle) = handle else { return };
        let (dispatch, scope) = (Arc::clone(&self.caller.server.dispatch), self.caller.scope.clone());
        let run = self.run.clone();
        handle.spawn(async move {
            if let Err(error) = dispatch.stop(&scope, &run, CancelAction::Interrupt).await {
                tracing::warn!(run_id = %run.run_id, %error, "failed to stop run {}", run.run_id);
            }
        });
    }
}
