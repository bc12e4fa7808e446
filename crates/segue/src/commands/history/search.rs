//! `segue search` and `/search`: what was said in any thread, and what stands for it, found again. What is found, and in
//! which order, is decided by the `memory` room.

use agent::{Beside, Found, FoundKind, SearchHit, SearchRequest, SearchResults, Speaker};
use jiff::Timestamp;
use protocol::{HandoffId, Seq, SummaryId, ThreadId};
use serde::Serialize;
use terminal::found::{Names, emphasised, hit};
use terminal::{one_line, shorten, wrap};

use crate::cli::Format;
use crate::cli::memory::{Kind, Search};
use crate::commands::{Context, threads};
use crate::exit::{Code, Failure, Outcome};

/// Columns of what was asked for that are told again.
const QUOTED_COLUMNS_MAX: usize = 100;

/// Where the search was asked for, and so how another command is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Command,
    Chat,
}

/// What `--json` prints.
#[derive(Serialize)]
pub(crate) struct Printed<'a> {
    /// The words that were looked for.
    words: &'a [String],
    /// What was found, best first.
    hits: Vec<Hit<'a>>,
}

/// One hit.
#[derive(Serialize)]
struct Hit<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    created_at: Timestamp,
    score: f64,
    snippet: String,
}

/// Where it is.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Place<'a> {
    Message {
        thread_id: ThreadId,
        seq: Seq,
        #[serde(flatten)]
        by: By<'a>,
        before: Option<Neighbour<'a>>,
        after: Option<Neighbour<'a>>,
    },
    Summary {
        summary_id: SummaryId,
        thread_id: Option<ThreadId>,
        first_turn: u64,
        last_turn: u64,
    },
    Handoff {
        handoff_id: HandoffId,
        parent_thread_id: ThreadId,
        child_thread_id: ThreadId,
    },
    Item {
        namespace: &'a [String],
        key: &'a str,
    },
}

/// Who said something.
#[derive(Serialize)]
pub(super) struct By<'a> {
    speaker: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
}

/// What was said right before or after.
#[derive(Serialize)]
struct Neighbour<'a> {
    seq: Seq,
    #[serde(flatten)]
    by: By<'a>,
    text: &'a str,
}

impl<'a> By<'a> {
    /// Returns how JSON names who said it.
    pub(super) fn of(speaker: &'a Speaker) -> Self {
        let (speaker, tool) = match speaker {
            Speaker::User => ("human", None),
            Speaker::Assistant => ("ai", None),
            Speaker::Tool(name) => ("tool", name.as_deref()),
            Speaker::Harness => ("harness", None),
        };
        Self { speaker, tool }
    }
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Search) -> Outcome {
    find(context, &request(context, &args).await?, Asked::Command).await.map(|()| Code::Done)
}

/// Returns what the arguments ask for.
///
/// # Errors
/// When there is no word, or no such thread.
pub(crate) async fn request(context: &Context, args: &Search) -> Result<SearchRequest, Failure> {
    let text = args.words.join(" ");
    check(&text)?;
    let thread_id = match &args.thread {
        Some(prefix) => Some(context.agent.threads().find(prefix).await?.thread_id),
        None => None,
    };
    let kind = |kind: &Kind| match kind {
        Kind::Message => FoundKind::Message,
        Kind::Summary => FoundKind::Summary,
        Kind::Handoff => FoundKind::Handoff,
        Kind::Item => FoundKind::Item,
    };
    Ok(SearchRequest {
        kinds: args.kind.iter().map(kind).collect(),
        thread_id,
        assistant_id: args.agent.clone(),
        since: args.since.map(|since| since.seen_from(Timestamp::now())),
        limit: args.limit as usize,
        ..SearchRequest::of(text)
    })
}

/// Refuses what has no word in it.
///
/// # Errors
/// When it has none.
pub(crate) fn check(text: &str) -> Result<(), Failure> {
    match text.contains(char::is_alphanumeric) {
        true => Ok(()),
        false => Err(Failure::new(Code::User, "search: no words were given")
            .with_hint("write a question, or the words to look for")),
    }
}

/// Returns what was asked for, as it is told in a sentence.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", shorten(&one_line(text), QUOTED_COLUMNS_MAX))
}

