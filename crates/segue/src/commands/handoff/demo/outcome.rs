//! The end of a demo: the new thread and the text with which it begins, the old thread, a search in it, and the commands
//! to continue with.

use std::path::{Path, PathBuf};

use agent::{IndexHitKind, ProjectScope, SearchRequest, SearchResults, quote_shell_word};
use protocol::{Handoff, HandoffStatus, Proposal, ThreadId};
use serde::Serialize;
use terminal::search_hits::render_hit;
use terminal::{Audience, Screen, sanitize, sanitize_path, width, wrap};

use super::home::DemoHome;
use super::session::{SampleThread, SampleThreadReport};
use super::{print_step, print_text};
use crate::commands::CommandContext;
use crate::commands::handoff::answer::HandoffAnswerResult;
use crate::commands::handoff::report::{HandoffConclusion, HandoffReport, build_report, conclusion_command};
use crate::commands::handoff::show_child_thread;
use crate::commands::history::search::{SearchReport, hit_thread_names, search_report};
use crate::exit::CliFailure;

/// A question whose answer is in the sample session, and neither in its summary nor in the carried-over facts.
const QUESTION: &str = "what was the root cause of the flaky test";

/// The commands to continue with on one's own sessions, each with its effect.
const NEXT_COMMANDS: [(&str, &str); 3] = [
    ("segue handoff --latest", "hands off the newest session on this machine"),
    ("segue import --discover", "lists the sessions of other agents"),
    ("segue serve --open", "shows your threads in the browser"),
];

/// The prefix of the lines of the accepted text.
const INDENT: &str = "  ";
/// The prefix of the further lines of an item in the accepted text.
const ITEM_INDENT: &str = "    ";

/// The number of characters of a hash that are shown.
const HASH_CHARS: usize = 12;

/// The end of a demo whose draft was reviewed in the terminal.
pub(super) struct DemoOutcome<'a> {
    /// The handoff and its answer.
    conclusion: HandoffConclusion<'a>,
    /// The sample session as it was imported.
    sample: &'a SampleThread,
    /// The number of messages of the sample session after the answer.
    messages_after: u64,
    /// The new thread and the search, if the handoff was accepted.
    accepted: Option<AcceptedHandoff>,
    /// The home folder, if it is kept.
    kept_home: Option<PathBuf>,
}

/// The effects of an accepted handoff.
pub(super) struct AcceptedHandoff {
    /// The handoff.
    handoff: Handoff,
    /// The accepted proposal.
    proposal: Proposal,
    /// The accepted text in the managed block of agent.md.
    block: String,
    /// The number of messages in the old thread.
    parent_messages: u64,
    /// The hits of [`QUESTION`] in the old thread.
    search: SearchResults,
}

/// The output of `segue demo --json`.
#[derive(Serialize)]
pub(super) struct DemoReport<'a> {
    /// The sample session before the handoff.
    session: SampleThreadReport<'a>,
    /// The handoff, in the form of `segue handoff --json`.
    handoff: HandoffReport<'a>,
    /// The new thread; `null` unless the handoff was accepted.
    child: Option<ChildThreadReport<'a>>,
    /// The sample session after the handoff.
    parent: ParentThreadReport,
    /// A search in the old thread, in the form of `segue search --json`; `null` unless the handoff was accepted.
    search: Option<SearchReport<'a>>,
    /// The home folder, if it is kept.
    home: Option<&'a Path>,
    /// The commands to continue with on one's own sessions.
    next_commands: Vec<&'static str>,
}

/// The new thread in the report.
#[derive(Serialize)]
struct ChildThreadReport<'a> {
    /// The id of the thread.
    thread_id: ThreadId,
    /// The text with which its first turn begins.
    block: &'a str,
}

/// The old thread in the report.
#[derive(Serialize)]
struct ParentThreadReport {
    /// The id of the thread.
    thread_id: ThreadId,
    /// The number of its messages.
    messages: u64,
}

