//! Trace spans of a run, a thread, or a handoff from its request to the clearing of the child's block. They
//! are computed from the journal on request. The `telemetry` crate defines the spans and exports them.

use futures::future::BoxFuture;
use std::collections::HashSet;

use journal::{EventQuery, SupersededVisibility};
use model::prices;
use protocol::{Event, EventType, Handoff, Run, RunId, Seq, Thread, ThreadId};
use telemetry::{SpanFold, TraceSpan, TraceSpanKind};

use crate::{Result, RunError, RunService};

/// The subject of a trace.
#[derive(Debug, Clone)]
pub enum TraceSubject {
    /// One run.
    Run(Run),
    /// All runs of a thread.
    Thread(Thread),
    /// One handoff.
    Handoff(Handoff),
}

impl<'a> RunService<'a> {
    /// Finds the thread, run or handoff whose id begins with `text`. The text `last` means the newest run.
    /// The ids of a thread, of its first runs and of the handoff that created it can begin alike; the result is then the
    /// thread, because lists shorten ids so that they are unique among threads.
    ///
    /// # Errors
    /// [`RunError::UnknownTrace`] if there is none; [`RunError::Ambiguous`] if there are several.
    pub fn find_trace_subject(self, text: &'a str) -> BoxFuture<'a, Result<TraceSubject>> {
        journal::box_future(async move {
            if text == "last" {
                return Ok(TraceSubject::Run(self.find(text).await?));
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
                ([thread_id], _, _) => Ok(TraceSubject::Thread(self.agent.thread(*thread_id).await?)),
                ([], [run_id], []) => {
                    Ok(TraceSubject::Run(self.agent.store.run(*run_id).await?.ok_or_else(unknown)?))
                }
                ([], [], [handoff]) => Ok(TraceSubject::Handoff(handoff.clone())),
                _ => {
                    let matches = threads.iter().map(|id| format!("thread {id}"));
                    let matches = matches.chain(runs.iter().map(|id| format!("run {id}")));
                    let matches = matches
                        .chain(handoffs.iter().map(|handoff| format!("handoff {}", handoff.handoff_id)));
                    Err(RunError::Ambiguous { prefix: text.to_owned(), matches: matches.collect() }.into())
                }
            }
        })
    }

    /// Returns the spans of a run and of its sub-agents. Finished spans come first, in the order in which
    /// they ended, followed by open ones.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn spans(self, run: &'a Run) -> BoxFuture<'a, Result<Vec<TraceSpan>>> {
        journal::box_future(async move {
            let first = self.agent.store.run_events(run.thread_id, run.run_id, 0, 1).await?.pop();
            let mut fold = self.fold_until(run.thread_id, first.map_or(1, |event| event.seq)).await?;
            self.fold_run_events(&mut fold, run.thread_id, run.run_id).await?;
            self.append_subagent_spans(run.thread_id, all_spans(fold)).await
        })
    }

