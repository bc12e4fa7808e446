//! Undoing runs: cancelling a queued run before it starts, rolling a thread back to before an ended run, and
//! deleting the row of a run.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::view::branches::RewindPoint;
use journal::{CheckpointRef, EventQuery, RunPatch, SupersededVisibility, ThreadPatch, Transaction, Write};
use protocol::{
    Event, EventType, FailureKind, Run, RunFailure, RunId, RunStatus, Seq, ThreadId, ThreadStatus,
};
use runtime::{RewindRequest, RunEvents};

use crate::RunService;
use crate::assembly::RunPurpose;
use crate::threads::rollback::RollbackPlan;
use crate::threads::states::points::HistoryPoint;
use crate::{Error, Result, RunError};

/// The failure text of a queued run that was cancelled before it started.
const NEVER_STARTED_REASON: &str = "it was stopped before it started";

/// Run-start events per page when the runs before or after a run are searched.
const RUN_STARTS_PAGE_ROWS: usize = 32;

impl<'a> RunService<'a> {
    /// Ends a queued run as cancelled before it starts. Returns whether it was still queued.
    ///
    /// # Errors
    /// Fails if the run does not exist, or if the journal fails.
    pub fn cancel_queued_run(self, run_id: RunId) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.end_queued_run(run_id, RunStatus::Cancelled, NEVER_STARTED_REASON))
    }

    /// Ends a queued run with that status and failure text. Returns whether it was still queued.
    pub(crate) async fn end_queued_run(self, run_id: RunId, status: RunStatus, reason: &str) -> Result<bool> {
        let run = self.existing_run(run_id).await?;
        if run.status != RunStatus::Pending {
            return Ok(false);
        }
        let (thread_id, now) = (run.thread_id, Timestamp::now());
        let ended = RunEvents { run_id, at: now }.ended_event(status, 0)?;
        let kind = match status {
            RunStatus::Cancelled => FailureKind::Cancelled,
            RunStatus::Timeout => FailureKind::Timeout,
            RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Success => FailureKind::Internal,
        };
        let failure = Some(RunFailure::new(kind, reason));
        let patch = RunPatch { failure, at: Some(now), ..RunPatch::default() };
        let writes = vec![
            // The write succeeds only for a queued run, so that a run that started meanwhile is not ended.
            Write::BeginRun(Run { status, lease_owner: None, updated_at: now, ..run }),
            Write::Append { thread_id, events: vec![ended] },
            Write::UpdateRun { run_id, patch },
            Write::SettleThread { thread_id },
        ];
        match self.agent.store.commit(Transaction { fence: None, writes }).await {
            // The run started or was ended at the same time.
            Err(journal::Error::Fenced { .. }) => Ok(false),
            Err(journal::Error::NotFound { .. }) => Err(RunError::Unknown(run_id.to_string()).into()),
            committed => committed.map(|_| true).map_err(Error::from),
        }
    }

    /// Rolls back an ended run: restores its thread to the state before the run, and deletes the run's row. A
    /// queued run is only cancelled and deleted.
    ///
    /// Effects outside the journal are not undone. A question that was pending before the run becomes pending
    /// again when the thread continues from there.
    ///
    /// # Errors
    /// [`RunError::Active`] if the run is running, [`RunError::HasLaterRun`] if another run started after it,
    /// and another error of [`crate::ErrorClass::Conflict`] if another run is active. Also fails if the run
    /// does not exist, or if the journal fails.
    pub fn roll_back_run(self, run_id: RunId) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let run = self.existing_run(run_id).await?;
            let thread_id = run.thread_id;
            match run.status {
                RunStatus::Running => return Err(RunError::Active(run_id).into()),
                RunStatus::Pending => {
                    self.cancel_queued_run(run_id).await?;
                    return self.forget_run(run_id).await;
                }
                RunStatus::Success
                | RunStatus::Error
                | RunStatus::Interrupted
                | RunStatus::Timeout
                | RunStatus::Cancelled => {}
            }
            let first = self.agent.store.run_events(thread_id, run_id, 0, 1).await?.pop();
            let mut writes = match first {
                // The run never started and has no effects to undo.
                Some(first) if first.event_type == EventType::RunEnded.as_str() => Vec::new(),
                Some(first) => self.rollback_writes(&run, &first).await?,
                None => Vec::new(),
            };
            writes.push(Write::DeleteRun { run_id });
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            Ok(())
        })
    }

    /// Deletes the row of an ended or queued run. The events of the run are kept.
    ///
    /// # Errors
    /// [`RunError::Active`] if the run is running. Also fails if the run does not exist, or if the journal
    /// fails.
    pub fn forget_run(self, run_id: RunId) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let run = self.existing_run(run_id).await?;
            if run.status == RunStatus::Pending {
                self.cancel_queued_run(run_id).await?;
            }
            let writes = vec![Write::DeleteRun { run_id }];
            match self.agent.store.commit(Transaction { fence: None, writes }).await {
                Err(journal::Error::Busy { .. }) => Err(RunError::Active(run_id).into()),
                committed => committed.map(drop).map_err(Error::from),
            }
        })
    }

    /// Returns a run.
    ///
    /// # Errors
    /// [`RunError::Unknown`] if it does not exist or belongs to another owner.
    pub(crate) async fn existing_run(self, run_id: RunId) -> Result<Run> {
        let unknown = || RunError::Unknown(run_id.to_string());
        Ok(self.agent.store.run(run_id).await?.ok_or_else(unknown)?)
    }

    /// Returns the writes that restore the thread to the state before the run. `first` is the first event of
    /// the run.
    async fn rollback_writes(self, run: &Run, first: &Event) -> Result<Vec<Write>> {
        let (thread_id, now) = (run.thread_id, Timestamp::now());
        let Some(head) = self.agent.store.checkpoint(thread_id).await? else { return Ok(Vec::new()) };
        if let Some(later) = self.run_started_after(run, first.seq).await? {
            return Err(RunError::HasLaterRun { run_id: run.run_id, later_run_id: later }.into());
        }
        let failed_before = matches!(
            self.status_of_run_before(run, first.seq).await?,
            Some(RunStatus::Error | RunStatus::Timeout)
        );
        let plan = match RewindPoint::from_event(first) {
            Some(rewind) => self.rollback_before_rewind(thread_id, rewind).await?,
            None => self.rollback_to_event(thread_id, first.seq - 1, now).await?,
        };
        let is_of_handoff = RunPurpose::from_node(plan.next_node.as_deref(), None) == RunPurpose::Handoff;
        let mut writes = match RewindPoint::from_event(first) {
            None if !is_of_handoff => plan.restore_writes(thread_id, run.run_id, &head, now)?,
            Some(_) | None => plan.rollback_writes(thread_id, Some(head), now)?,
        };
        let mut interrupts = self.agent.store.pending_interrupts(thread_id).await?;
        interrupts.retain(|interrupt| interrupt.created_at < first.created_at);
        let status = match failed_before && interrupts.is_empty() {
            true => ThreadStatus::Error,
            false => ThreadStatus::Busy,
        };
        let patch = ThreadPatch { status: Some(status), updated_at: Some(now), ..ThreadPatch::default() };
        writes.push(Write::UpdateThread { thread_id, patch });
        writes.push(Write::SettleThread { thread_id });
        Ok(writes)
    }

    /// Returns the plan to roll back to a visible event and to the newest checkpoint at it.
    async fn rollback_to_event(
        self,
        thread_id: ThreadId,
        keep_seq: Seq,
        now: Timestamp,
    ) -> Result<RollbackPlan> {
        let effects = self.agent.threads().rollback_effects(thread_id, keep_seq, now).await?;
        let reference = CheckpointRef::Seq(keep_seq);
        let mut plan = RollbackPlan { extra_writes: effects.writes, ..RollbackPlan::default() };
        plan.target =
            RewindRequest { keep_seq, superseded: effects.superseded_count, ..RewindRequest::default() };
        if let Some((point, channels)) =
            self.agent.store.checkpoint_at(thread_id, reference, SupersededVisibility::Hidden).await?
        {
            (plan.next_node, plan.target.channels) = (point.next.clone(), channels);
            plan.target.checkpoint_id =
                self.agent.threads().named_parent(thread_id, &HistoryPoint::Stored(point)).await?;
        }
        Ok(plan)
    }

    /// Returns the plan to restore the state before a rewind. Messages that were visible there are appended
    /// again.
    async fn rollback_before_rewind(self, thread_id: ThreadId, rewind: RewindPoint) -> Result<RollbackPlan> {
        let before = self.agent.threads().point_until(thread_id, rewind.seq - 1).await?;
        let branch = self
            .agent
            .threads()
            .branch_plan_within(thread_id, before.as_ref(), rewind.keep_seq, Vec::new())
            .await?;
        let target = match branch.rewind_target {
            Some(target) => target,
            None => RewindRequest { keep_seq: rewind.keep_seq, ..RewindRequest::default() },
        };
        Ok(RollbackPlan {
            target,
            extra_writes: branch.writes,
            following_events: branch.events,
            next_node: branch.next_node,
        })
    }

    /// Returns a run other than this one that started in the thread after `seq`; `None` if there is none.
    /// Reads run-start events page by page.
    async fn run_started_after(self, run: &Run, seq: Seq) -> Result<Option<RunId>> {
        let mut after = seq;
        loop {
            let query = EventQuery {
                types: run_start_event_types(),
                ..EventQuery::after(after, RUN_STARTS_PAGE_ROWS)
            };
            let query = EventQuery { superseded: SupersededVisibility::Shown, ..query };
            let page = self.agent.store.events(run.thread_id, query).await?;
            let mut others = page.iter().filter_map(|event| event.run_id).filter(|id| *id != run.run_id);
            if let Some(other) = others.next() {
                return Ok(Some(other));
            }
            if page.len() < RUN_STARTS_PAGE_ROWS {
                return Ok(None);
            }
            after = page.last().map_or(after, |event| event.seq);
        }
    }

    /// Returns the status of the run that started last before `seq`; `None` if that run was rolled back or
    /// deleted, or if there is none.
    async fn status_of_run_before(self, run: &Run, seq: Seq) -> Result<Option<RunStatus>> {
        let query = EventQuery {
            before: Some(seq),
            types: run_start_event_types(),
            superseded: SupersededVisibility::Shown,
            limit: RUN_STARTS_PAGE_ROWS,
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

/// Returns the event types with which runs start or resume.
fn run_start_event_types() -> Vec<EventType> {
    vec![EventType::RunStarted]
}
