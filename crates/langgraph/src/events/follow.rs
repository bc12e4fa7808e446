//! Following a thread by its events: what is kept is told again, then what happens, over runs, for as long as the client
//! stays. The thread need not be there yet.

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

/// Follows a thread by its events.
#[utoipa::path(
    post, path = "/threads/{thread_id}/stream/events", tag = "events", request_body = EventFilterBody,
    params(("thread_id" = Uuid, Path, description = "The thread; it need not exist yet.")),
    responses(
        (status = 200, description = "Its events.", content_type = "text/event-stream", body = String),
        (status = "4XX", description = "The filter makes no sense.", body = ErrorBody),
    )
)]
pub(super) async fn stream_thread_events(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<EventFilterBody>,
) -> Result<Response, ApiError> {
    let filter = body.into_filter()?;
    let mut follow = ThreadEventStream::new(caller, thread_id, filter);
    follow.start_out_of_run_events().await?;
    Ok(sse::event_stream_response(follow.chunks()))
}

/// A thread, followed for one client.
struct ThreadEventStream {
    caller: Caller,
    thread_id: ThreadId,
    runs: ThreadRuns,
    run: Option<RunFollower>,
    /// Events outside runs, if the client wants them.
    out_of_run: Option<OutOfRunEvents>,
    /// When there may be some of it.
    changes: Option<ThreadChanges>,
    /// True if the client sent a position and it is not known yet whether events are missing behind it.
    needs_gap_check: bool,
    writer: ChannelWriter,
}

impl ThreadEventStream {
    fn new(caller: Caller, thread_id: ThreadId, filter: EventFilter) -> Self {
        let live = caller.server.scheduler.thread_reader(&caller.scope, thread_id);
        Self {
            thread_id,
            runs: ThreadRuns::new(&caller, live),
            run: None,
            out_of_run: None,
            changes: None,
            needs_gap_check: filter.since > 0,
            writer: ChannelWriter::new(filter),
            caller,
        }
    }

