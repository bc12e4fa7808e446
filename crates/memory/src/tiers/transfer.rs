//! One transfer: reads the messages of a window that have no summary yet, summarizes them, and stores the summary, the
//! archival and the events of it in one transaction. If a thread changed since the plan was made, nothing is stored.
//!
//! Messages are read in pages, and only the next chunk is kept. So memory use does not depend on the number of
//! messages; the window is read twice, once to measure it and once to summarize it.
//!
//! Deliberately absent: the decisions when a transfer is due and which messages leave a context (`plan`).

mod events;
mod facts;
mod pages;

use jiff::Timestamp;
use journal::{ThreadVersion, Transaction, TurnQuery, Write};
use model::{tokens, untrusted_text};
use protocol::{AssistantId, MediumTermSummary, NewEvent, Seq, SummaryId, ThreadId, TurnsArchived, Usage};
use runtime::{FrameSender, RunScope};
use secrets::redact_and_count;
use tokio_util::sync::CancellationToken;

use super::SummarizationHandoff;
use super::coverage::{SummaryCoverage, ThreadTurns};
use super::error::SummarizationError;
use super::model_summary::{
    CALLS_MAX, ChunkPosition, ChunkSummarizer, SHRINKS_MAX, SummarizerCall, TurnChunk,
};
use super::offline::OfflineSummaryBuilder;
use super::queue_item::UnstoredSummary;
use super::turn_text::{SummarizerTurn, TURN_GRAPHEMES_MAX};
use super::window::TurnWindow;
use events::turns_archived_body;
use pages::{TurnChunker, TurnPages};

pub(super) use events::model_call_events;
pub(super) use facts::ProposedFacts;

/// Maximum number of consecutive attempts while other processes change the messages of the window or their threads.
pub(super) const ATTEMPTS_MAX: u32 = 16;
/// Lengths in grapheme clusters to which messages are cut for a model, longest first. A shorter one is used if the
/// messages need too many calls otherwise.
const TURN_GRAPHEME_CUTS: [usize; 3] = [TURN_GRAPHEMES_MAX, 400, 100];
/// Share of the capacity of all calls, in percent, that the messages may fill by plan. Chunks end at whole messages
/// and so are never quite full.
const CHUNK_FILL_PERCENT: u64 = 80;

/// A request to summarize messages.
pub(super) struct TransferRequest<'a> {
    /// The agent that the messages belong to.
    pub agent_id: &'a AssistantId,
    pub window: &'a TurnWindow,
    /// The way in which the messages leave their contexts.
    pub departure: TurnDeparture,
    /// The writer of the summary.
    pub writer: SummaryWriter,
    /// The version of the thread for which `departure` was planned; the transfer is stale if the thread has changed.
    /// `None` for a departure that does not depend on the thread's state.
    pub expected_thread: Option<ThreadVersion>,
    /// A write committed together with the summary.
    pub completion_write: Option<Write>,
}

/// The way in which messages leave their contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnDeparture {
    /// By a call of [`SummarizationHandoff::transfer`].
    Request,
    /// They have left already, by the compaction whose event is `marker_seq`.
    Compaction { marker_seq: Seq },
    /// Because the context exceeds its budget. All events from `first_seq` to `last_seq` leave the context of one
    /// thread. The context then begins at `context_from`, if they were its oldest events. `marker_seq` is the
    /// thread's newest compaction.
    Budget { first_seq: Seq, last_seq: Seq, context_from: Option<Seq>, marker_seq: Option<Seq> },
}

/// The writer of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SummaryWriter {
    /// The configured model, or the offline summary if none is configured.
    Model,
    /// The offline summary.
    Offline,
}

/// A transfer that was stored.
pub(super) struct StoredTransfer {
    pub summary: MediumTermSummary,
    /// `provider/name` of the model that wrote it, or `extractive`.
    pub model: String,
    /// Number of summarized messages.
    pub turns: u64,
    /// Number of secrets redacted from the messages and the summary.
    pub redacted_secrets: u64,
    /// The facts that were proposed with it.
    pub facts: ProposedFacts,
    /// The seq of its `turns_archived` event; of a transfer in several threads, that of the first.
    pub last_seq: Seq,
}

/// The outcome of one attempt.
pub(super) enum TransferOutcome {
    /// The summary is stored and its messages are archived.
    Stored(StoredTransfer),
    /// The window has no message without a summary.
    NoTurns,
    /// Another process changed the messages or their threads. Nothing is stored, and the transfer must be planned
    /// again.
    Stale,
}