/// Searches and shows what was found, and how to come to its place.
///
/// # Errors
/// When there is no word to look for, or the journal or stdout fails.
pub(crate) async fn find(context: &Context, request: &SearchRequest, asked: Asked) -> Result<(), Failure> {
    let found = context.agent.memory().search(request).await?;
    if context.format == Format::Json {
        return context.json(&printed(&found));
    }
    let screen = &context.screen;
    if found.hits.is_empty() {
        let text = format!("Nothing was found about {}.", quoted(&request.text));
        screen.line(wrap(&text, screen.text_columns(), "", "  "))?;
        return Ok(());
    }
    let names = names(context, &found.hits).await?;
    for (at, found) in found.hits.iter().enumerate() {
        if at > 0 {
            screen.line("")?;
        }
        screen.lines(hit(screen, found, &names))?;
    }
    let ways = wrap(&ways(&found.hits, &names, asked), screen.text_columns(), "", "  ");
    match asked {
        Asked::Command => screen.note(screen.style.dim(ways)),
        Asked::Chat => screen.line(screen.style.dim(ways))?,
    }
    Ok(())
}

/// Returns how the threads of the hits are told.
pub(crate) async fn names(context: &Context, hits: &[SearchHit]) -> Result<Names, Failure> {
    let of = |hit: &SearchHit| match &hit.found {
        Found::Message { thread_id, .. } => [Some(*thread_id), None],
        Found::Summary { thread_id, .. } => [*thread_id, None],
        Found::Handoff { parent_thread_id, child_thread_id, .. } => {
            [Some(*parent_thread_id), Some(*child_thread_id)]
        }
        Found::Item { .. } => [None, None],
    };
    named(context, hits.iter().flat_map(of).flatten()).await
}

/// Returns how threads are told; those that are gone are left out.
pub(crate) async fn named(
    context: &Context,
    thread_ids: impl Iterator<Item = ThreadId>,
) -> Result<Names, Failure> {
    let mut names = Names::new();
    for thread_id in thread_ids {
        if names.contains_key(&thread_id) {
            continue;
        }
        let thread = context.agent.threads().get(thread_id).await?;
        if let Some(thread) = thread {
            let name = (context.short_id(thread_id).await, threads::title(&thread));
            names.insert(thread_id, name);
        }
    }
    Ok(names)
}

/// Returns how to come to the place of a hit: for each kind the command that opens the best one.
pub(crate) fn ways(hits: &[SearchHit], names: &Names, asked: Asked) -> String {
    let short = |thread_id: &ThreadId| names.get(thread_id).map(|(id, _)| id.as_str());
    let history = match asked {
        Asked::Command => "segue history",
        Asked::Chat => "/history",
    };
    let message = hits.iter().find_map(|hit| match &hit.found {
        Found::Message { thread_id, seq, .. } => {
            Some(format!("`{history} {} --around {seq}` opens a message at its place", short(thread_id)?))
        }
        Found::Summary { .. } | Found::Handoff { .. } | Found::Item { .. } => None,
    });
    let summary = hits.iter().find_map(|hit| match &hit.found {
        Found::Summary { thread_id: Some(thread_id), first_turn, .. } => {
            let after = first_turn.saturating_sub(1);
            let id = short(thread_id)?;
            Some(format!("`segue memory trace {id} --after {after}` lists the turns of a summary"))
        }
        Found::Message { .. } | Found::Summary { .. } | Found::Handoff { .. } | Found::Item { .. } => None,
    });
    let handoff = hits.iter().find_map(|hit| match &hit.found {
        Found::Handoff { handoff_id, .. } => {
            Some(format!("`segue handoff --show {handoff_id}` shows a handoff"))
        }
        Found::Message { .. } | Found::Summary { .. } | Found::Item { .. } => None,
    });
    let item = hits.iter().find_map(|hit| match &hit.found {
        Found::Item { namespace, key } => Some(format!(
            "`segue store get {} {}` prints an item",
            one_line(&namespace.join(".")),
            one_line(key)
        )),
        Found::Message { .. } | Found::Summary { .. } | Found::Handoff { .. } => None,
    });
    let ways: Vec<String> = [message, summary, handoff, item].into_iter().flatten().collect();
    format!("{}.", ways.join(", "))
}