    /// Waits for something to tell; `None` when the server goes.
    async fn advance(&mut self) -> Option<Result<(), ApiError>> {
        if std::mem::take(&mut self.needs_gap_check) {
            return Some(match self.check_missed_runs().await {
                Ok(()) => self.send_out_of_run_events().await,
                Err(fault) => Err(fault),
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
            ThreadEvent::Run(live) => self.begin_run(live).await,
            ThreadEvent::Gap => self.replay_missed_runs(self.writer.client_position()).await,
        })
    }

    /// Notes from where on it tells what no run tells of. What a client reads of the thread once it is answered is there by
    /// then, or told.
    async fn start_out_of_run_events(&mut self) -> Result<(), ApiError> {
        if self.writer.filter.has_channel(HISTORY_CHANNEL) {
            self.changes = Some(self.runs.reader.changes());
            let had = self.writer.client_position().seq;
            self.out_of_run = Some(OutOfRunEvents::starting_at(&self.caller, self.thread_id, had).await?);
        }
        Ok(())
    }

    async fn send_out_of_run_events(&mut self) -> Result<(), ApiError> {
        match &mut self.out_of_run {
            Some(beside) => beside.send_new_events(&self.caller, &mut self.writer).await,
            None => Ok(()),
        }
    }

    async fn begin_run(&mut self, mut live: RunReader) -> Result<(), ApiError> {
        let (run, request) = runs::find_run_with_request(&self.caller, live.thread_id, live.run_id).await?;
        let mut translator = new_translator(&run, &request);
        self.writer.begin_run(run.run_id, run.created_at);
        let FramePosition { seq, sub } = self.writer.client_position();
        let place = StreamPosition { seq, sub, index: 0 };
        let again = || self.caller.server.scheduler.run_reader(run.run_id, Some(place)).filter(|_| seq > 0);
        // What it had begun to say when it was given up is said anew.
        let cut = again().filter(RunReader::has_initial_gap);
        let mut first = if cut.is_some() { None } else { live.try_next() };
        if cut.is_some() || matches!(first, Some(SubscriptionItem::Gap { .. })) {
            // The beginning is gone, but what follows the client's place may be there.
            if let Some(mut again) = cut.or_else(again) {
                first = again.try_next();
                if first.is_none() && again.is_closed() {
                    // The client has had this run to its end.
                    return Ok(());
                }
                live = again;
                translator.mark_frames_lost();
            }
        }
        let run = self.run.insert(RunFollower::new(Some(live), translator));
        if first.is_none() {
            return Ok(());
        }
        let progress = run.write_available(&self.caller.agent, first, &mut self.writer).await?;
        self.handle_progress(progress).await
    }

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

    /// Tells what the journal has instead of frames that were lost, and goes on from there.
    async fn recover_lost_frames(&mut self, after: FramePosition) -> Result<(), ApiError> {
        let Some(run_id) = self.run.as_ref().map(RunFollower::run_id) else { return Ok(()) };
        // Whatever happens from here on is heard, also where the frames behind the journal's newest message are gone too.
        let now = self.caller.server.scheduler.run_reader(run_id, Some(STREAM_END));
        self.catch_up(after).await?;
        let FramePosition { seq, sub } = self.writer.position().max(after);
        let behind =
            || self.caller.server.scheduler.run_reader(run_id, Some(StreamPosition { seq, sub, index: 0 }));
        let is_whole =
            behind().is_some_and(|mut live| !matches!(live.try_next(), Some(SubscriptionItem::Gap { .. })));
        let next = if is_whole { behind() } else { now };
        match (next, &mut self.run) {
            (Some(next), Some(run)) => {
                run.reader = Some(next);
                Ok(())
            }
            (Some(_) | None, _) => self.finish_run().await,
        }
    }

    /// Leaves a run whose stream is over. One whose end was not told here is looked up: it has ended, or goes on elsewhere.
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
            // It was taken back, or the server goes.
            Some(_) | None => {
                self.send_run_end(None);
                Ok(())
            }
        }
    }

    /// Goes on with a run that goes on without the stream it had: in another one of this process, or in another process.
    async fn continue_run(&mut self, run: &Run) -> Result<(), ApiError> {
        let FramePosition { seq, sub } = self.writer.client_position();
        let place = Some(StreamPosition { seq, sub, index: 0 });
        let next = self.caller.server.scheduler.follow_run(&self.caller.scope, run, place).await?;
        match (next, &mut self.run) {
            (Some(next), Some(run)) => run.reader = Some(next),
            (Some(_) | None, _) => self.run = None,
        }
        Ok(())
    }

    fn send_run_end(&mut self, run: Option<Run>) {
        if let (Some(mut follower), Some(run)) = (self.run.take(), run) {
            follower.translator.send_end_of(&run, &mut self.writer);
        }
    }

    /// Tells what the journal has of the run after `after`.
    async fn catch_up(&mut self, after: FramePosition) -> Result<(), ApiError> {
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let Some(run) = &mut self.run else { return Ok(()) };
        let had = self.writer.client_position().seq.max(after.seq);
        let missed = missed_messages(&state, run.run_id(), had);
        self.writer.replace_lost_frames(after, head_position(Some(&state), after));
        history::send_missed_events(had, &mut self.writer);
        run.translator.catch_up(&state, &missed, &mut self.writer);
        Ok(())
    }

    /// Finds out what a client has not had that comes with a place, as far as nothing tells it by itself.
    async fn check_missed_runs(&mut self) -> Result<(), ApiError> {
        let thread = self.caller.agent.threads().get(self.thread_id).await?;
        let last_seq = thread.map_or(0, |thread| thread.last_seq);
        let had = self.writer.client_position();
        if had.seq > last_seq {
            // It is a place of another thread or server.
            self.writer.forget_since();
            return self.replay_missed_runs(FramePosition { seq: last_seq, sub: 0 }).await;
        }
        let newest = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        match newest.has_missed(&self.caller, had.seq).await? {
            true => self.replay_ended_runs(had, newest).await,
            false => Ok(()),
        }
    }

    /// Tells what the journal has of runs that came and went unseen. One that works is told of by itself.
    async fn replay_missed_runs(&mut self, had: FramePosition) -> Result<(), ApiError> {
        let newest = RecentRuns::fetch(&self.caller, self.thread_id).await?;
        self.replay_ended_runs(had, newest).await
    }

    async fn replay_ended_runs(&mut self, had: FramePosition, newest: RecentRuns) -> Result<(), ApiError> {
        let mut runs = newest.ended_after(&self.caller, had.seq).await?;
        runs.sort_unstable();
        if runs.is_empty() {
            runs.extend(newest.ended_runs().next().map(|run_id| (had.seq, run_id)));
        }
        let Some(state) = self.caller.agent.threads().state(self.thread_id).await? else { return Ok(()) };
        let is_over = |message: &StateMessage| message.run_id.is_none_or(|run_id| newest.has_ended(run_id));
        let is_missed = |message: &&Arc<StateMessage>| message.seq > had.seq && is_over(message);
        let missed: Vec<_> = state.messages.iter().filter(is_missed).cloned().collect();
        self.runs.mark_completed(newest.ended_runs());
        let at = missed.last().map_or(had, |message| FramePosition { seq: message.seq, sub: 0 });
        let mut rest = missed.as_slice();
        for (index, (_, run_id)) in runs.iter().enumerate() {
            let (run, request) = runs::find_run_with_request(&self.caller, self.thread_id, *run_id).await?;
            let mut translator = new_translator(&run, &request);
            self.writer.begin_run(run.run_id, run.created_at);
            self.writer.replace_lost_frames(had, at);
            if index == 0 {
                history::send_missed_events(had.seq, &mut self.writer);
            }
            match runs.get(index + 1) {
                Some((next, _)) => {
                    let (own, later) = rest.split_at(rest.partition_point(|message| message.seq < *next));
                    translator.replay_messages(own, &mut self.writer);
                    rest = later;
                }
                None => translator.catch_up(&state, rest, &mut self.writer),
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
                // The run was taken back or forgotten, or the thread removed; others may follow, also under the same id.
                Err(fault) if fault.status() == StatusCode::NOT_FOUND => self.run = None,
                Err(fault) => {
                    let thread_id = self.thread_id;
                    tracing::error!(thread_id = %thread_id, error = %fault, "failed to follow thread {thread_id}");
                    return None;
                }
            }
        }
        Some(self.writer.take_bytes())
    }
}

/// Returns the translator of a run. What its sub-agents do is in namespaces of their own, which clients filter by.
fn new_translator(run: &Run, request: &RunRequest) -> RunTranslator {
    let about = RunOrigin { subgraphs: SubgraphStreaming::Included, ..runs::run_origin(run, request) };
    RunTranslator::new(about, PartialMessagePolicy::Repeat)
}

async fn wait_for_change(changes: &mut Option<ThreadChanges>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}