/// The state of a transfer that is kept between attempts.
#[derive(Default)]
pub(super) struct TransferState {
    /// A summary that was made but not stored. It is used only if it covers exactly the messages of the attempt.
    pub draft: Option<UnstoredSummary>,
    /// Model calls, successful or not, for which no event is stored yet.
    pub calls: Vec<SummarizerCall>,
    /// The thread that gets the events of these calls if no summary is stored.
    pub thread_id: Option<ThreadId>,
}

/// The result of measuring a window.
struct WindowSurvey {
    coverage: SummaryCoverage,
    /// The total weight of the messages at each of [`TURN_GRAPHEME_CUTS`], in plain characters; zero if no model is
    /// used.
    weights: [u64; TURN_GRAPHEME_CUTS.len()],
    /// The versions of the threads before their messages were read.
    expected_threads: Vec<ThreadVersion>,
}

/// The division of messages into chunks for a model.
#[derive(Clone, Copy)]
struct ChunkPlan {
    /// Maximum grapheme clusters of each message.
    turn_graphemes: usize,
    /// Maximum weight of a chunk in plain characters.
    chunk_weight: u64,
    /// Estimated number of chunks.
    chunks_total: u64,
}

/// A summary that was made, with everything that is stored together with it.
struct FinishedSummary<'a> {
    coverage: &'a SummaryCoverage,
    /// The versions of the threads before their messages were read.
    expected_threads: Vec<ThreadVersion>,
    draft: &'a UnstoredSummary,
    calls: &'a [SummarizerCall],
}

