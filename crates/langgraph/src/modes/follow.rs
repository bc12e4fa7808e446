//! Following one run for one client: frames as they come, what the journal has where frames were lost, heartbeats in
//! between, and the end. It holds what is not sent yet and nothing else: a client that does not read falls behind in the
//! run's one ring, and is told so. What a frame becomes is the translator's work.

use std::sync::Arc;

use agent::{Frame, FramePosition, SubscriptionItem, ThreadSnapshot};
use axum::body::Bytes;
use futures::Stream;
use protocol::{Run, RunId, RunStatus};
use scheduler::{CancelAction, RunReader, StreamPosition};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Interval;

use crate::caller::Caller;
use crate::caller::OpenStreamGuard;
use crate::error::ApiError;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::mode::StreamModes;
use crate::modes::writer::{EventIds, ModeWriter, last_event_at};
use crate::sse::{self, END_EVENT};
use crate::streams::follow::{
    ChunkStream, ReadProgress, RunFollower, STREAM_END, StreamWriter, head_position,
};
use crate::streams::origin::RunOrigin;
use crate::streams::translate::{PartialMessagePolicy, RunTranslator, missed_messages};

/// How a client wants to see a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamView {
    pub(crate) modes: StreamModes,
    pub(crate) event_ids: EventIds,
}

/// One run, followed for one client.
pub(crate) struct RunModeStream {
    caller: Caller,
    run: RunFollower,
    origin: RunOrigin,
    writer: ModeWriter,
    /// True if the journal's events of an ended run were replayed; no more events follow.
    is_replayed: bool,
    /// The reader that the client came with, if the run had to be read anew. Dropping it may stop the run.
    original_reader: Option<RunReader>,
    /// Stops the run when the client goes away that wants so.
    _cancel_on_drop: Option<CancelOnDrop>,
    end_marker: EndMarker,
}

/// A stream of one run alone.
struct RunSseStream {
    follow: RunModeStream,
    heartbeat: Interval,
    _open_guard: OpenStreamGuard,
}

/// How a client is told that nothing follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndMarker {
    /// The stream ends.
    End,
    /// The stream goes on with the thread's next run.
    RunDone,
}

/// The effect on a run when a client that joined it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisconnectAction {
    /// It goes on.
    Continue,
    /// It is stopped.
    Cancel,
}

/// How a client comes back to a run, or comes later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejoinOptions {
    pub(crate) view: StreamView,
    /// Where it wants to go on; one without a cursor sees what happens from now on.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) on_disconnect: DisconnectAction,
}

/// The delivery of the rest of a run whose stream ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamTail {
    /// Nobody has told it yet.
    Unsent,
    /// The durable part has just been sent.
    Sent,
}

impl RunModeStream {
    /// Returns a follower of all that `live` tells.
    pub(crate) fn new(caller: Caller, about: RunOrigin, live: RunReader, view: StreamView) -> Self {
        let mut follow = Self::without_reader(caller, about, view);
        follow.run.reader = Some(live);
        follow
    }

    fn without_reader(caller: Caller, origin: RunOrigin, view: StreamView) -> Self {
        Self {
            run: RunFollower::new(None, RunTranslator::new(origin.clone(), PartialMessagePolicy::Complete)),
            origin,
            writer: ModeWriter::new(view.modes, view.event_ids),
            is_replayed: false,
            original_reader: None,
            _cancel_on_drop: None,
            end_marker: EndMarker::End,
            caller,
        }
    }

    /// Returns a follower of one run among those of a thread, for a client that has had everything up to `after`.
    pub(crate) fn within_thread(mut self, after: Option<EventId>) -> Self {
        if let Some(after) = after {
            self.writer.mark_received(after);
        }
        self.end_marker = EndMarker::RunDone;
        self
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.origin.run_id
    }