pub(crate) fn printed(found: &SearchResults) -> Printed<'_> {
    Printed { words: &found.words, hits: found.hits.iter().map(as_json).collect() }
}

fn as_json(hit: &SearchHit) -> Hit<'_> {
    let place = match &hit.found {
        Found::Message { thread_id, seq, speaker, before, after } => Place::Message {
            thread_id: *thread_id,
            seq: *seq,
            by: By::of(speaker),
            before: before.as_ref().map(neighbour),
            after: after.as_ref().map(neighbour),
        },
        Found::Summary { summary_id, thread_id, first_turn, last_turn } => Place::Summary {
            summary_id: *summary_id,
            thread_id: *thread_id,
            first_turn: *first_turn,
            last_turn: *last_turn,
        },
        Found::Handoff { handoff_id, parent_thread_id, child_thread_id } => Place::Handoff {
            handoff_id: *handoff_id,
            parent_thread_id: *parent_thread_id,
            child_thread_id: *child_thread_id,
        },
        Found::Item { namespace, key } => Place::Item { namespace, key },
    };
    Hit { place, created_at: hit.at, score: hit.score, snippet: emphasised(&hit.snippet, str::to_owned) }
}

fn neighbour(beside: &Beside) -> Neighbour<'_> {
    Neighbour { seq: beside.seq, by: By::of(&beside.speaker), text: &beside.text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that describes the shapes.
    const PAGE: &str = include_str!("../../../../../docs/src/memory-json.md");

    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    fn hit(found: Found, score: f64, snippet: &str) -> SearchHit {
        SearchHit { found, at: Timestamp::UNIX_EPOCH, snippet: snippet.to_owned(), score }
    }

    /// One hit of every kind, in the order of the page.
    fn hits() -> Vec<SearchHit> {
        let before = Beside { seq: 411, speaker: Speaker::User, text: "Which one?".to_owned() };
        let message = Found::Message {
            thread_id: id(1),
            seq: 412,
            speaker: Speaker::Assistant,
            before: Some(before),
            after: None,
        };
        let summary =
            Found::Summary { summary_id: id(2), thread_id: Some(id(1)), first_turn: 1, last_turn: 24 };
        let handoff = Found::Handoff { handoff_id: id(3), parent_thread_id: id(1), child_thread_id: id(4) };
        let item =
            Found::Item { namespace: vec!["users".to_owned(), "ada".to_owned()], key: "tea".to_owned() };
        vec![
            hit(message, 7.5, "we take the \u{2}small\u{3} kettle"),
            hit(summary, 5.0, "The \u{2}kettle\u{3} leaks."),
            hit(handoff, 4.0, "Mend the \u{2}kettle\u{3}"),
            hit(item, 3.0, "green, no \u{2}kettle\u{3}"),
        ]
    }

    #[test]
    fn m11_the_page_shows_every_kind_of_hit_as_it_is_written() {
        let found = SearchResults { hits: hits(), words: Vec::new() };
        let lines: Vec<String> =
            printed(&found).hits.iter().map(|hit| serde_json::to_string(hit).unwrap()).collect();
        let shown: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("{\"kind\":")).collect();
        assert_eq!(shown, lines, "docs/src/memory-json.md must show:\n{}", lines.join("\n"));
    }

    #[test]
    fn m11_each_kind_of_hit_can_be_opened_by_one_command() {
        let names: Names =
            [1, 4].map(|at| (id(at), (format!("0192f0c{at}"), "Mend the kettle".to_owned()))).into();
        let told = ways(&hits(), &names, Asked::Command);
        for way in [
            "`segue history 0192f0c1 --around 412` opens a message at its place",
            "`segue memory trace 0192f0c1 --after 0` lists the turns of a summary",
            &format!("`segue handoff --show {}` shows a handoff", id::<HandoffId>(3)),
            "`segue store get users.ada tea` prints an item",
        ] {
            assert!(told.contains(way), "{way}: {told}");
        }
        assert!(ways(&hits(), &names, Asked::Chat).contains("`/history 0192f0c1 --around 412`"));
    }
}
