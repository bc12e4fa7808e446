//! `segue search` and `/search`: searches messages, summaries, handoffs and stored items of all threads. The crate
//! `memory` decides which of them match and in which order.

use agent::{
    AdjacentMessage, IndexBacklog, IndexHitKind, MatchBasis, MeaningComparison, ProjectScope, SearchHit,
    SearchHitSource, SearchRequest, SearchResults, SearchUnit, Speaker,
};
use jiff::Timestamp;
use protocol::{HandoffId, Seq, SummaryId, ThreadId};
use serde::Serialize;
use terminal::search_hits::{ThreadNames, highlight_matches, render_hit};
use terminal::{sanitize_line, shorten, wrap};

use crate::cli::OutputFormat;
use crate::cli::memory::{SearchArgs, SearchKind};
use crate::commands::import::format_count;
use crate::commands::memory::project_scope;
use crate::commands::{CommandContext, threads};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most columns of a query that are quoted in a message.
const QUOTED_COLUMNS_MAX: usize = 100;

/// The note after an empty result that is limited to a project.
pub(crate) const OTHER_PROJECTS_NOTE: &str =
    "Other projects were not searched: `--everywhere` searches all projects.";

/// The syntax of commands in hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandSyntax {
    /// `segue history …`, for the shell.
    Shell,
    /// `/history …`, for the chat.
    Chat,
}

/// The output of `--json`.
#[derive(Serialize)]
pub(crate) struct SearchReport<'a> {
    /// The words that the index was searched for.
    words: &'a [String],
    /// The project to which the search was limited; `null` if it was not limited to one.
    project: Option<&'a str>,
    /// The messages of the searched threads that are not indexed yet.
    not_indexed: IndexBacklog,
    /// The way in which meaning was compared.
    meaning: &'a MeaningComparison,
    /// The hits, best first.
    hits: Vec<SearchHitReport<'a>>,
}

/// One hit of the report.
#[derive(Serialize)]
struct SearchHitReport<'a> {
    /// The object that was found.
    #[serde(flatten)]
    target: SearchHitTarget<'a>,
    /// The time of the object that was found.
    created_at: Timestamp,
    /// The relevance; a larger number is a better match.
    score: f64,
    /// The reason why it was found: its words, or its meaning.
    matched_by: MatchBasis,
    /// The passage that matches, as plain text.
    snippet: String,
}

/// The kind and the identity of the object that was found.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum SearchHitTarget<'a> {
    /// A message, with the messages directly before and after it.
    Message {
        thread_id: ThreadId,
        seq: Seq,
        /// The speaker.
        #[serde(flatten)]
        by: SpeakerFields<'a>,
        /// The message directly before.
        before: Option<AdjacentMessageReport<'a>>,
        /// The message directly after.
        after: Option<AdjacentMessageReport<'a>>,
    },
    /// A summary of messages in medium-term memory.
    Summary {
        summary_id: SummaryId,
        /// The summarized thread; `null` if it was deleted.
        thread_id: Option<ThreadId>,
        first_turn: u64,
        last_turn: u64,
    },
    /// A handoff, found by its summary.
    Handoff { handoff_id: HandoffId, parent_thread_id: ThreadId, child_thread_id: ThreadId },
    /// A stored item.
    Item { namespace: &'a [String], key: &'a str },
}

/// The speaker of a message.
#[derive(Serialize)]
pub(super) struct SpeakerFields<'a> {
    /// `human`, `ai`, `tool` or `harness`.
    speaker: &'static str,
    /// The name of the tool, if the speaker is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
}

/// The message directly before or after a hit.
#[derive(Serialize)]
struct AdjacentMessageReport<'a> {
    /// The event of the message.
    seq: Seq,
    /// The speaker.
    #[serde(flatten)]
    by: SpeakerFields<'a>,
    /// The text of the message.
    text: &'a str,
}

