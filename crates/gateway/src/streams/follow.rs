//! Following one run for one client: frames as they come, what the journal has where frames were lost, heartbeats in
//! between, and the end. It holds what is not sent yet and nothing else: a client that does not read falls behind in the
//! run's one ring, and is told so. What a frame becomes is the translator's work.

use std::sync::Arc;

use agent::{Frame, Item, Position, State};
use axum::body::Bytes;
use dispatch::{CancelAction, Live, StreamPosition};
use futures::{Stream, stream};
use protocol::{Run, RunId, RunStatus};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Interval;

use crate::error::Fault;
use crate::extract::Caller;
use crate::server::Gateway;
use crate::server::metrics::OpenStream;
use crate::sse::{self, CHUNK_BYTES, END, HEARTBEAT};
use crate::streams::about::About;
use crate::streams::cursor::{Cursor, EventId};
use crate::streams::mode::Modes;
use crate::streams::need::Need;
use crate::streams::out::{Ids, Out, all_at};
use crate::streams::translate::Translator;

/// Behind everything a run has told.
pub(crate) const NOW: StreamPosition = StreamPosition { seq: u64::MAX, sub: u32::MAX, n: 0 };

/// How a client wants to see a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) modes: Modes,
    pub(crate) ids: Ids,
}

/// One run, followed for one client.
pub(crate) struct Follow {
    gateway: Gateway,
    caller: Caller,
    translator: Translator,
    about: About,
    out: Out,
    source: Source,
    heartbeat: Interval,
    /// Whether the run's own end was told.
    is_told_to_the_end: bool,
    /// Whether what the journal tells of an ended run was gone on with: there is no more to it than that.
    is_read_again: bool,
    /// Whether the client was told that frames are missing before the next one.
    is_told_of_gap: bool,
    /// What the client came with, where it had to be read anew: going away from it may stop the run.
    held: Option<Live>,
    /// Stops the run when the client goes away that wants so.
    _stops: Option<StopBehind>,
    finish: Finish,
    /// One of a thread is counted as the thread's.
    counted: Option<OpenStream>,
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

/// Where the rest of the run comes from.
enum Source {
    /// Its frames, wherever it works.
    Live(Live),
    /// Nothing follows.
    Over,
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
    pub(crate) fn new((gateway, caller): (Gateway, Caller), about: About, live: Live, view: View) -> Self {
        Self { source: Source::Live(live), ..Self::silent((gateway, caller), about, view) }
    }

    fn silent((gateway, caller): (Gateway, Caller), about: About, view: View) -> Self {
        Self {
            translator: Translator::new(about.clone()),
            about,
            out: Out::new(view.modes, view.ids),
            source: Source::Over,
            heartbeat: sse::heartbeat(),
            is_told_to_the_end: false,
            is_read_again: false,
            is_told_of_gap: false,
            held: None,
            _stops: None,
            finish: Finish::End,
            counted: Some(gateway.counters.stream()),
            gateway,
            caller,
        }
    }

    /// Returns a follower of one run among those of a thread, for a client that has had everything up to `after`. The
    /// heartbeat is the thread's.
    pub(crate) fn of_thread(mut self, after: Option<EventId>, heartbeat: Interval) -> Self {
        if let Some(after) = after {
            self.out.had(after);
        }
        (self.finish, self.heartbeat, self.counted) = (Finish::RunDone, heartbeat, None);
        self
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.about.run_id
    }

    /// Returns the heartbeat, for what follows.
    pub(crate) fn into_heartbeat(self) -> Interval {
        self.heartbeat
    }

    /// Returns a follower for a client that comes back, or that comes later; one without a cursor sees what happens from
    /// now on.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn rejoin(
        (gateway, caller): (Gateway, Caller),
        about: About,
        (run, cursor, leaving): (&Run, Option<Cursor>, Leaving),
        view: View,
    ) -> Result<Self, Fault> {
        let mut follow = Self::silent((gateway, caller), about, view);
        let (dispatch, scope) = (Arc::clone(&follow.gateway.dispatch), follow.caller.scope.clone());
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
        if leaving == Leaving::Stops && !matches!(follow.source, Source::Over) {
            let (gateway, caller) = (follow.gateway.clone(), follow.caller.clone());
            follow._stops = Some(StopBehind { gateway, caller, run: run.clone() });
        }
        Ok(follow)
    }

