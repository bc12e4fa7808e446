//! What earlier processes left: runs that were cut off go on, those that waited begin, and what was decided and not done is
//! done. The journal is looked through when a server starts and every now and then: another process may die too.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use agent::{AnyNews, CancellationToken, Frames, TEMPORARY_KEY, ThreadFilter};
use protocol::{ParentKind, Run, RunId, RunRequest, RunStatus, Scope, ThreadId};
use serde_json::{Map, json};

use crate::Result;
use crate::dispatch::Dispatch;
use crate::limits::{CLAIMS_AT_START_MAX, CLAIMS_MAX, LEFT_LOOKS, LOOK_EVERY, LOOK_PAUSE};
use crate::line::{End, Entered, Put, Waiting, Who, Working};
use crate::settle;
use crate::streams::stream::Stream;
use crate::work::Rested;

/// Waiting runs whose requests are read at once.
const REQUESTS_PAGE: usize = 64;

/// Threads of runs that are over which are removed at a start; more are at the next one.
const LEFT_MAX: usize = 1_000;

/// What was found when the journal was looked through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Runs whose process is gone; they go on here.
    pub resumed: usize,
    /// Runs that waited; they begin here, in order.
    pub waiting: usize,
    /// Runs that work in another process.
    pub elsewhere: usize,
}

