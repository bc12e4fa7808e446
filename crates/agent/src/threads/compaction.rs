//! Compaction, as a front end asks for it: condense a thread, look at what that would be, take it back. The rules are in
//! the `compaction` room.

use compaction::{
    Compactor, NewestMarker, Previewed, Wanted, newest_marker, put_off, undone, wanted_channels,
};
use jiff::Timestamp;
use journal::view::{HistoryEntry, history};
use journal::{EventQuery, Planned, Transaction, TurnQuery, Write};
use protocol::{
    ArchiveReason, AssistantId, Checkpoint, CheckpointId, Compaction, CompactionFailed, CompactionTrigger,
    EventType, RunStatus, Seq, ThreadId, TurnsArchived,
};
use runtime::{Frames, RunEnd, RunScope, Start};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::agent::services::ThreadService;
use crate::assembly::Purpose;
use crate::{Error, Result, ThreadError};

/// Events of a run that condenses, at most.
const RUN_EVENTS_MAX: usize = 200;

/// Events or turns read at a time, in search of what memory took over.
const ARCHIVE_PAGE_ROWS: usize = 100;

/// Attempts to take a compaction back while others change the conversation.
const UNDO_ATTEMPTS_MAX: usize = 5;

/// How a compaction is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionRequest {
    /// What is to be kept above all.
    pub focus: Option<String>,
    /// How much stays as it is; `None` follows the settings.
    pub keep: Option<compaction::Keep>,
}

/// A compaction, done or looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condensed {
    /// What people are shown of it in the thread's history; `None` when it was only looked at.
    pub marker: Option<HistoryEntry>,
    /// The compaction.
    pub compaction: Compaction,
    /// Whether it was done.
    pub is_stored: bool,
}

/// A compaction that was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Uncompacted {
    /// The marker.
    pub marker_seq: Seq,
    /// How many messages are sent as they are again.
    pub replaced_count: u64,
    /// Tokens of the next request with the summary.
    pub tokens_before: u64,
    /// Tokens of the next request without it.
    pub tokens_after: u64,
    /// Whether the model does not take so many, so that the next message condenses the thread again.
    pub is_too_large: bool,
}

