//! The stream of one run for one client, by stream mode: live frames, events from the journal in place of lost frames,
//! heartbeats, and the end.
//!
//! The stream buffers only bytes that were not sent yet. A client that reads too slowly lags behind the run's ring of
//! frames; it gets a `gap` event, and the stream continues with the state in the journal. The translator converts
//! frames into items.

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

/// The view of a run that a client requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamView {
    pub(crate) modes: StreamModes,
    pub(crate) event_ids: EventIds,
}

/// The stream of one run for one client.
///
/// Dropping it is the client's disconnect: the run is cancelled if its request or the client requested that.
pub(crate) struct RunModeStream {
    caller: Caller,
    run: RunFollower,
    origin: RunOrigin,
    writer: ModeWriter,
    /// True if the ended run was replayed from the journal; no more events follow.
    is_replayed: bool,
    /// The first reader of the run, after another one has replaced it. It is held until the stream is dropped, because
    /// dropping it applies the run's disconnect policy.
    original_reader: Option<RunReader>,
    /// Cancels the run when the stream is dropped, for a client that requested that when it joined.
    _cancel_on_drop: Option<CancelOnDrop>,
    end_marker: EndMarker,
}

/// The stream of a response that contains one run only.
struct RunSseStream {
    run: RunModeStream,
    heartbeat: Interval,
    _open_guard: OpenStreamGuard,
}

/// The event that marks the end of a run's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndMarker {
    /// `end`: the response ends.
    End,
    /// `metadata` with the status `run_done`: the response continues with the thread's next run.
    RunDone,
}

/// The effect on a run when a client that joined it disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisconnectAction {
    /// The run continues.
    Continue,
    /// The run is cancelled.
    Cancel,
}

/// The options of a client that joins an existing run, for the first time or again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejoinOptions {
    pub(crate) view: StreamView,
    /// The position at which the client continues. A client without one receives only new events.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) on_disconnect: DisconnectAction,
}

/// Records whether the durable events of a run were sent when its reader ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamTail {
    /// They were not sent.
    Unsent,
    /// They were just sent from the journal, because frames were lost.
    Sent,
}

impl RunModeStream {
    /// Returns a stream of all frames of the reader.
    pub(crate) fn new(caller: Caller, origin: RunOrigin, reader: RunReader, view: StreamView) -> Self {
        let mut stream = Self::without_reader(caller, origin, view);
        stream.run.reader = Some(reader);
        stream
    }

    /// Returns a stream without frames, which ends at once unless a reader is set.
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

    /// Makes this a part of the stream of a thread, for a client that has received all events up to `after`.
    pub(crate) fn within_thread(mut self, after: Option<EventId>) -> Self {
        if let Some(after) = after {
            self.writer.mark_received(after);
        }
        self.end_marker = EndMarker::RunDone;
        self
    }

