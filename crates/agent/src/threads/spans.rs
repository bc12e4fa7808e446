//! What happened as spans: of a run, of a thread, of a handoff from its request to the clearing of the child's block. They are made
//! from the journal when they are asked for. Sending them anywhere is `telemetry`'s.

use std::collections::HashSet;
use std::sync::Arc;

use journal::{EventQuery, Superseded};
use model::prices;
use protocol::{Event, EventType, Handoff, Run, RunId, Seq, Thread, ThreadId};
use telemetry::{Counts, Fold, Kind, Span, Traces};

use crate::agent::services::{AdminService, RunService};
use crate::{Result, RunError};

/// What somebody wants to see the spans of.
#[derive(Debug, Clone)]
pub enum Traced {
    /// A run.
    Run(Run),
    /// Everything that happened in a thread.
    Thread(Thread),
    /// A handoff.
    Handoff(Handoff),
}

impl RunService<'_> {
    /// Returns the thread, the run or the handoff whose id begins with `text`; `last` is the newest run. A thread and its
    /// first run begin alike: that is the thread, which has the run in it.
    ///
    /// # Errors
    /// [`RunError::UnknownTrace`] when there is none, [`RunError::Ambiguous`] when there is more than one.
    pub async fn find_traced(self, text: &str) -> Result<Traced> {
        if text == "last" {
            return Ok(Traced::Run(self.find(text).await?));
        }
        let unknown = || RunError::UnknownTrace(text.to_owned());
        if text.trim().is_empty() {
            return Err(unknown().into());
        }
        let runs = self.agent.store.runs_by_prefix(text, &self.agent.scope).await?;
        let threads = self.agent.store.threads_by_prefix(text, &self.agent.scope).await?;
        let handoffs = self.agent.handoffs().handoffs_by_prefix(text).await?;
        match (threads.as_slice(), runs.as_slice(), handoffs.as_slice()) {
            ([], [], []) => Err(unknown().into()),
            ([thread_id], _, []) if self.are_of(*thread_id, &runs).await? => {
                Ok(Traced::Thread(self.agent.thread(*thread_id).await?))
            }
            ([], [run_id], []) => Ok(Traced::Run(self.agent.store.run(*run_id).await?.ok_or_else(unknown)?)),
            ([], [], [handoff]) => Ok(Traced::Handoff(handoff.clone())),
            _ => {
                let named = threads.iter().map(|id| format!("thread {id}"));
                let named = named.chain(runs.iter().map(|id| format!("run {id}")));
                let named = named.chain(handoffs.iter().map(|one| format!("handoff {}", one.handoff_id)));
                Err(RunError::Ambiguous { prefix: text.to_owned(), matches: named.collect() }.into())
            }
        }
    }

    /// Returns whether all of the runs are the thread's.
    async fn are_of(self, thread_id: ThreadId, runs: &[RunId]) -> Result<bool> {
        for run_id in runs {
            if self.agent.store.run(*run_id).await?.is_some_and(|run| run.thread_id != thread_id) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the spans of a run and of the sub-agents it had, those that ended in the order in which they did and behind them what is
    /// under way.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn spans(self, run: &Run) -> Result<Vec<Span>> {
        let first = self.agent.store.run_events(run.thread_id, run.run_id, 0, 1).await?.pop();
        let mut fold = self.fold_before(run.thread_id, first.map_or(1, |event| event.seq)).await?;
        self.fold_run(&mut fold, run.thread_id, run.run_id).await?;
        self.with_subagents(run.thread_id, all(fold)).await
    }

    /// Returns the spans of everything that happened in a thread and in those of its sub-agents, what was taken back since included.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn thread_spans(self, thread_id: ThreadId) -> Result<Vec<Span>> {
        let spans = self.own_spans(thread_id).await?;
        self.with_subagents(thread_id, spans).await
    }

    async fn own_spans(self, thread_id: ThreadId) -> Result<Vec<Span>> {
        let mut fold = self.fold_before(thread_id, 1).await?;
        let mut after = 0;
        loop {
            let query = EventQuery {
                superseded: Superseded::Shown,
                ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
            };
            let page = self.agent.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(all(fold)) };
            after = last.seq;
            page.iter().for_each(|event| fold.take(event));
        }
    }

    /// Adds what the sub-agents did that were called in the spans of the thread; they have none of their own.
    async fn with_subagents(self, thread_id: ThreadId, mut spans: Vec<Span>) -> Result<Vec<Span>> {
        let called: HashSet<String> =
            spans.iter().filter_map(|span| Some(span.tool.as_ref()?.call_id.clone())).collect();
        if called.is_empty() {
            return Ok(spans);
        }
        for subagent in self.agent.threads().subagents(thread_id).await?.subagents {
            if subagent.call_id.is_some_and(|call_id| called.contains(&call_id)) {
                spans.extend(self.own_spans(subagent.thread.thread_id).await?);
            }
        }
        Ok(spans)
    }

    /// Returns the spans of the runs a handoff was drafted, decided and accepted in, and of the clearing of the child's block.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn handoff_spans(self, handoff: &Handoff) -> Result<Vec<Span>> {
        let is_of_it = |event: &&Event| event.handoff_id() == Some(handoff.handoff_id);
        let parent = handoff.parent_thread_id;
        let mut fold = self.fold_before(parent, 1).await?;
        let mut seen: Vec<RunId> = Vec::new();
        for event in self.handoff_events(parent).await?.iter().filter(is_of_it) {
            match event.run_id {
                None => fold.take(event),
                Some(run_id) if seen.contains(&run_id) => {}
                Some(run_id) => {
                    seen.push(run_id);
                    self.fold_run(&mut fold, parent, run_id).await?;
                }
            }
        }
        let mut spans = all(fold);
        let cleaned = self.handoff_events(handoff.child_thread_id).await?;
        if let Some(cleaned) = cleaned.iter().rfind(is_of_it).map(|event| event.seq) {
            // The run in which it was cleared is under way there.
            let query = EventQuery {
                after: None,
                before: Some(cleaned + 1),
                superseded: Superseded::Shown,
                ..EventQuery::after(0, journal::PAGE_ROWS_MAX)
            };
            let mut in_child = self.fold_before(handoff.child_thread_id, 1).await?;
            self.agent
                .store
                .events(handoff.child_thread_id, query)
                .await?
                .iter()
                .for_each(|event| in_child.take(event));
            let of_it = |span: &Span| span.handoff_id == Some(handoff.handoff_id);
            spans.extend(in_child.finished().into_iter().filter(of_it));
        }
        Ok(spans)
    }

    /// Returns what a call of a model cost in US dollars, if its price is known; nothing else has a cost of its own.
    pub fn span_cost(self, span: &Span) -> Option<f64> {
        let (Kind::Model, Some(usage), Some(model)) = (span.kind, &span.usage, &span.model) else {
            return None;
        };
        Some(prices::cost(usage, &prices::price(model, &self.agent.config.prices)?))
    }
}

