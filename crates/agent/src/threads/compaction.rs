//! Manual compaction of a thread: performing it, previewing it and undoing it. The `compaction` crate
//! contains the rules.

use compaction::{
    CompactionPreview, CompactionRequest, Compactor, NewestCompaction, compaction_request_channels,
    find_newest_compaction, postpone_compaction, undo_event,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::view::{HistoryEntry, history};
use journal::{EventQuery, ThreadVersion, Transaction, TurnQuery, Write};
use protocol::{
    ArchiveReason, AssistantId, Checkpoint, CheckpointId, Compaction, CompactionFailed, CompactionTrigger,
    EventType, RunStatus, Seq, ThreadId, TurnsArchived,
};
use runtime::{FrameSender, RunEnd, RunScope, RunStart};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::ThreadService;
use crate::assembly::RunPurpose;
use crate::{Error, Result, ThreadError};

/// The most events of a compaction run that are read to find its result.
const RUN_EVENTS_MAX: usize = 200;

/// Rows per page when messages that memory archived are searched.
const ARCHIVE_PAGE_ROWS: usize = 100;

/// The most attempts to undo a compaction while other processes change the conversation.
const UNDO_ATTEMPTS_MAX: usize = 5;

/// The parameters of a requested compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionParameters {
    /// A topic that the summary should cover in particular.
    pub focus: Option<String>,
    /// The amount of the conversation that stays verbatim; `None` follows the configuration.
    pub keep: Option<compaction::KeepPolicy>,
}

/// A compaction that was performed or previewed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadCompaction {
    /// The marker in the thread's history; `None` for a preview.
    pub marker: Option<HistoryEntry>,
    /// The compaction with its summary and sizes.
    pub compaction: Compaction,
    /// True if the compaction was stored. `false` for a preview.
    pub is_stored: bool,
}

/// The undo of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ThreadCompactionUndo {
    /// The seq of the compaction boundary that was undone.
    pub marker_seq: Seq,
    /// The number of messages that are sent to the model again.
    pub replaced_count: u64,
    /// The tokens of the next request with the summary.
    pub tokens_before: u64,
    /// The tokens of the next request without the summary.
    pub tokens_after: u64,
    /// True if that is more than the model accepts, so that the next message compacts the thread again.
    pub is_too_large: bool,
}

impl<'a> ThreadService<'a> {
    /// Compacts the older part of the thread. The messages stay in the journal, and
    /// [`ThreadService::undo_compaction`] restores them in the context.
    ///
    /// # Errors
    /// [`ThreadError::NothingToCompact`] if there is nothing to compact, [`ThreadError::CompactionStopped`]
    /// if it was cancelled, and [`ThreadError::NotCompacted`] if it failed or was vetoed; the thread is
    /// unchanged in all three cases. [`journal::Error::Busy`] if a run is active.
    pub fn compact(
        self,
        thread_id: ThreadId,
        request: &'a CompactionParameters,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ThreadCompaction>> {
        journal::box_future(async move {
            self.agent.runs().sweep_all_threads(frames, cancel).await?;
            self.agent.runs().recover_before_run(thread_id, frames, cancel).await?;
            let model = self.agent.models.open_selected()?;
            let frame_tokens = self.non_message_tokens(thread_id).await?;
            let compactor = self.agent.compactor(model.as_ref());
            let parameters = compaction_request(request, frame_tokens);
            let reason =
                compactor.nothing_to_compact_reason(&*self.agent.store, thread_id, &parameters).await;
            if let Some(reason) = reason.map_err(not_compacted_error(thread_id))? {
                return Err(ThreadError::NothingToCompact { thread_id, reason }.into());
            }
            let mut channels = RunPurpose::Compaction.entry_channels();
            channels.extend(compaction_request_channels(&parameters));
            let start = RunStart { channels, ..RunStart::default() };
            let end = self.agent.runs().run_prepared(thread_id, start, frames, cancel).await?;
            self.thread_compaction(thread_id, &end).await
        })
    }