    /// Returns a follower for a client that comes back, or that comes later; one without a cursor sees what happens from
    /// now on.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn rejoin(
        caller: Caller,
        about: RunOrigin,
        run: &Run,
        RejoinOptions { view, cursor, on_disconnect: leaving }: RejoinOptions,
    ) -> Result<Self, ApiError> {
        let mut follow = Self::without_reader(caller, about, view);
        let (dispatch, scope) = (Arc::clone(&follow.caller.server.scheduler), follow.caller.scope.clone());
        let mut live = dispatch.follow_run(&scope, run, None).await?;
        if live.is_none() && matches!(cursor, Some(Cursor::Beginning | Cursor::After(_))) {
            live = dispatch.replay_ended_run(&scope, run).await?;
        }
        match (live, cursor) {
            (Some(_), Some(Cursor::Foreign)) => follow.recover_lost_frames(FramePosition::default()).await?,
            (Some(live), None) => follow.skip_to_now(live).await?,
            (Some(live), Some(Cursor::Beginning)) => follow.resume_after(live, None).await?,
            (Some(live), Some(Cursor::After(id))) => follow.resume_after(live, Some(id)).await?,
            (None, _) => follow.write_end_marker(),
        }
        if leaving == DisconnectAction::Cancel && follow.run.reader.is_some() {
            let caller = follow.caller.clone();
            follow._cancel_on_drop = Some(CancelOnDrop { caller, run: run.clone() });
        }
        Ok(follow)
    }

    /// Returns what is sent, as it comes.
    pub(crate) fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let _counted = self.caller.server.open_streams.open();
        RunSseStream { follow: self, heartbeat: sse::heartbeat_interval(), _open_guard: _counted }.chunks()
    }

    /// Returns the next bytes; `None` when the stream is over.
    pub(crate) async fn next_chunk(&mut self, heartbeat: &mut Interval) -> Option<Bytes> {
        while self.writer.len() == 0 {
            self.run.reader.as_ref()?;
            if let Err(fault) = self.advance(heartbeat).await {
                // Without an end the client comes back and finds out; a run does not fail because one reader does.
                tracing::error!(run_id = %self.origin.run_id, error = %fault, "failed to follow run {}", self.origin.run_id);
                self.run.reader = None;
                return None;
            }
        }
        Some(self.writer.take_bytes())
    }

    async fn advance(&mut self, heartbeat: &mut Interval) -> Result<(), ApiError> {
        let progress = self.run.advance(&self.caller.agent, heartbeat, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

    async fn handle_progress(&mut self, progress: ReadProgress) -> Result<(), ApiError> {
        match progress {
            ReadProgress::Pending => Ok(()),
            ReadProgress::Lost(after) => self.recover_lost_frames(after).await,
            ReadProgress::Ended => self.handle_reader_end(StreamTail::Unsent).await,
        }
    }

    /// Passes over what the run has told already.
    async fn skip_to_now(&mut self, mut live: RunReader) -> Result<(), ApiError> {
        self.writer.skip_all();
        let (mut began, mut gap) = (false, false);
        while let Some(item) = live.try_next() {
            match item {
                SubscriptionItem::Frame(position, frame) => {
                    began |= matches!(&*frame, Frame::RunStarted { .. });
                    self.run.translator.translate_frame(position, &frame, &mut self.writer);
                }
                SubscriptionItem::Gap { .. } => gap = true,
            }
        }
        self.writer.forget_cursor();
        self.writer.mark_skipped();
        // Where nothing follows, nothing is begun.
        if (began || gap) && !self.run.translator.is_ended() {
            self.writer.write_without_id("metadata", &json!({"run_id": self.origin.run_id, "attempt": 1}));
        }
        if gap {
            self.run.translator.mark_frames_lost();
            self.subscribe_from_now();
        } else {
            self.run.reader = Some(live);
        }
        Ok(())
    }

    /// Goes on behind `after`, or from the beginning; what is told again is what was told before.
    async fn resume_after(&mut self, mut live: RunReader, after: Option<EventId>) -> Result<(), ApiError> {
        if let Some(after) = after {
            self.writer.mark_received(after);
        }
        let place = after.map(|EventId { position: at, index: n }| StreamPosition {
            seq: at.seq,
            sub: at.sub,
            index: n,
        });
        // What it had begun to say when it was given up is said anew.
        if let Some(cut) = place.and_then(|place| live.reopen(place)).filter(RunReader::has_initial_gap) {
            live = cut;
        }
        let mut first = live.try_next();
        if let (Some(SubscriptionItem::Gap { .. }), Some(again)) =
            (&first, place.and_then(|place| live.reopen(place)))
        {
            // The beginning is gone, but what follows the client's place may be there.
            live = again;
            first = live.try_next();
        }
        self.run.reader = Some(live);
        if first.is_none() {
            return Ok(());
        }
        let progress = self.run.write_available(&self.caller.agent, first, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

    fn subscribe_from_now(&mut self) {
        let now = self.caller.server.scheduler.run_reader(self.origin.run_id, Some(STREAM_END));
        if let Some(before) = std::mem::replace(&mut self.run.reader, now) {
            self.original_reader.get_or_insert(before);
        }
    }

    /// Returns up to where the client has had everything.
    pub(crate) fn client_position(&self) -> FramePosition {
        self.writer.cursor().position.max(self.writer.position())
    }

    /// Goes on with a run whose stream ended before it: in another one of this process, or with what the journal tells. `None`
    /// where there is nothing to go on with.
    async fn continue_run(&mut self, run: &Run) -> Result<Option<()>, ApiError> {
        // What was read and not sent is read again: whoever has had nothing of it loses nothing with it.
        let had = self.writer.last_event();
        let place = StreamPosition { seq: had.position.seq, sub: had.position.sub, index: had.index };
        let (dispatch, scope) = (&self.caller.server.scheduler, &self.caller.scope);
        let live = match dispatch.follow_run(scope, run, Some(place)).await? {
            None => dispatch.replay_ended_run(scope, run).await?.and_then(|live| live.reopen(place)),
            live => live,
        };
        Ok(live.map(|live| {
            self.writer.mark_received(had);
            self.run.translator.mark_frames_lost();
            self.run.reader = Some(live);
        }))
    }

    /// Tells that frames were lost, then what the journal has instead; from there on the stream goes on.
    async fn recover_lost_frames(&mut self, after: FramePosition) -> Result<(), ApiError> {
        // Whatever happens from here on is heard; what happened before is read.
        self.subscribe_from_now();
        self.run.translator.mark_frames_lost();
        let state = self.caller.agent.threads().state(self.origin.thread_id).await?;
        // What the client came with may be further than what this server knows that it has had.
        let requested = self.writer.cursor().max(EventId { position: after, index: 0 });
        let after = requested.position;
        let at = head_position(state.as_ref(), after);
        if after == FramePosition::default() {
            self.writer.write_without_id("metadata", &json!({"run_id": self.origin.run_id, "attempt": 1}));
        }
        let latest = last_event_at(at);
        if !std::mem::take(&mut self.run.has_sent_gap) {
            self.writer.write_gap(Some(self.origin.run_id), requested, latest);
        }
        self.writer.forget_cursor();
        if let Some(state) = state {
            self.catch_up(at, &state, after);
        }
        self.writer.mark_received(latest);
        if self.run.reader.is_none() {
            return self.handle_reader_end(StreamTail::Sent).await;
        }
        Ok(())
    }

    /// Tells what a state of the journal has behind `had`, all of it at one place.
    fn catch_up(&mut self, at: FramePosition, state: &ThreadSnapshot, had: FramePosition) {
        self.writer.set_position(at);
        let missed = missed_messages(state, self.origin.run_id, had.seq);
        self.run.translator.catch_up(state, &missed, &mut self.writer);
    }

    /// Ends the stream where nothing follows: at the run's end, or where this server lost sight of it.
    async fn handle_reader_end(&mut self, rest: StreamTail) -> Result<(), ApiError> {
        if let Some(ended) = self.run.reader.take() {
            self.original_reader.get_or_insert(ended);
        }
        if self.run.translator.is_ended() {
            self.write_end_marker();
            return Ok(());
        }
        match self.caller.agent.runs().get(self.origin.run_id).await? {
            Some(run) if run.status.is_active() && self.caller.server.closing.is_cancelled() => {}
            Some(run) if run.status.is_active() || (rest == StreamTail::Unsent && !self.is_replayed) => {
                self.is_replayed = !run.status.is_active();
                if self.continue_run(&run).await?.is_none() && !run.status.is_active() {
                    self.finish_from_journal(&run, self.client_position()).await?;
                }
            }
            Some(run) => self.finish_from_journal(&run, self.client_position()).await?,
            // It was taken back, and everything it did.
            None => self.write_end_marker(),
        }
        Ok(())
    }

    fn write_end_marker(&mut self) {
        match self.end_marker {
            EndMarker::End => self.writer.write_raw(END_EVENT),
            EndMarker::RunDone => self.writer.write_run_done(self.origin.run_id),
        }
    }

    /// Ends the stream of a run whose end is known from the journal alone.
    async fn finish_from_journal(&mut self, run: &Run, had: FramePosition) -> Result<(), ApiError> {
        if run.status != RunStatus::Cancelled
            && let Some(state) = self.caller.agent.threads().state(self.origin.thread_id).await?
        {
            self.catch_up(head_position(Some(&state), had), &state, had);
        }
        self.run.translator.send_end_of(run, &mut self.writer);
        self.write_end_marker();
        Ok(())
    }
}

impl ChunkStream for RunSseStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        self.follow.next_chunk(&mut self.heartbeat).await
    }
}

/// Stops a run when it is dropped, wherever that works.
struct CancelOnDrop {
    caller: Caller,
    run: Run,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // A server that goes takes its clients' leave; its runs go on at the next start.
        let handle = Handle::try_current().ok().filter(|_| !self.caller.server.closing.is_cancelled());
        let Some(handle) = handle else { return };
        let (dispatch, scope) = (Arc::clone(&self.caller.server.scheduler), self.caller.scope.clone());
        let run = self.run.clone();
        handle.spawn(async move {
            if let Err(error) = dispatch.stop_run(&scope, &run, CancelAction::Interrupt).await {
                tracing::warn!(run_id = %run.run_id, %error, "failed to stop run {}", run.run_id);
            }
        });
    }
}
