//! `segue handoff update`: shows the lines of a child's summary that later work contradicts, and lets the user decide about
//! each. The crate `handoff` finds the lines and changes the summary.

use agent::{ChildPackage, LineUpdate, StaleLine};
use protocol::{HandoffId, ThreadId};
use serde::Serialize;
use terminal::{Audience, KeyChoice, ask, ask_text, sanitize_line, shorten, wrap};

use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffUpdateArgs;
use crate::commands::CommandContext;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The result if no line is stale, with everything that was compared.
const NOTHING_FOUND: &str = "No contradiction was found. The tasks, files, errors and the last request were compared with \
    the later work, and each rule and decision with your later messages. Other lines were not compared.";

/// The output of `--json`.
#[derive(Serialize)]
struct UpdateReport<'a> {
    /// The child thread.
    thread_id: ThreadId,
    /// The summaries that it is sent.
    packages: Vec<PackageReport<'a>>,
}

/// A summary in the output.
#[derive(Serialize)]
struct PackageReport<'a> {
    /// The handoff.
    handoff_id: HandoffId,
    /// The SHA-256 hash of the summary as it is now.
    summary_sha256: &'a str,
    /// The package as it is now.
    package_md: &'a str,
    /// The text of `package_md`, under its name of version 1.
    summary_md: &'a str,
    /// The lines that were updated by this command.
    updated: Vec<&'a str>,
    /// The lines that later work contradicts.
    stale: Vec<&'a StaleLine>,
}

/// A summary with the lines that were updated.
struct UpdatedPackage {
    package: ChildPackage,
    updated: Vec<String>,
}

/// An answer about one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineAnswer {
    Apply,
    Edit,
    Keep,
}

/// The answers, in the order in which they are shown.
const ANSWERS: [KeyChoice<LineAnswer>; 3] = [
    KeyChoice { key: 'a', label: "Apply", answer: LineAnswer::Apply },
    KeyChoice { key: 'e', label: "Edit", answer: LineAnswer::Edit },
    KeyChoice { key: 'k', label: "Keep", answer: LineAnswer::Keep },
];

/// The decider about stale lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineDecider {
    /// The user is asked about each line.
    Person,
    /// `--apply`: all proposed changes are made.
    ApplyAll,
    /// No one: the lines are only shown.
    Nobody,
}

impl LineDecider {
    /// Returns the decider that the arguments and the output allow.
    fn choose(context: &CommandContext, args: &HandoffUpdateArgs) -> Self {
        match (args.apply, context.format, context.screen.audience) {
            (true, ..) => Self::ApplyAll,
            (false, OutputFormat::Text, Audience::Person) => Self::Person,
            (false, ..) => Self::Nobody,
        }
    }
}

/// Performs `segue handoff update`.
///
/// # Errors
/// Fails if the thread does not exist or no handoff created it, if the journal cannot be used, or if another client has
/// changed the summary.
pub(crate) async fn run(context: &CommandContext, args: HandoffUpdateArgs) -> CommandResult {
    let thread = context.agent.threads().find(&args.thread).await?;
    let thread_id = thread.thread_id;
    let mut packages = Vec::new();
    for package in context.agent.handoffs().packages(thread_id).await? {
        packages.push(UpdatedPackage { package, updated: Vec::new() });
    }
    if packages.is_empty() {
        let problem = format!("update the summary of thread {thread_id}: no handoff created it");
        return Err(CliFailure::new(ExitReason::User, problem)
            .with_hint("`segue threads tree` shows which threads began with a summary"));
    }
    let decider = LineDecider::choose(context, &args);
    for package in &mut packages {
        update_package(context, package, decider).await?;
    }
    match context.format {
        OutputFormat::Json => print_json(context, thread_id, &packages)?,
        OutputFormat::Text => print_text(context, &packages, decider)?,
    }
    let is_open = packages.iter().any(|package| !package.package.stale.is_empty());
    // A person has decided to keep the lines that are left.
    Ok(match is_open && decider != LineDecider::Person {
        true => ExitReason::Undecided,
        false => ExitReason::Success,
    })
}

/// Decides about the stale lines of one summary, and applies the updates.
async fn update_package(
    context: &CommandContext,
    updated: &mut UpdatedPackage,
    decider: LineDecider,
) -> Result<(), CliFailure> {
    let total = updated.package.stale.len();
    let handoff_id = updated.package.handoff_id;
    let mut open = std::mem::take(&mut updated.package.stale);
    let mut decided = 0;
    while !open.is_empty() {
        let stale = open.remove(0);
        decided += 1;
        if context.format == OutputFormat::Text {
            let title = &updated.package.package.summary_json.title;
            let heading = format!("Line {} of {total}, {}", decided.min(total), sanitize_line(title));
            context
                .screen
                .print_line(context.screen.style.bold(shorten(&heading, context.screen.columns)))?;
            print_stale_line(context, &stale)?;
        }
        let replacement = match decider {
            LineDecider::ApplyAll => Some(stale.replacement.clone()),
            LineDecider::Person => ask_about_line(context, &stale)?,
            LineDecider::Nobody => None,
        };
        let Some(replacement) = replacement else {
            updated.package.stale.push(stale);
            continue;
        };
        let update = LineUpdate {
            summary_sha256: updated.package.package.summary_sha256.clone(),
            line: stale.line.clone(),
            number: Some(stale.number),
            replacement,
        };
        let before = updated.package.package.package_md.clone();
        updated.package.package = context.agent.handoffs().update_package(handoff_id, &update).await?;
        updated.updated.push(stale.line);
        // An update may change several lines, because it changes a statement in all its places.
        let after = &updated.package.package.package_md;
        for lines in [&mut open, &mut updated.package.stale] {
            *lines = std::mem::take(lines)
                .into_iter()
                .filter_map(|line| moved_line(line, &before, after))
                .collect();
        }
    }
    Ok(())
}