    /// Returns the compaction that the run stored, or the error that explains why it stored none.
    async fn thread_compaction(self, thread_id: ThreadId, end: &RunEnd) -> Result<ThreadCompaction> {
        let not_compacted = |reason| ThreadError::NotCompacted { thread_id, reason };
        let events = self.agent.store.run_events(thread_id, end.run_id, 0, RUN_EVENTS_MAX).await?;
        for event in events.iter().rev() {
            match event.kind() {
                Some(EventType::Compacted) => {
                    let compaction = event.body()?;
                    let marker = history(std::slice::from_ref(event)).pop();
                    return Ok(ThreadCompaction { marker, compaction, is_stored: true });
                }
                Some(EventType::CompactionFailed) => {
                    let failure: CompactionFailed = event.body()?;
                    return Err(Error::from(match failure.vetoed_by {
                        Some(hook) => not_compacted(format!("{hook} refused: {}", failure.reason)),
                        None => ThreadError::NothingToCompact { thread_id, reason: failure.reason },
                    }));
                }
                _ => {}
            }
        }
        Err(Error::from(match (end.status, &end.failure) {
            (RunStatus::Cancelled, _) => ThreadError::CompactionStopped(thread_id),
            (_, Some(failure)) => not_compacted(failure.message.clone()),
            (_, None) => {
                let reason = "another run has compacted it meanwhile".to_owned();
                ThreadError::NothingToCompact { thread_id, reason }
            }
        }))
    }

