//! One transfer: reads the turns of a window that no summary stands for, has them summarised, and stores the summary with
//! what follows from it in one transaction. When it is due, and what leaves a context with it, is decided elsewhere; nothing
//! is stored of a plan when the thread changed under it.
//!
//! Turns are read in pages and nothing of them is kept but what the summariser is shown next, so that the memory it takes
//! does not depend on how many there are.

mod pages;

use facts::withhold;
use jiff::Timestamp;
use journal::{Planned, Transaction, TurnQuery, Write};
use model::{inert, tokens};
use protocol::event::body::{CallPurpose, ModelCalled};
use protocol::{
    ArchiveReason, AssistantId, MediumTermSummary, NewEvent, SCHEMA_VERSION, Seq, SummaryId, ThreadId,
    TurnsArchived, Usage,
};
use runtime::RunScope;
use tokio_util::sync::CancellationToken;

use super::ask::{Asking, CALLS_MAX, Called, Chunk, Place, SHRINKS_MAX};
use super::due::Draft;
use super::error::SummarizationError;
use super::extract::Extract;
use super::seen::{Seen, ThreadTurns};
use super::shown::{Said, TURN_GRAPHEMES_MAX};
use super::window::TurnWindow;
use super::{EXTRACTIVE, SummarizationHandoff};
use pages::{Packing, Pages};

/// How often in a row it is tried while others change the turns of the window, or their threads.
pub(super) const ATTEMPTS_MAX: u32 = 16;
/// Graphemes of a turn that a model is shown: as many as may be, and fewer where they are too many for its calls.
const CUTS: [usize; 3] = [TURN_GRAPHEMES_MAX, 400, 100];
/// Of every hundred tokens that all calls together take, those that turns may have: chunks are not filled to the end.
const FILLED_PERCENT: u64 = 80;

/// What is to become a summary.
pub(super) struct Request<'a> {
    /// Whose turns.
    pub agent_id: &'a AssistantId,
    pub window: &'a TurnWindow,
    /// How they leave.
    pub departure: Departure,
    /// Who writes it.
    pub writer: Writer,
    /// The thread as it was before the departure was worked out; `None`: that is not made of anything that changes.
    pub planned: Option<Planned>,
    /// What else is written with the summary.
    pub done: Option<Write>,
}

/// How turns leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Departure {
    /// Somebody asked for it.
    Request,
    /// They had left the context by a compaction: its marker.
    Compaction { marker_seq: Seq },
    /// They leave one thread's context with everything between these events.
    Budget { first_seq: Seq, last_seq: Seq, context_from: Option<Seq>, marker_seq: Option<Seq> },
}

/// Who writes a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    Model,
    /// Nobody: it is extracted.
    Extract,
}

/// A transfer that was stored.
pub(super) struct Transferred {
    pub summary: MediumTermSummary,
    pub model: String,
    pub turns: u64,
    pub withheld: u64,
}

/// What became of a transfer.
pub(super) enum Came {
    Stored(Transferred),
    /// No turn of the window is left.
    Nothing,
    /// Others changed the turns, or their threads, since: what is left is another matter.
    Outdated,
}

/// What there is of a transfer before it is stored.
#[derive(Default)]
pub(super) struct Work {
    /// A summary that was made, of these turns or of others.
    pub draft: Option<Draft>,
    /// Calls that are not traced yet, whatever came of them.
    pub calls: Vec<Called>,
    /// Where they are traced when nothing is stored.
    pub thread_id: Option<ThreadId>,
}

/// What is left of a window.
struct Survey {
    seen: Seen,
    /// How long the turns are at each cut; nothing where no model is asked.
    weights: [u64; CUTS.len()],
    /// The threads as they were before.
    threads: Vec<Planned>,
}

/// How turns are given to a model, chunk by chunk.
#[derive(Clone, Copy)]
struct ChunkPlan {
    /// Graphemes of each turn.
    cut: usize,
    /// The most of a chunk, in weighed characters.
    chunk_weight: u64,
    /// How many chunks there are, about.
    total: u64,
}

/// A summary that was made, and everything that is stored with it.
struct FinishedSummary<'a> {
    seen: &'a Seen,
    /// The threads as they were before anything of them was read.
    threads: Vec<Planned>,
    draft: &'a Draft,
    calls: &'a [Called],
}

