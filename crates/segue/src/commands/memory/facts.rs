//! `segue memory review`: shows the facts that a model proposed for agent.md, and records a person's decisions. The crate
//! `memory` decides what a decision does.

use agent::{
    FactKind, FactListRequest, FactReceipt, FactState, FactVerdict, MemoryFact, NoteReplacement, ProjectScope,
};
use jiff::Timestamp;
use protocol::{FactId, MessageRole, Seq, ThreadId};
use serde::Serialize;
use serde_json::json;
use terminal::search_hits::ThreadNames;
use terminal::{KeyChoice, Screen, ask, ask_text, sanitize_line, wrap};

use crate::cli::OutputFormat;
use crate::cli::memory::{FactReviewArgs, ProjectArgs};
use crate::commands::CommandContext;
use crate::commands::agent_work::is_interactive;
use crate::commands::history::search::{CommandSyntax, thread_names};
use crate::commands::import::format_count;
use crate::commands::memory::agent_md::print_receipt;
use crate::commands::memory::project_scope;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most facts that are listed.
const LISTED_MAX: usize = 5_000;
/// The number of digits of a fact's id that are shown.
const ID_DIGITS: usize = 8;

/// A fact in the form of `--json`.
#[derive(Serialize)]
struct FactReport<'a> {
    fact_id: FactId,
    state: FactState,
    kind: FactKind,
    text: &'a str,
    /// The path of the project; `null` for all projects.
    project: Option<&'a str>,
    quote: &'a str,
    /// The thread of the quote; `null` if it was deleted.
    thread_id: Option<ThreadId>,
    seq: Seq,
    role: MessageRole,
    /// The note of agent.md that it replaces.
    replaces: Option<&'a str>,
    /// The text of the note in agent.md; `null` without a decision.
    note: Option<&'a str>,
    decided_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl<'a> From<&'a MemoryFact> for FactReport<'a> {
    fn from(fact: &'a MemoryFact) -> Self {
        Self {
            fact_id: fact.fact_id,
            state: fact.state,
            kind: fact.kind,
            text: &fact.text,
            project: fact.project.as_deref(),
            quote: &fact.quote,
            thread_id: fact.thread_id,
            seq: fact.seq,
            role: fact.role,
            replaces: fact.replaces.as_deref(),
            note: fact.decided_text.as_deref(),
            decided_at: fact.decided_at,
            created_at: fact.created_at,
        }
    }
}

/// An answer to the question about a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FactAnswer {
    /// Add it to agent.md.
    Accept,
    /// Add it with other words.
    Edit,
    /// Do not keep it.
    Decline,
    /// Decide later.
    Skip,
}

/// Performs `segue memory review`.
///
/// # Errors
/// Fails if a fact is unknown or was decided before, if agent.md or the journal cannot be changed, or if stdout cannot be
/// written.
pub(crate) async fn run_review(context: &CommandContext, args: FactReviewArgs) -> CommandResult {
    let verdicts = requested_verdicts(&args);
    if !verdicts.is_empty() {
        return decide_all(context, verdicts).await;
    }
    if args.all {
        return list_all_facts(context, args.projects).await;
    }
    if args.list || !is_interactive(context) {
        return list_facts(context, args.projects).await;
    }
    review_interactively(context, args.projects).await?;
    Ok(ExitReason::Success)
}

/// Performs `/memory review`.
///
/// # Errors
/// Fails like [`run_review`].
pub(crate) async fn review_in_chat(context: &CommandContext) -> Result<(), CliFailure> {
    review_interactively(context, ProjectArgs::default()).await
}

/// Returns a sentence with the number of facts that await review, and the command; `None` without facts.
pub(crate) fn to_review_text(count: u64, syntax: CommandSyntax) -> Option<String> {
    let command = match syntax {
        CommandSyntax::Shell => "`segue memory review`",
        CommandSyntax::Chat => "/memory review",
    };
    (count > 0).then(|| format!("{} to review: {command}.", format_count(count, "fact")))
}

/// Returns the decisions of the arguments, with the ids as they were given.
fn requested_verdicts(args: &FactReviewArgs) -> Vec<(&str, FactVerdict)> {
    let accepted = args.accept.iter().map(|id| (id.as_str(), FactVerdict::Accept));
    let declined = args.decline.iter().map(|id| (id.as_str(), FactVerdict::Decline));
    let edited = args.edit.as_deref().zip(args.text.clone());
    let edited = edited.map(|(id, text)| (id, FactVerdict::Edit(text)));
    accepted.chain(declined).chain(edited).collect()
}

