//! `segue recall` and `/recall`: what was said in a thread and in those it came from, found again. What is found, and how
//! much of it, is decided by the `memory` room.

use std::collections::BTreeMap;

use agent::{Passage, Recall, RecallQuery, Rest, Wanted};
use jiff::Timestamp;
use protocol::{Seq, ThreadId};
use serde::Serialize;
use terminal::found::who;
use terminal::{minute, safe, wrap, wrap_lines};

use crate::cli::{self, Format};
use crate::commands::history::search::By;
use crate::commands::import::count;
use crate::commands::{Context, threads};
use crate::exit::{Code, Failure, Outcome};

/// What `--json` prints.
#[derive(Serialize)]
struct Found<'a> {
    /// The threads that were looked through, nearest first.
    threads: &'a [ThreadId],
    excerpts: Vec<Vec<Said<'a>>>,
    /// At least so many more messages match.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_messages: Option<u64>,
    /// Where the range goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_seq: Option<Seq>,
}

/// One passage.
#[derive(Serialize)]
struct Said<'a> {
    thread_id: ThreadId,
    seq: Seq,
    #[serde(flatten)]
    by: By<'a>,
    at: Timestamp,
    text: &'a str,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::handoff::Recall) -> Outcome {
    let thread_id = context.agent.threads().find(&args.thread).await?.thread_id;
    let query = match args.from {
        // The numbers are those of the thread that is named, also where it came from another one.
        Some(from) => RecallQuery {
            thread: Some(thread_id.to_string()),
            ..RecallQuery::of(Wanted::Range(from, args.to.unwrap_or(from)))
        },
        None => RecallQuery::of(Wanted::Words(args.words.join(" "))),
    };
    show(context, thread_id, &query).await.map(|()| Code::Done)
}

/// Shows what was said about the words, in the thread and in those it came from; says whether something was.
///
/// # Errors
/// When there is no word among them, or the journal or stdout fails.
pub(crate) async fn find(context: &Context, thread_id: ThreadId, words: &str) -> Result<bool, Failure> {
    let query = RecallQuery::of(Wanted::Words(words.to_owned()));
    let found = context.agent.memory().recall(thread_id, &query).await?;
    if found.excerpts.is_empty() {
        return Ok(false);
    }
    tell(context, &found).map(|()| true)
}

async fn show(context: &Context, thread_id: ThreadId, query: &RecallQuery) -> Result<(), Failure> {
    let found = context.agent.memory().recall(thread_id, query).await?;
    match context.format {
        Format::Json => context.json(&json(&found)),
        Format::Text => tell(context, &found),
    }
}

fn tell(context: &Context, found: &Recall) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let ids: BTreeMap<ThreadId, String> =
        found.threads.iter().copied().zip(threads::short_ids(found.threads.iter().copied())).collect();
    for (at, excerpt) in found.excerpts.iter().enumerate() {
        if at > 0 {
            screen.line("")?;
        }
        for passage in excerpt {
            let id = ids.get(&passage.thread_id).map(String::as_str).unwrap_or_default();
            let about = format!("#{} {} {}", passage.seq, who(&passage.speaker), minute(passage.at));
            screen.line(format!("{} {}", style.code(id), style.dim(about)))?;
            screen.line(wrap_lines(&safe(&passage.text), screen.text_columns(), "  "))?;
        }
    }
    screen.line(style.dim(wrap(&rest(found), screen.text_columns(), "", "")))?;
    Ok(())
}

/// Returns what there is beyond what is shown, for a person.
fn rest(found: &Recall) -> String {
    let is_empty = found.excerpts.is_empty();
    match found.rest {
        Rest::Messages(0) if is_empty => {
            format!("Nothing was found in {}.", count(found.threads.len() as u64, "thread"))
        }
        Rest::Messages(0) => "That is all.".to_owned(),
        Rest::Messages(more) => {
            format!("At least {} more; other words tell them apart.", count(more, "message"))
        }
        Rest::Range { next_seq: None } if is_empty => "There are no messages at these numbers.".to_owned(),
        Rest::Range { next_seq: None } => "That is all of the range.".to_owned(),
        Rest::Range { next_seq: Some(next) } => format!("There is more from #{next} on."),
    }
}

fn json(found: &Recall) -> Found<'_> {
    let (more_messages, next_seq) = match found.rest {
        Rest::Messages(more) => (Some(more), None),
        Rest::Range { next_seq } => (None, next_seq),
    };
    let excerpts = found.excerpts.iter().map(|excerpt| excerpt.iter().map(said).collect()).collect();
    Found { threads: &found.threads, excerpts, more_messages, next_seq }
}

fn said(passage: &Passage) -> Said<'_> {
    Said {
        thread_id: passage.thread_id,
        seq: passage.seq,
        by: By::of(&passage.speaker),
        at: passage.at,
        text: &passage.text,
    }
}
