//! One transfer: reads the turns of a window that no summary stands for, has them summarised, and stores the summary with
//! what follows from it in one transaction. When it is due, and what leaves a context with it, is decided elsewhere; nothing
//! is stored of a plan when the thread changed under it.
//!
//! Turns are read in pages and nothing of them is kept but what the summariser is shown next, so that the memory it takes
//! does not depend on how many there are.

mod pages;

use facts::redact_and_count;
use jiff::Timestamp;
use journal::{ThreadVersion, Transaction, TurnQuery, Write};
use model::{tokens, untrusted_text};
use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::{
    ArchiveReason, AssistantId, MediumTermSummary, NewEvent, SCHEMA_VERSION, Seq, SummaryId, ThreadId,
    TurnsArchived, Usage,
};
use runtime::RunScope;
use tokio_util::sync::CancellationToken;

use super::coverage::{SummaryCoverage, ThreadTurns};
use super::error::SummarizationError;
use super::model_summary::{
    CALLS_MAX, ChunkPosition, ChunkSummarizer, SHRINKS_MAX, SummarizerCall, TurnChunk,
};
use super::offline::OfflineSummaryBuilder;
use super::queue_item::UnstoredSummary;
use super::turn_text::{SummarizerTurn, TURN_GRAPHEMES_MAX};
use super::window::TurnWindow;
use super::{OFFLINE_MODEL_NAME, SummarizationHandoff};
use pages::{TurnChunker, TurnPages};

/// How often in a row it is tried while others change the turns of the window, or their threads.
pub(super) const ATTEMPTS_MAX: u32 = 16;
/// Graphemes of a turn that a model is shown: as many as may be, and fewer where they are too many for its calls.
const TURN_GRAPHEME_CUTS: [usize; 3] = [TURN_GRAPHEMES_MAX, 400, 100];
/// Of every hundred tokens that all calls together take, those that turns may have: chunks are not filled to the end.
const CHUNK_FILL_PERCENT: u64 = 80;

/// A request to summarize turns.
pub(super) struct TransferRequest<'a> {
    /// The agent that the turns belong to.
    pub agent_id: &'a AssistantId,
    pub window: &'a TurnWindow,
    /// How they leave.
    pub departure: TurnDeparture,
    /// The writer of the summary.
    pub writer: SummaryWriter,
    /// The thread as it was before the departure was worked out; `None`: that is not made of anything that changes.
    pub expected_thread: Option<ThreadVersion>,
    /// A write committed together with the summary.
    pub completion_write: Option<Write>,
}

/// How turns leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnDeparture {
    /// Somebody asked for it.
    Request,
    /// They had left the context by a compaction: its marker.
    Compaction { marker_seq: Seq },
    /// They leave one thread's context with everything between these events.
    Budget { first_seq: Seq, last_seq: Seq, context_from: Option<Seq>, marker_seq: Option<Seq> },
}

/// The writer of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SummaryWriter {
    Model,
    /// No model: the offline summary.
    Offline,
}

/// A transfer that was stored.
pub(super) struct StoredTransfer {
    pub summary: MediumTermSummary,
    pub model: String,
    pub turns: u64,
    pub redacted_secrets: u64,
}

/// The outcome of a transfer.
pub(super) enum TransferOutcome {
    Stored(StoredTransfer),
    /// No turn of the window is left.
    NoTurns,
    /// Others changed the turns, or their threads, since: what is left is another matter.
    Stale,
}

/// The state of a transfer before it is stored.
#[derive(Default)]
pub(super) struct TransferState {
    /// A summary that was made, of these turns or of others.
    pub draft: Option<UnstoredSummary>,
    /// Calls that are not traced yet, whatever came of them.
    pub calls: Vec<SummarizerCall>,
    /// Where they are traced when nothing is stored.
    pub thread_id: Option<ThreadId>,
}