impl SummarizationHandoff {
    /// Performs the transfer, and repeats it while other processes change the messages. Returns `None` when the
    /// window has no message without a summary.
    ///
    /// Model calls are recorded in the journal in any case, even when no summary is stored.
    ///
    /// # Errors
    /// When no summary could be made, after [`ATTEMPTS_MAX`] stale attempts, when the caller cancels, and when the
    /// journal fails.
    pub(super) async fn execute_transfer(
        &self,
        request: &TransferRequest<'_>,
        scope: RunScope<'_>,
    ) -> Result<Option<StoredTransfer>, SummarizationError> {
        let mut state = TransferState::default();
        let mut result = Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt_transfer(request, &mut state, scope).await {
                Ok(TransferOutcome::Stale) => {}
                Ok(TransferOutcome::Stored(transferred)) => return Ok(Some(transferred)),
                Ok(TransferOutcome::NoTurns) => {
                    result = Ok(None);
                    break;
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.trace_calls(&mut state).await?;
        result
    }

    /// Attempts the transfer once.
    ///
    /// A draft in `state` that covers exactly these messages is stored without another model call. If storing fails,
    /// the draft and the calls stay in `state`, so that the caller can keep them.
    ///
    /// # Errors
    /// When a thread is not idle, when no summary could be made, when the caller cancels, and when the journal fails.
    pub(super) async fn attempt_transfer(
        &self,
        request: &TransferRequest<'_>,
        state: &mut TransferState,
        scope: RunScope<'_>,
    ) -> Result<TransferOutcome, SummarizationError> {
        let Some(survey) = self.survey_window(request).await? else { return Ok(TransferOutcome::NoTurns) };
        state.thread_id = survey.coverage.threads.first().map(|thread| thread.thread_id);
        // Checked before the model is called, because a summary could not be stored, and again after it.
        self.check_threads_idle(request, &survey.coverage).await?;
        let (coverage, draft) = match state.draft.take().filter(|draft| draft.turns == survey.coverage.turns)
        {
            Some(draft) => (survey.coverage, draft),
            None => match self.make_summary(request, &survey, &mut state.calls, scope).await? {
                Some(summary) => summary,
                None => return Ok(TransferOutcome::NoTurns),
            },
        };
        let draft = state.draft.insert(draft);
        if scope.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        self.check_threads_idle(request, &coverage).await?;
        let (threads, calls) = (survey.expected_threads, &state.calls);
        match self
            .store_summary(
                request,
                FinishedSummary { coverage: &coverage, expected_threads: threads, draft, calls },
                scope.frames,
            )
            .await
        {
            Ok(transferred) => {
                (state.draft, state.calls) = (None, Vec::new());
                Ok(TransferOutcome::Stored(transferred))
            }
            // Another process archived messages of the window, or a thread changed or was deleted.
            Err(SummarizationError::Journal(
                journal::Error::Conflict { .. } | journal::Error::NotFound { .. },
            )) => Ok(TransferOutcome::Stale),
            Err(error) => Err(error),
        }
    }

    /// Appends the events of calls whose summary was not stored.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn trace_calls(&self, state: &mut TransferState) -> Result<(), SummarizationError> {
        let calls = std::mem::take(&mut state.calls);
        let Some(thread_id) = state.thread_id.filter(|_| !calls.is_empty()) else { return Ok(()) };
        let writes = vec![Write::Append { thread_id, events: model_call_events(&calls)? }];
        match self.store.commit(Transaction { fence: None, writes }).await {
            // If the thread was deleted meanwhile, the record of its calls is dropped.
            Ok(_) | Err(journal::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Measures the unarchived messages of the window, and returns them with the versions that their threads had
    /// before they were read. Returns `None` when there are none.
    async fn survey_window(
        &self,
        request: &TransferRequest<'_>,
    ) -> Result<Option<WindowSurvey>, SummarizationError> {
        let only_thread = request.window.thread_id;
        let mut threads = match (request.expected_thread, only_thread) {
            (Some(planned), _) => vec![planned],
            (None, Some(thread_id)) => self.thread_heads(&[thread_id]).await?,
            (None, None) => Vec::new(),
        };
        let is_measured = self.summarizer.is_some() && request.writer == SummaryWriter::Model;
        let (mut coverage, mut weights) = (None, [0; TURN_GRAPHEME_CUTS.len()]);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for turn in &page {
                for (cut, weight) in TURN_GRAPHEME_CUTS.iter().zip(&mut weights).filter(|_| is_measured) {
                    *weight += tokens::weight(&SummarizerTurn::from_logged(turn, *cut).to_lines());
                }
                coverage = Some(SummaryCoverage::with_turn(coverage, turn));
            }
        }
        let Some(coverage) = coverage else { return Ok(None) };
        if only_thread.is_none() {
            // The threads of a window over all threads are known only now. Their versions still precede the messages
            // that are summarized, because these are read again for that.
            let thread_ids: Vec<ThreadId> = coverage.threads.iter().map(|thread| thread.thread_id).collect();
            threads = self.thread_heads(&thread_ids).await?;
        }
        Ok(Some(WindowSurvey { coverage, weights, expected_threads: threads }))
    }

    /// Returns the current versions of the threads, without threads that do not exist.
    async fn thread_heads(&self, threads: &[ThreadId]) -> journal::Result<Vec<ThreadVersion>> {
        let mut heads = Vec::new();
        for thread_id in threads.iter().copied() {
            let thread = self.store.thread(thread_id).await?;
            heads.extend(thread.map(|thread| ThreadVersion { thread_id, last_seq: thread.last_seq }));
        }
        Ok(heads)
    }

    /// Summarizes the unarchived messages of the window. Returns the summary with its coverage, which can differ from
    /// the survey's if messages changed meanwhile. Returns `None` when no message is left. The model calls are added
    /// to `calls`.
    async fn make_summary(
        &self,
        request: &TransferRequest<'_>,
        survey: &WindowSurvey,
        calls: &mut Vec<SummarizerCall>,
        scope: RunScope<'_>,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        match &self.summarizer {
            Some(model) if request.writer == SummaryWriter::Model => {
                let RunScope { frames, cancel } = scope;
                let mut summarizer = ChunkSummarizer {
                    model,
                    summary_tokens: self.settings.summary_tokens,
                    frames,
                    cancel,
                    calls: Vec::new(),
                    redacted_secrets: 0,
                    notes: self.known_notes(request.agent_id, &survey.coverage).await?,
                    facts: Vec::new(),
                };
                let summary = self.summarize_with_model(request, survey, &mut summarizer).await;
                calls.append(&mut summarizer.calls);
                summary
            }
            Some(_) | None => self.summarize_offline(request, scope.cancel).await,
        }
    }

    /// Makes the offline summary. It reads all messages of the window once, whatever their number.
    async fn summarize_offline(
        &self,
        request: &TransferRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let (mut builder, mut coverage, mut withheld) = (OfflineSummaryBuilder::default(), None, 0);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for logged in &page {
                let turn = SummarizerTurn::from_logged(logged, TURN_GRAPHEMES_MAX);
                withheld += turn.redacted_secrets;
                builder.push_turn(logged.turn_index, &turn);
                coverage = Some(SummaryCoverage::with_turn(coverage, logged));
            }
            if cancel.is_cancelled() {
                return Err(SummarizationError::Stopped);
            }
        }
        let Some(coverage) = coverage else { return Ok(None) };
        let text = builder.finish(self.settings.summary_tokens);
        let (turns, model, usage) =
            (coverage.turns, protocol::OFFLINE_SUMMARY_MODEL.to_owned(), Usage::default());
        let facts = Vec::new();
        Ok(Some((coverage, UnstoredSummary { turns, text, model, withheld, usage, facts })))
    }

    /// Summarizes with the model, in as many chunks as the messages need.
    ///
    /// Messages are cut to the longest of [`TURN_GRAPHEME_CUTS`] with which they fit into the allowed calls. If the
    /// provider refuses a request as too large, all chunks are made again with half the size.
    ///
    /// # Errors
    /// When the messages need too many calls even at the shortest cut, and when a call fails.
    async fn summarize_with_model(
        &self,
        request: &TransferRequest<'_>,
        survey: &WindowSurvey,
        summarizer: &mut ChunkSummarizer<'_>,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let count = survey.coverage.turns.count;
        let mut overflow = None;
        for halvings in 0..=SHRINKS_MAX {
            let chunk_weight = summarizer.chunk_tokens(halvings)? * tokens::CHARS_PER_TOKEN;
            let candidates = TURN_GRAPHEME_CUTS.iter().zip(survey.weights);
            let mut candidates = candidates.map(|(cut, weight)| (*cut, weight.div_ceil(chunk_weight)));
            let fitting = candidates.find(|(_, calls)| *calls <= CALLS_MAX * CHUNK_FILL_PERCENT / 100);
            let Some((turn_graphemes, chunks_total)) = fitting else {
                return Err(too_many_turns_error(summarizer, count));
            };
            let plan = ChunkPlan { turn_graphemes, chunk_weight, chunks_total };
            match self.summarize_chunks(request, summarizer, plan).await {
                Err(SummarizationError::Model(error @ model::Error::ContextOverflow { .. })) => {
                    overflow = Some(error)
                }
                result => return result,
            }
        }
        Err(overflow.map_or_else(|| too_many_turns_error(summarizer, count), SummarizationError::Model))
    }

    /// Summarizes the messages chunk by chunk; each call gets the summary of the chunks before it.
    ///
    /// # Errors
    /// When a call fails, and when the chunks need more than [`CALLS_MAX`] calls after all.
    async fn summarize_chunks(
        &self,
        request: &TransferRequest<'_>,
        summarizer: &mut ChunkSummarizer<'_>,
        ChunkPlan { turn_graphemes, chunk_weight, chunks_total }: ChunkPlan,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let (mut coverage, mut withheld, mut chunks_done) = (None, 0, 0);
        summarizer.facts.clear();
        let mut summary: Option<String> = None;
        let mut chunker = TurnChunker::new(chunk_weight);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for logged in &page {
                let turn = SummarizerTurn::from_logged(logged, turn_graphemes);
                withheld += turn.redacted_secrets;
                let full_chunk = chunker.add_turn(logged, &turn);
                coverage = Some(SummaryCoverage::with_turn(coverage, logged));
                let Some((conversation, turns)) = full_chunk else { continue };
                // One call must remain for the last chunk.
                if chunks_done + 1 >= CALLS_MAX {
                    let count = coverage.map_or(0, |coverage| coverage.turns.count);
                    return Err(too_many_turns_error(summarizer, count));
                }
                let position = ChunkPosition::NotLast;
                let chunk = TurnChunk { conversation, turns, position, chunks_done, chunks_total };
                summary = Some(summarizer.summarize_chunk(summary.as_deref(), chunk).await?);
                chunks_done += 1;
            }
        }
        let Some(coverage) = coverage else { return Ok(None) };
        let (conversation, turns) = chunker.into_last_chunk();
        let position = ChunkPosition::Last;
        let chunk = TurnChunk { conversation, turns, position, chunks_done, chunks_total };
        let text = summarizer.summarize_chunk(summary.as_deref(), chunk).await?;
        let usage = summarizer.calls.iter().fold(Usage::default(), |mut usage, call| {
            usage.add(call.usage);
            usage
        });
        let (turns, model) = (coverage.turns, summarizer.model_name());
        let withheld = withheld + summarizer.redacted_secrets;
        let facts = std::mem::take(&mut summarizer.facts);
        Ok(Some((coverage, UnstoredSummary { turns, text, model, withheld, usage, facts })))
    }