impl<'a> SpeakerFields<'a> {
    /// Returns the fields of a speaker.
    pub(super) fn from_speaker(speaker: &'a Speaker) -> Self {
        let (speaker, tool) = match speaker {
            Speaker::User => ("human", None),
            Speaker::Assistant => ("ai", None),
            Speaker::Tool(name) => ("tool", name.as_deref()),
            Speaker::Harness => ("harness", None),
        };
        Self { speaker, tool }
    }
}

/// Performs `segue search`.
///
/// # Errors
/// Fails like [`search_request`] and [`show_search`].
pub(crate) async fn run(context: &CommandContext, args: SearchArgs) -> CommandResult {
    show_search(context, &search_request(context, &args).await?, CommandSyntax::Shell)
        .await
        .map(|()| ExitReason::Success)
}

/// Converts the arguments to a search request.
///
/// # Errors
/// Fails if the query contains no word, or the thread does not exist.
pub(crate) async fn search_request(
    context: &CommandContext,
    args: &SearchArgs,
) -> Result<SearchRequest, CliFailure> {
    let text = args.words.join(" ");
    check_words(&text)?;
    let thread_id = match &args.thread {
        Some(prefix) => Some(context.agent.threads().find(prefix).await?.thread_id),
        None => None,
    };
    // A thread that is named is searched wherever it is.
    let project = match thread_id {
        Some(_) => ProjectScope::Any,
        None => project_scope(context, args.projects),
    };
    let kind = |kind: &SearchKind| match kind {
        SearchKind::Message => IndexHitKind::Message,
        SearchKind::Summary => IndexHitKind::Summary,
        SearchKind::Handoff => IndexHitKind::Handoff,
        SearchKind::Item => IndexHitKind::Item,
    };
    Ok(SearchRequest {
        kinds: args.kind.iter().map(kind).collect(),
        thread_id,
        project,
        assistant_id: args.agent.clone(),
        since: args.since.map(|since| since.resolve(Timestamp::now())),
        limit: args.limit as usize,
        unit: if args.passages { SearchUnit::Passage } else { SearchUnit::Message },
        ..SearchRequest::new(text)
    })
}

/// Checks that a query contains a letter or a digit.
///
/// # Errors
/// Fails if the query contains neither.
pub(crate) fn check_words(text: &str) -> Result<(), CliFailure> {
    match text.contains(char::is_alphanumeric) {
        true => Ok(()),
        false => Err(CliFailure::new(ExitReason::User, "search: no words were given")
            .with_hint("write a question, or the words to search for")),
    }
}

/// Returns a query in backticks, sanitized and shortened, for use in a sentence.
pub(crate) fn quote_query(text: &str) -> String {
    format!("`{}`", shorten(&sanitize_line(text), QUOTED_COLUMNS_MAX))
}