impl SummarizationHandoff {
    /// Carries out what is requested, again while others change the turns; `None` when none is left to summarise.
    pub(super) async fn carry_out(
        &self,
        request: &Request<'_>,
        scope: RunScope<'_>,
    ) -> Result<Option<Transferred>, SummarizationError> {
        let mut work = Work::default();
        let mut came = Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX });
        for _ in 0..ATTEMPTS_MAX {
            match self.attempt(request, &mut work, scope).await {
                Ok(Came::Outdated) => {}
                Ok(Came::Stored(transferred)) => return Ok(Some(transferred)),
                Ok(Came::Nothing) => {
                    came = Ok(None);
                    break;
                }
                Err(error) => {
                    came = Err(error);
                    break;
                }
            }
        }
        self.leave_trace(&mut work).await?;
        came
    }

    /// Tries it once. A summary of exactly these turns that there is already is not made again, and one that could not be
    /// stored is left in `work`; so is every call that was made, until it is traced.
    pub(super) async fn attempt(
        &self,
        request: &Request<'_>,
        work: &mut Work,
        scope: RunScope<'_>,
    ) -> Result<Came, SummarizationError> {
        let Some(survey) = self.survey(request).await? else { return Ok(Came::Nothing) };
        work.thread_id = survey.seen.threads.first().map(|thread| thread.thread_id);
        // No call is made for what cannot be stored.
        self.check_rest(request, &survey.seen).await?;
        let (seen, draft) = match work.draft.take().filter(|draft| draft.turns == survey.seen.turns) {
            Some(draft) => (survey.seen, draft),
            None => match self.tell(request, &survey, &mut work.calls, scope).await? {
                Some(told) => told,
                None => return Ok(Came::Nothing),
            },
        };
        let draft = work.draft.insert(draft);
        if scope.cancel.is_cancelled() {
            return Err(SummarizationError::Stopped);
        }
        self.check_rest(request, &seen).await?;
        let (threads, calls) = (survey.threads, &work.calls);
        match self.store_summary(request, FinishedSummary { seen: &seen, threads, draft, calls }).await {
            Ok(transferred) => {
                (work.draft, work.calls) = (None, Vec::new());
                Ok(Came::Stored(transferred))
            }
            // Others were faster, or a thread changed or was deleted.
            Err(SummarizationError::Journal(
                journal::Error::Differs { .. } | journal::Error::NotFound { .. },
            )) => Ok(Came::Outdated),
            Err(error) => Err(error),
        }
    }

    /// Traces the calls of which nothing was stored.
    pub(super) async fn leave_trace(&self, work: &mut Work) -> Result<(), SummarizationError> {
        let calls = std::mem::take(&mut work.calls);
        let Some(thread_id) = work.thread_id.filter(|_| !calls.is_empty()) else { return Ok(()) };
        let writes = vec![Write::Append { thread_id, events: traced(&calls)? }];
        match self.store.commit(Transaction { fence: None, writes }).await {
            // It was deleted, with what it had cost.
            Ok(_) | Err(journal::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what is left of the window, and the threads of it as they were before anything of them was read.
    async fn survey(&self, request: &Request<'_>) -> Result<Option<Survey>, SummarizationError> {
        let one = request.window.thread_id;
        let mut threads = match (request.planned, one) {
            (Some(planned), _) => vec![planned],
            (None, Some(thread_id)) => self.heads(&[thread_id]).await?,
            (None, None) => Vec::new(),
        };
        let is_measured = self.summariser.is_some() && request.writer == Writer::Model;
        let (mut seen, mut weights) = (None, [0; CUTS.len()]);
        let mut pages = Pages::of(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next().await? {
            for turn in &page {
                for (cut, weight) in CUTS.iter().zip(&mut weights).filter(|_| is_measured) {
                    *weight += tokens::weight(&Said::of(turn, *cut).to_lines());
                }
                seen = Some(Seen::add(seen, turn));
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        if one.is_none() {
            // Only now are they known, and what is summarised of them is read once more.
            let found: Vec<ThreadId> = seen.threads.iter().map(|thread| thread.thread_id).collect();
            threads = self.heads(&found).await?;
        }
        Ok(Some(Survey { seen, weights, threads }))
    }

    /// Returns the threads as they are; none that does not exist.
    async fn heads(&self, threads: &[ThreadId]) -> journal::Result<Vec<Planned>> {
        let mut heads = Vec::new();
        for thread_id in threads.iter().copied() {
            let thread = self.store.thread(thread_id).await?;
            heads.extend(thread.map(|thread| Planned { thread_id, last_seq: thread.last_seq }));
        }
        Ok(heads)
    }

    /// Returns the summary of what is left of the window, and what is known of those turns.
    async fn tell(
        &self,
        request: &Request<'_>,
        survey: &Survey,
        calls: &mut Vec<Called>,
        scope: RunScope<'_>,
    ) -> Result<Option<(Seen, Draft)>, SummarizationError> {
        match &self.summariser {
            Some(model) if request.writer == Writer::Model => {
                let RunScope { frames, cancel } = scope;
                let (summary_tokens, calls_made) = (self.settings.summary_tokens, Vec::new());
                let mut asking =
                    Asking { model, summary_tokens, frames, cancel, calls: calls_made, withheld: 0 };
                let told = self.ask(request, survey, &mut asking).await;
                calls.append(&mut asking.calls);
                told
            }
            Some(_) | None => self.extract(request, scope.cancel).await,
        }
    }

    /// Extracts a summary.
    async fn extract(
        &self,
        request: &Request<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<(Seen, Draft)>, SummarizationError> {
        let (mut extract, mut seen, mut withheld) = (Extract::default(), None, 0);
        let mut pages = Pages::of(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next().await? {
            for turn in &page {
                let said = Said::of(turn, TURN_GRAPHEMES_MAX);
                withheld += said.withheld;
                extract.push(turn.turn_index, &said);
                seen = Some(Seen::add(seen, turn));
            }
            if cancel.is_cancelled() {
                return Err(SummarizationError::Stopped);
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        let text = extract.finish(self.settings.summary_tokens);
        let (turns, model, usage) = (seen.turns, EXTRACTIVE.to_owned(), Usage::default());
        Ok(Some((seen, Draft { turns, text, model, withheld, usage })))
    }

    /// Asks the model: for all of the turns at once where they fit, and else chunk by chunk.
    async fn ask(
        &self,
        request: &Request<'_>,
        survey: &Survey,
        asking: &mut Asking<'_>,
    ) -> Result<Option<(Seen, Draft)>, SummarizationError> {
        let count = survey.seen.turns.count;
        let mut refused = None;
        for shrunk in 0..=SHRINKS_MAX {
            let chunk_weight = asking.chunk_tokens(shrunk)? * tokens::CHARS_PER_TOKEN;
            let fitting = CUTS.iter().zip(survey.weights);
            let fitting = fitting.map(|(cut, weight)| (*cut, weight.div_ceil(chunk_weight)));
            let fitting = fitting.into_iter().find(|(_, calls)| *calls <= CALLS_MAX * FILLED_PERCENT / 100);
            let Some((cut, total)) = fitting else { return Err(too_many(asking, count)) };
            match self.roll(request, asking, ChunkPlan { cut, chunk_weight, total }).await {
                Err(SummarizationError::Model(error @ model::Error::Overflow { .. })) => {
                    refused = Some(error)
                }
                told => return told,
            }
        }
        Err(refused.map_or_else(|| too_many(asking, count), SummarizationError::Model))
    }

    /// Goes through the turns chunk by chunk, each with the summary of those before it.
    async fn roll(
        &self,
        request: &Request<'_>,
        asking: &mut Asking<'_>,
        ChunkPlan { cut, chunk_weight, total }: ChunkPlan,
    ) -> Result<Option<(Seen, Draft)>, SummarizationError> {
        let (mut seen, mut withheld, mut done) = (None, 0, 0);
        let mut summary: Option<String> = None;
        let mut packing = Packing::of(chunk_weight);
        let mut pages = Pages::of(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next().await? {
            for turn in &page {
                let said = Said::of(turn, cut);
                withheld += said.withheld;
                let full = packing.add(turn, &said);
                seen = Some(Seen::add(seen, turn));
                let Some(conversation) = full else { continue };
                if done + 1 >= CALLS_MAX {
                    return Err(too_many(asking, seen.map_or(0, |seen| seen.turns.count)));
                }
                let chunk = Chunk { conversation, place: Place::Before, done, total };
                summary = Some(asking.summarise(summary.as_deref(), chunk).await?);
                done += 1;
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        let chunk = Chunk { conversation: packing.rest(), place: Place::Last, done, total };
        let text = asking.summarise(summary.as_deref(), chunk).await?;
        let usage = asking.calls.iter().fold(Usage::default(), |mut usage, call| {
            usage.add(call.usage);
            usage
        });
        let (turns, model, withheld) = (seen.turns, asking.name(), withheld + asking.withheld);
        Ok(Some((seen, Draft { turns, text, model, withheld, usage })))
    }

    /// Fails when a run is active on any of the threads, or a person is asked about what would leave.
    async fn check_rest(&self, request: &Request<'_>, seen: &Seen) -> Result<(), SummarizationError> {
        for ThreadTurns { thread_id, .. } in &seen.threads {
            let thread_id = *thread_id;
            if !self.store.active_runs(Some(thread_id)).await?.is_empty() {
                return Err(SummarizationError::Busy { thread_id });
            }
            let is_asked = request.departure == Departure::Request
                && !self.store.pending_interrupts(thread_id).await?.is_empty();
            if is_asked {
                return Err(SummarizationError::Waiting { thread_id });
            }
        }
        Ok(())
    }

    /// Stores the summary, archives its turns and tells their threads, all at once.
    async fn store_summary(
        &self,
        request: &Request<'_>,
        finished: FinishedSummary<'_>,
    ) -> Result<Transferred, SummarizationError> {
        let FinishedSummary { seen, threads, draft: told, calls } = finished;
        let now = Timestamp::now();
        let (head, in_head) = seen.head(&*self.store).await?;
        // Nothing is kept that was put together from what is harmless alone.
        let (text, in_text) = withhold(&told.text);
        let summary = MediumTermSummary {
            id: SummaryId::generate(),
            agent_id: request.agent_id.clone(),
            summary_text: format!("{head}\n{}", inert::visible(&text)),
            turn_range_start: seen.turns.first,
            turn_range_end: seen.turns.last,
            created_at: now,
        };
        let withheld = told.withheld + in_head + in_text;
        let transfer = journal::Transfer {
            summary: summary.clone(),
            thread_id: request.window.thread_id,
            turns: seen.turns.count,
            threads,
        };
        let mut writes = vec![Write::TransferTurns(transfer)];
        for (at, thread) in seen.threads.iter().enumerate() {
            let thread = &self.with_what_followed(request, *thread).await?;
            // The calls are told once.
            let mut events = if at == 0 { traced(calls)? } else { Vec::new() };
            let archived = TurnsArchived {
                model: told.model.clone(),
                withheld,
                usage: if at == 0 { told.usage } else { Usage::default() },
                ..archived(&request.departure, thread, &summary)
            };
            let key = format!("turns_archived:{}", summary.id);
            events.push(NewEvent::of(&archived, now)?.keyed(key));
            writes.push(Write::Append { thread_id: thread.thread_id, events });
        }
        writes.extend(request.done.clone());
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(Transferred { summary, model: told.model.clone(), turns: seen.turns.count, withheld })
    }

    /// Returns the turns with what followed the last of them, such as the tools it called, up to the next turn.
    async fn with_what_followed(
        &self,
        request: &Request<'_>,
        thread: ThreadTurns,
    ) -> journal::Result<ThreadTurns> {
        if request.departure != Departure::Request {
            return Ok(thread);
        }
        let next = TurnQuery {
            thread_id: Some(thread.thread_id),
            after_seq: Some(thread.last_seq),
            limit: 1,
            ..TurnQuery::of(request.agent_id.clone())
        };
        let last_seq = match self.store.turns(next).await?.first() {
            Some(next) => next.seq - 1,
            None => self.store.thread(thread.thread_id).await?.map_or(0, |thread| thread.last_seq),
        };
        Ok(ThreadTurns { last_seq: last_seq.max(thread.last_seq), ..thread })
    }
}

fn too_many(asking: &Asking<'_>, turns: u64) -> SummarizationError {
    SummarizationError::TooManyTurns { model: asking.name(), turns, calls_max: CALLS_MAX }
}

/// Returns what a thread is told of a summary of its turns.
fn archived(departure: &Departure, thread: &ThreadTurns, summary: &MediumTermSummary) -> TurnsArchived {
    let (reason, first_seq, last_seq, context_from, marker_seq) = match *departure {
        // Whether something older is still in its context is not known here.
        Departure::Request => (ArchiveReason::Request, thread.first_seq, thread.last_seq, None, None),
        Departure::Compaction { marker_seq } => {
            (ArchiveReason::Compaction, thread.first_seq, thread.last_seq, None, Some(marker_seq))
        }
        Departure::Budget { first_seq, last_seq, context_from, marker_seq } => {
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
pub(super) fn traced(calls: &[Called]) -> Result<Vec<NewEvent>, serde_json::Error> {
    calls
        .iter()
        .map(|call| {
            let called = ModelCalled {
                purpose: CallPurpose::Transfer,
                handoff_id: None,
                model: Some(call.model.clone()),
                usage: Some(call.usage),
                prompt_sha256: Some(call.prompt_sha256.clone()),
                problem: call.problem.clone(),
                trace: None,
            };
            NewEvent::of(&called, call.ended)?.that_took(call.took)
        })
        .collect()
}