    /// Fails when a thread has an active run. A requested transfer also fails when a thread has a pending decision,
    /// because the user needs the messages that the decision is about; a planned one never archives those.
    async fn check_threads_idle(
        &self,
        request: &TransferRequest<'_>,
        coverage: &SummaryCoverage,
    ) -> Result<(), SummarizationError> {
        for ThreadTurns { thread_id, .. } in &coverage.threads {
            let thread_id = *thread_id;
            if !self.store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let has_pending_decision = request.departure == TurnDeparture::Request
                && !self.store.pending_interrupts(thread_id).await?.is_empty();
            if has_pending_decision {
                return Err(SummarizationError::AwaitingDecision { thread_id });
            }
        }
        Ok(())
    }

    /// Commits the transfer in one transaction: the summary, the archival of its messages, a `turns_archived` event
    /// in each of their threads, the events of the model calls, the proposed facts, and the completion write. Facts that need
    /// no review are accepted after it.
    ///
    /// # Errors
    /// [`journal::Error::Conflict`] when a message was archived or a thread changed since it was read, and other
    /// errors of the journal.
    async fn store_summary(
        &self,
        request: &TransferRequest<'_>,
        finished: FinishedSummary<'_>,
        frames: &FrameSender,
    ) -> Result<StoredTransfer, SummarizationError> {
        let FinishedSummary { coverage, expected_threads: threads, draft, calls } = finished;
        let now = Timestamp::now();
        let (heading, heading_secrets) = coverage.summary_heading(&*self.store).await?;
        // Redacted once more, because parts that are harmless alone can form a secret when they are joined.
        let (text, text_secrets) = redact_and_count(&draft.text);
        let summary = MediumTermSummary {
            id: SummaryId::generate(),
            agent_id: request.agent_id.clone(),
            summary_text: format!("{heading}\n{}", untrusted_text::strip_hidden_characters(&text)),
            turn_range_start: coverage.turns.first,
            turn_range_end: coverage.turns.last,
            created_at: now,
        };
        let withheld = draft.withheld + heading_secrets + text_secrets;
        let transfer = journal::TurnSummarization {
            summary: summary.clone(),
            thread_id: request.window.thread_id,
            turns: coverage.turns.count,
            thread_versions: threads,
        };
        let mut writes = vec![Write::SummarizeTurns(transfer)];
        for (index, thread) in coverage.threads.iter().enumerate() {
            let thread = &self.extend_to_next_turn(request, *thread).await?;
            // Calls and their usage are recorded once, in the first thread.
            let mut events = if index == 0 { model_call_events(calls)? } else { Vec::new() };
            let archived = TurnsArchived {
                model: draft.model.clone(),
                withheld,
                usage: if index == 0 { draft.usage } else { Usage::default() },
                ..turns_archived_body(&request.departure, thread, &summary)
            };
            let key = format!("turns_archived:{}", summary.id);
            events.push(NewEvent::from_body(&archived, now)?.with_key(key));
            writes.push(Write::Append { thread_id: thread.thread_id, events });
        }
        let (fact_writes, fact_ids) = self.fact_writes(&draft.facts, &summary);
        writes.extend(fact_writes);
        writes.extend(request.completion_write.clone());
        let receipt = self.store.commit(Transaction { fence: None, writes }).await?;
        let last_seq = receipt.seqs.first().and_then(|seqs| seqs.last()).copied().unwrap_or_default();
        // The transfer is stored. If the count fails, the facts await review all the same.
        let facts = self.review_proposed(request.agent_id, &fact_ids, frames).await.unwrap_or_default();
        Ok(StoredTransfer {
            summary,
            model: draft.model.clone(),
            turns: coverage.turns.count,
            redacted_secrets: withheld,
            facts,
            last_seq,
        })
    }

    /// Returns the range of a thread's messages extended to the next logged message, so that it includes the tool
    /// calls and results after the last one. Ranges of planned departures are complete already.
    async fn extend_to_next_turn(
        &self,
        request: &TransferRequest<'_>,
        thread: ThreadTurns,
    ) -> journal::Result<ThreadTurns> {
        if request.departure != TurnDeparture::Request {
            return Ok(thread);
        }
        let next = TurnQuery {
            thread_id: Some(thread.thread_id),
            after_seq: Some(thread.last_seq),
            limit: 1,
            ..TurnQuery::for_agent(request.agent_id.clone())
        };
        let last_seq = match self.store.turns(next).await?.first() {
            Some(next) => next.seq - 1,
            None => self.store.thread(thread.thread_id).await?.map_or(0, |thread| thread.last_seq),
        };
        Ok(ThreadTurns { last_seq: last_seq.max(thread.last_seq), ..thread })
    }
}

fn too_many_turns_error(summarizer: &ChunkSummarizer<'_>, turns: u64) -> SummarizationError {
    SummarizationError::TooManyTurns { model: summarizer.model_name(), turns, calls_max: CALLS_MAX }
}