/// Returns a stale line with its number in the text after an update; `None` if the text does not contain it any more.
fn moved_line(line: StaleLine, before: &str, after: &str) -> Option<StaleLine> {
    // The line stays the same one among those with its text.
    let is_same = |text: &&str| *text == line.line;
    let rank = before.lines().take(line.number).filter(is_same).count().checked_sub(1)?;
    let (index, _) = after.lines().enumerate().filter(|(_, text)| is_same(text)).nth(rank)?;
    Some(StaleLine { number: index + 1, ..line })
}

/// Prints a line with the reason and the proposed change.
fn print_stale_line(context: &CommandContext, stale: &StaleLine) -> Result<(), CliFailure> {
    let (screen, style, columns) = (&context.screen, context.screen.style, context.screen.text_columns());
    screen.print_line(style.bad(wrap(&sanitize_line(&stale.line), columns, "- ", "  ")))?;
    if let Some(replacement) = &stale.replacement {
        screen.print_line(style.good(wrap(&sanitize_line(replacement), columns, "+ ", "  ")))?;
    }
    for line in &stale.also_removed {
        screen.print_line(style.dim(wrap(&sanitize_line(line), columns, "  also - ", "    ")))?;
    }
    for line in &stale.also_added {
        screen.print_line(style.dim(wrap(&sanitize_line(line), columns, "  also + ", "    ")))?;
    }
    let change = if stale.replacement.is_some() { "" } else { "; the line would be removed" };
    let reason = format!("{} (#{}){change}", stale.reason.text(), stale.seq);
    Ok(screen.print_line(style.dim(wrap(&reason, columns, "  ", "  ")))?)
}

/// Asks about one line. Returns the line to put in its place (`Some(None)` removes it); `None` keeps it.
fn ask_about_line(context: &CommandContext, stale: &StaleLine) -> Result<Option<Option<String>>, CliFailure> {
    let screen = &context.screen;
    Ok(match ask(screen, &ANSWERS, "Keep this one")? {
        Some(LineAnswer::Apply) => Some(stale.replacement.clone()),
        Some(LineAnswer::Edit) => {
            let start = stale.replacement.as_deref().unwrap_or(&stale.line);
            ask_text(screen, "Line", start)?.map(|text| Some(text).filter(|text| !text.trim().is_empty()))
        }
        Some(LineAnswer::Keep) | None => None,
    })
}

/// Prints what was changed and what is left.
fn print_text(
    context: &CommandContext,
    packages: &[UpdatedPackage],
    decider: LineDecider,
) -> Result<(), CliFailure> {
    let screen = &context.screen;
    let count = |lines: usize| if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") };
    let updated: usize = packages.iter().map(|package| package.updated.len()).sum();
    let stale: usize = packages.iter().map(|package| package.package.stale.len()).sum();
    if updated > 0 {
        screen.print_line(format!(
            "{} updated. The next request of the thread contains the change; `segue handoff --show` shows the summary as it is now.",
            count(updated)
        ))?;
    }
    match stale {
        0 if updated == 0 => screen.print_line(wrap(NOTHING_FOUND, screen.text_columns(), "", ""))?,
        0 => {}
        stale if decider == LineDecider::Person => screen.print_line(format!("{} kept.", count(stale)))?,
        stale => {
            let verb = if stale == 1 { "waits" } else { "wait" };
            screen.print_line(format!(
                "{} contradicted by later work {verb} for a decision. Run the command at a terminal to decide about each, or with \
                 --apply to make all proposed changes.",
                count(stale)
            ))?;
        }
    }
    Ok(())
}

/// Prints the output of `--json`.
fn print_json(
    context: &CommandContext,
    thread_id: ThreadId,
    packages: &[UpdatedPackage],
) -> Result<(), CliFailure> {
    let packages = packages.iter().map(|UpdatedPackage { package, updated }| PackageReport {
        handoff_id: package.handoff_id,
        summary_sha256: &package.package.summary_sha256,
        package_md: &package.package.package_md,
        summary_md: &package.package.package_md,
        updated: updated.iter().map(String::as_str).collect(),
        stale: package.stale.iter().collect(),
    });
    context.print_json(&UpdateReport { thread_id, packages: packages.collect() })
}
