//! The lines of the threads: for each busy thread, what works in front and what waits behind it. Plain values; who does the
//! work is in `work`.

mod places;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use protocol::{Multitask, RunId, ThreadId};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use self::places::{Place, Places, PlacesMax};
use crate::cancel::CancelAction;
use crate::streams::stream::Stream;

/// The lines of all busy threads. One is there as long as somebody works on the thread or waits for it.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    by_thread: HashMap<ThreadId, Line>,
    is_closed: bool,
}

#[derive(Debug)]
struct Line {
    working: Option<Working>,
    waiting: VecDeque<Waiting>,
}

/// What is done for a thread at the moment.
#[derive(Debug)]
pub(crate) struct Working {
    /// What it is.
    pub(crate) who: Who,
    /// Stops it.
    pub(crate) cancel: CancellationToken,
    /// How it is to be stopped, once somebody asked; the first to ask decides.
    pub(crate) stop: Option<CancelAction>,
}

/// What works on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// A run of this process.
    Run(RunId),
    /// A piece of work that must not meet a run.
    Exclusive,
    /// Something in another process, which is waited for.
    Elsewhere,
}

/// What waits behind it.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A run; its request is in the journal.
    Run(Arc<Stream>, Place),
    /// A piece of exclusive work: it is told when it may begin.
    Exclusive(oneshot::Sender<Grant>, End, Place),
}

/// Leave to work alone on a thread.
#[derive(Debug)]
pub(crate) struct Grant {
    /// Stops the work.
    pub(crate) cancel: CancellationToken,
    /// Tells the line that it is done.
    done: oneshot::Sender<()>,
    /// Dropped by the line when it has gone on.
    left: oneshot::Receiver<()>,
}

/// The line's side of a [`Grant`].
#[derive(Debug)]
pub(crate) struct Granted {
    done: oneshot::Receiver<()>,
    /// Dropped when the line has gone on.
    _left: oneshot::Sender<()>,
}

impl Grant {
    /// Returns leave for work that `cancel` stops.
    pub(crate) fn new(cancel: CancellationToken) -> (Self, Granted) {
        let ((done, is_done), (leaving, left)) = (oneshot::channel(), oneshot::channel());
        (Self { cancel, done, left }, Granted { done: is_done, _left: leaving })
    }

    /// Gives the leave back, and returns when the line has gone on.
    pub(crate) async fn give_back(self) {
        drop(self.done);
        // Nothing is ever sent: an error says that the other end is gone.
        drop(self.left.await);
    }
}

impl Granted {
    /// Waits until the leave is given back.
    pub(crate) async fn is_done(&mut self) {
        drop((&mut self.done).await);
    }
}

/// At which end of a line something is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is next.
    Front,
    /// It is next but for those that displaced what works before it.
    Displacing,
    /// It is last.
    Back,
}

impl End {
    /// Returns where a run of that strategy is put: one that displaces what works is next.
    pub(crate) const fn of(strategy: Multitask) -> Self {
        match strategy {
            Multitask::Interrupt | Multitask::Rollback => Self::Displacing,
            Multitask::Enqueue | Multitask::Reject => Self::Back,
        }
    }
}

/// What came of a wish to work on a thread at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The thread was free and is taken.
    First,
    /// Others are there.
    Behind,
    /// Nothing begins any more.
    Closed,
}

/// What came of putting something into a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// Somebody works through the line.
    Waits,
    /// The line is new: whoever put it there sets somebody to work.
    IsNew,
    /// Nothing begins any more.
    Closed,
}

/// Whether somebody waits behind what has just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Somebody does.
    Some,
    /// Nobody: the line is gone.
    Nobody,
}

impl Working {
    /// Returns something that nobody has asked to stop.
    pub(crate) const fn new(who: Who, cancel: CancellationToken) -> Self {
        Self { who, cancel, stop: None }
    }
}

impl Lines {
    /// Takes a thread that nobody works on.
    pub(crate) fn enter(&mut self, thread_id: ThreadId, working: Working) -> Entered {
        if self.is_closed {
            return Entered::Closed;
        }
        match self.by_thread.entry(thread_id) {
            Entry::Occupied(_) => Entered::Behind,
            Entry::Vacant(vacant) => {
                vacant.insert(Line { working: Some(working), waiting: VecDeque::new() });
                Entered::First
            }
        }
    }

