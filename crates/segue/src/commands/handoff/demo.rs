//! `segue demo`: a handoff of a sample session that the program contains, with the same draft, review and acceptance as
//! `segue handoff`. The demo depends on nothing of the user: it ignores the configuration and the environment, and works in
//! a home folder of its own.

mod home;
mod outcome;
mod session;

use std::sync::Arc;
use std::time::Duration;

use agent::{
    Agent, AgentSettings, CancellationToken, EnvironmentAccess, HandoffRequestOptions, HandoffReview,
    PendingHandoff,
};
use protocol::{HandoffId, HandoffStatus};
use terminal::{Audience, Screen, TypeAheadBuffer, WatchControl, sanitize_path, watch, wrap};

use super::answer::{HandoffAnswerSource, apply_answer};
use super::report::HandoffConclusion;
use super::show_pending;
use crate::cli::demo::DemoArgs;
use crate::cli::serve::ServeArgs;
use crate::cli::{GlobalArgs, OutputFormat};
use crate::commands::CommandContext;
use crate::commands::review::{self, FoldedLists};
use crate::commands::setup::serve::{ServerPresentation, serve_until_signal};
use crate::exit::{CliFailure, CommandResult, ExitReason, report_result};
use crate::observers::RunObservers;
use home::DemoHome;
pub(crate) use home::remove_temporary_home;
use outcome::{AcceptedHandoff, DemoOutcome, print_next_commands, print_without_child};
use session::SampleThread;

/// The note after a temporary home folder was removed.
const REMOVED_NOTE: &str = "The demo's temporary folder was removed.";

/// The interval at which the demo looks for a decision on the page.
const DECISION_POLL_INTERVAL: Duration = Duration::from_millis(300);

/// A demo whose session is imported. The fields are dropped in this order, so that the database is closed before the home
/// folder is removed.
struct PreparedDemo {
    /// The agent of the demo and the output.
    context: CommandContext,
    /// The sample session.
    sample: SampleThread,
    /// The home folder.
    home: DemoHome,
}

/// Performs `segue demo`. A signal ends it and removes its temporary home folder.
///
/// # Errors
/// Fails if an option names a home folder or a database, if the folder to keep is not empty, if the home folder or the
/// terminal cannot be used, or if the user stops the demo before its question.
pub(crate) async fn run(global: &GlobalArgs, args: &DemoArgs) -> CommandResult {
    check_global_options(global)?;
    let (screen, format) = (global.screen(), global.format());
    // A signal that ended the program at once could come between two steps that create the same folder.
    let prepared =
        watch(async |_, cancel| prepare_demo(global, args, &cancel).await, |_| Ok(WatchControl::Continue));
    let demo = prepared.await??;
    match args.open {
        true => review_on_page(demo).await?,
        false => review_in_terminal(demo, args).await?,
    }
    if args.keep.is_none() && format == OutputFormat::Text {
        screen.print_to_stderr(screen.style.dim(REMOVED_NOTE));
    }
    Ok(ExitReason::Success)
}

/// Checks that no option selects a home folder or a database.
///
/// # Errors
/// Fails if an option does.
fn check_global_options(global: &GlobalArgs) -> Result<(), CliFailure> {
    let option = match (&global.home, &global.database_url) {
        (Some(_), _) => "--home",
        (None, Some(_)) => "--database-url",
        (None, None) => return Ok(()),
    };
    let problem = format!("use {option}: the demo has a home folder of its own");
    Err(CliFailure::new(ExitReason::User, problem)
        .with_hint("`segue demo --keep DIR` keeps the demo's threads in a folder that you name"))
}

/// Creates the home folder, describes the demo, opens the agent, and imports the sample session.
///
/// # Errors
/// Fails if the home folder, the database or the output cannot be written, or if the work is cancelled.
async fn prepare_demo(
    global: &GlobalArgs,
    args: &DemoArgs,
    cancel: &CancellationToken,
) -> Result<PreparedDemo, CliFailure> {
    let home = DemoHome::create(args.keep.as_deref())?;
    if global.format() == OutputFormat::Text {
        print_introduction(&global.screen(), args)?;
    }
    let context = open_context(global, &home, args).await?;
    let sample = SampleThread::import(&context, cancel).await?;
    check_running(cancel)?;
    Ok(PreparedDemo { context, sample, home })
}