/// Searches, and prints the hits with commands that open them.
///
/// # Errors
/// Fails if the query contains no word, the journal cannot be read, or stdout cannot be written.
pub(crate) async fn show_search(
    context: &CommandContext,
    request: &SearchRequest,
    syntax: CommandSyntax,
) -> Result<(), CliFailure> {
    let results = context.agent.memory().search(request).await?;
    if context.format == OutputFormat::Json {
        return context.print_json(&search_report(&results, &request.project));
    }
    let screen = &context.screen;
    if results.hits.is_empty() {
        let query = quote_query(&request.text);
        let text = match request.project {
            ProjectScope::Any => format!("No matches for {query}."),
            ProjectScope::Project(_) | ProjectScope::Personal | ProjectScope::OfThread(_) => {
                format!("No matches for {query} in this project. {OTHER_PROJECTS_NOTE}")
            }
        };
        let text = [Some(text), backlog_note(results.backlog), meaning_note(&results.meaning)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?;
        return Ok(());
    }
    let names = hit_thread_names(context, &results.hits).await?;
    for (index, hit) in results.hits.iter().enumerate() {
        if index > 0 {
            screen.print_line("")?;
        }
        screen.print_lines(render_hit(screen, hit, &names))?;
    }
    let notes = [
        Some(navigation_hint(&results.hits, &names, syntax)),
        backlog_note(results.backlog),
        meaning_note(&results.meaning),
    ];
    for note in notes {
        let Some(note) = note else { continue };
        let note = screen.style.dim(wrap(&note, screen.text_columns(), "", "  "));
        match syntax {
            CommandSyntax::Shell => screen.print_to_stderr(note),
            CommandSyntax::Chat => screen.print_line(note)?,
        }
    }
    Ok(())
}

/// Returns the note about messages that were not searched; `None` if all were.
pub(crate) fn backlog_note(backlog: IndexBacklog) -> Option<String> {
    let IndexBacklog { messages, threads } = backlog;
    let verbs = if messages == 1 { "is not indexed yet and was" } else { "are not indexed yet and were" };
    (!backlog.is_empty()).then(|| {
        format!(
            "{} of {} {verbs} not searched. Each search indexes more of them.",
            format_count(messages, "message"),
            format_count(threads, "thread"),
        )
    })
}

/// Returns the note about messages whose meaning was not compared; `None` if there is nothing to say.
pub(crate) fn meaning_note(meaning: &MeaningComparison) -> Option<String> {
    match meaning {
        MeaningComparison::Off | MeaningComparison::Compared { missing: 0 } => None,
        MeaningComparison::Compared { missing } => {
            let (verb, whose, what) = match *missing {
                1 => ("has", "its", "it"),
                _ => ("have", "their", "them"),
            };
            Some(format!(
                "Up to {} {verb} no embedding yet: only {whose} words were compared. `segue memory embed` embeds {what}.",
                format_count(*missing, "message")
            ))
        }
        MeaningComparison::Unavailable { reason } => {
            Some(format!("Only words were compared: {}.", sanitize_line(reason)))
        }
    }
}

/// Returns the short ids and titles of the hits' threads.
///
/// # Errors
/// Fails if the journal cannot be read.
pub(crate) async fn hit_thread_names(
    context: &CommandContext,
    hits: &[SearchHit],
) -> Result<ThreadNames, CliFailure> {
    let threads_of = |hit: &SearchHit| match &hit.source {
        SearchHitSource::Message { thread_id, .. } => [Some(*thread_id), None],
        SearchHitSource::Summary { thread_id, .. } => [*thread_id, None],
        SearchHitSource::Handoff { parent_thread_id, child_thread_id, .. } => {
            [Some(*parent_thread_id), Some(*child_thread_id)]
        }
        SearchHitSource::Item { .. } => [None, None],
    };
    thread_names(context, hits.iter().flat_map(threads_of).flatten()).await
}

/// Returns the short ids and titles of threads. Deleted threads are omitted. Each thread costs one query and one for
/// each tried length of its id.
///
/// # Errors
/// Fails if the journal cannot be read.
pub(crate) async fn thread_names(
    context: &CommandContext,
    thread_ids: impl Iterator<Item = ThreadId>,
) -> Result<ThreadNames, CliFailure> {
    let mut names = ThreadNames::new();
    for thread_id in thread_ids {
        if names.contains_key(&thread_id) {
            continue;
        }
        let thread = context.agent.threads().get(thread_id).await?;
        if let Some(thread) = thread {
            let name = (context.short_id(thread_id).await, threads::thread_title(&thread));
            names.insert(thread_id, name);
        }
    }
    Ok(names)
}

/// Returns a sentence with a command for each kind of hit. The command opens the best hit of its kind.
pub(crate) fn navigation_hint(hits: &[SearchHit], names: &ThreadNames, syntax: CommandSyntax) -> String {
    let short_id = |thread_id: &ThreadId| names.get(thread_id).map(|(id, _)| id.as_str());
    let history = match syntax {
        CommandSyntax::Shell => "segue history",
        CommandSyntax::Chat => "/history",
    };
    let message = hits.iter().find_map(|hit| match &hit.source {
        SearchHitSource::Message { thread_id, seq, .. } => Some(format!(
            "`{history} {} --around {seq}` shows a message in its context",
            short_id(thread_id)?
        )),
        SearchHitSource::Summary { .. } | SearchHitSource::Handoff { .. } | SearchHitSource::Item { .. } => {
            None
        }
    });
    let summary = hits.iter().find_map(|hit| match &hit.source {
        SearchHitSource::Summary { thread_id: Some(thread_id), first_turn, .. } => {
            let after = first_turn.saturating_sub(1);
            let id = short_id(thread_id)?;
            Some(format!("`segue memory trace {id} --after {after}` lists the messages of a summary"))
        }
        SearchHitSource::Message { .. }
        | SearchHitSource::Summary { .. }
        | SearchHitSource::Handoff { .. }
        | SearchHitSource::Item { .. } => None,
    });
    let handoff = hits.iter().find_map(|hit| match &hit.source {
        SearchHitSource::Handoff { handoff_id, .. } => {
            Some(format!("`segue handoff --show {handoff_id}` shows a handoff"))
        }
        SearchHitSource::Message { .. } | SearchHitSource::Summary { .. } | SearchHitSource::Item { .. } => {
            None
        }
    });
    let item = hits.iter().find_map(|hit| match &hit.source {
        SearchHitSource::Item { namespace, key } => Some(format!(
            "`segue store get {} {}` prints an item",
            sanitize_line(&namespace.join(".")),
            sanitize_line(key)
        )),
        SearchHitSource::Message { .. }
        | SearchHitSource::Summary { .. }
        | SearchHitSource::Handoff { .. } => None,
    });
    let commands: Vec<String> = [message, summary, handoff, item].into_iter().flatten().collect();
    format!("{}.", commands.join(", "))
}

/// Returns the results for `--json`.
pub(crate) fn search_report<'a>(results: &'a SearchResults, scope: &'a ProjectScope) -> SearchReport<'a> {
    let project = match scope {
        ProjectScope::Project(path) => Some(path.as_str()),
        ProjectScope::Any | ProjectScope::Personal | ProjectScope::OfThread(_) => None,
    };
    let hits = results.hits.iter().map(hit_report).collect();
    SearchReport {
        words: &results.words,
        project,
        not_indexed: results.backlog,
        meaning: &results.meaning,
        hits,
    }
}

/// Converts a hit to its JSON form.
fn hit_report(hit: &SearchHit) -> SearchHitReport<'_> {
    let target = match &hit.source {
        SearchHitSource::Message { thread_id, seq, speaker, before, after } => SearchHitTarget::Message {
            thread_id: *thread_id,
            seq: *seq,
            by: SpeakerFields::from_speaker(speaker),
            before: before.as_ref().map(adjacent_report),
            after: after.as_ref().map(adjacent_report),
        },
        SearchHitSource::Summary { summary_id, thread_id, first_turn, last_turn } => {
            SearchHitTarget::Summary {
                summary_id: *summary_id,
                thread_id: *thread_id,
                first_turn: *first_turn,
                last_turn: *last_turn,
            }
        }
        SearchHitSource::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
            SearchHitTarget::Handoff {
                handoff_id: *handoff_id,
                parent_thread_id: *parent_thread_id,
                child_thread_id: *child_thread_id,
            }
        }
        SearchHitSource::Item { namespace, key } => SearchHitTarget::Item { namespace, key },
    };
    // JSON has no colour, so the marks around matches are removed.
    let snippet = highlight_matches(&hit.snippet, str::to_owned);
    let matched_by = hit.matched_by;
    SearchHitReport { target, created_at: hit.at, score: hit.score, matched_by, snippet }
}

