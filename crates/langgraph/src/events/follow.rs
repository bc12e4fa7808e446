//! The event stream of a thread: first the events that are still kept and that the client has not received, then live
//! events, across runs, for as long as the client stays connected. The thread does not have to exist yet.
//!
//! The stream has three sources: the frames of the active run, the events that belong to no run (for the channel
//! `history`), and, where frames are no longer kept, the journal. Frames are lost when a client reads too slowly, when
//! it reconnects late, and when another process has driven the run. The stream then sends the stored messages and the
//! state instead, and continues with the frames after them.

use std::sync::Arc;

use agent::{FramePosition, StateMessage, SubscriptionItem};
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use protocol::{Run, RunRequest, ThreadId};
use scheduler::{RunReader, StreamPosition, ThreadChanges};

use super::filter::{EventFilter, EventFilterBody, HISTORY_CHANNEL};
use super::history::{self, OutOfRunEvents};
use super::writer::ChannelWriter;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorBody};
use crate::extract::{JsonBody, ThreadPath};
use crate::runs;
use crate::sse::{self, HEARTBEAT};
use crate::streams::follow::{
    ChunkStream, ReadProgress, RunFollower, STREAM_END, StreamWriter, ThreadEvent, ThreadRuns, head_position,
};
use crate::streams::origin::{RunOrigin, SubgraphStreaming};
use crate::streams::recent_runs::RecentRuns;
use crate::streams::translate::{PartialMessagePolicy, RunTranslator, missed_messages};

/// Streams the events of a thread, across its runs, as server-sent events.
///
/// With `since`, the stream continues after that event. Where events in between are no longer available, the stored
/// messages and the current state are sent instead. The stream ends when the client disconnects or the server shuts
/// down.
#[utoipa::path(
    post, path = "/threads/{thread_id}/stream/events", tag = "events", request_body = EventFilterBody,
    params(("thread_id" = Uuid, Path, description = "The thread; it need not exist yet.")),
    responses(
        (status = 200, description = "The events of the thread.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The filter is invalid.", body = ErrorBody),
    )
)]
pub(super) async fn stream_thread_events(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<EventFilterBody>,
) -> Result<Response, ApiError> {
    let filter = body.into_filter()?;
    let mut stream = ThreadEventStream::new(caller, thread_id, filter);
    stream.start_out_of_run_events().await?;
    Ok(sse::event_stream_response(stream.chunks()))
}

/// The event stream of one thread for one client.
struct ThreadEventStream {
    caller: Caller,
    thread_id: ThreadId,
    /// The runs of the thread, in the order in which they start.
    runs: ThreadRuns,
    /// The run whose events are sent at the moment.
    run: Option<RunFollower>,
    /// The reader of events outside runs. Set if the client wants the channel `history`.
    out_of_run: Option<OutOfRunEvents>,
    /// Notifications that there may be new events outside runs. Set together with `out_of_run`.
    changes: Option<ThreadChanges>,
    /// True if the client sent a position, and the journal has not been checked for runs that it missed after it.
    needs_gap_check: bool,
    /// The encoder of the events, with the bytes that are not sent yet.
    writer: ChannelWriter,
}

impl ThreadEventStream {
    /// Returns a stream that has not sent anything. It receives each run that starts from now on.
    fn new(caller: Caller, thread_id: ThreadId, filter: EventFilter) -> Self {
        let reader = caller.server.scheduler.thread_reader(&caller.scope, thread_id);
        Self {
            thread_id,
            runs: ThreadRuns::new(&caller, reader),
            run: None,
            out_of_run: None,
            changes: None,
            needs_gap_check: filter.since > 0,
            writer: ChannelWriter::new(filter),
            caller,
        }
    }