/// Checks that the user has not stopped the demo.
///
/// # Errors
/// Fails if the token is cancelled.
fn check_running(cancel: &CancellationToken) -> Result<(), CliFailure> {
    if cancel.is_cancelled() { Err(stopped_failure()) } else { Ok(()) }
}

/// Returns the failure of a demo that the user stopped.
fn stopped_failure() -> CliFailure {
    CliFailure::cancelled("finish the demo").with_hint("`segue demo` starts it again")
}

/// Opens an agent without a model. Neither the environment nor the configuration of the user can select one, so drafts are
/// offline summaries.
///
/// # Errors
/// Fails if the home folder or the database cannot be created.
async fn open_context(
    global: &GlobalArgs,
    home: &DemoHome,
    args: &DemoArgs,
) -> Result<CommandContext, CliFailure> {
    let settings = AgentSettings {
        assistant_id: global.assistant.clone(),
        request_reader: http::read_request,
        environment: EnvironmentAccess::Ignore,
        ..AgentSettings::new(home.folder.clone(), home.folder.root())
    };
    let agent = match args.open {
        true => Agent::open_to_serve(settings).await?,
        false => Agent::open(settings).await?,
    };
    // Observers of a configuration are never started.
    let observers = Arc::new(RunObservers::default());
    Ok(CommandContext { agent, model: None, screen: global.screen(), format: global.format(), observers })
}

/// Shows the draft in the terminal, applies the answer, and shows its effect.
///
/// # Errors
/// Fails if the terminal or the home folder cannot be used, or if the user stops the draft.
async fn review_in_terminal(demo: PreparedDemo, args: &DemoArgs) -> Result<(), CliFailure> {
    let PreparedDemo { context, sample, home } = &demo;
    let pending = draft_sample_handoff(context, sample).await?;
    if context.format == OutputFormat::Text {
        print_step(&context.screen, "2. The draft of the handoff")?;
        let text = "Rules wrote this summary and chose the facts below it, without a model. The new thread reads all of it. \
                    Nothing happens unless you accept.";
        print_text(&context.screen, text)?;
        let lists = if args.yes { FoldedLists::OnlyFolded } else { FoldedLists::ReviewKey };
        show_pending(context, &sample.thread, &pending, lists).await?;
        if args.yes {
            context.screen.print_line(context.screen.style.dim("→ Accept (--yes)"))?;
        }
    }
    let result = apply_answer(context, &pending, answer_source(context, args)).await?;
    let conclusion = HandoffConclusion {
        pending: &pending,
        result,
        last_seq_before: sample.thread.last_seq,
        import: Some(&sample.import),
        continuity: None,
    };
    let outcome = DemoOutcome::read(context, home, sample, conclusion).await?;
    match context.format {
        OutputFormat::Json => context.print_json_with_names(&outcome.report(context).await?),
        OutputFormat::Text => outcome.print(context).await,
    }
}

/// Returns the source of the answer.
fn answer_source(context: &CommandContext, args: &DemoArgs) -> HandoffAnswerSource {
    match (args.yes, context.format, context.screen.audience) {
        (true, ..) => HandoffAnswerSource::Apply,
        (false, OutputFormat::Text, Audience::Person) => HandoffAnswerSource::Ask,
        (false, OutputFormat::Json, _) | (false, OutputFormat::Text, Audience::Program) => {
            HandoffAnswerSource::NoAnswer
        }
    }
}