/// The remaining turns of a window.
struct WindowSurvey {
    coverage: SummaryCoverage,
    /// How long the turns are at each cut; nothing where no model is asked.
    weights: [u64; TURN_GRAPHEME_CUTS.len()],
    /// The threads as they were before.
    expected_threads: Vec<ThreadVersion>,
}

/// How turns are given to a model, chunk by chunk.
#[derive(Clone, Copy)]
struct ChunkPlan {
    /// Graphemes of each turn.
    turn_graphemes: usize,
    /// The most of a chunk, in weighed characters.
    chunk_weight: u64,
    /// How many chunks there are, about.
    chunks_total: u64,
}

/// A summary that was made, and everything that is stored with it.
struct FinishedSummary<'a> {
    coverage: &'a SummaryCoverage,
    /// The threads as they were before anything of them was read.
    expected_threads: Vec<ThreadVersion>,
    draft: &'a UnstoredSummary,
    calls: &'a [SummarizerCall],
}

impl SummarizationHandoff {
    /// Carries out what is requested, again while others change the turns; `None` when none is left to summarise.
    pub(super) async fn execute_transfer(
        &self,
        request: &TransferRequest<'_>,
        scope: RunScope<'_>,
    ) -> Result<Option<StoredTransfer>, SummarizationError> {
        let mut work = TransferState::default();
        let mut came = Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt_transfer(request, &mut work, scope).await {
                Ok(TransferOutcome::Stale) => {}
                Ok(TransferOutcome::Stored(transferred)) => return Ok(Some(transferred)),
                Ok(TransferOutcome::NoTurns) => {
                    came = Ok(None);
                    break;
                }
                Err(error) => {
                    came = Err(error);
                    break;
                }
            }
        }
        self.trace_calls(&mut work).await?;
        came
    }

    /// Tries it once. A summary of exactly these turns that there is already is not made again, and one that could not be
    /// stored is left in `work`; so is every call that was made, until it is traced.
    pub(super) async fn attempt_transfer(
        &self,
        request: &TransferRequest<'_>,
        work: &mut TransferState,
        scope: RunScope<'_>,
    ) -> Result<TransferOutcome, SummarizationError> {
        let Some(survey) = self.survey_window(request).await? else { return Ok(TransferOutcome::NoTurns) };
        work.thread_id = survey.coverage.threads.first().map(|thread| thread.thread_id);
        // No call is made for what cannot be stored.
        self.check_threads_idle(request, &survey.coverage).await?;
        let (seen, draft) = match work.draft.take().filter(|draft| draft.turns == survey.coverage.turns) {
            Some(draft) => (survey.coverage, draft),
            None => match self.make_summary(request, &survey, &mut work.calls, scope).await? {
                Some(told) => told,
                None => return Ok(TransferOutcome::NoTurns),
            },
        };
        let draft = work.draft.insert(draft);
        if scope.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        self.check_threads_idle(request, &seen).await?;
        let (threads, calls) = (survey.expected_threads, &work.calls);
        match self
            .store_summary(
                request,
                FinishedSummary { coverage: &seen, expected_threads: threads, draft, calls },
            )
            .await
        {
            Ok(transferred) => {
                (work.draft, work.calls) = (None, Vec::new());
                Ok(TransferOutcome::Stored(transferred))
            }
            // Others were faster, or a thread changed or was deleted.
            Err(SummarizationError::Journal(
                journal::Error::Conflict { .. } | journal::Error::NotFound { .. },
            )) => Ok(TransferOutcome::Stale),
            Err(error) => Err(error),
        }
    }

    /// Traces the calls of which nothing was stored.
    pub(super) async fn trace_calls(&self, work: &mut TransferState) -> Result<(), SummarizationError> {
        let calls = std::mem::take(&mut work.calls);
        let Some(thread_id) = work.thread_id.filter(|_| !calls.is_empty()) else { return Ok(()) };
        let writes = vec![Write::Append { thread_id, events: model_call_events(&calls)? }];
        match self.store.commit(Transaction { fence: None, writes }).await {
            // It was deleted, with what it had cost.
            Ok(_) | Err(journal::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what is left of the window, and the threads of it as they were before anything of them was read.
    async fn survey_window(
        &self,
        request: &TransferRequest<'_>,
    ) -> Result<Option<WindowSurvey>, SummarizationError> {
        let one = request.window.thread_id;
        let mut threads = match (request.expected_thread, one) {
            (Some(planned), _) => vec![planned],
            (None, Some(thread_id)) => self.thread_heads(&[thread_id]).await?,
            (None, None) => Vec::new(),
        };
        let is_measured = self.summarizer.is_some() && request.writer == SummaryWriter::Model;
        let (mut seen, mut weights) = (None, [0; TURN_GRAPHEME_CUTS.len()]);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for turn in &page {
                for (cut, weight) in TURN_GRAPHEME_CUTS.iter().zip(&mut weights).filter(|_| is_measured) {
                    *weight += tokens::weight(&SummarizerTurn::from_logged(turn, *cut).to_lines());
                }
                seen = Some(SummaryCoverage::with_turn(seen, turn));
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        if one.is_none() {
            // Only now are they known, and what is summarised of them is read once more.
            let found: Vec<ThreadId> = seen.threads.iter().map(|thread| thread.thread_id).collect();
            threads = self.thread_heads(&found).await?;
        }
        Ok(Some(WindowSurvey { coverage: seen, weights, expected_threads: threads }))
    }

    /// Returns the threads as they are; none that does not exist.
    async fn thread_heads(&self, threads: &[ThreadId]) -> journal::Result<Vec<ThreadVersion>> {
        let mut heads = Vec::new();
        for thread_id in threads.iter().copied() {
            let thread = self.store.thread(thread_id).await?;
            heads.extend(thread.map(|thread| ThreadVersion { thread_id, last_seq: thread.last_seq }));
        }
        Ok(heads)
    }

    /// Returns the summary of what is left of the window, and what is known of those turns.
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
                let (summary_tokens, calls_made) = (self.settings.summary_tokens, Vec::new());
                let mut asking = ChunkSummarizer {
                    model,
                    summary_tokens,
                    frames,
                    cancel,
                    calls: calls_made,
                    redacted_secrets: 0,
                };
                let told = self.summarize_with_model(request, survey, &mut asking).await;
                calls.append(&mut asking.calls);
                told
            }
            Some(_) | None => self.summarize_offline(request, scope.cancel).await,
        }
    }

    /// Extracts a summary.
    async fn summarize_offline(
        &self,
        request: &TransferRequest<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let (mut extract, mut seen, mut withheld) = (OfflineSummaryBuilder::default(), None, 0);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for turn in &page {
                let said = SummarizerTurn::from_logged(turn, TURN_GRAPHEMES_MAX);
                withheld += said.redacted_secrets;
                extract.push_turn(turn.turn_index, &said);
                seen = Some(SummaryCoverage::with_turn(seen, turn));
            }
            if cancel.is_cancelled() {
                return Err(SummarizationError::Stopped);
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        let text = extract.finish(self.settings.summary_tokens);
        let (turns, model, usage) = (seen.turns, OFFLINE_MODEL_NAME.to_owned(), Usage::default());
        Ok(Some((seen, UnstoredSummary { turns, text, model, withheld, usage })))
    }

    /// Asks the model: for all of the turns at once where they fit, and else chunk by chunk.
    async fn summarize_with_model(
        &self,
        request: &TransferRequest<'_>,
        survey: &WindowSurvey,
        asking: &mut ChunkSummarizer<'_>,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let count = survey.coverage.turns.count;
        let mut refused = None;
        for shrunk in 0..=SHRINKS_MAX {
            let chunk_weight = asking.chunk_tokens(shrunk)? * tokens::CHARS_PER_TOKEN;
            let fitting = TURN_GRAPHEME_CUTS.iter().zip(survey.weights);
            let fitting = fitting.map(|(cut, weight)| (*cut, weight.div_ceil(chunk_weight)));
            let fitting =
                fitting.into_iter().find(|(_, calls)| *calls <= CALLS_MAX * CHUNK_FILL_PERCENT / 100);
            let Some((cut, total)) = fitting else { return Err(too_many_turns_error(asking, count)) };
            match self
                .summarize_chunks(
                    request,
                    asking,
                    ChunkPlan { turn_graphemes: cut, chunk_weight, chunks_total: total },
                )
                .await
            {
                Err(SummarizationError::Model(error @ model::Error::ContextOverflow { .. })) => {
                    refused = Some(error)
                }
                told => return told,
            }
        }
        Err(refused.map_or_else(|| too_many_turns_error(asking, count), SummarizationError::Model))
    }

    /// Goes through the turns chunk by chunk, each with the summary of those before it.
    async fn summarize_chunks(
        &self,
        request: &TransferRequest<'_>,
        asking: &mut ChunkSummarizer<'_>,
        ChunkPlan { turn_graphemes: cut, chunk_weight, chunks_total: total }: ChunkPlan,
    ) -> Result<Option<(SummaryCoverage, UnstoredSummary)>, SummarizationError> {
        let (mut seen, mut withheld, mut done) = (None, 0, 0);
        let mut summary: Option<String> = None;
        let mut packing = TurnChunker::new(chunk_weight);
        let mut pages = TurnPages::new(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next_page().await? {
            for turn in &page {
                let said = SummarizerTurn::from_logged(turn, cut);
                withheld += said.redacted_secrets;
                let full = packing.add_turn(turn, &said);
                seen = Some(SummaryCoverage::with_turn(seen, turn));
                let Some(conversation) = full else { continue };
                if done + 1 >= CALLS_MAX {
                    return Err(too_many_turns_error(asking, seen.map_or(0, |seen| seen.turns.count)));
                }
                let chunk = TurnChunk {
                    conversation,
                    position: ChunkPosition::NotLast,
                    chunks_done: done,
                    chunks_total: total,
                };
                summary = Some(asking.summarize_chunk(summary.as_deref(), chunk).await?);
                done += 1;
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        let chunk = TurnChunk {
            conversation: packing.into_last_chunk(),
            position: ChunkPosition::Last,
            chunks_done: done,
            chunks_total: total,
        };
        let text = asking.summarize_chunk(summary.as_deref(), chunk).await?;
        let usage = asking.calls.iter().fold(Usage::default(), |mut usage, call| {
            usage.add(call.usage);
            usage
        });
        let (turns, model, withheld) = (seen.turns, asking.model_name(), withheld + asking.redacted_secrets);
        Ok(Some((seen, UnstoredSummary { turns, text, model, withheld, usage })))
    }

    /// Fails when a run is active on any of the threads, or a person is asked about what would leave.
    async fn check_threads_idle(
        &self,
        request: &TransferRequest<'_>,
        seen: &SummaryCoverage,
    ) -> Result<(), SummarizationError> {
        for ThreadTurns { thread_id, .. } in &seen.threads {
            let thread_id = *thread_id;
            if !self.store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let is_asked = request.departure == TurnDeparture::Request
                && !self.store.pending_interrupts(thread_id).await?.is_empty();
            if is_asked {
                return Err(SummarizationError::AwaitingDecision { thread_id });
            }
        }
        Ok(())
    }

    /// Stores the summary, archives its turns and tells their threads, all at once.
    async fn store_summary(
        &self,
        request: &TransferRequest<'_>,
        finished: FinishedSummary<'_>,
    ) -> Result<StoredTransfer, SummarizationError> {
        let FinishedSummary { coverage: seen, expected_threads: threads, draft: told, calls } = finished;
        let now = Timestamp::now();
        let (head, in_head) = seen.summary_heading(&*self.store).await?;
        // Nothing is kept that was put together from what is harmless alone.
        let (text, in_text) = redact_and_count(&told.text);
        let summary = MediumTermSummary {
            id: SummaryId::generate(),
            agent_id: request.agent_id.clone(),
            summary_text: format!("{head}\n{}", untrusted_text::strip_hidden_characters(&text)),
            turn_range_start: seen.turns.first,
            turn_range_end: seen.turns.last,
            created_at: now,
        };
        let withheld = told.withheld + in_head + in_text;
        let transfer = journal::TurnSummarization {
            summary: summary.clone(),
            thread_id: request.window.thread_id,
            turns: seen.turns.count,
            thread_versions: threads,
        };
        let mut writes = vec![Write::SummarizeTurns(transfer)];
        for (at, thread) in seen.threads.iter().enumerate() {
            let thread = &self.extend_to_next_turn(request, *thread).await?;
            // The calls are told once.
            let mut events = if at == 0 { model_call_events(calls)? } else { Vec::new() };
            let archived = TurnsArchived {
                model: told.model.clone(),
                withheld,
                usage: if at == 0 { told.usage } else { Usage::default() },
                ..turns_archived_body(&request.departure, thread, &summary)
            };
            let key = format!("turns_archived:{}", summary.id);
            events.push(NewEvent::from_body(&archived, now)?.with_key(key));
            writes.push(Write::Append { thread_id: thread.thread_id, events });
        }
        writes.extend(request.completion_write.clone());
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(StoredTransfer {
            summary,
            model: told.model.clone(),
            turns: seen.turns.count,
            redacted_secrets: withheld,
        })
    }

    /// Returns the turns with what followed the last of them, such as the tools it called, up to the next turn.
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

fn too_many_turns_error(asking: &ChunkSummarizer<'_>, turns: u64) -> SummarizationError {
    SummarizationError::TooManyTurns { model: asking.model_name(), turns, calls_max: CALLS_MAX }
}

/// Returns what a thread is told of a summary of its turns.
fn turns_archived_body(
    departure: &TurnDeparture,
    thread: &ThreadTurns,
    summary: &MediumTermSummary,
) -> TurnsArchived {
    let (reason, first_seq, last_seq, context_from, marker_seq) = match *departure {
        // Whether something older is still in its context is not known here.
        TurnDeparture::Request => (ArchiveReason::Request, thread.first_seq, thread.last_seq, None, None),
        TurnDeparture::Compaction { marker_seq } => {
            (ArchiveReason::Compaction, thread.first_seq, thread.last_seq, None, Some(marker_seq))
        }
        TurnDeparture::Budget { first_seq, last_seq, context_from, marker_seq } => {
            (ArchiveReason::Budget, first_seq, last_seq, context_from, marker_seq)
        }
    };
    TurnsArchived {
        schema_version: SCHEMA_VERSION,
        summary_id: summary.id,
        reason,
        first_seq,
        last_seq,
        context_from,
        turn_count: thread.turns,
        turn_range_start: summary.turn_range_start,
        turn_range_end: summary.turn_range_end,
        summary: summary.summary_text.clone(),
        model: String::new(),
        withheld: 0,
        usage: Usage::default(),
        marker_seq,
    }
}

/// Returns what is traced of the calls (A19).
pub(super) fn model_call_events(calls: &[SummarizerCall]) -> Result<Vec<NewEvent>, serde_json::Error> {
    calls
        .iter()
        .map(|call| {
            let called = ModelCalled {
                purpose: ModelCallPurpose::Transfer,
                handoff_id: None,
                model: Some(call.model.clone()),
                usage: Some(call.usage),
                prompt_sha256: Some(call.prompt_sha256.clone()),
                problem: call.problem.clone(),
                trace: None,
            };
            NewEvent::from_body(&called, call.ended_at)?.with_duration(call.duration)
        })
        .collect()
}