    /// Waits for the next item of any source and writes its events, which may be none. Returns `None` when the server
    /// shuts down.
    ///
    /// While a run is followed, nothing else is sent: events outside runs are sent between runs.
    async fn advance(&mut self) -> Option<Result<(), ApiError>> {
        if std::mem::take(&mut self.needs_gap_check) {
            return Some(match self.check_missed_runs().await {
                Ok(()) => self.send_out_of_run_events().await,
                Err(error) => Err(error),
            });
        }
        if let Some(run) = &mut self.run {
            let progress = run.advance(&self.caller.agent, &mut self.runs.heartbeat, &mut self.writer).await;
            return Some(match progress {
                Ok(progress) => self.handle_progress(progress).await,
                Err(error) => Err(error.into()),
            });
        }
        let event = tokio::select! {
            biased;
            event = self.runs.next() => event?,
            () = wait_for_change(&mut self.changes) => return Some(self.send_out_of_run_events().await),
        };
        Some(match event {
            ThreadEvent::Heartbeat => {
                self.writer.write_raw(HEARTBEAT);
                Ok(())
            }
            ThreadEvent::Run(reader) => self.begin_run(reader).await,
            ThreadEvent::Gap => self.replay_missed_runs(self.writer.client_position()).await,
        })
    }

    /// Sets the position from which events outside runs are sent, if the client wants them.
    ///
    /// The handler calls this before it responds. A client that then reads the thread's history misses nothing: each
    /// event is either stored by that time or sent on this stream. The subscription to changes is opened before the
    /// position is read for the same reason.
    async fn start_out_of_run_events(&mut self) -> Result<(), ApiError> {
        if self.writer.filter.has_channel(HISTORY_CHANNEL) {
            self.changes = Some(self.runs.reader.changes());
            let received = self.writer.client_position().seq;
            self.out_of_run =
                Some(OutOfRunEvents::starting_at(&self.caller, self.thread_id, received).await?);
        }
        Ok(())
    }

    /// Sends the events outside runs that were stored since the last call, if the client wants them.
    async fn send_out_of_run_events(&mut self) -> Result<(), ApiError> {
        match &mut self.out_of_run {
            Some(events) => events.send_new_events(&self.caller, &mut self.writer).await,
            None => Ok(()),
        }
    }