    /// Returns the spans of a thread and of its sub-agents, including those of rewound events.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn thread_spans(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<TraceSpan>>> {
        journal::box_future(async move {
            let spans = self.thread_only_spans(thread_id).await?;
            self.append_subagent_spans(thread_id, spans).await
        })
    }

    /// Returns the spans of a thread without those of its sub-agents. Reads all events of the thread, page by
    /// page.
    async fn thread_only_spans(self, thread_id: ThreadId) -> Result<Vec<TraceSpan>> {
        let mut fold = self.fold_until(thread_id, 1).await?;
        let mut after = 0;
        loop {
            let query = EventQuery {
                superseded: SupersededVisibility::Shown,
                ..EventQuery::after(after, journal::PAGE_ROWS_MAX)
            };
            let page = self.agent.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(all_spans(fold)) };
            after = last.seq;
            page.iter().for_each(|event| fold.apply_event(event));
        }
    }

    /// Appends the spans of the sub-agents that were called in the given spans. Sub-agents have no sub-agents
    /// of their own.
    async fn append_subagent_spans(
        self,
        thread_id: ThreadId,
        mut spans: Vec<TraceSpan>,
    ) -> Result<Vec<TraceSpan>> {
        let called: HashSet<String> =
            spans.iter().filter_map(|span| Some(span.tool.as_ref()?.call_id.clone())).collect();
        if called.is_empty() {
            return Ok(spans);
        }
        for subagent in self.agent.threads().subagents(thread_id).await?.subagents {
            if subagent.call_id.is_some_and(|call_id| called.contains(&call_id)) {
                spans.extend(self.thread_only_spans(subagent.thread.thread_id).await?);
            }
        }
        Ok(spans)
    }

    /// Returns the spans of the runs in which a handoff was drafted, decided and accepted, and the span of
    /// clearing the child's block.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn handoff_spans(self, handoff: &'a Handoff) -> BoxFuture<'a, Result<Vec<TraceSpan>>> {
        journal::box_future(async move {
            let belongs_to_handoff = |event: &&Event| event.handoff_id() == Some(handoff.handoff_id);
            let parent = handoff.parent_thread_id;
            let mut fold = self.fold_until(parent, 1).await?;
            let mut folded_runs: Vec<RunId> = Vec::new();
            for event in self.handoff_events(parent).await?.iter().filter(belongs_to_handoff) {
                match event.run_id {
                    None => fold.apply_event(event),
                    Some(run_id) if folded_runs.contains(&run_id) => {}
                    Some(run_id) => {
                        folded_runs.push(run_id);
                        self.fold_run_events(&mut fold, parent, run_id).await?;
                    }
                }
            }
            let mut spans = all_spans(fold);
            let cleaned = self.handoff_events(handoff.child_thread_id).await?;
            if let Some(cleaned) = cleaned.iter().rfind(belongs_to_handoff).map(|event| event.seq) {
                // The run that cleared the block may still be active in the child thread. Only finished spans are
                // taken from there.
                let query = EventQuery {
                    after: None,
                    before: Some(cleaned + 1),
                    superseded: SupersededVisibility::Shown,
                    ..EventQuery::after(0, journal::PAGE_ROWS_MAX)
                };
                let mut child_fold = self.fold_until(handoff.child_thread_id, 1).await?;
                self.agent
                    .store
                    .events(handoff.child_thread_id, query)
                    .await?
                    .iter()
                    .for_each(|event| child_fold.apply_event(event));
                let is_of_handoff = |span: &TraceSpan| span.handoff_id == Some(handoff.handoff_id);
                spans.extend(child_fold.take_finished().into_iter().filter(is_of_handoff));
            }
            Ok(spans)
        })
    }

    /// Returns the cost of a model call in US dollars. `None` for other spans, and if the price is unknown.
    pub fn span_cost(self, span: &TraceSpan) -> Option<f64> {
        let (TraceSpanKind::Model, Some(usage), Some(model)) = (span.kind, &span.usage, &span.model) else {
            return None;
        };
        Some(prices::cost(usage, &prices::find_price(model, &self.agent.config.prices)?))
    }
}

impl<'a> RunService<'a> {
    /// Returns a fold that has read the state of the thread before `seq`, such as the end of the run before
    /// it.
    async fn fold_until(self, thread_id: ThreadId, seq: Seq) -> Result<SpanFold> {
        Ok(telemetry::load_fold(&*self.agent.store, thread_id, seq).await?)
    }

    /// Applies all events of a run to the fold, page by page.
    async fn fold_run_events(self, fold: &mut SpanFold, thread_id: ThreadId, run_id: RunId) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.agent.store.run_events(thread_id, run_id, after, journal::PAGE_ROWS_MAX).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            page.iter().for_each(|event| fold.apply_event(event));
        }
    }

    /// Returns the handoff events of the thread, including rewound ones. An unknown thread has none.
    async fn handoff_events(self, thread_id: ThreadId) -> Result<Vec<Event>> {
        let types: Vec<EventType> =
            EventType::ALL.iter().copied().filter(|kind| kind.as_str().starts_with("handoff_")).collect();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let query = EventQuery {
                types: types.clone(),
                superseded: SupersededVisibility::Shown,
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

/// Returns all spans of a fold: the finished ones, then the open ones.
fn all_spans(mut fold: SpanFold) -> Vec<TraceSpan> {
    let mut spans = fold.take_finished();
    spans.extend(fold.open_spans());
    spans
}
