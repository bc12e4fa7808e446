//! `segue feedback`: sets or removes the user's rating of a run. `segue history` shows it.

use agent::HistoryQuery;
use protocol::{Rating, RunFeedback, RunId};
use serde_json::json;
use terminal::{sanitize_line, wrap};

use crate::cli::OutputFormat;
use crate::cli::history::{FeedbackArgs, FeedbackThumb};
use crate::commands::{CommandContext, DURABLE_ID_CHARS};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The number of the newest history entries that are read to find the newest answer.
const ENTRIES_READ_MAX: usize = 200;

/// Performs `segue feedback`.
///
/// # Errors
/// Fails if the run does not exist, a comment has no rating, or the journal cannot be used.
pub(crate) async fn run(context: &CommandContext, args: FeedbackArgs) -> CommandResult {
    let comment = args.comment.filter(|comment| !comment.trim().is_empty());
    if args.thumb == FeedbackThumb::None && comment.is_some() {
        return Err(CliFailure::new(ExitReason::User, "remove the rating: a comment needs a rating")
            .with_hint("`segue feedback RUN up --comment TEXT`, or down"));
    }
    let run_id = match args.run.as_str() {
        "last" => last_answer(context).await?,
        prefix => context.agent.runs().find(prefix).await?.run_id,
    };
    let feedback = context.agent.runs().set_feedback(run_id, args.thumb.rating(), comment).await?;
    if context.format == OutputFormat::Json {
        // A removed rating is `null`, as in `segue history --json`.
        context.print_json(&json!({"run_id": run_id, "feedback": feedback}))?;
        return Ok(ExitReason::Success);
    }
    let run_id = run_id.to_string();
    let run_id = &run_id[..DURABLE_ID_CHARS];
    let text = match &feedback {
        None => format!("Run {run_id} has no rating of yours any more."),
        Some(feedback) => {
            let rated = match feedback.rating {
                Rating::Up => "rated up",
                Rating::Down => "rated down",
            };
            let comment = feedback.comment.as_deref().map(|comment| format!(": {}", sanitize_line(comment)));
            format!("Run {run_id} {rated}{}", comment.unwrap_or_else(|| ".".to_owned()))
        }
    };
    context.screen.print_line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    Ok(ExitReason::Success)
}

/// Returns the run of the newest answer in the newest thread. A run that only compacted has no answer to rate.
///
/// # Errors
/// Fails if no answer is found.
async fn last_answer(context: &CommandContext) -> Result<RunId, CliFailure> {
    let thread_id = context.agent.threads().find("last").await?.thread_id;
    let feedback = Some(RunFeedback::LOCAL_USER.to_owned());
    let query = HistoryQuery { limit: ENTRIES_READ_MAX, feedback, ..HistoryQuery::default() };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let mut answers = page.entries.iter().rev().filter(|entry| entry.feedback.is_some());
    let run_id = answers.find_map(|entry| entry.run_id);
    run_id.ok_or_else(|| agent::Error::from(agent::RunError::Unknown("last".to_owned())).into())
}