impl ThreadService<'_> {
    /// Condenses the older part of the thread. The messages stay in the journal, and [`ThreadService::uncompact`] takes it back.
    ///
    /// # Errors
    /// [`ThreadError::NothingToCompact`] when there is nothing to compact; [`ThreadError::CompactionStopped`] when it was stopped and
    /// [`ThreadError::NotCompacted`] when it did not help, and nothing changed; [`journal::Error::Busy`] when a run is active.
    pub async fn compact(
        self,
        thread_id: ThreadId,
        request: &CompactionRequest,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Condensed> {
        self.agent.runs().sweep(frames, cancel).await?;
        self.agent.runs().take_up(thread_id, frames, cancel).await?;
        let model = self.agent.models.open()?;
        let frame_tokens = self.frame_tokens(thread_id).await?;
        let compactor = self.agent.compactor(model.as_ref());
        let wanted = wanted(request, frame_tokens);
        let nothing = compactor.nothing_to_do(&*self.agent.store, thread_id, &wanted).await;
        if let Some(reason) = nothing.map_err(failed(thread_id))? {
            return Err(ThreadError::NothingToCompact { thread_id, reason }.into());
        }
        let mut channels = Purpose::Compaction.channels();
        channels.extend(wanted_channels(&wanted));
        let start = Start { channels, ..Start::default() };
        let end = self.agent.runs().run_prepared(thread_id, start, frames, cancel).await?;
        self.condensed(thread_id, &end).await
    }

    async fn condensed(self, thread_id: ThreadId, end: &RunEnd) -> Result<Condensed> {
        let not_compacted = |reason| ThreadError::NotCompacted { thread_id, reason };
        let events = self.agent.store.run_events(thread_id, end.run_id, 0, RUN_EVENTS_MAX).await?;
        for event in events.iter().rev() {
            match event.kind() {
                Some(EventType::Compacted) => {
                    let compaction = event.body()?;
                    let marker = history(std::slice::from_ref(event)).pop();
                    return Ok(Condensed { marker, compaction, is_stored: true });
                }
                Some(EventType::CompactionFailed) => {
                    let failed: CompactionFailed = event.body()?;
                    return Err(Error::from(match failed.vetoed_by {
                        Some(by) => not_compacted(format!("{by} refused: {}", failed.reason)),
                        None => ThreadError::NothingToCompact { thread_id, reason: failed.reason },
                    }));
                }
                _ => {}
            }
        }
        Err(Error::from(match (end.status, &end.failure) {
            (RunStatus::Cancelled, _) => ThreadError::CompactionStopped(thread_id),
            (_, Some(failure)) => not_compacted(failure.message.clone()),
            (_, None) => {
                let reason = "another run had condensed it meanwhile".to_owned();
                ThreadError::NothingToCompact { thread_id, reason }
            }
        }))
    }

    /// Returns what [`ThreadService::compact`] would do, the summary included. Nothing is stored.
    ///
    /// # Errors
    /// As [`ThreadService::compact`].
    pub async fn preview_compaction(
        self,
        thread_id: ThreadId,
        request: &CompactionRequest,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Condensed> {
        self.agent.thread(thread_id).await?;
        let model = self.agent.models.usable();
        let wanted = wanted(request, self.frame_tokens(thread_id).await?);
        let compactor: Compactor = self.agent.compactor(model.as_ref());
        let previewed =
            compactor.preview(&*self.agent.store, thread_id, &wanted, RunScope { frames, cancel }).await;
        match previewed.map_err(failed(thread_id))? {
            Some(Previewed::Ready(compaction)) => {
                Ok(Condensed { marker: None, compaction: *compaction, is_stored: false })
            }
            Some(Previewed::Nothing(reason)) => {
                Err(ThreadError::NothingToCompact { thread_id, reason }.into())
            }
            None => Err(ThreadError::CompactionStopped(thread_id).into()),
        }
    }

    /// Takes the newest compaction back: what it stands for is sent to the model again, and what memory kept of it is in
    /// memory no more. It is one transaction, worked out again when somebody changed the conversation meanwhile.
    ///
    /// # Errors
    /// [`ThreadError::NothingToUndo`] when nothing is compacted; [`journal::Error::Busy`] when a run is active;
    /// [`journal::Error::Differs`] when it went on changing, or another compaction was taken back meanwhile.
    pub async fn uncompact(self, thread_id: ThreadId) -> Result<Uncompacted> {
        let mut first = None;
        for _ in 1..UNDO_ATTEMPTS_MAX {
            match self.uncompact_once(thread_id, &mut first).await {
                Err(Error::Journal(journal::Error::Differs { .. })) => {}
                done => return done,
            }
        }
        self.uncompact_once(thread_id, &mut first).await
    }

    /// Takes the newest compaction back as long as it is `meant`, which the first attempt finds out.
    async fn uncompact_once(self, thread_id: ThreadId, meant: &mut Option<Seq>) -> Result<Uncompacted> {
        let planned = Planned { thread_id, last_seq: self.agent.thread(thread_id).await?.last_seq };
        if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            // One whose process is gone goes on with what is sent then.
            self.agent.leases.ended(&run).await?;
        }
        let (model, frame_tokens) = (self.agent.models.usable(), self.frame_tokens(thread_id).await?);
        let name = model.as_ref().map(|model| model.name().to_string()).unwrap_or_default();
        let before = self.agent.contexts.read(&*self.agent.store, thread_id).await?;
        let tokens_before = before.request_tokens(&name, frame_tokens);
        let Some(marker) = newest_marker(&*self.agent.store, thread_id, &before.beginning).await? else {
            return Err(ThreadError::NothingToUndo(thread_id).into());
        };
        if *meant.get_or_insert(marker.seq) != marker.seq {
            let id = thread_id.to_string();
            return Err(journal::Error::Differs { what: "compaction that is taken back", id }.into());
        }
        let now = Timestamp::now();
        let checkpoint = self.agent.store.checkpoint(thread_id).await?;
        let checkpoint_id = checkpoint.as_ref().map(|point| point.checkpoint_id);
        // A transfer that is committed before this is noticed here, and one that comes behind it notices the undo.
        let mut writes =
            vec![Write::ExpectContext(planned), Write::ExpectCheckpoint { thread_id, checkpoint_id }];
        writes.extend(self.restored(thread_id, &marker, now).await?);
        writes.push(Write::Append { thread_id, events: vec![undone(&marker, now)?] });
        if let Some(mut point) = checkpoint {
            // Or it would be condensed again with the next message.
            let window = model.as_ref().and_then(|model| model.limits().context_tokens);
            let freed = marker.compaction.tokens_before.saturating_sub(marker.compaction.tokens_after);
            put_off(&mut point.channels, tokens_before + freed, window);
            let checkpoint_id = CheckpointId::generate();
            writes.push(Write::PutCheckpoint(Checkpoint { checkpoint_id, created_at: now, ..point }));
        }
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        let after = self
            .agent
            .contexts
            .read(&*self.agent.store, thread_id)
            .await?
            .request_tokens(&name, frame_tokens);
        // Whoever takes it back has seen how full it is.
        self.agent.handoffs().proposed_at(thread_id, after).await?;
        Ok(Uncompacted {
            marker_seq: marker.seq,
            replaced_count: marker.compaction.replaced_count,
            tokens_before,
            tokens_after: after,
            is_too_large: !self.agent.compactor(model.as_ref()).takes(after),
        })
    }

    /// Returns the writes by which memory gives back the turns that it took over from this compaction. What an earlier one
    /// condensed went with them, and is due again.
    async fn restored(
        self,
        thread_id: ThreadId,
        marker: &NewestMarker,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let mut summary_ids = Vec::new();
        for archived in self.archived_by(thread_id, marker.seq).await? {
            // A copy of another thread tells of summaries that stand for the turns of that one.
            if self.stands_for(&assistant_id, thread_id, &archived).await? {
                summary_ids.push(archived.summary_id);
            }
        }
        if summary_ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut writes = vec![Write::RestoreTurns { summary_ids, scope: None }];
        if self.agent.config.memory.enabled && marker.compaction.previous_seq.is_some() {
            let item = memory::transfer_due(&*self.agent.store, &assistant_id, thread_id, now).await?;
            writes.push(Write::Enqueue(item));
        }
        Ok(writes)
    }

    /// Returns what memory took over because of this compaction.
    async fn archived_by(self, thread_id: ThreadId, marker_seq: Seq) -> Result<Vec<TurnsArchived>> {
        let (mut found, mut after) = (Vec::new(), marker_seq);
        loop {
            let types = vec![EventType::TurnsArchived];
            let query = EventQuery { types, ..EventQuery::after(after, ARCHIVE_PAGE_ROWS) };
            let page = self.agent.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = last.seq;
            let archived = page.iter().filter_map(|event| event.body().ok());
            found.extend(archived.filter(|archived: &TurnsArchived| {
                archived.reason == ArchiveReason::Compaction && archived.marker_seq == Some(marker_seq)
            }));
        }
    }

    /// Returns whether a summary stands for turns of the thread.
    async fn stands_for(
        self,
        assistant_id: &AssistantId,
        thread_id: ThreadId,
        archived: &TurnsArchived,
    ) -> Result<bool> {
        let mut first = archived.turn_range_start;
        loop {
            let last = archived.turn_range_end;
            let query = TurnQuery {
                thread_id: Some(thread_id),
                archived: Some(true),
                first,
                last,
                limit: ARCHIVE_PAGE_ROWS,
                ..TurnQuery::of(assistant_id.clone())
            };
            let page = self.agent.store.turns(query).await?;
            if page.iter().any(|turn| turn.summary_id == Some(archived.summary_id)) {
                return Ok(true);
            }
            match page.last() {
                Some(turn) if page.len() == ARCHIVE_PAGE_ROWS => first = turn.turn_index + 1,
                Some(_) | None => return Ok(false),
            }
        }
    }

    /// Returns the tokens of everything in the thread's next request that is no message; 0 where nothing is sent.
    async fn frame_tokens(self, thread_id: ThreadId) -> Result<u64> {
        let Some(model) = self.agent.models.usable() else { return Ok(0) };
        let preview = self.preview(thread_id, &model).await?;
        Ok(preview.tools + preview.hooks.iter().map(|(_, tokens)| tokens).sum::<u64>())
    }
}

fn wanted(request: &CompactionRequest, frame_tokens: u64) -> Wanted {
    Wanted {
        trigger: CompactionTrigger::Manual,
        focus: request.focus.clone(),
        keep: request.keep,
        frame_tokens,
        is_whole_run: true,
    }
}

fn failed(thread_id: ThreadId) -> impl Fn(runtime::Failure) -> ThreadError {
    move |failure| ThreadError::NotCompacted { thread_id, reason: failure.message }
}