impl Dispatch {
    /// Takes up what earlier processes left. Runs go on behind this call; their streams are there when it returns or soon
    /// after. Runs that live in another process are left alone.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered> {
        self.everyone.runs().announce().await?;
        let mut recovered = self.look().await?;
        recovered.waiting += self.look_for_lost().await?;
        self.settle_later(&Scope::Everyone);
        let dispatch = Arc::clone(self);
        self.tasks.spawn(async move { dispatch.sweep().await });
        self.tasks.spawn(look_after(Arc::downgrade(self), self.closing.clone()));
        Ok(recovered)
    }

    /// Does what was decided before an earlier process ended, such as the acceptance of a handoff.
    async fn sweep(&self) {
        // Stopping the server stops no run: what is not done by then is done at the next start.
        let (nobody, never) = (Frames::default(), CancellationToken::new());
        let swept = tokio::select! {
            () = self.halt.cancelled() => return,
            swept = self.everyone.runs().sweep_at_rest(&nobody, &never) => swept,
        };
        if let Err(error) = swept {
            tracing::warn!(%error, "failed to do what earlier processes had left to do");
        }
        self.remove_spent_left().await;
    }

    async fn remove_spent_left(&self) {
        let removed = tokio::select! {
            () = self.closing.cancelled() => return,
            removed = self.remove_left() => removed,
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "failed to remove threads that were to last one run");
        }
    }

    /// Takes up runs that are cut off, and those that wait and are nobody's.
    async fn look(self: &Arc<Self>) -> Result<Recovered> {
        let mut recovered = self.look_for_left(CLAIMS_AT_START_MAX).await?;
        for run in self.everyone.runs().active(None).await? {
            if self.streams.is_open(run.run_id) || self.everyone.runs().is_ours(&run) {
                continue;
            }
            match self.everyone.runs().is_cut_off(&run) {
                false => recovered.elsewhere += 1,
                true => drop(self.is_of_a_call(run.thread_id).await?),
            }
        }
        Ok(recovered)
    }

    /// Takes up runs that wait for this process, which lost sight of them.
    async fn look_for_lost(self: &Arc<Self>) -> Result<usize> {
        let queued = self.everyone.runs().queued(None).await?;
        let is_lost = |run: &Run| self.everyone.runs().is_ours(run) && !self.streams.is_open(run.run_id);
        let lost = self.still_waiting(queued.into_iter().filter(is_lost).collect()).await?;
        self.line_up(lost).await
    }

    /// Takes up what processes that are gone have left, and lets go of what waited here and waits no longer.
    async fn look_for_left(self: &Arc<Self>, limit: usize) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        self.pass_by(limit).await?;
        let mut left = self.everyone.runs().unclaimed(limit).await?;
        // What works or waits here is not taken from this process by itself, which was late to say that it lives.
        left.retain(|run| !self.streams.is_open(run.run_id));
        let (working, waiting): (Vec<Run>, Vec<Run>) =
            left.into_iter().partition(|run| run.status == RunStatus::Running);
        for run in working {
            // A run whose folder is not on this machine is left to another process; its queue ends it once it is in the way.
            let held = Working::new(Who::Elsewhere, CancellationToken::new());
            if self.is_of_here(&run).await && self.lines.lock().enter(run.thread_id, held) == Entered::First {
                recovered.resumed += 1;
                self.tasks.spawn(Arc::clone(self).go_on(run.thread_id, Rested::Elsewhere));
            }
        }
        // Others may have more room for what waits.
        let room = match self.everyone.runs().is_alone().await? {
            true => waiting.len(),
            false => self.permits.available_permits().min(waiting.len()),
        };
        let wanted = waiting.into_iter().take(room).map(|run| run.run_id).collect();
        let claimed = self.everyone.runs().claim(wanted).await?;
        self.counts.taken_in.fetch_add(claimed.len(), Ordering::Relaxed);
        recovered.waiting = self.line_up(claimed).await?;
        Ok(recovered)
    }

    /// Returns whether the folder of a run that was cut off is on this machine. A run that cannot be read is left alone for
    /// now.
    async fn is_of_here(&self, run: &Run) -> bool {
        let agent = self.agent(&Scope::Owner(run.assistant_id.owner()));
        agent.runs().is_of_here(run.thread_id).await.unwrap_or(false)
    }

    /// Takes runs out of their lines that wait no longer: another process stopped them, or has begun them. So many threads are
    /// looked at, others the next time; whichever is not finds out when it is to begin.
    async fn pass_by(self: &Arc<Self>, limit: usize) -> Result<()> {
        let lined_up = self.lines.lock().waiting_runs();
        let threads: HashSet<ThreadId> = lined_up.iter().map(|(thread_id, _)| *thread_id).collect();
        let looked_at: HashSet<ThreadId> = threads.into_iter().take(limit).collect();
        let mut waiting = HashSet::new();
        for thread_id in &looked_at {
            let queued = self.everyone.runs().queued(Some(*thread_id)).await?;
            waiting.extend(queued.into_iter().map(|run| run.run_id));
        }
        let waits_no_longer = |(thread_id, run_id): &(ThreadId, RunId)| {
            looked_at.contains(thread_id) && !waiting.contains(run_id)
        };
        for (thread_id, run_id) in lined_up.into_iter().filter(waits_no_longer) {
            let removed = self.lines.lock().remove(thread_id, run_id);
            if let Some(Waiting::Run(stream, _)) = removed {
                let told = self.tell_end(&self.agent(&stream.scope), &stream).await;
                self.end_stream(&stream, told);
            }
        }
        Ok(())
    }

    /// Returns those of the runs that wait still: they may have begun and ended meanwhile.
    async fn still_waiting(&self, runs: Vec<Run>) -> Result<Vec<Run>> {
        let mut waiting = Vec::new();
        for run in runs {
            let now = self.everyone.runs().get(run.run_id).await?;
            waiting.extend(now.filter(|now| now.status == RunStatus::Pending));
        }
        Ok(waiting)
    }

    /// Returns whether the thread is a sub-agent's: the run that called it goes on with what was cut off there. Where that
    /// one has ended, so has the call.
    async fn is_of_a_call(&self, thread_id: ThreadId) -> Result<bool> {
        let Some(thread) = self.everyone.threads().get(thread_id).await? else {
            return Ok(false);
        };
        let (Some(ParentKind::Subagent), Some(parent_id)) = (thread.parent_kind, thread.parent_id) else {
            return Ok(false);
        };
        if self.everyone.runs().active(Some(parent_id)).await?.is_empty()
            && let Err(error) = self.everyone.runs().end_cut_off(thread_id).await
        {
            tracing::warn!(thread_id = %thread_id, %error, "failed to end what a sub-agent was doing in thread {thread_id}");
        }
        Ok(true)
    }

    /// Puts runs that an earlier process let wait, oldest first, into their threads' lines, in the order they had there. Their
    /// streams are kept whatever was asked for: their readers lost their connection and will come back.
    async fn line_up(self: &Arc<Self>, runs: Vec<Run>) -> Result<usize> {
        let mut by_thread: HashMap<ThreadId, VecDeque<Arc<Stream>>> = HashMap::new();
        let nothing = RunRequest::default();
        for page in runs.chunks(REQUESTS_PAGE) {
            let ids: Vec<_> = page.iter().map(|run| run.run_id).collect();
            let requests = self.everyone.runs().requests(&ids).await?;
            for run in page {
                // One that is gone meanwhile is found out when it is to begin.
                let asked = requests.iter().find(|(run_id, _)| *run_id == run.run_id);
                let request = asked.map_or(&nothing, |(_, request)| request);
                let scope = Scope::Owner(run.assistant_id.owner());
                let stream = Stream::waited(run.run_ref(), &scope, request);
                let line = by_thread.entry(run.thread_id).or_default();
                // Those that displaced what worked were next, in the order in which they came.
                let at = match stream.end {
                    End::Displacing => line.iter().take_while(|other| other.end == End::Displacing).count(),
                    End::Front | End::Back => line.len(),
                };
                line.insert(at, Arc::new(stream));
            }
        }
        let mut count = 0;
        for (thread_id, line) in by_thread {
            count += line.len();
            if self.put_all(thread_id, line) == Put::Closed {
                break;
            }
        }
        Ok(count)
    }

    /// Puts runs behind each other into the thread's line.
    fn put_all(self: &Arc<Self>, thread_id: ThreadId, line: VecDeque<Arc<Stream>>) -> Put {
        let mut first = None;
        for stream in line {
            self.streams.open(&stream);
            let place = self.places.take_anyway(&stream.scope);
            let put = self.lines.lock().put(thread_id, Waiting::Run(Arc::clone(&stream), place), End::Back);
            if put == Put::Closed {
                self.streams.discard(&stream);
                return Put::Closed;
            }
            first.get_or_insert(put);
        }
        // Nobody works through a new line before all are in it.
        if first == Some(Put::IsNew) {
            self.tasks.spawn(Arc::clone(self).go_on(thread_id, Rested::Others));
        }
        first.unwrap_or(Put::Waits)
    }

    /// Removes threads that were to last one run, whose process ended before it could.
    async fn remove_left(&self) -> Result<()> {
        let runs = self.everyone.runs();
        let metadata = Map::from_iter([(TEMPORARY_KEY.to_owned(), json!({}))]);
        let filter = ThreadFilter { metadata, ..ThreadFilter::of(Scope::Everyone, LEFT_MAX) };
        // Another process may keep the stream of a run that ended not long ago.
        let is_alone = runs.is_alone().await?;
        let is_long_ago = |run: &Run| {
            let past = SystemTime::now().duration_since(run.updated_at.into());
            past.is_ok_and(|past| past >= LOOK_EVERY * LEFT_LOOKS)
        };
        for thread in self.everyone.threads().list(filter).await? {
            let run_id =
                thread.metadata.get(TEMPORARY_KEY).and_then(|mark| mark["run_id"].as_str()?.parse().ok());
            let Some(run_id) = run_id else { continue };
            // Anybody may note anything about their thread; what was asked of the run is its own.
            let is_temporary = runs.request(run_id).await?.is_some_and(|request| request.temporary);
            let run = runs.get(run_id).await?;
            let is_over = run.is_some_and(|run| {
                run.thread_id == thread.thread_id
                    && !run.status.is_active()
                    && (is_alone || is_long_ago(&run))
            });
            if !is_temporary || !is_over || self.streams.needs_thread(run_id) {
                continue;
            }
            let agent = self.agent(&Scope::Owner(thread.assistant_id.owner()));
            // Whoever is to be told of the run's end is told what the thread holds.
            if agent.runs().webhook(run_id).await?.is_none() {
                settle::remove(&agent, thread.thread_id).await;
            }
        }
        Ok(())
    }

    /// Lets go of streams that were kept long enough, and of the threads that were to last no longer.
    fn expire(self: &Arc<Self>) {
        for stream in self.streams.expire(Instant::now()) {
            self.remove_spent(&stream);
        }
    }
}