/// Converts an adjacent message to its JSON form.
fn adjacent_report(message: &AdjacentMessage) -> AdjacentMessageReport<'_> {
    AdjacentMessageReport {
        seq: message.seq,
        by: SpeakerFields::from_speaker(&message.speaker),
        text: &message.text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page of the book that documents the JSON.
    const PAGE: &str = include_str!("../../../../../docs/src/memory-json.md");

    /// Returns an id of any kind that ends in this byte.
    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    /// Returns a hit with a fixed time.
    fn hit(source: SearchHitSource, score: f64, snippet: &str) -> SearchHit {
        SearchHit {
            source,
            at: Timestamp::UNIX_EPOCH,
            snippet: snippet.to_owned(),
            score,
            matched_by: MatchBasis::Words,
        }
    }

    /// Returns one hit of every kind, in the order of the page.
    fn hits() -> Vec<SearchHit> {
        let before = AdjacentMessage { seq: 411, speaker: Speaker::User, text: "Which one?".to_owned() };
        let message = SearchHitSource::Message {
            thread_id: id(1),
            seq: 412,
            speaker: Speaker::Assistant,
            before: Some(before),
            after: None,
        };
        let summary = SearchHitSource::Summary {
            summary_id: id(2),
            thread_id: Some(id(1)),
            first_turn: 1,
            last_turn: 24,
        };
        let handoff =
            SearchHitSource::Handoff { handoff_id: id(3), parent_thread_id: id(1), child_thread_id: id(4) };
        let item = SearchHitSource::Item {
            namespace: vec!["users".to_owned(), "ada".to_owned()],
            key: "tea".to_owned(),
        };
        vec![
            hit(message, 7.5, "we take the \u{2}small\u{3} kettle"),
            hit(summary, 5.0, "The \u{2}kettle\u{3} leaks."),
            hit(handoff, 4.0, "Mend the \u{2}kettle\u{3}"),
            hit(item, 3.0, "green, no \u{2}kettle\u{3}"),
        ]
    }

    #[test]
    fn m11_the_page_shows_the_json_of_every_kind_of_hit() {
        let results = SearchResults {
            hits: hits(),
            words: Vec::new(),
            backlog: IndexBacklog::default(),
            meaning: MeaningComparison::Off,
        };
        let lines: Vec<String> = search_report(&results, &ProjectScope::Any)
            .hits
            .iter()
            .map(|hit| serde_json::to_string(hit).unwrap())
            .collect();
        let shown: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("{\"kind\":")).collect();
        assert_eq!(shown, lines, "docs/src/memory-json.md must show:\n{}", lines.join("\n"));
    }

    #[test]
    fn messages_that_were_not_searched_are_counted() {
        let note = |messages, threads| backlog_note(IndexBacklog { messages, threads });
        assert_eq!(note(0, 0), None);
        assert_eq!(
            note(1, 1).unwrap(),
            "1 message of 1 thread is not indexed yet and was not searched. Each search indexes more of them."
        );
        assert!(
            note(900, 7).unwrap().starts_with("900 messages of 7 threads are not indexed yet and were not")
        );
    }

    #[test]
    fn m11_each_kind_of_hit_can_be_opened_by_one_command() {
        let names: ThreadNames =
            [1, 4].map(|last| (id(last), (format!("0192f0c{last}"), "Mend the kettle".to_owned()))).into();
        let hint = navigation_hint(&hits(), &names, CommandSyntax::Shell);
        for command in [
            "`segue history 0192f0c1 --around 412` shows a message in its context",
            "`segue memory trace 0192f0c1 --after 0` lists the messages of a summary",
            &format!("`segue handoff --show {}` shows a handoff", id::<HandoffId>(3)),
            "`segue store get users.ada tea` prints an item",
        ] {
            assert!(hint.contains(command), "{command}: {hint}");
        }
        assert!(
            navigation_hint(&hits(), &names, CommandSyntax::Chat)
                .contains("`/history 0192f0c1 --around 412`")
        );
    }
}
