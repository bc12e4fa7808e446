//! The chat's commands about memory: `/search`, `/recall`, `/remember` and `/memory`; and the summarization of old
//! messages in the background. The background task runs while the user reads and writes, and is reported before the
//! next prompt.

mod pin_commands;

use std::collections::BTreeSet;
use std::time::Duration;

use agent::{
    Agent, CancellationToken, Frame, FrameSender, ProjectScope, SearchRequest, SubscriptionItem,
    SummarizationWorker, SummarizedTurns,
};
use clap::{Args, FromArgMatches};
use tokio::task::JoinHandle;

use crate::cli::memory::{ProjectArgs, SearchArgs};
use crate::commands::chat::ChatSession;
use crate::commands::history::recall;
use crate::commands::history::search::{self, CommandSyntax};
use crate::commands::memory::{agent_md, facts, project_scope, summarize, tiers};
use crate::exit::{CliFailure, ExitReason, error_chain};

/// The number of summaries that `/memory` shows.
const SUMMARIES_SHOWN: usize = 3;
/// The longest time that the end of a chat waits for the background task to stop. A model call may take much longer.
const STOP_WAIT_MAX: Duration = Duration::from_secs(1);
/// The hint below the output of `/memory`.
const MEMORY_HINT: &str = "/memory show shows agent.md, /memory edit edits it, /remember adds to it, /memory review reviews facts, /search searches the project.";

/// Summarizes old messages in the background, with at most one task at a time.
#[derive(Debug, Default)]
pub(super) struct BackgroundSummarizer {
    /// The task, until its result is taken.
    running: Option<SummarizerTask>,
    /// True if another run is needed when the current one ends, because messages may have become due meanwhile.
    is_rerun_due: bool,
    /// The problems that were reported in this chat. Each problem is reported once.
    reported_problems: BTreeSet<String>,
}

/// The running task, and the token that stops it.
#[derive(Debug)]
struct SummarizerTask {
    /// The Tokio task.
    task: JoinHandle<SummarizerResult>,
    /// The token that asks the task to stop.
    cancel: CancellationToken,
}

/// The result of one background run.
#[derive(Debug)]
struct SummarizerResult {
    /// The messages that were summarized.
    summarized: Vec<SummarizedTurns>,
    /// The messages of failures, in order.
    problems: Vec<String>,
}

impl BackgroundSummarizer {
    /// Starts to summarize the messages that are due. If a task is already running, another run follows it.
    pub(super) fn start(&mut self, agent: &Agent) {
        if self.running.is_some() {
            self.is_rerun_due = true;
            return;
        }
        // If no model can be opened, due messages stay in the queue.
        let Ok(worker) = agent.memory().tiering_worker() else { return };
        let cancel = CancellationToken::new();
        let task = tokio::spawn(summarize_in_background(worker, cancel.clone()));
        self.running = Some(SummarizerTask { task, cancel });
    }

    /// Returns a report if the task has ended since the last call, and starts another run if one is needed. Never waits
    /// for the task.
    async fn take_report(&mut self, agent: &Agent) -> Option<String> {
        if !self.running.as_ref()?.task.is_finished() {
            return None;
        }
        let joined = self.running.take()?.task.await;
        if std::mem::take(&mut self.is_rerun_due) {
            self.start(agent);
        }
        let SummarizerResult { summarized, problems } = match joined {
            Ok(result) => result,
            Err(error) => SummarizerResult { summarized: Vec::new(), problems: vec![error.to_string()] },
        };
        let new_problems =
            problems.into_iter().filter(|problem| self.reported_problems.insert(problem.clone()));
        let new_problems: Vec<String> = new_problems.map(|problem| format!("Memory: {problem}.")).collect();
        let success = summarize::summarized_text(&summarized, CommandSyntax::Chat)
            .map(|text| format!("{text} /memory shows it."));
        let sentences: Vec<String> = success.into_iter().chain(new_problems).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Stops the task and waits for it, at most [`STOP_WAIT_MAX`]. Messages that are not yet summarized stay in the
    /// queue.
    pub(super) async fn stop(&mut self) {
        if let Some(SummarizerTask { task, cancel }) = self.running.take() {
            cancel.cancel();
            // A task that does not stop in time ends with the program. Nothing is lost: a summary is stored in one
            // transaction, and until then the thread stays in the queue.
            let _ = tokio::time::timeout(STOP_WAIT_MAX, task).await;
        }
    }
}

/// Summarizes the messages that are due. Notices are collected instead of printed, because the user may be writing at
/// the prompt.
async fn summarize_in_background(worker: SummarizationWorker, cancel: CancellationToken) -> SummarizerResult {
    let (frames, mut subscription) = FrameSender::channel();
    let result = worker.summarize_queue(&frames, &cancel).await;
    let mut problems = Vec::new();
    while let Some(item) = subscription.try_next() {
        if let SubscriptionItem::Frame(_, frame) = item
            && let Frame::Notice { text } = &*frame
        {
            problems.push(text.clone());
        }
    }
    match result {
        Ok(summarized) => SummarizerResult { summarized, problems },
        Err(error) => {
            problems.push(format!("failed to {}", error_chain(&error.into())));
            SummarizerResult { summarized: Vec::new(), problems }
        }
    }
}

impl ChatSession {
    /// Prints missed hook calls, and the report of the background summarization if a task has ended since the last
    /// call.
    pub(super) async fn report_background_work(&mut self) -> Result<(), CliFailure> {
        self.context.observers.report_missed_hooks(&self.context.screen);
        match self.background.take_report(&self.context.agent).await {
            Some(text) => self.print_info(&text),
            None => Ok(()),
        }
    }

