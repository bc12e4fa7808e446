//! Answers, for lines of JSON on standard input, what the offline summary says of real transcripts. It judges nothing:
//! `xtask/eval_handoff.py` asks and scores.
//!
//! A request is `{"path", "name", "cut", "budgets": [..]}`: the conversation `name` of the file (`null`: its only one), the
//! number of its entries that are covered, and the budgets in tokens. The answers come in the same order, one line each.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use facts::{Item, Ledger};
use handoff::limits::INPUT_TOKENS_MAX;
use handoff::{Selector, extract, render};
use jiff::Timestamp;
use protocol::{Event, EventId, ThreadId};
use serde::Deserialize;
use transcripts::{Conversation, Entry, Format, Problem, Sink, SinkError, Source};

#[derive(Deserialize)]
struct Request {
    path: PathBuf,
    name: Option<String>,
    cut: u64,
    budgets: Vec<u64>,
}

/// A request that is being answered.
struct Case {
    index: usize,
    request: Request,
    entries: u64,
    ledger: Ledger,
    selector: Selector,
}

/// Gives each conversation's entries to the cases about it.
struct Reader {
    format: Format,
    thread_id: ThreadId,
    conversation: String,
    cases: Vec<Case>,
}

impl Sink for Reader {
    fn begin(&mut self, conversation: &Conversation) -> Result<(), SinkError> {
        self.conversation.clone_from(&conversation.name);
        Ok(())
    }

    fn entry(&mut self, entry: Entry) -> Result<(), SinkError> {
        let new = entry.into_event(self.format, Timestamp::UNIX_EPOCH)?;
        let mut event = Event {
            thread_id: self.thread_id,
            seq: 0,
            event_id: EventId::generate(),
            run_id: None,
            event_type: new.event_type.as_str().to_owned(),
            category: new.event_type.category().as_str().to_owned(),
            content: new.content,
            metadata: new.metadata,
            created_at: new.created_at,
        };
        for case in &mut self.cases {
            let is_about = case.request.name.as_ref().is_none_or(|name| *name == self.conversation);
            if is_about && case.entries < case.request.cut {
                case.entries += 1;
                event.seq = case.entries;
                let item = Item::from_event(&event);
                case.ledger.push(&item);
                case.selector.see(&item);
            }
        }
        Ok(())
    }

    fn end(&mut self, _: &Conversation) -> Result<(), SinkError> {
        Ok(())
    }

    fn problem(&mut self, problem: Problem) {
        eprintln!("{}: {}", problem.path.display(), problem.reason);
    }

    fn progress(&mut self, _: u64) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut by_path: BTreeMap<PathBuf, Vec<Case>> = BTreeMap::new();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let request: Request = serde_json::from_str(&line?)?;
        let selector = Selector::new(INPUT_TOKENS_MAX, None);
        let case = Case { index, entries: 0, ledger: Ledger::default(), selector, request };
        by_path.entry(case.request.path.clone()).or_default().push(case);
    }
    let mut answers = BTreeMap::new();
    for (path, cases) in by_path {
        let source = Source::file(&path);
        let format = transcripts::detect(&source)?;
        let mut reader =
            Reader { format, thread_id: ThreadId::generate(), conversation: String::new(), cases };
        transcripts::read(&source, format, &mut reader)?;
        answers.extend(reader.cases.into_iter().map(|case| (case.index, answer(case))));
    }
    let mut out = std::io::stdout().lock();
    for answer in answers.values() {
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn answer(case: Case) -> serde_json::Value {
    let facts = case.ledger.finish();
    let mut summaries = serde_json::Map::new();
    for budget in case.request.budgets {
        let told = extract(&facts, None, budget);
        summaries.insert(budget.to_string(), render::markdown(&told.title, &told.tldr, &told.body).into());
    }
    let selection = case.selector.finish(&facts, INPUT_TOKENS_MAX).text();
    serde_json::json!({"entries": case.entries, "summaries": summaries, "selection": selection})
}