    /// Returns whether somebody waits for the thread.
    pub(crate) fn is_waited_for(&self, thread_id: ThreadId) -> bool {
        self.by_thread.get(&thread_id).is_some_and(|line| !line.waiting.is_empty())
    }

    /// Returns whether what comes next on the thread is a run.
    pub(crate) fn is_run_next(&self, thread_id: ThreadId) -> bool {
        let next = self.by_thread.get(&thread_id).and_then(|line| line.waiting.front());
        matches!(next, Some(Waiting::Run(..)))
    }

    /// Returns the run that comes next on the thread, and where runs like it are put; `None` where something else comes next.
    pub(crate) fn next_run(&self, thread_id: ThreadId) -> Option<(RunId, End)> {
        match self.by_thread.get(&thread_id)?.waiting.front()? {
            Waiting::Run(stream, _) => Some((stream.run_id, stream.end)),
            Waiting::Exclusive(..) => None,
        }
    }

    /// Returns whether a run waits for the thread.
    pub(crate) fn has_waiting_run(&self, thread_id: ThreadId) -> bool {
        let waiting = self.by_thread.get(&thread_id).map(|line| &line.waiting);
        waiting.is_some_and(|waiting| waiting.iter().any(|one| matches!(one, Waiting::Run(..))))
    }

    /// Returns the runs that wait, with their threads.
    pub(crate) fn waiting_runs(&self) -> Vec<(ThreadId, RunId)> {
        let run = |one: &Waiting| match one {
            Waiting::Run(stream, _) => Some((stream.thread_id, stream.run_id)),
            Waiting::Exclusive(..) => None,
        };
        self.by_thread.values().flat_map(|line| line.waiting.iter().filter_map(run)).collect()
    }