    /// Returns the id of the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.origin.run_id
    }

    /// Returns the stream for a client that joins an existing run. Without a cursor, it contains only new events.
    ///
    /// The run may be active in this or another process, or have ended. An ended run whose frames are not kept is
    /// replayed from the journal if the client has a cursor, and otherwise gets only the end marker.
    ///
    /// # Errors
    /// Fails if the journal does.
    pub(crate) async fn rejoin(
        caller: Caller,
        origin: RunOrigin,
        run: &Run,
        RejoinOptions { view, cursor, on_disconnect }: RejoinOptions,
    ) -> Result<Self, ApiError> {
        let mut stream = Self::without_reader(caller, origin, view);
        let (scheduler, scope) = (Arc::clone(&stream.caller.server.scheduler), stream.caller.scope.clone());
        let mut reader = scheduler.follow_run(&scope, run, None).await?;
        if reader.is_none() && matches!(cursor, Some(Cursor::Beginning | Cursor::After(_))) {
            reader = scheduler.replay_ended_run(&scope, run).await?;
        }
        match (reader, cursor) {
            (Some(_), Some(Cursor::Foreign)) => stream.recover_lost_frames(FramePosition::default()).await?,
            (Some(reader), None) => stream.skip_to_now(reader).await?,
            (Some(reader), Some(Cursor::Beginning)) => stream.resume_after(reader, None).await?,
            (Some(reader), Some(Cursor::After(id))) => stream.resume_after(reader, Some(id)).await?,
            (None, _) => stream.write_end_marker(),
        }
        if on_disconnect == DisconnectAction::Cancel && stream.run.reader.is_some() {
            let caller = stream.caller.clone();
            stream._cancel_on_drop = Some(CancelOnDrop { caller, run: run.clone() });
        }
        Ok(stream)
    }

    /// Returns the chunks of the response's body, with heartbeats. The stream is counted as open until it is dropped.
    pub(crate) fn chunks(self) -> impl Stream<Item = Bytes> + Send + 'static {
        let open_guard = self.caller.server.open_streams.open();
        RunSseStream { run: self, heartbeat: sse::heartbeat_interval(), _open_guard: open_guard }.chunks()
    }

    /// Waits for the next chunk; returns `None` at the end. A failure of the journal is logged and ends the stream
    /// without an end marker.
    pub(crate) async fn next_chunk(&mut self, heartbeat: &mut Interval) -> Option<Bytes> {
        while self.writer.len() == 0 {
            self.run.reader.as_ref()?;
            if let Err(error) = self.advance(heartbeat).await {
                // The failure of one reader does not affect the run. Without an end marker, the client reconnects.
                tracing::error!(run_id = %self.origin.run_id, %error, "failed to follow run {}", self.origin.run_id);
                self.run.reader = None;
                return None;
            }
        }
        Some(self.writer.take_bytes())
    }

    /// Writes the frames that are available, or waits for the next one or the heartbeat.
    async fn advance(&mut self, heartbeat: &mut Interval) -> Result<(), ApiError> {
        let progress = self.run.advance(&self.caller.agent, heartbeat, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

    /// Continues the stream after the follower has stopped for lost frames or at the end of its reader.
    async fn handle_progress(&mut self, progress: ReadProgress) -> Result<(), ApiError> {
        match progress {
            ReadProgress::Pending => Ok(()),
            ReadProgress::Lost(after) => self.recover_lost_frames(after).await,
            ReadProgress::Ended => self.handle_reader_end(StreamTail::Unsent).await,
        }
    }

    /// Skips the frames that were sent before now. They are translated without output, so that the translator knows the
    /// current step and the messages.
    async fn skip_to_now(&mut self, mut reader: RunReader) -> Result<(), ApiError> {
        self.writer.skip_all();
        let (mut is_started, mut has_gap) = (false, false);
        while let Some(item) = reader.try_next() {
            match item {
                SubscriptionItem::Frame(position, frame) => {
                    is_started |= matches!(&*frame, Frame::RunStarted { .. });
                    self.run.translator.translate_frame(position, &frame, &mut self.writer);
                }
                SubscriptionItem::Gap { .. } => has_gap = true,
            }
        }
        self.writer.forget_cursor();
        self.writer.mark_skipped();
        // The client did not receive the start of the run. After the end of the run, it needs none.
        if (is_started || has_gap) && !self.run.translator.is_ended() {
            self.writer.write_without_id("metadata", &json!({"run_id": self.origin.run_id, "attempt": 1}));
        }
        if has_gap {
            self.run.translator.mark_frames_lost();
            self.subscribe_from_now();
        } else {
            self.run.reader = Some(reader);
        }
        Ok(())
    }

    /// Continues after the event `after`, or from the beginning. Replayed events have the same ids and contents as
    /// before.
    ///
    /// The frames are read from the beginning of the run if they are available, so that the translator knows the
    /// current step and the messages; the writer drops the events up to `after`.
    async fn resume_after(&mut self, mut reader: RunReader, after: Option<EventId>) -> Result<(), ApiError> {
        if let Some(after) = after {
            self.writer.mark_received(after);
        }
        let position = after.map(|EventId { position, index }| StreamPosition {
            seq: position.seq,
            sub: position.sub,
            index,
        });
        // The client's position may lie in a step that was abandoned and started again. The gap tells the client that
        // the frames of the abandoned step are void.
        let at_position = position.and_then(|position| reader.reopen(position));
        if let Some(abandoned) = at_position.filter(RunReader::has_initial_gap) {
            reader = abandoned;
        }
        let mut first = reader.try_next();
        if let (Some(SubscriptionItem::Gap { .. }), Some(at_position)) =
            (&first, position.and_then(|position| reader.reopen(position)))
        {
            // The beginning of the run is no longer available, but the frames after the client's position may be.
            reader = at_position;
            first = reader.try_next();
        }
        self.run.reader = Some(reader);
        if first.is_none() {
            return Ok(());
        }
        let progress = self.run.write_available(&self.caller.agent, first, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

    /// Replaces the reader by one of new frames only; by none if the run has no stream here.
    fn subscribe_from_now(&mut self) {
        let reader = self.caller.server.scheduler.run_reader(self.origin.run_id, Some(STREAM_END));
        if let Some(previous) = std::mem::replace(&mut self.run.reader, reader) {
            self.original_reader.get_or_insert(previous);
        }
    }

    /// Returns the position up to which the client has received everything.
    pub(crate) fn client_position(&self) -> FramePosition {
        self.writer.cursor().position.max(self.writer.position())
    }

    /// Continues a run whose stream ended before the run did: with another stream of this process, for example after
    /// the run moved to another process, or by replaying the journal. Returns `None` if neither is possible.
    async fn continue_run(&mut self, run: &Run) -> Result<Option<()>, ApiError> {
        // Frames that were read and produced no event are read again. The client has received nothing from them.
        let received = self.writer.last_event();
        let EventId { position: FramePosition { seq, sub }, index } = received;
        let position = StreamPosition { seq, sub, index };
        let (scheduler, scope) = (&self.caller.server.scheduler, &self.caller.scope);
        let reader = match scheduler.follow_run(scope, run, Some(position)).await? {
            None => {
                let replay = scheduler.replay_ended_run(scope, run).await?;
                replay.and_then(|reader| reader.reopen(position))
            }
            reader => reader,
        };
        Ok(reader.map(|reader| {
            self.writer.mark_received(received);
            self.run.translator.mark_frames_lost();
            self.run.reader = Some(reader);
        }))
    }

    /// Writes a `gap` event and the state in the journal in place of the frames after `after`, which were lost.
    /// Afterwards the stream continues with new frames.
    async fn recover_lost_frames(&mut self, after: FramePosition) -> Result<(), ApiError> {
        // Subscribe before reading the state, so that nothing is missed in between.
        self.subscribe_from_now();
        self.run.translator.mark_frames_lost();
        let state = self.caller.agent.threads().state(self.origin.thread_id).await?;
        // The client's cursor may be ahead of the frames that this server has sent.
        let requested = self.writer.cursor().max(EventId { position: after, index: 0 });
        let after = requested.position;
        let head = head_position(state.as_ref(), after);
        if after == FramePosition::default() {
            self.writer.write_without_id("metadata", &json!({"run_id": self.origin.run_id, "attempt": 1}));
        }
        let latest = last_event_at(head);
        if !std::mem::take(&mut self.run.has_sent_gap) {
            self.writer.write_gap(Some(self.origin.run_id), requested, latest);
        }
        self.writer.forget_cursor();
        if let Some(state) = state {
            self.catch_up(head, &state, after);
        }
        self.writer.mark_received(latest);
        if self.run.reader.is_none() {
            return self.handle_reader_end(StreamTail::Sent).await;
        }
        Ok(())
    }

    /// Writes the state and the messages that the client has missed. The client has received everything up to
    /// `received`. All events get the position `head`.
    fn catch_up(&mut self, head: FramePosition, state: &ThreadSnapshot, received: FramePosition) {
        self.writer.set_position(head);
        let missed = missed_messages(state, self.origin.run_id, received.seq);
        self.run.translator.catch_up(state, &missed, &mut self.writer);
    }

    /// Decides how the stream continues after the last item of its reader.
    ///
    /// After the run's last frame, the stream ends. If the run is still active, another reader follows it, unless the
    /// server is shutting down. If the run ended elsewhere, its end is taken from the journal.
    async fn handle_reader_end(&mut self, tail: StreamTail) -> Result<(), ApiError> {
        if let Some(ended) = self.run.reader.take() {
            self.original_reader.get_or_insert(ended);
        }
        if self.run.translator.is_ended() {
            self.write_end_marker();
            return Ok(());
        }
        match self.caller.agent.runs().get(self.origin.run_id).await? {
            Some(run) if run.status.is_active() && self.caller.server.closing.is_cancelled() => {}
            Some(run) if run.status.is_active() || (tail == StreamTail::Unsent && !self.is_replayed) => {
                self.is_replayed = !run.status.is_active();
                if self.continue_run(&run).await?.is_none() && !run.status.is_active() {
                    self.finish_from_journal(&run, self.client_position()).await?;
                }
            }
            Some(run) => self.finish_from_journal(&run, self.client_position()).await?,
            // The run was rolled back, and nothing of it is visible any more.
            None => self.write_end_marker(),
        }
        Ok(())
    }

    /// Writes the event that marks the end of the run's stream.
    fn write_end_marker(&mut self) {
        match self.end_marker {
            EndMarker::End => self.writer.write_raw(END_EVENT),
            EndMarker::RunDone => self.writer.write_run_done(self.origin.run_id),
        }
    }

    /// Ends the stream of an ended run from its row and the journal, for a client that has received everything up to
    /// `received`. A cancelled run gets no state.
    async fn finish_from_journal(&mut self, run: &Run, received: FramePosition) -> Result<(), ApiError> {
        if run.status != RunStatus::Cancelled
            && let Some(state) = self.caller.agent.threads().state(self.origin.thread_id).await?
        {
            self.catch_up(head_position(Some(&state), received), &state, received);
        }
        self.run.translator.send_end_of(run, &mut self.writer);
        self.write_end_marker();
        Ok(())
    }
}

impl ChunkStream for RunSseStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        self.run.next_chunk(&mut self.heartbeat).await
    }
}

/// Cancels a run when it is dropped, in whatever process the run is active.
struct CancelOnDrop {
    caller: Caller,
    run: Run,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // A shutdown disconnects all clients. Their runs are not cancelled; they resume at the next start.
        let handle = Handle::try_current().ok().filter(|_| !self.caller.server.closing.is_cancelled());
        let Some(handle) = handle else { return };
        let (scheduler, scope) = (Arc::clone(&self.caller.server.scheduler), self.caller.scope.clone());
        let run = self.run.clone();
        handle.spawn(async move {
            if let Err(error) = scheduler.stop_run(&scope, &run, CancelAction::Interrupt).await {
                tracing::warn!(run_id = %run.run_id, %error, "failed to stop run {}", run.run_id);
            }
        });
    }
}
