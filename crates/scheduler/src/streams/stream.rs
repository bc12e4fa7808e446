//! One run's stream on the side of those who feed it: where its frames go, how it is stopped, and whether it is kept.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use agent::{CancellationToken, Cut, Frame, Frames, Position, Retelling};
use parking_lot::Mutex;
use protocol::{OnDisconnect, RunFailure, RunId, RunRef, RunRequest, RunStatus, Scope, ThreadId};

use crate::line::End;

/// Who drives a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driven {
    /// This process, now or when its turn comes.
    Here,
    /// Another one; it is told here from the journal.
    Elsewhere,
}

/// What of a run was told from the journal.
#[derive(Debug, Default)]
struct Stored {
    /// The place of the newest thing.
    newest: Position,
    /// Where it was cut off in the middle of a step.
    cuts: Vec<Cut>,
}

/// One run's stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The run.
    pub(crate) run_id: RunId,
    /// The thread.
    pub(crate) thread_id: ThreadId,
    /// Whose it is.
    pub(crate) scope: Scope,
    /// Where the frames go.
    pub(crate) frames: Frames,
    /// Stops the run.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when nothing follows and the rows are final.
    pub(crate) closed: CancellationToken,
    /// Where its run is put in a line.
    pub(crate) end: End,
    /// How often it met another run when it was to begin, since something last happened on its thread.
    pub(crate) conflicts: AtomicU32,
    /// The newest event when it did.
    pub(crate) met_at: AtomicU64,
    /// Whether somebody is told of its end.
    pub(crate) is_owed: bool,
    /// What becomes of the run when the one who asked for it goes away.
    pub(crate) on_disconnect: OnDisconnect,
    /// Whether its thread goes when it has ended and nobody reads any more.
    pub(crate) is_temporary: bool,
    /// Who drives the run.
    pub(crate) driven: Driven,
    /// What is known of it from the journal, where another process drives it or did.
    stored: Mutex<Stored>,
    is_kept: AtomicBool,
    /// What it counts for among those that are kept.
    pub(crate) counted: AtomicUsize,
    readers: AtomicUsize,
}

impl Stream {
    /// Returns the stream of a run that somebody asks for.
    pub(crate) fn new(run: RunRef, scope: &Scope, request: &RunRequest) -> Self {
        let RunRef { thread_id, run_id } = run;
        Self {
            run_id,
            thread_id,
            scope: scope.clone(),
            frames: Frames::channel().0,
            cancel: CancellationToken::new(),
            closed: CancellationToken::new(),
            end: End::of(request.multitask_strategy),
            conflicts: AtomicU32::new(0),
            met_at: AtomicU64::new(0),
            is_owed: request.webhook.is_some(),
            on_disconnect: request.on_disconnect,
            is_temporary: request.temporary,
            driven: Driven::Here,
            stored: Mutex::default(),
            is_kept: AtomicBool::new(request.stream_resumable),
            counted: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
        }
    }

    /// Returns the stream of a run that nobody asked for by itself, and that `cancel` stops.
    pub(crate) fn stopped_by(
        cancel: CancellationToken,
        run: RunRef,
        scope: &Scope,
        request: &RunRequest,
    ) -> Self {
        Self { cancel, ..Self::new(run, scope, request) }
    }

    /// Returns the stream of a run that another process drives.
    pub(crate) fn elsewhere(run: RunRef, scope: &Scope) -> Self {
        Self { driven: Driven::Elsewhere, ..Self::new(run, scope, &RunRequest::default()) }
    }

    /// Returns the stream of a run that another process began, or let wait. It is kept whatever was asked for: its readers
    /// lost their connection and will come back.
    pub(crate) fn waited(run: RunRef, scope: &Scope, request: &RunRequest) -> Self {
        let stream = Self::new(run, scope, request);
        stream.keep();
        stream
    }

    /// Returns the run and its thread.
    pub(crate) const fn run_ref(&self) -> RunRef {
        RunRef { thread_id: self.thread_id, run_id: self.run_id }
    }

    /// Keeps the stream after its end.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Keeps it no longer.
    pub(crate) fn let_go(&self) {
        self.is_kept.store(false, Ordering::Relaxed);
    }

    /// Returns whether its thread is to be removed: it was to last one run, that has ended, and nobody can look at it any
    /// more.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_temporary && self.closed.is_cancelled() && !self.is_kept() && !self.is_read()
    }

    /// Returns whether somebody reads it.
    pub(crate) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Returns whether it is kept after its end.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Notes what was told from the journal, and where it was cut off since.
    pub(crate) fn was_retold(&self, retelling: &Retelling, cut: Option<Cut>) {
        let mut stored = self.stored.lock();
        stored.newest = retelling.newest();
        stored.cuts = retelling.cuts().iter().copied().chain(cut).collect();
    }

    /// Returns whether a reader who knows the run up to `after` has lost something of it that is nowhere: the beginning of a
    /// step that another process gave up, and that is done anew.
    pub(crate) fn has_lost(&self, after: Position) -> bool {
        let is_in = |cut: &Cut| cut.after < after && after < Position { seq: cut.until, sub: 0 };
        self.stored.lock().cuts.iter().any(is_in)
    }

    /// Returns whether `after` is a place that only the process which drives the run knows of: it has begun something that is
    /// not stored yet.
    pub(crate) fn is_ahead(&self, after: Position) -> bool {
        self.driven == Driven::Elsewhere && after > self.stored.lock().newest
    }

    /// Sends how the run ended, where no driver does.
    pub(crate) fn tell_end(&self, status: RunStatus, failure: Option<RunFailure>) {
        self.frames.send(Frame::RunEnded { run_id: self.run_id, status, failure });
    }

    /// Notes a reader.
    pub(crate) fn enter(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a reader left.
    pub(crate) fn leave(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }
}