    /// Returns on how many threads somebody works, and how many wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let working = self.by_thread.values().filter(|line| line.working.is_some()).count();
        (working, self.by_thread.values().map(|line| line.waiting.len()).sum())
    }

    /// Puts something into the thread's line.
    pub(crate) fn put(&mut self, thread_id: ThreadId, waiting: Waiting, end: End) -> Put {
        if self.is_closed {
            return Put::Closed;
        }
        match self.by_thread.entry(thread_id) {
            Entry::Occupied(mut line) => {
                line.get_mut().put(waiting, end);
                Put::Waits
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Line { working: None, waiting: VecDeque::from([waiting]) });
                Put::IsNew
            }
        }
    }

    /// Takes the next one out of the thread's line, and notes that it works; without one the line is gone.
    pub(crate) fn take(&mut self, thread_id: ThreadId) -> Option<Waiting> {
        let line = self.by_thread.get_mut(&thread_id)?;
        if self.is_closed {
            self.by_thread.remove(&thread_id);
            return None;
        }
        while let Some(waiting) = line.waiting.pop_front() {
            let working = match &waiting {
                Waiting::Run(stream, _) => Working::new(Who::Run(stream.run_id), stream.cancel.clone()),
                // Whoever wanted it has gone away.
                Waiting::Exclusive(ticket, ..) if ticket.is_closed() => continue,
                Waiting::Exclusive(..) => Working::new(Who::Exclusive, CancellationToken::new()),
            };
            line.working = Some(working);
            return Some(waiting);
        }
        self.by_thread.remove(&thread_id);
        None
    }

    /// Puts back what could not begin because another process works on the thread. How what worked was to be stopped is
    /// not forgotten.
    pub(crate) fn put_back(&mut self, thread_id: ThreadId, waiting: Option<Waiting>) {
        if let Some(line) = self.by_thread.get_mut(&thread_id) {
            waiting.into_iter().for_each(|waiting| line.put(waiting, End::Front));
            let stop = line.working.take().and_then(|working| working.stop);
            let held = Working::new(Who::Elsewhere, CancellationToken::new());
            line.working = Some(Working { stop, ..held });
        }
    }

    /// Puts back what cannot begin yet.
    pub(crate) fn put_first(&mut self, thread_id: ThreadId, waiting: Waiting) {
        if let Some(line) = self.by_thread.get_mut(&thread_id) {
            line.put(waiting, End::Front);
        }
    }

    /// Takes a run that waits out of its line.
    pub(crate) fn remove(&mut self, thread_id: ThreadId, run_id: RunId) -> Option<Waiting> {
        let line = self.by_thread.get_mut(&thread_id)?;
        let is_it = |waiting: &Waiting| matches!(waiting, Waiting::Run(stream, _) if stream.run_id == run_id);
        let at = line.waiting.iter().position(is_it)?;
        line.waiting.remove(at)
    }

    /// Returns what works on the thread.
    pub(crate) fn working(&self, thread_id: ThreadId) -> Option<Who> {
        self.by_thread.get(&thread_id)?.working.as_ref().map(|working| working.who)
    }

    /// Returns what stops the work on the thread.
    pub(crate) fn cancel_of(&self, thread_id: ThreadId) -> CancellationToken {
        let working = self.by_thread.get(&thread_id).and_then(|line| line.working.as_ref());
        working.map(|working| working.cancel.clone()).unwrap_or_default()
    }

    /// Notes that a thread that is held works on a run which another process left. It stops if somebody asked for that
    /// before.
    pub(crate) fn take_over(&mut self, thread_id: ThreadId, stream: &Stream) {
        if let Some(line) = self.by_thread.get_mut(&thread_id) {
            let stop = line.working.take().and_then(|working| working.stop);
            if stop.is_some() {
                stream.cancel.cancel();
            }
            let taken = Working::new(Who::Run(stream.run_id), stream.cancel.clone());
            line.working = Some(Working { stop, ..taken });
        }
    }

    /// Notes how what works on the thread is to be stopped, if it is `who`; returns what stops it.
    pub(crate) fn mark(
        &mut self,
        thread_id: ThreadId,
        who: Who,
        action: CancelAction,
    ) -> Option<CancellationToken> {
        let line = self.by_thread.get_mut(&thread_id)?;
        let working = line.working.as_mut().filter(|working| working.who == who)?;
        working.stop.get_or_insert(action);
        Some(working.cancel.clone())
    }

    /// Asks what works on the thread to stop, if it is `who`; says whether it is.
    pub(crate) fn stop(&mut self, thread_id: ThreadId, who: Who, action: CancelAction) -> bool {
        self.mark(thread_id, who, action).inspect(CancellationToken::cancel).is_some()
    }

    /// Notes that what worked on the thread has come to rest; returns how it was asked to stop. From here on nobody can ask
    /// any more.
    pub(crate) fn rested(&mut self, thread_id: ThreadId) -> Option<CancelAction> {
        self.by_thread.get_mut(&thread_id)?.working.take()?.stop
    }

    /// Leaves the thread; the line stays while somebody waits in it.
    pub(crate) fn leave(&mut self, thread_id: ThreadId) -> Behind {
        match self.by_thread.get_mut(&thread_id) {
            Some(line) if !line.waiting.is_empty() && !self.is_closed => {
                line.working = None;
                Behind::Some
            }
            Some(_) => {
                self.by_thread.remove(&thread_id);
                Behind::Nobody
            }
            None => Behind::Nobody,
        }
    }

    /// Lets nothing begin any more, and forgets what waits: the journal knows it.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        for line in self.by_thread.values_mut() {
            line.waiting.clear();
        }
    }

    /// Returns whether nothing begins any more.
    pub(crate) const fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl Line {
    fn put(&mut self, waiting: Waiting, end: End) {
        match end {
            End::Front => self.waiting.push_front(waiting),
            End::Displacing => {
                let displaces = |one: &&Waiting| match one {
                    Waiting::Run(stream, _) => stream.end == End::Displacing,
                    // It sees to the end of what is displaced.
                    Waiting::Exclusive(_, End::Front, _) => true,
                    Waiting::Exclusive(..) => false,
                };
                let behind = self.waiting.iter().take_while(displaces).count();
                self.waiting.insert(behind, waiting);
            }
            End::Back => self.waiting.push_back(waiting),
        }
    }
}

#[cfg(test)]
mod tests;
