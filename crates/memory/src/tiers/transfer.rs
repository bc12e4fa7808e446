//! One transfer: reads the turns of a window that no summary stands for, has them summarised, and stores the summary with
//! what follows from it in one transaction. When it is due, and what leaves a context with it, is decided elsewhere.
//!
//! Turns are read in pages and nothing of them is kept but what the summariser is shown next, so that the memory it takes
//! does not depend on how many there are.

use jiff::Timestamp;
use journal::{EventQuery, PAGE_ROWS_MAX, Transaction, TurnQuery, Write};
use ledger::withhold;
use model::{inert, tokens};
use protocol::{
    ArchiveReason, AssistantId, CompactionUndone, EventType, MediumTermSummary, NewEvent, SCHEMA_VERSION,
    Seq, SummaryId, TurnsArchived, Usage,
};
use runtime::Frames;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::ask::{Asking, CALLS_MAX, Called, Place, SHRINKS_MAX};
use super::error::SummarizationError;
use super::extract::Extract;
use super::pages::{Packing, Pages};
use super::seen::{Seen, ThreadTurns};
use super::shown::{Said, TURN_GRAPHEMES_MAX};
use super::window::TurnWindow;
use super::{EXTRACTIVE, SummarizationHandoff, TRANSFER_DUE};

/// How often it is tried while others change the turns of the window.
const ATTEMPTS_MAX: u32 = 16;
/// Graphemes of a turn that a model is shown: as many as may be, and fewer where they are too many for its calls.
const CUTS: [usize; 3] = [TURN_GRAPHEMES_MAX, 400, 100];
/// Of every hundred tokens that all calls together take, those that turns may have: chunks are not filled to the end.
const FILLED_PERCENT: u64 = 80;

/// What is to become a summary.
pub(super) struct Request<'a> {
    /// Whose turns.
    pub agent_id: &'a AssistantId,
    /// Which of them.
    pub window: &'a TurnWindow,
    /// How they leave.
    pub departure: Departure,
    /// Who writes it.
    pub writer: Writer,
    /// The item of the queue that is done with it: its key.
    pub dequeue: Option<String>,
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
    /// The model, where there is one.
    Model,
    /// Nobody: it is extracted.
    Extract,
}

/// What became of a transfer.
pub(super) struct Transferred {
    pub summary: MediumTermSummary,
    pub model: String,
    pub turns: u64,
    pub withheld: u64,
}

/// A summary before it is stored.
struct Told {
    text: String,
    model: String,
    withheld: u64,
}

impl SummarizationHandoff {
    /// Carries out what is requested; `None` when no turn is left to summarise. Every call of a model is noted in
    /// `calls`, whatever came of it.
    pub(super) async fn carry_out(
        &self,
        request: &Request<'_>,
        calls: &mut Vec<Called>,
        running: (&Frames, &CancellationToken),
    ) -> Result<Option<Transferred>, SummarizationError> {
        for _ in 0..ATTEMPTS_MAX {
            let Some((seen, told)) = self.tell(request, calls, running).await? else { return Ok(None) };
            if running.1.is_cancelled() {
                return Err(SummarizationError::Stopped);
            }
            if self.was_taken_back(request).await? {
                return Ok(None);
            }
            match self.store_summary(request, &seen, (told, calls)).await {
                Ok(transferred) => return Ok(Some(transferred)),
                // Others were faster, or a thread was deleted: what is left is summarised anew.
                Err(SummarizationError::Journal(
                    journal::Error::Differs { .. } | journal::Error::NotFound { .. },
                )) => {}
                Err(error) => return Err(error),
            }
        }
        Err(SummarizationError::Contended { attempts: ATTEMPTS_MAX })
    }