/// Serves the page and opens the draft on it, until a signal. Shows in the terminal what was decided on the page.
///
/// # Errors
/// Fails if the terminal, the home folder or a port cannot be used, or if the user stops the draft.
async fn review_on_page(demo: PreparedDemo) -> Result<(), CliFailure> {
    let PreparedDemo { context, sample, home } = demo;
    let pending = draft_sample_handoff(&context, &sample).await?;
    if context.format == OutputFormat::Text {
        print_step(&context.screen, "2. The draft of the handoff")?;
        let text = "Rules wrote a summary, without a model. Review it on the page, which your browser opens now; otherwise \
                    open the address below. Press Ctrl-C to end the demo.";
        print_text(&context.screen, text)?;
    }
    let handoff_id = pending.handoff.handoff_id;
    let presentation = ServerPresentation {
        route: format!("/handoffs/{handoff_id}"),
        stopping_notice: "Stopping the demo.",
        stopped_notice: "Stopped.",
    };
    let observer = context.clone();
    let show_decision = async {
        if observer.format == OutputFormat::Text {
            let shown = show_decision_of_page(&observer, handoff_id).await;
            // The exit code is that of the server.
            let _ = report_result(shown.map(|()| ExitReason::Success), observer.format);
        }
        // The server continues until a signal.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = serve_until_signal(context, ServeArgs::on_free_port(), presentation) => result?,
        () = show_decision => ExitReason::Success,
    };
    drop(home);
    Ok(())
}

/// Waits until the handoff is decided on the page and shows the effect of the decision.
///
/// # Errors
/// Fails if the journal or agent.md cannot be read, or if stdout cannot be written.
async fn show_decision_of_page(context: &CommandContext, handoff_id: HandoffId) -> Result<(), CliFailure> {
    let mut ticks = tokio::time::interval(DECISION_POLL_INTERVAL);
    loop {
        ticks.tick().await;
        let handoff = context.agent.handoffs().get(handoff_id).await?;
        // An accepted handoff is complete once agent.md is written, or could not be.
        let is_writing = handoff.status == HandoffStatus::Accepted && handoff.note.is_none();
        if !handoff.status.is_pending() && !is_writing {
            break;
        }
    }
    let review = context.agent.handoffs().review(handoff_id).await?;
    let HandoffReview { handoff, mut proposals, .. } = review;
    match proposals.pop().filter(|_| handoff.accepted_sha256.is_some()) {
        Some(proposal) => AcceptedHandoff::read(context, handoff, proposal).await?.print(context).await?,
        None => {
            context.screen.print_line("")?;
            print_without_child(&context.screen, &handoff)?;
        }
    }
    print_next_commands(&context.screen)?;
    context.screen.print_line("")?;
    print_text(&context.screen, "The page stays open. Press Ctrl-C to end the demo.")
}

/// Describes the sample session and drafts its handoff.
///
/// # Errors
/// Fails if the terminal or the home folder cannot be used, or if the user stops the draft.
async fn draft_sample_handoff(
    context: &CommandContext,
    sample: &SampleThread,
) -> Result<PendingHandoff, CliFailure> {
    if context.format == OutputFormat::Text {
        print_step(&context.screen, "1. A long conversation")?;
        sample.print_overview(context).await?;
    }
    let request = HandoffRequestOptions::default();
    let mut typed = TypeAheadBuffer::default();
    let drafted = review::draft_handoff(context, sample.thread.thread_id, request, &mut typed).await?;
    drafted.ok_or_else(stopped_failure)
}

/// Prints two sentences about the demo.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_introduction(screen: &Screen, args: &DemoArgs) -> Result<(), CliFailure> {
    let storage = match &args.keep {
        Some(path) => format!("keeps its threads in {}", sanitize_path(path)),
        None => "removes everything at the end".to_owned(),
    };
    let text = format!(
        "This demo hands off a sample session: Segue drafts a summary, you review it, and a new thread continues with it. \
         The demo uses no model, no key, no network and none of your settings, and {storage}."
    );
    print_text(screen, &text)
}

/// Prints the heading of a step of the demo.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_step(screen: &Screen, heading: &str) -> Result<(), CliFailure> {
    screen.print_line("")?;
    Ok(screen.print_line(screen.style.bold(heading))?)
}

/// Prints running text.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_text(screen: &Screen, text: &str) -> Result<(), CliFailure> {
    Ok(screen.print_line(wrap(text, screen.text_columns(), "", ""))?)
}
