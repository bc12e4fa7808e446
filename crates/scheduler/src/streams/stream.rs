//! The producer side of the stream of one run: the sender of its frames, its cancellation token, and its retention.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use agent::{CancellationToken, Frame, FramePosition, FrameSender, Replay, TakeoverGap};
use parking_lot::Mutex;
use protocol::{DisconnectMode, OwnerScope, RunFailure, RunId, RunRef, RunRequest, RunStatus, ThreadId};

use crate::queue::QueuePosition;

/// The process that drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverLocation {
    /// This process drives the run, or will drive it when the run reaches the front of its queue.
    Local,
    /// Another process drives the run. The stream is filled from the journal.
    Remote,
}

/// The part of a run that was replayed from the journal.
#[derive(Debug, Default)]
struct ReplayProgress {
    /// The position of the newest replayed frame.
    newest: FramePosition,
    /// The ranges of steps that a takeover interrupted and started again.
    gaps: Vec<TakeoverGap>,
}

/// The stream of one run.
#[derive(Debug)]
pub(crate) struct RunStream {
    /// The run.
    pub(crate) run_id: RunId,
    /// The thread of the run.
    pub(crate) thread_id: ThreadId,
    /// The owner of the run.
    pub(crate) scope: OwnerScope,
    /// Sends the run's frames to the ring buffer from which clients read.
    pub(crate) frames: FrameSender,
    /// Cancelling this token stops the run.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when no further frame follows and the run's database rows are final.
    pub(crate) closed: CancellationToken,
    /// The position of the run in its thread's queue.
    pub(crate) queue_position: QueuePosition,
    /// The number of times that another run of the thread started first, since `conflict_seq` changed.
    pub(crate) conflicts: AtomicU32,
    /// The `seq` of the thread's newest event at the last of these conflicts.
    pub(crate) conflict_seq: AtomicU64,
    /// True if a webhook is called after the run ends.
    pub(crate) has_webhook: bool,
    /// The handling of the run when the client that created it disconnects.
    pub(crate) on_disconnect: DisconnectMode,
    /// True if the run's thread is deleted after the run and its last reader have ended.
    pub(crate) is_temporary: bool,
    /// The process that drives the run.
    pub(crate) driver: DriverLocation,
    /// The replayed part, for a run that another process drives or drove.
    replayed: Mutex<ReplayProgress>,
    /// True if the stream is kept after its end.
    is_retained: AtomicBool,
    /// The bytes of this stream that count against the registry's limit for retained streams; 0 while it is open.
    pub(crate) retained_bytes: AtomicUsize,
    /// The number of clients that read the stream.
    readers: AtomicUsize,
}

impl RunStream {
    /// Returns the stream of a run that a client created.
    pub(crate) fn new(run: RunRef, scope: &OwnerScope, request: &RunRequest) -> Self {
        let RunRef { thread_id, run_id } = run;
        Self {
            run_id,
            thread_id,
            scope: scope.clone(),
            frames: FrameSender::channel().0,
            cancel: CancellationToken::new(),
            closed: CancellationToken::new(),
            queue_position: QueuePosition::for_strategy(request.multitask_strategy),
            conflicts: AtomicU32::new(0),
            conflict_seq: AtomicU64::new(0),
            has_webhook: request.webhook.is_some(),
            on_disconnect: request.on_disconnect,
            is_temporary: request.temporary,
            driver: DriverLocation::Local,
            replayed: Mutex::default(),
            is_retained: AtomicBool::new(request.stream_resumable),
            retained_bytes: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
        }
    }

    /// Returns the stream of a run that exclusive work (see `worker::exclusive`) started. Cancelling `cancel` stops the
    /// run.
    pub(crate) fn with_cancel(
        cancel: CancellationToken,
        run: RunRef,
        scope: &OwnerScope,
        request: &RunRequest,
    ) -> Self {
        Self { cancel, ..Self::new(run, scope, request) }
    }

    /// Returns the stream of a run that another process drives.
    pub(crate) fn new_remote(run: RunRef, scope: &OwnerScope) -> Self {
        Self { driver: DriverLocation::Remote, ..Self::new(run, scope, &RunRequest::default()) }
    }

    /// Returns the stream of a run that another process started or left queued. The stream is retained even if the
    /// client did not request that, because its readers lost their connections and will reconnect.
    pub(crate) fn new_recovered(run: RunRef, scope: &OwnerScope, request: &RunRequest) -> Self {
        let stream = Self::new(run, scope, request);
        stream.retain();
        stream
    }

    /// Returns the run and its thread.
    pub(crate) const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }

    /// Marks the stream to be kept for a while after its end.
    pub(crate) fn retain(&self) {
        self.is_retained.store(true, Ordering::Relaxed);
    }

    /// Marks the stream to be dropped after its end.
    pub(crate) fn stop_retaining(&self) {
        self.is_retained.store(false, Ordering::Relaxed);
    }

    /// Returns whether the run's thread has to be deleted: the run was temporary, it has ended, and no reader can see
    /// the stream any more.
    pub(crate) fn is_thread_disposable(&self) -> bool {
        self.is_temporary && self.closed.is_cancelled() && !self.is_retained() && !self.has_readers()
    }

    /// Returns whether the stream has readers.
    pub(crate) fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Returns whether the stream is kept after its end.
    pub(crate) fn is_retained(&self) -> bool {
        self.is_retained.load(Ordering::Relaxed)
    }

    /// Records the replayed part, and the range of frames that a takeover has just made invalid, if any.
    pub(crate) fn record_replay(&self, replay: &Replay, new_gap: Option<TakeoverGap>) {
        let mut progress = self.replayed.lock();
        progress.newest = replay.last_position();
        progress.gaps = replay.takeover_gaps().iter().copied().chain(new_gap).collect();
    }

    /// Returns whether the frame at `after` belongs to an interrupted step that another process started again. Such
    /// frames no longer exist anywhere, so a reader cannot continue after them.
    pub(crate) fn has_lost_frames(&self, after: FramePosition) -> bool {
        let is_in = |gap: &TakeoverGap| gap.after < after && after < FramePosition { seq: gap.until, sub: 0 };
        self.replayed.lock().gaps.iter().any(is_in)
    }

    /// Returns whether `after` is ahead of the replayed part: only the process that drives the run knows this position,
    /// because the step is not stored yet.
    pub(crate) fn is_ahead_of_replay(&self, after: FramePosition) -> bool {
        self.driver == DriverLocation::Remote && after > self.replayed.lock().newest
    }

    /// Sends the final status of the run. Used when no driver sends it.
    pub(crate) fn publish_end(&self, status: RunStatus, failure: Option<RunFailure>) {
        self.frames.send(Frame::RunEnded { run_id: self.run_id, status, failure });
    }

    /// Counts a reader.
    pub(crate) fn add_reader(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reader from the count.
    pub(crate) fn remove_reader(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }
}
