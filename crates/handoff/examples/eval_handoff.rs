//! A program for evaluations: it reads requests as JSON lines from standard input and writes offline summaries and
//! selections of real transcripts. `xtask/eval_handoff.py` sends the requests and scores the answers.
//!
//! With the arguments `--model PROVIDER/NAME` the model drafts the summaries. The key and the base URL come from the
//! environment variables of the provider. A draft that failed is `null`.
//!
//! A request is `{"path", "name", "cut", "budgets": [..]}`: the file, the conversation `name` in it (`null` for its
//! only one), the number of entries to cover, and the budgets in tokens. The answers are written in the order of the
//! requests, one line each.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use facts::{FactCollector, TranscriptItem};
use handoff::limits::INPUT_TOKENS_MAX;
use handoff::{TranscriptSelector, build_offline_summary};
use jiff::Timestamp;
use model::ChatModel;
use protocol::{Event, EventId, NewEvent, ThreadId};
use serde::Deserialize;
use transcripts::{
    ConversationInfo, SessionFormat, SinkError, TranscriptEntry, TranscriptProblem, TranscriptSink,
    TranscriptSource,
};

#[path = "eval_handoff/model_draft.rs"]
mod model_draft;

/// A request.
#[derive(Deserialize)]
struct EvalRequest {
    /// The session file.
    path: PathBuf,
    /// The conversation in the file; `None` for its only one.
    name: Option<String>,
    /// The number of entries to cover.
    cut: u64,
    /// The budgets of the summaries in tokens.
    budgets: Vec<u64>,
}

/// A request in progress.
struct EvalCase {
    /// The position of the request in the input.
    index: usize,
    /// The request.
    request: EvalRequest,
    /// The number of entries covered so far.
    entries: u64,
    /// The collector of facts.
    collector: FactCollector,
    /// The collector of lines to select from.
    selector: TranscriptSelector,
    /// The covered entries, for a draft by a model.
    events: Vec<NewEvent>,
}

/// A sink that passes each entry of a conversation to the cases about it.
struct EvalCaseReader {
    /// The format of the file.
    format: SessionFormat,
    /// The thread of all events.
    thread_id: ThreadId,
    /// The name of the present conversation.
    conversation: String,
    /// The cases about the file.
    cases: Vec<EvalCase>,
}

impl TranscriptSink for EvalCaseReader {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.conversation.clone_from(&conversation.name);
        Ok(())
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let mut event = Event::from_new(new.clone(), self.thread_id, 0);
        for case in &mut self.cases {
            let is_about = case.request.name.as_ref().is_none_or(|name| *name == self.conversation);
            if is_about && case.entries < case.request.cut {
                case.entries += 1;
                event.seq = case.entries;
                let item = TranscriptItem::from_event(&event);
                case.collector.push(&item);
                case.selector.visit(&item);
                case.events.push(NewEvent { event_id: EventId::generate(), ..new.clone() });
            }
        }
        Ok(())
    }

    fn end_conversation(&mut self, _: &ConversationInfo) -> Result<(), SinkError> {
        Ok(())
    }

    fn report_problem(&mut self, problem: TranscriptProblem) {
        eprintln!("{}: {}", problem.path.display(), problem.reason);
    }

    fn report_progress(&mut self, _: u64) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let model = match arguments.as_slice() {
        [option, name] if option == "--model" => Some(model_draft::open_model(name)?),
        [] => None,
        _ => return Err("the only option is `--model PROVIDER/NAME`".into()),
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let mut by_path: BTreeMap<PathBuf, Vec<EvalCase>> = BTreeMap::new();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let request: EvalRequest = serde_json::from_str(&line?)?;
        let selector = TranscriptSelector::new(INPUT_TOKENS_MAX, None);
        let collector = FactCollector::default();
        let case = EvalCase { index, entries: 0, collector, selector, events: Vec::new(), request };
        by_path.entry(case.request.path.clone()).or_default().push(case);
    }
    let mut answers = BTreeMap::new();
    for (path, cases) in by_path {
        let source = TranscriptSource::from_file(&path);
        let format = transcripts::detect_format(&source)?;
        let mut reader =
            EvalCaseReader { format, thread_id: ThreadId::generate(), conversation: String::new(), cases };
        transcripts::read_conversations(&source, format, &mut reader)?;
        for case in reader.cases {
            answers.insert(case.index, runtime.block_on(answer(case, model.as_ref())));
        }
    }
    let mut out = std::io::stdout().lock();
    for answer in answers.values() {
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

/// Returns the answer for a case whose entries have been read. The model drafts the summaries, if there is one.
async fn answer(case: EvalCase, model: Option<&Arc<dyn ChatModel>>) -> serde_json::Value {
    let facts = case.collector.finish();
    let mut summaries = serde_json::Map::new();
    for budget in case.request.budgets {
        if let Some(model) = model {
            let drafted = model_draft::draft_with_model(model, case.events.clone(), budget).await;
            let text = drafted.inspect_err(|problem| eprintln!("{}: {problem}", case.request.path.display()));
            summaries.insert(budget.to_string(), text.ok().into());
            continue;
        }
        let summary = build_offline_summary(&facts, None, budget);
        summaries.insert(budget.to_string(), summary.to_markdown().into());
    }
    let selection = case.selector.select(&facts, INPUT_TOKENS_MAX).text();
    serde_json::json!({"entries": case.entries, "summaries": summaries, "selection": selection})
}