    /// Performs `/search`, with the same arguments as `segue search`.
    pub(super) async fn run_search(&self, words: &[&str]) -> Result<(), CliFailure> {
        let args = parse_search_args(words)?;
        let request = search::search_request(&self.context, &args).await?;
        search::show_search(&self.context, &request, CommandSyntax::Chat).await
    }

    /// Performs `/recall`: searches the messages of the current thread and the threads it came from. If there are no matches,
    /// or with `--all`, it searches all threads of the project; with `--everywhere`, those of all projects.
    pub(super) async fn run_recall(&self, words: &[&str]) -> Result<(), CliFailure> {
        let is_everywhere = words.contains(&"--everywhere");
        let is_all = is_everywhere || words.contains(&"--all");
        let is_word = |word: &&str| !["--all", "--everywhere"].contains(word);
        let words: Vec<&str> = words.iter().copied().filter(is_word).collect();
        let text = words.join(" ");
        if text.is_empty() {
            return Err(CliFailure::new(ExitReason::User, "recall: no words were given")
                .with_hint("/recall words… finds messages that contain any of the words"));
        }
        if let Some(thread) = self.thread.as_ref().filter(|_| !is_all) {
            if recall::show_matches(&self.context, thread.thread_id, &text).await? {
                return Ok(());
            }
            let scope = match self.context.agent.default_project_scope() == ProjectScope::Any {
                true => "all projects",
                false => "the project",
            };
            self.print_info(&format!("No matches in this thread. Matches in {scope}:"))?;
        }
        let project = project_scope(&self.context, ProjectArgs { everywhere: is_everywhere });
        let request = SearchRequest { project, ..SearchRequest::new(text) };
        search::show_search(&self.context, &request, CommandSyntax::Chat).await
    }

    /// Performs `/remember`: adds a sentence to the notes of the project in agent.md, with `--everywhere` to those of all.
    pub(super) async fn run_remember(&self, arguments: &str) -> Result<(), CliFailure> {
        let (everywhere, text) = match arguments.strip_prefix("--everywhere") {
            Some(text) if text.is_empty() || text.starts_with(char::is_whitespace) => (true, text),
            Some(_) | None => (false, arguments),
        };
        let scope = agent_md::notes_scope(&self.context, ProjectArgs { everywhere });
        let receipt = agent_md::remember_sentence(&self.context, scope, text).await?;
        agent_md::print_receipt(&self.context.screen, &receipt)
    }

    /// Performs `/memory`: shows the size of each tier and the newest summaries; `show` and `edit` show or edit agent.md.
    pub(super) async fn run_memory(&self, action: Option<&str>) -> Result<(), CliFailure> {
        match action {
            None => {
                tiers::show_stats(&self.context, &self.context.agent.memory().stats().await?)?;
                self.context.screen.print_line("")?;
                let (memory, scope) =
                    (self.context.agent.memory(), self.context.agent.default_project_scope());
                let summaries = memory.recent_summaries(scope, SUMMARIES_SHOWN).await?;
                tiers::show_summaries(&self.context, &summaries, CommandSyntax::Chat).await?;
                self.print_info(MEMORY_HINT)
            }
            Some("show") => agent_md::show_agent_md(&self.context),
            Some("edit") => {
                let change = agent_md::edit_interactively(&self.context).await?;
                self.print_info(agent_md::edit_result_text(change))
            }
            Some("review") => facts::review_in_chat(&self.context).await,
            Some(word) => {
                Err(CliFailure::new(ExitReason::User, format!("read /memory: it has no argument `{word}`"))
                    .with_hint("/memory, /memory show, /memory edit or /memory review"))
            }
        }
    }
}

/// Parses the arguments of `/search` with the same parser as the command line.
fn parse_search_args(words: &[&str]) -> Result<SearchArgs, CliFailure> {
    let command = clap::Command::new("/search").no_binary_name(true).disable_help_flag(true);
    let matches = SearchArgs::augment_args(command).try_get_matches_from(words);
    matches.and_then(|matches| SearchArgs::from_arg_matches(&matches)).map_err(|error| {
        let text = error.to_string();
        let first_line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let reason = if words.is_empty() { "no words were given" } else { first_line };
        CliFailure::new(ExitReason::User, format!("read /search: {reason}"))
            .with_hint("/search words… [--thread ID] [--since WHEN] [--kind KIND] [--everywhere] [--limit N]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::memory::SearchKind;

    #[test]
    fn search_has_the_same_arguments_in_the_chat_as_on_the_command_line() {
        let words: Vec<&str> = "why did we choose it? --kind summary,handoff --limit 3".split(' ').collect();
        let args = parse_search_args(&words).unwrap();
        assert_eq!(args.words.join(" "), "why did we choose it?");
        assert_eq!((args.kind, args.limit), (vec![SearchKind::Summary, SearchKind::Handoff], 3));
        for invalid in ["", "words --since yesterday", "words --limit 0", "words --no"] {
            let words: Vec<&str> = invalid.split_whitespace().collect();
            assert!(parse_search_args(&words).is_err(), "{invalid}");
        }
    }
}