/// Records the decisions in order. All facts are looked up before the first decision, and each may have one decision only.
async fn decide_all(context: &CommandContext, verdicts: Vec<(&str, FactVerdict)>) -> CommandResult {
    let mut facts = Vec::with_capacity(verdicts.len());
    for (id, verdict) in verdicts {
        let fact = context.agent.memory().find_fact(id).await?;
        if facts.iter().any(|(earlier, _): &(MemoryFact, _)| earlier.fact_id == fact.fact_id) {
            let sentence =
                format!("The fact `{}` is named twice. Give one decision on it.", sanitize_line(id));
            return Err(CliFailure::usage_sentence(sentence));
        }
        facts.push((fact, verdict));
    }
    let mut receipts = Vec::with_capacity(facts.len());
    for (fact, verdict) in facts {
        let receipt = context.agent.memory().decide_fact(fact.fact_id, verdict).await?;
        if context.format == OutputFormat::Text {
            print_decision(&context.screen, &receipt)?;
        }
        receipts.push(receipt);
    }
    if context.format == OutputFormat::Json {
        let reports: Vec<FactReport<'_>> = receipts.iter().map(|receipt| (&receipt.fact).into()).collect();
        context.print_json(&json!({"facts": reports}))?;
    }
    Ok(ExitReason::Success)
}

/// Lists the facts that await review.
async fn list_facts(context: &CommandContext, projects: ProjectArgs) -> CommandResult {
    let facts = context.agent.memory().facts_to_review(project_scope(context, projects)).await?;
    if facts.is_empty() && context.format == OutputFormat::Text {
        print_no_facts(context).await?;
        return Ok(ExitReason::Success);
    }
    print_facts(context, &facts).await?;
    if context.format == OutputFormat::Text {
        let hint = "`--accept ID`, `--edit ID --text TEXT` and `--decline ID` decide.";
        context.screen.print_to_stderr(context.screen.style.dim(hint));
        print_remaining_facts(context, projects).await?;
    }
    Ok(ExitReason::Success)
}

/// Lists all facts, also those that were decided on.
async fn list_all_facts(context: &CommandContext, projects: ProjectArgs) -> CommandResult {
    let project = project_scope(context, projects);
    let request = FactListRequest { project, states: Vec::new(), offset: 0, limit: LISTED_MAX };
    let facts = context.agent.memory().facts(request).await?;
    if facts.is_empty() && context.format == OutputFormat::Text {
        context.screen.print_line("No fact was proposed yet.")?;
    } else {
        print_facts(context, &facts).await?;
    }
    Ok(ExitReason::Success)
}

/// Prints facts.
async fn print_facts(context: &CommandContext, facts: &[MemoryFact]) -> Result<(), CliFailure> {
    if context.format == OutputFormat::Json {
        let reports: Vec<FactReport<'_>> = facts.iter().map(FactReport::from).collect();
        return context.print_json(&json!({"facts": reports}));
    }
    let screen = &context.screen;
    let names = thread_names(context, facts.iter().filter_map(|fact| fact.thread_id)).await?;
    for (index, fact) in facts.iter().enumerate() {
        if index > 0 {
            screen.print_line("")?;
        }
        screen.print_lines(fact_lines(screen, fact, &names))?;
    }
    Ok(())
}

