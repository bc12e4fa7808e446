//! Runs that are taken back: one that waits is ended without having begun, one that has ended is taken out of the thread,
//! or only out of the list of runs.

use jiff::Timestamp;
use journal::view::branches::Rewind;
use journal::{CheckpointRef, EventQuery, RunPatch, Superseded, ThreadPatch, Transaction, Write};
use protocol::{
    Event, EventType, FailureKind, Run, RunFailure, RunId, RunStatus, Seq, ThreadId, ThreadStatus,
};
use runtime::{BackTo, RunEvents};

use crate::agent::services::RunService;
use crate::assembly::Purpose;
use crate::states::points::Point;
use crate::threads::back::GoingBack;
use crate::{Error, Result, RunError};

/// Why a run ended that waited and never began.
const NEVER_BEGAN: &str = "it was stopped before it began";

/// Beginnings of runs read at a time when those before or behind a run are looked for.
const BEGINNINGS_PAGE_ROWS: usize = 32;

impl RunService<'_> {
    /// Ends a run that waits, without its ever having begun; says whether it did wait.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn cancel_queued(self, run_id: RunId) -> Result<bool> {
        self.end_queued(run_id, RunStatus::Cancelled, NEVER_BEGAN).await
    }

    /// Ends a run that waits at `status`; says whether it did wait.
    pub(crate) async fn end_queued(self, run_id: RunId, status: RunStatus, why: &str) -> Result<bool> {
        let run = self.known_run(run_id).await?;
        if run.status != RunStatus::Pending {
            return Ok(false);
        }
        let (thread_id, now) = (run.thread_id, Timestamp::now());
        let ended = RunEvents { run_id, at: now }.ended(status, 0)?;
        let kind = match status {
            RunStatus::Cancelled => FailureKind::Cancelled,
            RunStatus::Timeout => FailureKind::Timeout,
            RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Success => FailureKind::Internal,
        };
        let failure = Some(RunFailure::new(kind, why));
        let patch = RunPatch { failure, at: Some(now), ..RunPatch::default() };
        let writes = vec![
            // Only a run that still waits can begin: one that has begun meanwhile is not stopped by this.
            Write::BeginRun(Run { status, lease_owner: None, updated_at: now, ..run }),
            Write::Append { thread_id, events: vec![ended] },
            Write::UpdateRun { run_id, patch },
            Write::SettleThread { thread_id },
        ];
        match self.agent.store.commit(Transaction { fence: None, writes }).await {
            // It began, or was ended, at the last moment.
            Err(journal::Error::Fenced { .. }) => Ok(false),
            Err(journal::Error::NotFound { .. }) => Err(RunError::Unknown(run_id.to_string()).into()),
            committed => committed.map(|_| true).map_err(Error::from),
        }
    }

    /// Takes a run that has ended back: its thread is as it was before, and the run is gone. What it did outside the
    /// journal stays done, and a question that it left behind is asked again when the thread goes on there.
    ///
    /// # Errors
    /// [`RunError::Active`] when it is running; [`RunError::Followed`] when another run came after it; of
    /// [`crate::Class::Conflict`] too when another run is active. When there is no such run, or the journal fails.
    pub async fn roll_back(self, run_id: RunId) -> Result<()> {
        let run = self.known_run(run_id).await?;
        let thread_id = run.thread_id;
        match run.status {
            RunStatus::Running => return Err(RunError::Active(run_id).into()),
            RunStatus::Pending => {
                self.cancel_queued(run_id).await?;
                return self.forget(run_id).await;
            }
            RunStatus::Success
            | RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Timeout
            | RunStatus::Cancelled => {}
        }
        let first = self.agent.store.run_events(thread_id, run_id, 0, 1).await?.pop();
        let mut writes = match first {
            // It never began, and did nothing that could be taken back.
            Some(first) if first.event_type == EventType::RunEnded.as_str() => Vec::new(),
            Some(first) => self.taken_out(&run, &first).await?,
            None => Vec::new(),
        };
        writes.push(Write::ForgetRun { run_id });
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Takes a run that has ended, or waits, out of the list of runs. What happened in it stays.
    ///
    /// # Errors
    /// [`RunError::Active`] when it is running. When there is no such run, or the journal fails.
    pub async fn forget(self, run_id: RunId) -> Result<()> {
        let run = self.known_run(run_id).await?;
        if run.status == RunStatus::Pending {
            self.cancel_queued(run_id).await?;
        }
        let writes = vec![Write::ForgetRun { run_id }];
        match self.agent.store.commit(Transaction { fence: None, writes }).await {
            Err(journal::Error::Busy { .. }) => Err(RunError::Active(run_id).into()),
            committed => committed.map(drop).map_err(Error::from),
        }
    }

    /// Returns the run, which must exist.
    pub(crate) async fn known_run(self, run_id: RunId) -> Result<Run> {
        let unknown = || RunError::Unknown(run_id.to_string());
        Ok(self.agent.store.run(run_id).await?.ok_or_else(unknown)?)
    }

    /// Returns the writes that take the thread back to where it was before the run.
    async fn taken_out(self, run: &Run, first: &Event) -> Result<Vec<Write>> {
        let (thread_id, now) = (run.thread_id, Timestamp::now());
        let Some(head) = self.agent.store.checkpoint(thread_id).await? else { return Ok(Vec::new()) };
        if let Some(behind) = self.begun_after(run, first.seq).await? {
            return Err(RunError::Followed { run_id: run.run_id, behind }.into());
        }
        let failed_before =
            matches!(self.ended_before(run, first.seq).await?, Some(RunStatus::Error | RunStatus::Timeout));
        let back = match Rewind::of(first) {
            Some(rewind) => self.back_before_rewind(thread_id, rewind).await?,
            None => self.back_behind(thread_id, first.seq - 1, now).await?,
        };
        let is_of_handoff = Purpose::at(back.next.as_deref(), None) == Purpose::Handoff;
        let mut writes = match Rewind::of(first) {
            None if !is_of_handoff => back.restoring(thread_id, run.run_id, &head, now)?,
            Some(_) | None => back.writes(thread_id, Some(head), now)?,
        };
        let mut waiting = self.agent.store.pending_interrupts(thread_id).await?;
        waiting.retain(|interrupt| interrupt.created_at < first.created_at);
        let status = match failed_before && waiting.is_empty() {
            true => ThreadStatus::Error,
            false => ThreadStatus::Busy,
        };
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        writes.push(Write::UpdateThread { thread_id, patch });
        writes.push(Write::SettleThread { thread_id });
        Ok(writes)
    }

    /// Returns what goes back to an event that is in sight, and to the point that was the newest one there.
    async fn back_behind(self, thread_id: ThreadId, keep_seq: Seq, now: Timestamp) -> Result<GoingBack> {
        let with = self.agent.threads().gone_with(thread_id, keep_seq, now).await?;
        let at = CheckpointRef::Seq(keep_seq);
        let mut going = GoingBack { beside: with.writes, ..GoingBack::default() };
        going.back = BackTo { keep_seq, superseded: with.superseded, ..BackTo::default() };
        if let Some((point, channels)) =
            self.agent.store.checkpoint_at(thread_id, at, Superseded::Hidden).await?
        {
            (going.next, going.back.channels) = (point.next.clone(), channels);
            going.back.checkpoint_id = self.agent.threads().named(thread_id, &Point::Stored(point)).await?;
        }
        Ok(going)
    }

    /// Returns what goes back to where the thread stood before it went back itself: what was in sight there is said again.
    async fn back_before_rewind(self, thread_id: ThreadId, rewind: Rewind) -> Result<GoingBack> {
        let before = self.agent.threads().point_until(thread_id, rewind.seq - 1).await?;
        let beginning = self
            .agent
            .threads()
            .beginning_within(thread_id, before.as_ref(), rewind.keep_seq, Vec::new())
            .await?;
        let back = match beginning.back {
            Some(back) => back,
            None => BackTo { keep_seq: rewind.keep_seq, ..BackTo::default() },
        };
        Ok(GoingBack { back, beside: beginning.writes, said: beginning.events, next: beginning.next })
    }

    /// Returns another run that began in the thread after `seq`.
    async fn begun_after(self, run: &Run, seq: Seq) -> Result<Option<RunId>> {
        let mut after = seq;
        loop {
            let query = EventQuery { types: begins(), ..EventQuery::after(after, BEGINNINGS_PAGE_ROWS) };
            let query = EventQuery { superseded: Superseded::Shown, ..query };
            let page = self.agent.store.events(run.thread_id, query).await?;
            let mut others = page.iter().filter_map(|event| event.run_id).filter(|id| *id != run.run_id);
            if let Some(other) = others.next() {
                return Ok(Some(other));
            }
            if page.len() < BEGINNINGS_PAGE_ROWS {
                return Ok(None);
            }
            after = page.last().map_or(after, |event| event.seq);
        }
    }

    /// Returns how the run ended that began last before `seq`, where it was not taken back or forgotten since.
    async fn ended_before(self, run: &Run, seq: Seq) -> Result<Option<RunStatus>> {
        let query = EventQuery {
            before: Some(seq),
            types: begins(),
            superseded: Superseded::Shown,
            limit: BEGINNINGS_PAGE_ROWS,
            ..EventQuery::default()
        };
        let page = self.agent.store.events(run.thread_id, query).await?;
        for earlier in page.iter().rev().filter_map(|event| event.run_id) {
            if let Some(earlier) = self.agent.store.run(earlier).await? {
                return Ok(Some(earlier.status));
            }
        }
        Ok(None)
    }
}

/// Returns the type of event with which runs begin, or go on.
fn begins() -> Vec<EventType> {
    vec![EventType::RunStarted]
}