    /// Returns what is sent, as it comes.
    pub(crate) fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, async |mut follow| {
            let chunk = follow.chunk().await?;
            Some((chunk, follow))
        })
    }

    /// Returns the next bytes; `None` when the stream is over.
    pub(crate) async fn chunk(&mut self) -> Option<Bytes> {
        while self.out.len() == 0 {
            if let Err(fault) = self.advance().await? {
                // Without an end the client comes back and finds out; a run does not fail because one reader does.
                tracing::error!(run_id = %self.about.run_id, error = %fault, "failed to follow run {}", self.about.run_id);
                self.source = Source::Over;
                return None;
            }
        }
        Some(self.out.take())
    }

    /// Waits for something to send; `None` when nothing will come.
    async fn advance(&mut self) -> Option<Result<(), Fault>> {
        let item = match &mut self.source {
            Source::Over => return None,
            Source::Live(live) => tokio::select! {
                biased;
                _ = self.heartbeat.tick() => {
                    self.out.raw(HEARTBEAT);
                    return Some(Ok(()));
                }
                item = live.next() => item,
            },
        };
        Some(self.gather(item).await)
    }

    /// Tells an item, and those that are there already.
    async fn gather(&mut self, mut item: Option<Item>) -> Result<(), Fault> {
        loop {
            match item {
                Some(Item::Frame(position, frame)) => {
                    self.is_told_of_gap = false;
                    self.is_told_to_the_end |= matches!(&*frame, Frame::RunEnded { .. });
                    let need = self.translator.need(position, &frame, &mut self.out);
                    if need != Need::Nothing {
                        self.translator.give(&frame, need.read(&self.caller.agent).await?);
                    }
                    self.translator.frame(position, &frame, &mut self.out);
                }
                Some(Item::Gap { after }) => return self.lost(after).await,
                None => return self.ended(Rest::Untold).await,
            }
            let Source::Live(live) = &mut self.source else { return Ok(()) };
            if self.out.len() >= CHUNK_BYTES {
                return Ok(());
            }
            item = match live.try_next() {
                None => return Ok(()),
                some => some,
            };
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
                    self.is_told_to_the_end |= matches!(&*frame, Frame::RunEnded { .. });
                    self.translator.frame(position, &frame, &mut self.out);
                }
                Item::Gap { .. } => gap = true,
            }
        }
        self.out.forget_cursor();
        self.out.passed();
        // Where nothing follows, nothing is begun.
        if (began || gap) && !self.is_told_to_the_end {
            self.out.tell("metadata", &json!({"run_id": self.about.run_id, "attempt": 1}));
        }
        if gap {
            self.translator.lose_sight();
            self.listen_from_now();
        } else {
            self.source = Source::Live(live);
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
        self.source = Source::Live(live);
        if first.is_some() { self.gather(first).await } else { Ok(()) }
    }

    fn listen_from_now(&mut self) {
        let now = match self.gateway.dispatch.live(self.about.run_id, Some(NOW)) {
            Some(live) => Source::Live(live),
            None => Source::Over,
        };
        if let Source::Live(before) = std::mem::replace(&mut self.source, now) {
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
        let (dispatch, scope) = (&self.gateway.dispatch, &self.caller.scope);
        let live = match dispatch.follow(scope, run, Some(place)).await? {
            None => dispatch.retold(scope, run).await?.and_then(|live| live.again(place)),
            live => live,
        };
        Ok(live.map(|live| {
            self.out.had(had);
            self.translator.lose_sight();
            self.source = Source::Live(live);
        }))
    }

    /// Tells that frames were lost, then what the journal has instead; from there on the stream goes on.
    async fn lost(&mut self, after: Position) -> Result<(), Fault> {
        // Whatever happens from here on is heard; what happened before is read.
        self.listen_from_now();
        self.translator.lose_sight();
        let state = self.caller.agent.state(self.about.thread_id).await?;
        // What the client came with may be further than what this server knows that it has had.
        let requested = self.out.cursor().max(EventId { at: after, n: 0 });
        let after = requested.at;
        let at = head(state.as_ref(), after);
        if after == Position::default() {
            self.out.tell("metadata", &json!({"run_id": self.about.run_id, "attempt": 1}));
        }
        let latest = all_at(at);
        if !std::mem::take(&mut self.is_told_of_gap) {
            self.tell_gap(requested, latest);
        }
        self.out.forget_cursor();
        if let Some(state) = state {
            self.translator.catch_up(at, (&state, after.seq), &mut self.out);
        }
        self.out.had(latest);
        if matches!(self.source, Source::Over) {
            return self.ended(Rest::Told).await;
        }
        Ok(())
    }

    fn tell_gap(&mut self, requested: EventId, latest: EventId) {
        self.out.gap(Some(self.about.run_id), (requested, latest));
    }

    /// Ends the stream where nothing follows: at the run's end, or where this server lost sight of it.
    async fn ended(&mut self, rest: Rest) -> Result<(), Fault> {
        if let Source::Live(ended) = std::mem::replace(&mut self.source, Source::Over) {
            self.held.get_or_insert(ended);
        }
        if self.is_told_to_the_end {
            self.finish();
            return Ok(());
        }
        match self.caller.agent.store().run(self.about.run_id).await.map_err(agent::Error::from)? {
            Some(run) if run.status.is_active() && self.gateway.closing.is_cancelled() => {}
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
            && let Some(state) = self.caller.agent.state(self.about.thread_id).await?
        {
            let at = head(Some(&state), had);
            self.translator.catch_up(at, (&state, had.seq), &mut self.out);
        }
        self.translator.end_as(run, &mut self.out);
        self.finish();
        Ok(())
    }
}

/// Stops a run when it is dropped, wherever that works.
struct StopBehind {
    gateway: Gateway,
    caller: Caller,
    run: Run,
}

impl Drop for StopBehind {
    fn drop(&mut self) {
        // A server that goes takes its clients' leave; its runs go on at the next start.
        let handle = Handle::try_current().ok().filter(|_| !self.gateway.closing.is_cancelled());
        let Some(handle) = handle else { return };
        let (dispatch, scope) = (Arc::clone(&self.gateway.dispatch), self.caller.scope.clone());
        let run = self.run.clone();
        handle.spawn(async move {
            if let Err(error) = dispatch.stop(&scope, &run, CancelAction::Interrupt).await {
                tracing::warn!(run_id = %run.run_id, %error, "failed to stop run {}", run.run_id);
            }
        });
    }
}

/// Returns the place of the newest message of a state.
pub(crate) fn head(state: Option<&State>, or: Position) -> Position {
    let newest = state.and_then(|state| state.messages.iter().map(|message| message.seq).max());
    newest.map_or(or, |seq| Position { seq, sub: 0 }).max(or)
}
