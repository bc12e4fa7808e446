//! Work that must not meet a run on its thread and is none a client can name beforehand: drafting a handoff, deciding one,
//! condensing, changing the state. It waits behind the run that works, and runs wait behind it.

use std::sync::Arc;

use agent::{CancellationToken, Frames};
use protocol::{Scope, ThreadId};
use tokio::sync::oneshot;

use crate::Result;
use crate::dispatch::Dispatch;
use crate::error::Error;
use crate::line::{End, Place, Put, Waiting};
use crate::streams::ScopedThread;
use crate::streams::shown::Shown;
use crate::work::Rested;

/// What work that is done alone on a thread is given.
#[derive(Debug)]
pub struct Alone {
    /// Cancelled when somebody stops it, such as a run that displaces what works.
    pub cancel: CancellationToken,
    /// Where it tells of what it does.
    pub frames: Frames,
}

impl Dispatch {
    /// Does `work` while nothing else of this process works on the thread, and returns what comes of it. A caller who goes
    /// away while it waits takes it out of the line; once begun it is done to its end all the same. Runs that it sends frames
    /// of have streams, which those see who follow the thread.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::ShuttingDown`], and [`Error::CutOff`] when the work panicked. What the work itself has to
    /// say is in what it returns.
    pub async fn exclusive<T, F>(
        self: &Arc<Self>,
        scope: &Scope,
        thread_id: ThreadId,
        work: impl FnOnce(Alone) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let place = self.places.take(scope)?;
        self.alone(scope, thread_id, place, End::Back, work).await
    }

    /// Does the same with a place in hand, at that end of the line.
    pub(crate) async fn alone<T, F>(
        self: &Arc<Self>,
        scope: &Scope,
        thread_id: ThreadId,
        place: Place,
        end: End,
        work: impl FnOnce(Alone) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (ticket, granted) = oneshot::channel();
        let put = self.lines.lock().put(thread_id, Waiting::Exclusive(ticket, end, place), end);
        match put {
            Put::Waits => {}
            Put::IsNew => {
                let line = Arc::clone(self).go_on(thread_id, Rested::Others);
                self.tasks.spawn(line);
            }
            Put::Closed => return Err(Error::ShuttingDown),
        }
        // A line that is given up drops its tickets.
        let grant = granted.await.map_err(|_| Error::ShuttingDown)?;
        let (dispatch, scope) = (Arc::clone(self), scope.clone());
        let working = self.tasks.spawn(async move {
            let (frames, told) = Frames::channel();
            let doing = work(Alone { cancel: grant.cancel.clone(), frames });
            let whose = ScopedThread { thread_id, scope };
            let mut shown = Shown::new(&dispatch, whose.clone(), grant.cancel.clone());
            let done = tokio::select! {
                biased;
                () = dispatch.halt.cancelled() => None,
                done = shown.during(told, doing) => Some(done),
            };
            // Who is answered finds the thread free of this.
            grant.give_back().await;
            dispatch.streams.changed(&whose);
            done
        });
        working.await.map_err(|_| Error::CutOff)?.ok_or(Error::ShuttingDown)
    }
}