/// Shows the facts one by one and asks for a decision on each.
async fn review_interactively(context: &CommandContext, projects: ProjectArgs) -> Result<(), CliFailure> {
    let screen = &context.screen;
    let facts = context.agent.memory().facts_to_review(project_scope(context, projects)).await?;
    if facts.is_empty() {
        return print_no_facts(context).await;
    }
    let names = thread_names(context, facts.iter().filter_map(|fact| fact.thread_id)).await?;
    let choices = [
        KeyChoice { key: 'a', label: "Accept", answer: FactAnswer::Accept },
        KeyChoice { key: 'e', label: "Edit", answer: FactAnswer::Edit },
        KeyChoice { key: 'd', label: "Decline", answer: FactAnswer::Decline },
        KeyChoice { key: 's', label: "Skip", answer: FactAnswer::Skip },
    ];
    for (index, fact) in facts.iter().enumerate() {
        if index > 0 {
            screen.print_line("")?;
        }
        let position = format!("Fact {} of {}", index + 1, facts.len());
        screen.print_line(screen.style.bold(position))?;
        screen.print_lines(fact_lines(screen, fact, &names))?;
        let verdict = match ask(screen, &choices, "Quit")? {
            None => return Ok(()),
            Some(FactAnswer::Skip) => continue,
            Some(FactAnswer::Accept) => FactVerdict::Accept,
            Some(FactAnswer::Decline) => FactVerdict::Decline,
            Some(FactAnswer::Edit) => match ask_text(screen, "Note", &fact.text)? {
                Some(text) if !text.trim().is_empty() => FactVerdict::Edit(text),
                Some(_) | None => {
                    screen.print_line("Not decided: the fact stays open.")?;
                    continue;
                }
            },
        };
        match context.agent.memory().decide_fact(fact.fact_id, verdict).await {
            Ok(receipt) => print_decision(screen, &receipt)?,
            // Another process decided meanwhile. The review continues with the next fact.
            Err(error) if error.class() == agent::ErrorClass::Conflict => {
                context.print_notice(&format!("failed to {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    print_remaining_facts(context, projects).await
}

/// Prints how many facts still await review, in the covered projects and elsewhere, if there are any.
async fn print_remaining_facts(context: &CommandContext, projects: ProjectArgs) -> Result<(), CliFailure> {
    let here = context.agent.memory().facts_to_review(project_scope(context, projects)).await?.len();
    let all = context.agent.memory().facts_to_review(ProjectScope::Any).await?.len();
    let count = |count: usize| format_count(count as u64, "fact");
    let open = (here > 0).then(|| format!("{} left to review.", count(here)));
    let elsewhere = (all > here)
        .then(|| format!("{} of other projects: `segue memory review --everywhere`.", count(all - here)));
    let text = open.into_iter().chain(elsewhere).collect::<Vec<_>>().join(" ");
    if !text.is_empty() {
        context.screen.print_to_stderr(context.screen.style.dim(text));
    }
    Ok(())
}

/// Prints that no fact awaits review in the project, and how to see those of other projects if there are any.
async fn print_no_facts(context: &CommandContext) -> Result<(), CliFailure> {
    let elsewhere = context.agent.memory().facts_to_review(ProjectScope::Any).await?;
    let text = match elsewhere.is_empty() {
        true => "No fact awaits review.",
        false => {
            "No fact of this project awaits review; `segue memory review --everywhere` shows all projects."
        }
    };
    Ok(context.screen.print_line(text)?)
}

/// Returns the lines of a fact: its id, kind and project, its text, the quote with its place, and the note that it replaces.
fn fact_lines(screen: &Screen, fact: &MemoryFact, names: &ThreadNames) -> Vec<String> {
    let style = screen.style;
    let id = fact.fact_id.to_string();
    let project = match &fact.project {
        Some(project) => format!("for the project {}", sanitize_line(project)),
        None => "personal, for all projects".to_owned(),
    };
    let state = match fact.state {
        FactState::Proposed => String::new(),
        state => format!("{}: ", state.as_str()),
    };
    let heading = format!("{state}{}, {project}", fact.kind.as_str());
    let speaker = match fact.role {
        MessageRole::User => "you",
        MessageRole::Assistant => "the agent",
    };
    let place = match fact.thread_id.and_then(|thread_id| names.get(&thread_id)) {
        Some((thread, _)) => format!("{speaker} in {thread} #{}", fact.seq),
        None => format!("{speaker}, in a deleted thread"),
    };
    let columns = screen.text_columns();
    let quote = format!("“{}” ({place})", sanitize_line(&fact.quote));
    let mut lines = vec![
        format!("{} {}", style.code(&id[..ID_DIGITS]), style.dim(heading)),
        wrap(&sanitize_line(&fact.text), columns, "  ", "  "),
        style.dim(wrap(&quote, columns, "  ", "  ")).to_string(),
    ];
    if let Some(note) = &fact.replaces {
        let text = format!("replaces: {}", sanitize_line(note));
        lines.push(style.warn(wrap(&text, columns, "  ", "    ")).to_string());
    }
    lines
}

/// Prints the result of a decision.
fn print_decision(screen: &Screen, receipt: &FactReceipt) -> Result<(), CliFailure> {
    let Some(note) = &receipt.note else {
        let text = format!("Declined: {}", sanitize_line(&receipt.fact.text));
        return Ok(screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?);
    };
    print_receipt(screen, note)?;
    let replaced = receipt.fact.replaces.as_deref().map(sanitize_line).unwrap_or_default();
    let text = match receipt.replacement {
        NoteReplacement::NotRequested => return Ok(()),
        NoteReplacement::Replaced => format!("It replaces: {replaced}"),
        NoteReplacement::NotFound => {
            let owner = match &receipt.fact.project {
                Some(_) => "the notes of its project",
                None => "the personal notes",
            };
            format!(
                "No note was replaced, because this one is not among {owner} exactly once; change it with `segue memory edit`: {replaced}"
            )
        }
    };
    Ok(screen.print_line(screen.style.dim(wrap(&text, screen.text_columns(), "  ", "    ")))?)
}
