//! Memory in a chat: `/search`, `/recall`, `/remember` and `/memory`, and what becomes a summary behind the conversation.
//! The work goes on while the person reads and writes; what came of it is told above the next line.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::{Agent, CancellationToken, Frame, Frames, Item, SearchRequest, Settled, Tiering};
use clap::{Args, FromArgMatches};
use tokio::task::JoinHandle;

use crate::cli::memory::Search;
use crate::commands::chat::Chat;
use crate::commands::history::recall;
use crate::commands::history::search::{self, Asked};
use crate::commands::memory::{notes, settle, tiers};
use crate::exit::{Code, Failure, chain};

/// Summaries that `/memory` shows.
const SUMMARIES_SHOWN: usize = 3;
/// The longest a chat that is left waits for what goes on behind it to come to rest.
const REST_MAX: Duration = Duration::from_secs(1);
/// How to come to more than `/memory` shows.
const MORE: &str = "/memory show shows agent.md, /memory edit changes it, /remember adds to it, /search looks through everything.";

/// The work behind a conversation; one at a time.
#[derive(Debug, Default)]
pub(super) struct Behind {
    work: Option<Work>,
    /// Whether something became due while it went on.
    is_due_again: bool,
    /// What went wrong and was told, which is not told again.
    told: BTreeSet<String>,
}

#[derive(Debug)]
struct Work {
    task: JoinHandle<Came>,
    cancel: CancellationToken,
}

/// What came of the work.
#[derive(Debug)]
struct Came {
    settled: Vec<Settled>,
    /// What went wrong, in order.
    problems: Vec<String>,
}

impl Behind {
    /// Begins to make the summaries that are due, unless that goes on already.
    pub(super) fn begin(&mut self, agent: &Agent) {
        if self.work.is_some() {
            self.is_due_again = true;
            return;
        }
        // Without a model that can be opened, what is due waits.
        let Ok(tiering) = agent.memory().tiering() else { return };
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        self.work = Some(Work { task: tokio::spawn(settle_quietly(tiering, stop)), cancel });
    }

    /// Returns what is to be told of work that has ended since, and begins again if something became due meanwhile.
    async fn news(&mut self, agent: &Agent) -> Option<String> {
        if !self.work.as_ref()?.task.is_finished() {
            return None;
        }
        let done = self.work.take()?.task.await;
        if std::mem::take(&mut self.is_due_again) {
            self.begin(agent);
        }
        let Came { settled, problems } = match done {
            Ok(came) => came,
            Err(error) => Came { settled: Vec::new(), problems: vec![error.to_string()] },
        };
        let new = problems.into_iter().filter(|problem| self.told.insert(problem.clone()));
        let new: Vec<String> = new.map(|problem| format!("Memory: {problem}.")).collect();
        let settled = settle::told(&settled).map(|text| format!("{text} /memory shows it."));
        let news: Vec<String> = settled.into_iter().chain(new).collect();
        (!news.is_empty()).then(|| news.join(" "))
    }

    /// Asks it to stop, and waits a moment for it: what is not done waits in the queue.
    pub(super) async fn end(&mut self) {
        if let Some(Work { task, cancel }) = self.work.take() {
            cancel.cancel();
            // What does not come to rest is dropped with the program, which loses nothing either.
            let _ = tokio::time::timeout(REST_MAX, task).await;
        }
    }
}

/// Makes the summaries that are due, and keeps what it tells: a person writes meanwhile.
async fn settle_quietly(tiering: Tiering, cancel: CancellationToken) -> Came {
    let (frames, mut told) = Frames::channel();
    let settled = tiering.settle(&frames, &cancel).await;
    let mut problems = Vec::new();
    while let Some(item) = told.try_next() {
        if let Item::Frame(_, frame) = item
            && let Frame::Notice { text } = &*frame
        {
            problems.push(text.clone());
        }
    }
    match settled {
        Ok(settled) => Came { settled, problems },
        Err(error) => {
            problems.push(format!("failed to {}", chain(&error.into())));
            Came { settled: Vec::new(), problems }
        }
    }
}