impl AdminService<'_> {
    /// Begins to send what this process does as traces, where the configuration and the standard variables say; `None` when they say
    /// nowhere, or when it is done already. Called on an async runtime, it works there.
    ///
    /// # Errors
    /// When the address makes no sense.
    pub fn send_traces(self) -> Result<Option<Traces>> {
        let traces = Traces::begin(
            Arc::clone(&self.agent.journal),
            &self.agent.config.tracing,
            &self.agent.config.prices,
        );
        Ok(traces?)
    }

    /// The same for a server, which also counts what it does ([`AdminService::counted`]); an address that makes no sense is told in the log.
    pub fn send_traces_and_count(self) -> Option<Traces> {
        let (settings, prices) = (&self.agent.config.tracing, &self.agent.config.prices);
        Traces::begin_counting(
            Arc::clone(&self.agent.journal),
            settings,
            prices,
            Arc::clone(&self.agent.counted),
        )
    }

    /// Returns what was counted; nothing before [`AdminService::send_traces_and_count`].
    pub fn counted(self) -> Counts {
        self.agent.counted.counts()
    }
}

impl RunService<'_> {
    /// Returns a fold that knows how the run before `seq` ended.
    async fn fold_before(self, thread_id: ThreadId, seq: Seq) -> Result<Fold> {
        Ok(telemetry::primed(&*self.agent.store, thread_id, seq).await?)
    }

    async fn fold_run(self, fold: &mut Fold, thread_id: ThreadId, run_id: RunId) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.agent.store.run_events(thread_id, run_id, after, journal::PAGE_ROWS_MAX).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            page.iter().for_each(|event| fold.take(event));
        }
    }

    /// Returns what happened to handoffs in the thread; an unknown one has nothing.
    async fn handoff_events(self, thread_id: ThreadId) -> Result<Vec<Event>> {
        let types: Vec<EventType> =
            EventType::ALL.iter().copied().filter(|kind| kind.as_str().starts_with("handoff_")).collect();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let query = EventQuery {
                types: types.clone(),
                superseded: Superseded::Shown,
                ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
            };
            let page = self.agent.store.events(thread_id, query).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }
}

/// Returns everything of a fold: what ended, and what is under way.
fn all(mut fold: Fold) -> Vec<Span> {
    let mut spans = fold.finished();
    spans.extend(fold.open());
    spans
}