impl<'a> DemoOutcome<'a> {
    /// Reads the effects of the answer.
    ///
    /// # Errors
    /// Fails if the journal or agent.md cannot be read.
    pub(super) async fn read(
        context: &CommandContext,
        home: &DemoHome,
        sample: &'a SampleThread,
        conclusion: HandoffConclusion<'a>,
    ) -> Result<Self, CliFailure> {
        let parent = context.agent.threads().find(&sample.thread.thread_id.to_string()).await?;
        let accepted = match &conclusion.result {
            HandoffAnswerResult::Decided(decided) if decided.child_thread_id.is_some() => {
                let (handoff, proposal) = (decided.handoff.clone(), decided.proposal.clone());
                Some(AcceptedHandoff::read(context, handoff, proposal).await?)
            }
            HandoffAnswerResult::Decided(_)
            | HandoffAnswerResult::Pending
            | HandoffAnswerResult::Viewed
            | HandoffAnswerResult::Previewed => None,
        };
        let kept_home = home.kept_path().map(Path::to_owned);
        Ok(Self { conclusion, sample, messages_after: parent.message_count, accepted, kept_home })
    }

    /// Returns the output of `--json`.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(super) async fn report(&self, context: &CommandContext) -> Result<DemoReport<'_>, CliFailure> {
        let next = self.next_command(context).await;
        let accepted = self.accepted.as_ref();
        Ok(DemoReport {
            session: self.sample.report(),
            handoff: build_report(context, &self.conclusion, next).await?,
            child: accepted.map(|accepted| ChildThreadReport {
                thread_id: accepted.handoff.child_thread_id,
                block: &accepted.block,
            }),
            parent: ParentThreadReport {
                thread_id: self.sample.thread.thread_id,
                messages: self.messages_after,
            },
            search: accepted.map(|accepted| search_report(&accepted.search, &ProjectScope::Any)),
            home: self.kept_home.as_deref(),
            next_commands: NEXT_COMMANDS.iter().map(|(command, _)| *command).collect(),
        })
    }

    /// Prints the effects of the answer, and the commands to continue with.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or stdout cannot be written.
    pub(super) async fn print(&self, context: &CommandContext) -> Result<(), CliFailure> {
        let screen = &context.screen;
        match (&self.accepted, &self.conclusion.result) {
            (Some(accepted), _) => accepted.print(context).await?,
            (None, HandoffAnswerResult::Decided(decided)) if decided.next.is_none() => {
                print_without_child(screen, &decided.handoff)?;
            }
            (
                None,
                HandoffAnswerResult::Decided(_)
                | HandoffAnswerResult::Pending
                | HandoffAnswerResult::Viewed
                | HandoffAnswerResult::Previewed,
            ) => self.print_undecided(screen)?,
        }
        self.print_kept_home(context).await?;
        if self.accepted.is_some() || context.screen.audience == Audience::Person {
            print_next_commands(screen)?;
        }
        Ok(())
    }

    /// Prints that nothing was decided, and the way to accept the draft.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    fn print_undecided(&self, screen: &Screen) -> Result<(), CliFailure> {
        match screen.audience {
            Audience::Person => print_text(
                screen,
                "Nothing was decided. A handoff of your own stays pending, and `segue handoff --list` lists it.",
            ),
            Audience::Program => {
                print_text(
                    screen,
                    "Nothing was decided, because there is no terminal. Accept the draft with:",
                )?;
                Ok(screen.print_line(format!("  {}", screen.style.code("segue demo --yes")))?)
            }
        }
    }

    /// Prints the commands that continue in a home folder that is kept.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    async fn print_kept_home(&self, context: &CommandContext) -> Result<(), CliFailure> {
        let Some(home) = &self.kept_home else { return Ok(()) };
        let screen = &context.screen;
        screen.print_line("")?;
        print_text(screen, "The demo's threads are kept. Continue with:")?;
        let commands = [Some(command_in_home(home, "segue threads list")), self.next_command(context).await];
        for command in commands.into_iter().flatten() {
            screen.print_line(format!("  {}", screen.style.code(command)))?;
        }
        Ok(())
    }

    /// Returns the command that continues with the handoff; `None` if the home folder is removed.
    async fn next_command(&self, context: &CommandContext) -> Option<String> {
        let home = self.kept_home.as_ref()?;
        let command = conclusion_command(context, &self.conclusion).await?;
        Some(command_in_home(home, &command))
    }
}

