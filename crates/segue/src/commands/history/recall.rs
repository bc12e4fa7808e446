//! `segue recall` and `/recall`: searches the original messages of a thread and of the threads it was handed off from.
//! The crate `memory` decides which messages match and how many are returned.

use std::collections::BTreeMap;

use agent::{
    IndexBacklog, MeaningComparison, MessageFilter, RecallQuery, RecallResult, RecalledMessage, Remaining,
};
use jiff::Timestamp;
use protocol::{Seq, ThreadId};
use serde::Serialize;
use terminal::search_hits::speaker_name;
use terminal::{format_minute, sanitize, wrap, wrap_lines};

use crate::cli::{self, OutputFormat};
use crate::commands::history::search::{SpeakerFields, backlog_note, meaning_note};
use crate::commands::import::format_count;
use crate::commands::{CommandContext, threads};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The output of `--json`.
#[derive(Serialize)]
struct RecallReport<'a> {
    /// The searched threads: the given thread, then its ancestors, nearest first.
    threads: &'a [ThreadId],
    /// The excerpts, each a list of successive messages.
    excerpts: Vec<Vec<RecallPassage<'a>>>,
    /// A lower bound of the number of further matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_messages: Option<u64>,
    /// Number of matches, or of messages of the range, that are left out because they are damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged_messages: Option<u64>,
    /// For words: the messages of the searched threads that are not indexed yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_indexed: Option<IndexBacklog>,
    /// For words: the way in which meaning was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'a MeaningComparison>,
    /// The event at which the remaining part of the requested range starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_seq: Option<Seq>,
}

/// One message of an excerpt.
#[derive(Serialize)]
struct RecallPassage<'a> {
    /// The thread of the message, which may be an ancestor of the searched thread.
    thread_id: ThreadId,
    /// The event of the message.
    seq: Seq,
    /// The speaker.
    #[serde(flatten)]
    by: SpeakerFields<'a>,
    /// The time of the message.
    at: Timestamp,
    /// The text, with `…` where it was cut.
    text: &'a str,
}

/// The matches that are shown without `--limit`.
const MATCHES_SHOWN: u32 = 12;

/// Complete commands, one for each use.
const RECALL_EXAMPLES: &str =
    "for example `segue recall last parser error`, or `segue recall last --from 3 --to 5` for a range";

/// The tokens for which a match with its adjacent messages has room on average.
const TOKENS_PER_MATCH: u64 = 200;

/// A complete request of `segue recall`.
pub(crate) struct RecallRequest {
    /// The beginning of the thread's id, or `last`.
    thread: String,
    /// The messages to find.
    filter: MessageFilter,
    /// The most matches that are shown for words.
    limit: u32,
}

impl RecallRequest {
    /// Returns the request of the arguments. It is checked before anything is opened, so that incomplete arguments create no
    /// folder.
    ///
    /// # Errors
    /// Fails if the arguments name no thread, or neither words nor a range, or both.
    pub(crate) fn from_args(args: cli::handoff::RecallCommandArgs) -> Result<Self, CliFailure> {
        let incomplete = |problem: &str| {
            CliFailure::new(ExitReason::User, format!("recall: {problem}")).with_hint(RECALL_EXAMPLES)
        };
        let thread = args.thread.ok_or_else(|| incomplete("the thread is missing"))?;
        let filter = match (args.from, args.to) {
            (None, Some(_)) => return Err(incomplete("`--to` needs `--from`, the beginning of the range")),
            (Some(_), _) if !args.words.is_empty() => {
                return Err(incomplete("give words to search for, or a range, not both"));
            }
            (Some(_), _) if args.limit.is_some() => {
                return Err(incomplete("a range ends at `--to`; `--limit` belongs to words"));
            }
            (Some(from), to) => MessageFilter::Range(from, to.unwrap_or(from)),
            (None, None) if args.words.is_empty() => {
                return Err(incomplete("words to search for, or a range, are missing"));
            }
            (None, None) => MessageFilter::Words(args.words.join(" ")),
        };
        Ok(Self { thread, filter, limit: args.limit.unwrap_or(MATCHES_SHOWN) })
    }
}

/// Performs `segue recall`.
///
/// # Errors
/// Fails if the thread does not exist, if the words contain no word, or if the journal cannot be used.
pub(crate) async fn run(context: &CommandContext, request: RecallRequest) -> CommandResult {
    let RecallRequest { thread, filter, limit } = request;
    let thread_id = context.agent.threads().find(&thread).await?.thread_id;
    let query = RecallQuery::new(filter);
    let query = match query.filter {
        // A range of event numbers refers to the given thread, not to the threads it came from.
        MessageFilter::Range(..) => RecallQuery { thread: Some(thread_id.to_string()), ..query },
        MessageFilter::Words(_) => {
            // More matches than an agent gets need more room than its answer has.
            let tokens_max = query.tokens_max.max(u64::from(limit) * TOKENS_PER_MATCH);
            RecallQuery { matches_max: limit as usize, tokens_max, ..query }
        }
    };
    show_query(context, thread_id, &query).await.map(|()| ExitReason::Success)
}