    /// Returns the compaction that [`ThreadService::compact`] would perform, including its summary. Stores
    /// nothing, but may call the summarizing model.
    ///
    /// # Errors
    /// Fails as [`ThreadService::compact`] does, except that an active run is no obstacle.
    pub fn preview_compaction(
        self,
        thread_id: ThreadId,
        request: &'a CompactionParameters,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ThreadCompaction>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            let model = self.agent.models.open_if_usable();
            let parameters = compaction_request(request, self.non_message_tokens(thread_id).await?);
            let compactor: Compactor = self.agent.compactor(model.as_ref());
            let previewed = compactor
                .preview(&*self.agent.store, thread_id, &parameters, RunScope { frames, cancel })
                .await;
            match previewed.map_err(not_compacted_error(thread_id))? {
                Some(CompactionPreview::Ready(compaction)) => {
                    Ok(ThreadCompaction { marker: None, compaction: *compaction, is_stored: false })
                }
                Some(CompactionPreview::Nothing(reason)) => {
                    Err(ThreadError::NothingToCompact { thread_id, reason }.into())
                }
                None => Err(ThreadError::CompactionStopped(thread_id).into()),
            }
        })
    }

    /// Undoes the newest compaction. The compacted messages are sent to the model again, and the summaries
    /// that memory made of them are removed.
    ///
    /// The undo is one transaction. It is planned again, up to `UNDO_ATTEMPTS_MAX` times, if another
    /// process changed the conversation meanwhile.
    ///
    /// # Errors
    /// [`ThreadError::NothingToUndo`] if nothing is compacted, [`journal::Error::Busy`] if a run is active,
    /// and [`journal::Error::Conflict`] if the conversation kept changing or another compaction became the
    /// newest.
    pub fn undo_compaction(self, thread_id: ThreadId) -> BoxFuture<'a, Result<ThreadCompactionUndo>> {
        journal::box_future(async move {
            let mut expected_marker = None;
            for _ in 1..UNDO_ATTEMPTS_MAX {
                match self.try_undo_compaction(thread_id, &mut expected_marker).await {
                    Err(Error::Journal(journal::Error::Conflict { .. })) => {}
                    done => return done,
                }
            }
            self.try_undo_compaction(thread_id, &mut expected_marker).await
        })
    }

    /// Tries once to undo the newest compaction. The first attempt stores its seq in `expected_marker`; later
    /// attempts fail if another compaction has become the newest.
    async fn try_undo_compaction(
        self,
        thread_id: ThreadId,
        expected_marker: &mut Option<Seq>,
    ) -> Result<ThreadCompactionUndo> {
        let planned = ThreadVersion { thread_id, last_seq: self.agent.thread(thread_id).await?.last_seq };
        if let Some(run) = self.agent.store.active_runs(Some(thread_id)).await?.into_iter().next() {
            // An orphaned run is no obstacle: its resumption will use the restored context.
            self.agent.leases.lease_end_time(&run).await?;
        }
        let (model, frame_tokens) =
            (self.agent.models.open_if_usable(), self.non_message_tokens(thread_id).await?);
        let name = model.as_ref().map(|model| model.name().to_string()).unwrap_or_default();
        let before = self.agent.contexts.read_context(&*self.agent.store, thread_id).await?;
        let tokens_before = before.request_tokens(&name, frame_tokens);
        let Some(marker) = find_newest_compaction(&*self.agent.store, thread_id, &before.beginning).await?
        else {
            return Err(ThreadError::NothingToUndo(thread_id).into());
        };
        if *expected_marker.get_or_insert(marker.seq) != marker.seq {
            let id = thread_id.to_string();
            return Err(journal::Error::Conflict { what: "compaction to undo", id }.into());
        }
        let now = Timestamp::now();
        let checkpoint = self.agent.store.checkpoint(thread_id).await?;
        let checkpoint_id = checkpoint.as_ref().map(|point| point.checkpoint_id);
        // Summarizations by memory and this undo exclude each other: one that was committed earlier makes
        // this transaction fail, and a later one fails because of the undo.
        let mut writes = vec![
            Write::ExpectUnchangedContext(planned),
            Write::ExpectCheckpoint { thread_id, checkpoint_id },
        ];
        writes.extend(self.memory_restore_writes(thread_id, &marker, now).await?);
        writes.push(Write::Append { thread_id, events: vec![undo_event(&marker, now)?] });
        if let Some(mut point) = checkpoint {
            // Without the postponement, the next message would compact the thread again at once.
            let window = model.as_ref().and_then(|model| model.limits().context_tokens);
            let freed = marker.compaction.tokens_before.saturating_sub(marker.compaction.tokens_after);
            postpone_compaction(&mut point.channels, tokens_before + freed, window);
            let checkpoint_id = CheckpointId::generate();
            writes.push(Write::PutCheckpoint(Checkpoint { checkpoint_id, created_at: now, ..point }));
        }
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        let after = self
            .agent
            .contexts
            .read_context(&*self.agent.store, thread_id)
            .await?
            .request_tokens(&name, frame_tokens);
        // The person has just seen the size of the context, so that no handoff is suggested for it.
        self.agent.handoffs().record_proposed_size(thread_id, after).await?;
        Ok(ThreadCompactionUndo {
            marker_seq: marker.seq,
            replaced_count: marker.compaction.replaced_count,
            tokens_before,
            tokens_after: after,
            is_too_large: !self.agent.compactor(model.as_ref()).can_accept(after),
        })
    }

    /// Returns the writes that restore the messages which memory archived because of this compaction.
    /// Messages of an earlier compaction were archived with them and are queued for summarization again.
    async fn memory_restore_writes(
        self,
        thread_id: ThreadId,
        marker: &NewestCompaction,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let assistant_id = self.agent.thread(thread_id).await?.assistant_id;
        let mut summary_ids = Vec::new();
        for archived in self.turns_archived_by(thread_id, marker.seq).await? {
            // Events that were copied from another thread name summaries of that thread's messages, which
            // stay archived.
            if self.has_standing_summary(&assistant_id, thread_id, &archived).await? {
                summary_ids.push(archived.summary_id);
            }
        }
        if summary_ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut writes = vec![Write::RestoreTurns { summary_ids, scope: None }];
        if self.agent.config.memory.enabled && marker.compaction.previous_seq.is_some() {
            let item = memory::build_transfer_item(&*self.agent.store, &assistant_id, thread_id, now).await?;
            writes.push(Write::PutOutboxItem(item));
        }
        Ok(writes)
    }

    /// Returns the archivings that memory performed because of this compaction. Reads all such events after
    /// the boundary, page by page.
    async fn turns_archived_by(self, thread_id: ThreadId, marker_seq: Seq) -> Result<Vec<TurnsArchived>> {
        let (mut archivings, mut after) = (Vec::new(), marker_seq);
        loop {
            let types = vec![EventType::TurnsArchived];
            let query = EventQuery { types, ..EventQuery::after(after, ARCHIVE_PAGE_ROWS) };
            let page = self.agent.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(archivings) };
            after = last.seq;
            let archived = page.iter().filter_map(|event| event.body().ok());
            archivings.extend(archived.filter(|archived: &TurnsArchived| {
                archived.reason == ArchiveReason::Compaction && archived.marker_seq == Some(marker_seq)
            }));
        }
    }

    /// Returns whether the archived summary covers messages of this thread.
    async fn has_standing_summary(
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
                ..TurnQuery::for_agent(assistant_id.clone())
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

    /// Returns the tokens of the thread's next request without its messages: instructions, tools and the
    /// like. 0 without a usable model.
    async fn non_message_tokens(self, thread_id: ThreadId) -> Result<u64> {
        let Some(model) = self.agent.models.open_if_usable() else { return Ok(0) };
        let preview = self.preview_request(thread_id, &model).await?;
        Ok(preview.tools + preview.hooks.iter().map(|(_, tokens)| tokens).sum::<u64>())
    }
}

/// Returns a compaction request for a run that does nothing else.
fn compaction_request(request: &CompactionParameters, frame_tokens: u64) -> CompactionRequest {
    CompactionRequest {
        trigger: CompactionTrigger::Manual,
        focus: request.focus.clone(),
        keep: request.keep,
        frame_tokens,
        is_whole_run: true,
    }
}

/// Returns a function that builds the error of a failed compaction.
fn not_compacted_error(thread_id: ThreadId) -> impl Fn(runtime::StepFailure) -> ThreadError {
    move |failure| ThreadError::NotCompacted { thread_id, reason: failure.message }
}