    /// Returns the summary of what is left of the window, and what is known of those turns.
    async fn tell(
        &self,
        request: &Request<'_>,
        calls: &mut Vec<Called>,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<Option<(Seen, Told)>, SummarizationError> {
        let told = match &self.summariser {
            Some(model) if request.writer == Writer::Model => {
                let (summary_tokens, calls_made) = (self.settings.summary_tokens, Vec::new());
                let mut asking =
                    Asking { model, summary_tokens, frames, cancel, calls: calls_made, withheld: 0 };
                let told = self.ask(request, &mut asking).await;
                calls.append(&mut asking.calls);
                told?
            }
            Some(_) | None => self.extract(request, cancel).await?,
        };
        let Some((seen, told)) = told else { return Ok(None) };
        self.check_rest(request, &seen).await?;
        Ok(Some((seen, told)))
    }

    /// Extracts a summary.
    async fn extract(
        &self,
        request: &Request<'_>,
        cancel: &CancellationToken,
    ) -> Result<Option<(Seen, Told)>, SummarizationError> {
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
        Ok(Some((seen, Told { text, model: EXTRACTIVE.to_owned(), withheld })))
    }

    /// Asks the model: for all of the turns at once where they fit, and else chunk by chunk.
    async fn ask(
        &self,
        request: &Request<'_>,
        asking: &mut Asking<'_>,
    ) -> Result<Option<(Seen, Told)>, SummarizationError> {
        let Some((seen, weights)) = self.survey(request).await? else { return Ok(None) };
        // No call is made for what cannot be stored.
        self.check_rest(request, &seen).await?;
        let mut refused = None;
        for shrunk in 0..=SHRINKS_MAX {
            let chunk_weight = asking.chunk_tokens(shrunk)? * tokens::CHARS_PER_TOKEN;
            let fitting = CUTS.iter().zip(weights);
            let fitting = fitting.map(|(cut, weight)| (*cut, weight.div_ceil(chunk_weight)));
            let fitting = fitting.into_iter().find(|(_, calls)| *calls <= CALLS_MAX * FILLED_PERCENT / 100);
            let Some((cut, total)) = fitting else { return Err(too_many(asking, seen.turns)) };
            match self.roll(request, asking, (cut, chunk_weight, total)).await {
                Err(SummarizationError::Model(error @ model::Error::Overflow { .. })) => {
                    refused = Some(error)
                }
                told => return told,
            }
        }
        Err(refused.map_or_else(|| too_many(asking, seen.turns), SummarizationError::Model))
    }

    /// Returns what is known of the turns, and how long they are at each cut.
    async fn survey(
        &self,
        request: &Request<'_>,
    ) -> Result<Option<(Seen, [u64; CUTS.len()])>, SummarizationError> {
        let (mut seen, mut weights) = (None, [0; CUTS.len()]);
        let mut pages = Pages::of(&*self.store, request.agent_id, request.window);
        while let Some(page) = pages.next().await? {
            for turn in &page {
                for (cut, weight) in CUTS.iter().zip(&mut weights) {
                    *weight += tokens::weight(&Said::of(turn, *cut).to_lines());
                }
                seen = Some(Seen::add(seen, turn));
            }
        }
        Ok(seen.map(|seen| (seen, weights)))
    }

    /// Goes through the turns chunk by chunk, each with the summary of those before it.
    async fn roll(
        &self,
        request: &Request<'_>,
        asking: &mut Asking<'_>,
        (cut, chunk_weight, total): (usize, u64, u64),
    ) -> Result<Option<(Seen, Told)>, SummarizationError> {
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
                let Some(chunk) = full else { continue };
                if done + 1 >= CALLS_MAX {
                    return Err(too_many(asking, seen.map_or(0, |seen| seen.turns)));
                }
                let place = (Place::Before, done, total);
                summary = Some(asking.summarise(summary.as_deref(), chunk, place).await?);
                done += 1;
            }
        }
        let Some(seen) = seen else { return Ok(None) };
        let place = (Place::Last, done, total);
        let text = asking.summarise(summary.as_deref(), packing.rest(), place).await?;
        Ok(Some((seen, Told { text, model: asking.name(), withheld: withheld + asking.withheld })))
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
        seen: &Seen,
        (told, calls): (Told, &[Called]),
    ) -> Result<Transferred, SummarizationError> {
        let now = Timestamp::now();
        let (head, in_head) = seen.head(&*self.store).await?;
        // Nothing is kept that was put together from what is harmless alone.
        let (text, in_text) = withhold(&told.text);
        let summary = MediumTermSummary {
            id: SummaryId::generate(),
            agent_id: request.agent_id.clone(),
            summary_text: format!("{head}\n{}", inert::visible(&text)),
            turn_range_start: seen.first,
            turn_range_end: seen.last,
            created_at: now,
        };
        let withheld = told.withheld + in_head + in_text;
        let usage = calls.iter().fold(Usage::default(), |mut usage, call| {
            usage.add(call.usage);
            usage
        });
        let transfer = journal::Transfer {
            summary: summary.clone(),
            thread_id: request.window.thread_id,
            turns: seen.turns,
            threads: seen.threads.iter().map(|thread| thread.thread_id).collect(),
        };
        let mut writes = vec![Write::TransferTurns(transfer)];
        for (at, thread) in seen.threads.iter().enumerate() {
            let thread = &self.with_what_followed(request, *thread).await?;
            // The calls are told once.
            let mut events = if at == 0 { traced(calls, now)? } else { Vec::new() };
            let archived = TurnsArchived {
                model: told.model.clone(),
                withheld,
                usage: if at == 0 { usage } else { Usage::default() },
                ..archived(&request.departure, thread, &summary)
            };
            let key = format!("turns_archived:{}", summary.id);
            events.push(NewEvent::new(EventType::TurnsArchived, &archived, now)?.keyed(key));
            writes.push(Write::Append { thread_id: thread.thread_id, events });
        }
        if let Some(key) = &request.dequeue {
            writes.push(Write::Dequeue { kind: TRANSFER_DUE.to_owned(), key: key.clone() });
        }
        self.store.commit(Transaction { fence: None, writes }).await?;
        Ok(Transferred { summary, model: told.model, turns: seen.turns, withheld })
    }

    /// Returns whether the compaction by which the turns had left was taken back while they were summarised.
    async fn was_taken_back(&self, request: &Request<'_>) -> Result<bool, SummarizationError> {
        let (Departure::Compaction { marker_seq }, Some(thread_id)) =
            (request.departure, request.window.thread_id)
        else {
            return Ok(false);
        };
        let types = vec![EventType::Compacted, EventType::CompactionUndone];
        let query = EventQuery { types, ..EventQuery::after(marker_seq - 1, PAGE_ROWS_MAX) };
        let events = self.store.events(thread_id, query).await?;
        let is_there = events.first().is_some_and(|marker| marker.seq == marker_seq);
        let undone = events.iter().filter(|event| event.kind() == Some(EventType::CompactionUndone));
        let mut undone = undone.filter_map(|event| serde_json::from_str(event.content.get()).ok());
        Ok(!is_there || undone.any(|undone: CompactionUndone| undone.marker_seq == marker_seq))
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
pub(super) fn traced(calls: &[Called], now: Timestamp) -> Result<Vec<NewEvent>, serde_json::Error> {
    calls
        .iter()
        .map(|call| {
            let content = json!({
                "purpose": "transfer",
                "model": call.model,
                "usage": call.usage,
                "prompt_sha256": call.prompt_sha256,
                "problem": call.problem,
            });
            NewEvent::new(EventType::ModelCalled, &content, now)
        })
        .collect()
}