/// Looks for what others left whenever there is news, and now and then through all of the journal, as long as somebody holds
/// the dispatch and it is not stopping.
async fn look_after(dispatch: Weak<Dispatch>, closing: CancellationToken) {
    let Some(mut looking) = dispatch.upgrade().map(|dispatch| Looking::begin(&dispatch)) else { return };
    loop {
        let soon = looking.soon();
        let is_due = tokio::select! {
            () = looking.news.changed() => false,
            () = tokio::time::sleep_until(soon) => true,
            () = closing.cancelled() => return,
        };
        if !is_due {
            tokio::select! {
                () = tokio::time::sleep(LOOK_PAUSE) => {}
                () = closing.cancelled() => return,
            }
        }
        let Some(dispatch) = dispatch.upgrade() else { return };
        looking.look(&dispatch).await;
    }
}

/// When is looked for what.
struct Looking {
    news: AnyNews,
    /// How long it may take until it is seen that another process is gone.
    every: Duration,
    /// When it was last looked for what no news tell of.
    whole: Instant,
    /// When it was last looked for what is hardly ever there.
    seldom: Instant,
    looks_for_spent: LooksForSpent,
}

/// Whether the threads are to be looked for once more that were to last one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LooksForSpent {
    Later,
    NoMore,
}

impl Looking {
    fn begin(dispatch: &Dispatch) -> Self {
        let (news, every) = (dispatch.everyone.threads().commits(), dispatch.everyone.runs().heartbeat());
        let now = Instant::now();
        Self { news, every, whole: now, seldom: now, looks_for_spent: LooksForSpent::Later }
    }

    fn soon(&self) -> tokio::time::Instant {
        let soon = Instant::now() + self.every;
        tokio::time::Instant::from_std(soon.min(self.whole + LOOK_EVERY))
    }

    async fn look(&mut self, dispatch: &Arc<Dispatch>) {
        let is_whole = self.whole.elapsed() >= LOOK_EVERY;
        let looked = match is_whole {
            true => dispatch.look().await,
            false => dispatch.look_for_left(CLAIMS_MAX).await,
        };
        if let Err(error) = looked {
            tracing::warn!(%error, "failed to look for runs that were cut off");
        }
        if !is_whole {
            return;
        }
        self.whole = Instant::now();
        dispatch.expire();
        dispatch.look_for_owed().await;
        if self.seldom.elapsed() < LOOK_EVERY * LEFT_LOOKS {
            return;
        }
        self.seldom = Instant::now();
        if let Err(error) = dispatch.look_for_lost().await {
            tracing::warn!(%error, "failed to look for runs that wait");
        }
        if std::mem::replace(&mut self.looks_for_spent, LooksForSpent::NoMore) == LooksForSpent::Later {
            dispatch.remove_spent_left().await;
        }
    }
}
