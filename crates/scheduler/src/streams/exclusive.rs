//! The streams of exclusive work: each run that the work starts has a stream, like a run that a client created. This
//! module does not know what the work does.

use std::sync::Arc;

use agent::{CancellationToken, Frame, FramePosition, FrameSubscription, SubscriptionItem};
use protocol::{RunId, RunRef, RunRequest};

use crate::scheduler::Scheduler;
use crate::streams::ScopedThread;
use crate::streams::stream::RunStream;

/// The streams of one piece of exclusive work. Dropping it ends the current stream.
pub(crate) struct ExclusiveStreams {
    scheduler: Arc<Scheduler>,
    thread: ScopedThread,
    /// Stops the work, and so all of its runs.
    cancel: CancellationToken,
    /// The stream of the current run, if one is active.
    stream: Option<Arc<RunStream>>,
    /// True once the work has started a run.
    has_started_run: bool,
}

impl ExclusiveStreams {
    /// Returns the streams of work on that thread, which `cancel` stops. No stream is open yet.
    pub(crate) fn new(scheduler: &Arc<Scheduler>, thread: ScopedThread, cancel: CancellationToken) -> Self {
        Self { scheduler: Arc::clone(scheduler), thread, cancel, stream: None, has_started_run: false }
    }

    /// Returns whether the work has started a run.
    pub(crate) const fn has_started_run(&self) -> bool {
        self.has_started_run
    }

    /// Executes the work and publishes its frames to the streams of its runs.
    pub(crate) async fn publish_during<T>(
        &mut self,
        mut frames: FrameSubscription,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        let mut is_ended = false;
        let result = loop {
            tokio::select! {
                biased;
                item = frames.next(), if !is_ended => match item {
                    Some(item) => is_ended = self.publish_item(item).is_break(),
                    None => is_ended = true,
                },
                result = &mut work => break result,
            }
        };
        while let Some(item) = frames.try_next().filter(|_| !is_ended) {
            is_ended = self.publish_item(item).is_break();
        }
        self.end_stream();
        result
    }

    /// Publishes one item; returns `Break` after a gap, because later frames would lack their context.
    fn publish_item(&mut self, item: SubscriptionItem) -> std::ops::ControlFlow<()> {
        let SubscriptionItem::Frame(position, frame) = item else {
            // The remaining frames are lost here; readers find the events in the journal. The stream ends without
            // `RunEnded`.
            return std::ops::ControlFlow::Break(());
        };
        if let Frame::RunStarted { run_id, .. } = *frame
            && !self.is_current_run(run_id)
        {
            self.end_stream();
            self.begin_stream(run_id, position);
        }
        if let Some(stream) = &self.stream {
            stream.frames.send((*frame).clone());
        }
        if matches!(*frame, Frame::RunEnded { .. }) {
            self.end_stream();
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Returns whether the current stream is that run's.
    fn is_current_run(&self, run_id: RunId) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.run_id == run_id)
    }

    /// Opens and announces the stream of a run whose first frame has that position.
    fn begin_stream(&mut self, run_id: RunId, position: FramePosition) {
        let run = RunRef { thread_id: self.thread.thread_id, run_id };
        let stream =
            RunStream::with_cancel(self.cancel.clone(), run, &self.thread.scope, &RunRequest::default());
        let stream = Arc::new(stream);
        stream.frames.advance_to(position.seq);
        self.scheduler.streams.open(&stream);
        self.scheduler.streams.publish_start(&stream);
        self.stream = Some(stream);
        self.has_started_run = true;
    }

    /// Ends the current stream.
    fn end_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.scheduler.close_stream(&stream);
        }
    }
}

impl Drop for ExclusiveStreams {
    fn drop(&mut self) {
        self.end_stream();
    }
}