impl Chat {
    /// Tells what became of turns behind the conversation, once.
    pub(super) async fn tell_behind(&mut self) -> Result<(), Failure> {
        self.context.watching.tell(&self.context.screen);
        match self.behind.news(&self.context.agent).await {
            Some(text) => self.say(&text),
            None => Ok(()),
        }
    }

    /// `/search`: finds what was said in any thread; it takes what the command of the same name takes.
    pub(super) async fn search(&self, words: &[&str]) -> Result<(), Failure> {
        let args = read(words)?;
        let request = search::request(&self.context, &args).await?;
        search::find(&self.context, &request, Asked::Chat).await
    }

    /// `/recall`: finds what was said here, or in the threads this one came from, and if that is nothing, anywhere.
    pub(super) async fn recall(&self, words: &[&str]) -> Result<(), Failure> {
        let is_all = words.contains(&"--all");
        let words: Vec<&str> = words.iter().copied().filter(|word| *word != "--all").collect();
        let text = words.join(" ");
        if text.is_empty() {
            return Err(Failure::new(Code::User, "recall: no words were given")
                .with_hint("/recall words… finds what was said about them"));
        }
        if let Some(thread) = self.thread.as_ref().filter(|_| !is_all) {
            if recall::find(&self.context, thread.thread_id, &text).await? {
                return Ok(());
            }
            self.say("Nothing here; in all threads:")?;
        }
        search::find(&self.context, &SearchRequest::of(text), Asked::Chat).await
    }

    /// `/remember`: keeps a sentence in agent.md.
    pub(super) async fn remember(&self, text: &str) -> Result<(), Failure> {
        let kept = notes::keep(&self.context, text).await?;
        notes::tell(&self.context.screen, &kept)
    }

    /// `/memory`: shows how much there is, and the newest summaries; or shows or changes agent.md.
    pub(super) async fn memory(&self, what: Option<&str>) -> Result<(), Failure> {
        match what {
            None => {
                tiers::show_stats(&self.context, &self.context.agent.memory().stats().await?)?;
                self.context.screen.line("")?;
                let summaries = self.context.agent.memory().recent_summaries(SUMMARIES_SHOWN).await?;
                tiers::show_summaries(&self.context, &summaries, Asked::Chat).await?;
                self.say(MORE)
            }
            Some("show") => notes::show_file(&self.context),
            Some("edit") => {
                let change = notes::change(&self.context).await?;
                self.say(notes::told_change(change))
            }
            Some(word) => Err(Failure::new(Code::User, format!("read /memory: it takes no `{word}`"))
                .with_hint("/memory, /memory show or /memory edit")),
        }
    }
}

/// Reads what the command takes, as the command line does.
fn read(words: &[&str]) -> Result<Search, Failure> {
    let command = clap::Command::new("/search").no_binary_name(true).disable_help_flag(true);
    let matches = Search::augment_args(command).try_get_matches_from(words);
    matches.and_then(|matches| Search::from_arg_matches(&matches)).map_err(|error| {
        let text = error.to_string();
        let why = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let why = if words.is_empty() { "no words were given" } else { why };
        Failure::new(Code::User, format!("read /search: {why}"))
            .with_hint("/search words… [--thread ID] [--since WHEN] [--kind KIND] [--limit N]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::memory::Kind;

    #[test]
    fn a_search_takes_in_a_chat_what_it_takes_on_the_command_line() {
        let words: Vec<&str> = "why did we choose it? --kind summary,handoff --limit 3".split(' ').collect();
        let args = read(&words).unwrap();
        assert_eq!(args.words.join(" "), "why did we choose it?");
        assert_eq!((args.kind, args.limit), (vec![Kind::Summary, Kind::Handoff], 3));
        for wrong in ["", "words --since yesterday", "words --limit 0", "words --no"] {
            let words: Vec<&str> = wrong.split_whitespace().collect();
            assert!(read(&words).is_err(), "{wrong}");
        }
    }
}
