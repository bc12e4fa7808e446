//! The runs of exclusive work, shown to those who follow the thread: each has a stream as if a client had asked for it. What
//! the work is, is not known here.

use std::sync::Arc;

use agent::{CancellationToken, Frame, Item, Position, Subscription};
use protocol::{RunId, RunRef, RunRequest};

use crate::dispatch::Dispatch;
use crate::streams::ScopedThread;
use crate::streams::stream::Stream;

/// The runs of one piece of exclusive work.
pub(crate) struct Shown {
    dispatch: Arc<Dispatch>,
    whose: ScopedThread,
    cancel: CancellationToken,
    /// The run under way.
    stream: Option<Arc<Stream>>,
}

impl Shown {
    /// Returns none yet, of work on that thread which `cancel` stops.
    pub(crate) fn new(dispatch: &Arc<Dispatch>, whose: ScopedThread, cancel: CancellationToken) -> Self {
        Self { dispatch: Arc::clone(dispatch), whose, cancel, stream: None }
    }

    /// Does the work, and shows what it tells.
    pub(crate) async fn during<T>(&mut self, mut told: Subscription, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut is_over = false;
        let done = loop {
            tokio::select! {
                biased;
                item = told.next(), if !is_over => match item {
                    Some(item) => is_over = self.show(item).is_break(),
                    None => is_over = true,
                },
                done = &mut work => break done,
            }
        };
        while let Some(item) = told.try_next().filter(|_| !is_over) {
            is_over = self.show(item).is_break();
        }
        self.end();
        done
    }

    fn show(&mut self, item: Item) -> std::ops::ControlFlow<()> {
        let Item::Frame(at, frame) = item else {
            // Lost to us, the rest is in the journal: the stream ends without an end.
            return std::ops::ControlFlow::Break(());
        };
        if let Frame::RunStarted { run_id, .. } = *frame
            && !self.is_shown(run_id)
        {
            self.end();
            self.begin(run_id, at);
        }
        if let Some(stream) = &self.stream {
            stream.frames.send((*frame).clone());
        }
        if matches!(*frame, Frame::RunEnded { .. }) {
            self.end();
        }
        std::ops::ControlFlow::Continue(())
    }

    fn is_shown(&self, run_id: RunId) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.run_id == run_id)
    }

    fn begin(&mut self, run_id: RunId, at: Position) {
        let run = RunRef { thread_id: self.whose.thread_id, run_id };
        let stream = Stream::stopped_by(self.cancel.clone(), run, &self.whose.scope, &RunRequest::default());
        let stream = Arc::new(stream);
        stream.frames.at(at.seq);
        self.dispatch.streams.open(&stream);
        self.dispatch.streams.begun(&stream);
        self.stream = Some(stream);
    }

    /// Ends the stream of the run under way.
    fn end(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.dispatch.close(&stream);
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end();
    }
}