/// Prints the messages of the thread and its ancestors that match the words, and the number of damaged ones. Returns `false`
/// if no message matches.
///
/// # Errors
/// Fails if the text contains no word, the journal cannot be read, or stdout cannot be written.
pub(crate) async fn show_matches(
    context: &CommandContext,
    thread_id: ThreadId,
    words: &str,
) -> Result<bool, CliFailure> {
    let query = RecallQuery::new(MessageFilter::Words(words.to_owned()));
    let result = recall_what_exists(context, thread_id, &query).await?;
    if result.excerpts.is_empty() && result.damaged == 0 {
        return Ok(false);
    }
    print_recall(context, &result).map(|()| true)
}

/// Searches the thread and its ancestors, or the thread alone if an ancestor was deleted, and says so.
async fn recall_what_exists(
    context: &CommandContext,
    thread_id: ThreadId,
    query: &RecallQuery,
) -> Result<RecallResult, agent::Error> {
    match context.agent.memory().recall(thread_id, query).await {
        Err(error) if error.has_broken_lineage() && query.thread.is_none() => {
            context.print_notice(
                "A thread that this one came from was deleted. Only the messages of this thread are searched.",
            );
            let query = RecallQuery { thread: Some(thread_id.to_string()), ..query.clone() };
            context.agent.memory().recall(thread_id, &query).await
        }
        result => result,
    }
}

/// Prints the result of a query as text or JSON.
async fn show_query(
    context: &CommandContext,
    thread_id: ThreadId,
    query: &RecallQuery,
) -> Result<(), CliFailure> {
    let result = recall_what_exists(context, thread_id, query).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&recall_report(&result)),
        OutputFormat::Text => print_recall(context, &result),
    }
}

/// Prints the excerpts as text, and a sentence about further matches.
fn print_recall(context: &CommandContext, result: &RecallResult) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let ids: BTreeMap<ThreadId, String> =
        result.threads.iter().copied().zip(threads::short_ids(result.threads.iter().copied())).collect();
    for (index, excerpt) in result.excerpts.iter().enumerate() {
        if index > 0 {
            screen.print_line("")?;
        }
        for passage in excerpt {
            let id = ids.get(&passage.thread_id).map(String::as_str).unwrap_or_default();
            let heading =
                format!("#{} {} {}", passage.seq, speaker_name(&passage.speaker), format_minute(passage.at));
            screen.print_line(format!("{} {}", style.code(id), style.dim(heading)))?;
            screen.print_line(wrap_lines(&sanitize(&passage.text), screen.text_columns(), "  "))?;
        }
    }
    let notes = [
        Some(remainder_text(result)),
        damaged_note(result.damaged),
        backlog_note(result.backlog),
        meaning_note(&result.meaning),
    ];
    for note in notes.into_iter().flatten() {
        screen.print_line(style.dim(wrap(&note, screen.text_columns(), "", "")))?;
    }
    Ok(())
}

/// Returns a sentence about damaged messages; `None` if there are none.
fn damaged_note(damaged: u64) -> Option<String> {
    let verb = if damaged == 1 { "is" } else { "are" };
    (damaged > 0).then(|| {
        let count = format_count(damaged, "message");
        format!("{count} {verb} damaged in the database and not shown; `segue doctor` lists all damage.")
    })
}

/// Returns a sentence about the matches or messages that are not shown.
fn remainder_text(result: &RecallResult) -> String {
    let is_empty = result.excerpts.is_empty() && result.damaged == 0;
    match result.remaining {
        Remaining::Messages(0) if is_empty => {
            let searched = match result.threads.len() {
                1 => "this thread".to_owned(),
                count => format!("this thread and {} it came from", format_count(count as u64 - 1, "thread")),
            };
            format!(
                "No matches in {searched}. Other threads were not searched: `segue search` searches the project, and with \
                 `--everywhere` all projects."
            )
        }
        Remaining::Messages(0) => "There are no more matches.".to_owned(),
        Remaining::Messages(more) => {
            format!("At least {} more; use more specific words to find them.", format_count(more, "message"))
        }
        Remaining::Range { next_seq: None } if is_empty => {
            "There are no messages at these numbers.".to_owned()
        }
        Remaining::Range { next_seq: None } => "The range is complete.".to_owned(),
        Remaining::Range { next_seq: Some(next) } => format!("The range continues at #{next}."),
    }
}

/// Returns the output of `--json`.
fn recall_report(result: &RecallResult) -> RecallReport<'_> {
    let (more_messages, not_indexed, next_seq) = match result.remaining {
        Remaining::Messages(more) => (Some(more), Some(result.backlog), None),
        Remaining::Range { next_seq } => (None, None, next_seq),
    };
    let excerpts =
        result.excerpts.iter().map(|excerpt| excerpt.iter().map(recall_passage).collect()).collect();
    let meaning = not_indexed.is_some().then_some(&result.meaning);
    let damaged_messages = (result.damaged > 0).then_some(result.damaged);
    RecallReport {
        threads: &result.threads,
        excerpts,
        more_messages,
        damaged_messages,
        not_indexed,
        meaning,
        next_seq,
    }
}

/// Converts a message to its JSON form.
fn recall_passage(passage: &RecalledMessage) -> RecallPassage<'_> {
    RecallPassage {
        thread_id: passage.thread_id,
        seq: passage.seq,
        by: SpeakerFields::from_speaker(&passage.speaker),
        at: passage.at,
        text: &passage.text,
    }
}