/// Returns a command with the home folder in front of it.
fn command_in_home(home: &Path, command: &str) -> String {
    format!("SEGUE_HOME={} {command}", quote_shell_word(&sanitize_path(home)))
}

/// Returns the request for the best hit of [`QUESTION`] in a thread.
fn search_request(thread_id: ThreadId) -> SearchRequest {
    SearchRequest {
        kinds: vec![IndexHitKind::Message],
        thread_id: Some(thread_id),
        limit: 1,
        ..SearchRequest::new(QUESTION)
    }
}

impl AcceptedHandoff {
    /// Reads the effects of an accepted handoff.
    ///
    /// # Errors
    /// Fails if the journal or agent.md cannot be read.
    pub(super) async fn read(
        context: &CommandContext,
        handoff: Handoff,
        proposal: Proposal,
    ) -> Result<Self, CliFailure> {
        let parent = context.agent.threads().find(&handoff.parent_thread_id.to_string()).await?;
        Ok(Self {
            block: context.agent.memory().agent_md()?.block.clone().unwrap_or_default(),
            parent_messages: parent.message_count,
            search: context.agent.memory().search(&search_request(parent.thread_id)).await?,
            handoff,
            proposal,
        })
    }

    /// Prints the new thread and the text with which its first turn begins, and what stays in the old thread.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or stdout cannot be written.
    pub(super) async fn print(&self, context: &CommandContext) -> Result<(), CliFailure> {
        let screen = &context.screen;
        print_step(screen, "3. The new thread")?;
        show_child_thread(context, &self.handoff, &self.proposal).await?;
        let hash = self.handoff.accepted_sha256.as_deref().unwrap_or_default();
        let text = format!(
            "The thread is empty, and continues with exactly the text that you accepted (SHA-256 {}…):",
            &hash[..hash.len().min(HASH_CHARS)]
        );
        print_text(screen, &text)?;
        screen.print_lines(block_lines(screen, &self.block))?;
        print_step(screen, "4. The old thread")?;
        let text = format!(
            "It still has all {} messages. A search finds a detail that the new thread was not given:",
            self.parent_messages
        );
        print_text(screen, &text)?;
        screen.print_line(format!("  {}", screen.style.code(format!("segue search \"{QUESTION}\""))))?;
        let names = hit_thread_names(context, &self.search.hits).await?;
        for hit in &self.search.hits {
            screen.print_lines(render_hit(screen, hit, &names))?;
        }
        Ok(())
    }
}

/// Prints that a handoff ended without a new thread.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(super) fn print_without_child(screen: &Screen, handoff: &Handoff) -> Result<(), CliFailure> {
    let end = if handoff.status == HandoffStatus::Declined { "Declined." } else { "Only shown." };
    print_text(screen, &format!("{end} No thread was created, and the conversation is unchanged."))
}

/// Returns the lines of the accepted text, indented. A line is wrapped only if the screen is too narrow for it.
fn block_lines(screen: &Screen, block: &str) -> Vec<String> {
    let columns = screen.text_columns();
    let block = sanitize(block);
    let lines = block.lines().map(|line| match width(line) + INDENT.len() <= columns {
        true => format!("{INDENT}{line}").trim_end().to_owned(),
        false => {
            let is_item = line.starts_with("- ");
            let next = if is_item { ITEM_INDENT } else { INDENT };
            wrap(line, columns, INDENT, next)
        }
    });
    lines.collect()
}

/// Prints the commands to continue with on one's own sessions.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(super) fn print_next_commands(screen: &Screen) -> Result<(), CliFailure> {
    print_step(screen, "With your own sessions")?;
    let columns = NEXT_COMMANDS.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    for (command, effect) in NEXT_COMMANDS {
        let padding = columns - command.len();
        screen.print_line(format!("  {}{:padding$}  {effect}", screen.style.code(command), ""))?;
    }
    Ok(())
}