    /// Starts to follow a run, and writes the events that are available already.
    ///
    /// `reader` reads the run from its beginning, and the writer drops the events that the client has received. If the
    /// beginning is no longer kept, or if the client's position lies in a step that was abandoned, the run is read from
    /// the client's position instead.
    async fn begin_run(&mut self, mut reader: RunReader) -> Result<(), ApiError> {
        let (run, request) =
            runs::find_run_with_request(&self.caller, reader.thread_id, reader.run_id).await?;
        let mut translator = new_translator(&run, &request);
        self.writer.begin_run(run.run_id, run.created_at);
        let FramePosition { seq, sub } = self.writer.client_position();
        let received = StreamPosition { seq, sub, index: 0 };
        let reopen =
            || self.caller.server.scheduler.run_reader(run.run_id, Some(received)).filter(|_| seq > 0);
        // An initial gap means that the client's position lies in a step that was abandoned, for example because
        // another process took the run over. The step is executed again, and its messages are streamed from their
        // beginning.
        let after_abandoned_step = reopen().filter(RunReader::has_initial_gap);
        let mut first = if after_abandoned_step.is_some() { None } else { reader.try_next() };
        if after_abandoned_step.is_some() || matches!(first, Some(SubscriptionItem::Gap { .. })) {
            // The beginning of the run is no longer kept, but the frames after the client's position may be.
            if let Some(mut reopened) = after_abandoned_step.or_else(reopen) {
                first = reopened.try_next();
                if first.is_none() && reopened.is_closed() {
                    // The client has received this run to its end.
                    return Ok(());
                }
                reader = reopened;
                translator.mark_frames_lost();
            }
        }
        let run = self.run.insert(RunFollower::new(Some(reader), translator));
        if first.is_none() {
            return Ok(());
        }
        let progress = run.write_available(&self.caller.agent, first, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

    /// Reacts to the progress of the run: recovers lost frames, or finishes the run at the end of its frames.
    async fn handle_progress(&mut self, progress: ReadProgress) -> Result<(), ApiError> {
        match progress {
            ReadProgress::Pending => Ok(()),
            ReadProgress::Lost(after) => self.recover_lost_frames(after).await,
            ReadProgress::Ended => {
                self.finish_run().await?;
                if self.run.is_none() { self.send_out_of_run_events().await } else { Ok(()) }
            }
        }
    }

    /// Sends the stored messages and the state instead of the frames that were lost after `after`, and continues with
    /// the frames that follow.
    async fn recover_lost_frames(&mut self, after: FramePosition) -> Result<(), ApiError> {
        let Some(run_id) = self.run.as_ref().map(RunFollower::run_id) else { return Ok(()) };
        // Opened before the journal is read, so that nothing between that read and the next frame is missed. It is used
        // if the frames after the journal's newest message are lost too.
        let from_now = self.caller.server.scheduler.run_reader(run_id, Some(STREAM_END));
        self.catch_up(after).await?;
        let FramePosition { seq, sub } = self.writer.position().max(after);
        let reopen =
            || self.caller.server.scheduler.run_reader(run_id, Some(StreamPosition { seq, sub, index: 0 }));
        let is_gapless = reopen()
            .is_some_and(|mut reader| !matches!(reader.try_next(), Some(SubscriptionItem::Gap { .. })));
        let reader = if is_gapless { reopen() } else { from_now };
        match (reader, &mut self.run) {
            (Some(reader), Some(run)) => {
                run.reader = Some(reader);
                Ok(())
            }
            (Some(_) | None, _) => self.finish_run().await,
        }
    }

    /// Finishes a run whose frames are over.
    ///
    /// If the end of the run was not among them, the journal decides: a run that is still active continues in another
    /// stream, and of a run that has ended the missed messages and the end are sent.
    async fn finish_run(&mut self) -> Result<(), ApiError> {
        let (run_id, is_ended) = match &self.run {
            Some(run) => (run.run_id(), run.translator.is_ended()),
            None => return Ok(()),
        };
        if is_ended {
            self.send_run_end(None);
            return Ok(());
        }
        let run = self.caller.agent.runs().get(run_id).await?;
        match run {
            Some(run) if run.status.is_active() && !self.caller.server.closing.is_cancelled() => {
                self.continue_run(&run).await
            }
            Some(run) if !run.status.is_active() => {
                self.catch_up(self.writer.client_position()).await?;
                self.send_run_end(Some(run));
                Ok(())
            }
            // The run was rolled back, or the server is shutting down.
            Some(_) | None => {
                self.send_run_end(None);
                Ok(())
            }
        }
    }

    /// Continues with an active run whose stream has ended: in a new stream of this process, or through the journal if
    /// another process drives the run.
    async fn continue_run(&mut self, run: &Run) -> Result<(), ApiError> {
        let FramePosition { seq, sub } = self.writer.client_position();
        let received = Some(StreamPosition { seq, sub, index: 0 });
        let reader = self.caller.server.scheduler.follow_run(&self.caller.scope, run, received).await?;
        match (reader, &mut self.run) {
            (Some(reader), Some(run)) => run.reader = Some(reader),
            (Some(_) | None, _) => self.run = None,
        }
        Ok(())
    }

    /// Stops following the current run. Sends its end if `run` is given and the end was not sent.
    fn send_run_end(&mut self, run: Option<Run>) {
        if let (Some(mut follower), Some(run)) = (self.run.take(), run) {
            follower.translator.send_end_of(&run, &mut self.writer);
        }
    }

    /// Sends the stored messages of the current run after `after`, and the thread's state. Without a thread or a run it
    /// sends nothing.
    async fn catch_up(&mut self, after: FramePosition) -> Result<(), ApiError> {
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let Some(run) = &mut self.run else { return Ok(()) };
        let received = self.writer.client_position().seq.max(after.seq);
        let missed = missed_messages(&state, run.run_id(), received);
        self.writer.replace_lost_frames(after, head_position(Some(&state), after));
        history::send_missed_events(received, &mut self.writer);
        run.translator.catch_up(&state, &missed, &mut self.writer);
        Ok(())
    }

    /// Checks whether runs ended after the client's position whose frames are no longer kept, and replays them from the
    /// journal. Runs whose frames are kept are sent by the normal path.
    async fn check_missed_runs(&mut self) -> Result<(), ApiError> {
        let thread = self.caller.agent.threads().get(self.thread_id).await?;
        let last_seq = thread.map_or(0, |thread| thread.last_seq);
        let received = self.writer.client_position();
        if received.seq > last_seq {
            // The position belongs to another thread or server.
            self.writer.forget_since();
            return self.replay_missed_runs(FramePosition { seq: last_seq, sub: 0 }).await;
        }
        let newest = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        match newest.has_missed(&self.caller, received.seq).await? {
            true => self.replay_ended_runs(received, newest).await,
            false => Ok(()),
        }
    }

    /// Replays the runs that started and ended after `received` without being followed. An active run is not included,
    /// because its frames are sent by the normal path.
    async fn replay_missed_runs(&mut self, received: FramePosition) -> Result<(), ApiError> {
        let newest = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        self.replay_ended_runs(received, newest).await
    }

    /// Sends the stored messages and the end of each run among `newest` that ended after `received`, in the order of
    /// the journal. The thread's state follows the messages of the last run. If no run ended there, the state is sent
    /// as a part of the newest ended run.
    async fn replay_ended_runs(
        &mut self,
        received: FramePosition,
        newest: RecentRuns,
    ) -> Result<(), ApiError> {
        let mut runs = newest.ended_after(&self.caller, received.seq).await?;
        runs.sort_unstable();
        if runs.is_empty() {
            runs.extend(newest.ended_runs().next().map(|run_id| (received.seq, run_id)));
        }
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let has_ended = |message: &StateMessage| message.run_id.is_none_or(|run_id| newest.has_ended(run_id));
        let is_missed = |message: &&Arc<StateMessage>| message.seq > received.seq && has_ended(message);
        let missed: Vec<_> = state.messages.iter().filter(is_missed).cloned().collect();
        self.runs.mark_completed(newest.ended_runs());
        let position = missed.last().map_or(received, |message| FramePosition { seq: message.seq, sub: 0 });
        let mut remaining = missed.as_slice();
        for (index, (_, run_id)) in runs.iter().enumerate() {
            let (run, request) = runs::find_run_with_request(&self.caller, self.thread_id, *run_id).await?;
            let mut translator = new_translator(&run, &request);
            self.writer.begin_run(run.run_id, run.created_at);
            self.writer.replace_lost_frames(received, position);
            if index == 0 {
                history::send_missed_events(received.seq, &mut self.writer);
            }
            match runs.get(index + 1) {
                Some((next_seq, _)) => {
                    let count = remaining.partition_point(|message| message.seq < *next_seq);
                    let (own, later) = remaining.split_at(count);
                    translator.replay_messages(own, &mut self.writer);
                    remaining = later;
                }
                None => translator.catch_up(&state, remaining, &mut self.writer),
            }
            translator.send_end_of(&run, &mut self.writer);
        }
        Ok(())
    }
}

impl ChunkStream for ThreadEventStream {
    async fn next_chunk(&mut self) -> Option<Bytes> {
        while self.writer.len() == 0 {
            match self.advance().await? {
                Ok(()) => {}
                // The run was rolled back or forgotten, or the thread was deleted. The stream stays open, because other
                // runs may follow, even on a new thread with the same id.
                Err(error) if error.status() == StatusCode::NOT_FOUND => self.run = None,
                Err(error) => {
                    let thread_id = self.thread_id;
                    tracing::error!(thread_id = %thread_id, %error, "failed to follow thread {thread_id}");
                    return None;
                }
            }
        }
        Some(self.writer.take_bytes())
    }
}

/// Returns the translator of a run. It includes the sub-agents whatever the run's request says: their events have
/// namespaces, and the client's filter selects among these.
fn new_translator(run: &Run, request: &RunRequest) -> RunTranslator {
    let origin = RunOrigin { subgraphs: SubgraphStreaming::Included, ..runs::run_origin(run, request) };
    RunTranslator::new(origin, PartialMessagePolicy::Repeat)
}

/// Waits for a notification of a change. Never returns if there is no subscription.
async fn wait_for_change(changes: &mut Option<ThreadChanges>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}
