//! `segue feedback`: a person's thumb on a run. Where it is shown is the history's business.

use agent::HistoryQuery;
use protocol::{Rating, RunFeedback, RunId};
use serde_json::json;
use terminal::{one_line, wrap};

use crate::cli::Format;
use crate::cli::history::{Feedback, Thumb};
use crate::commands::{Context, LASTING_ID};
use crate::exit::{Code, Failure, Outcome};

/// Entries among which the newest answer is looked for.
const ENTRIES_READ_MAX: usize = 200;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Feedback) -> Outcome {
    let comment = args.comment.filter(|comment| !comment.trim().is_empty());
    if args.thumb == Thumb::None && comment.is_some() {
        return Err(Failure::new(Code::User, "take the feedback away: a comment needs a thumb")
            .with_hint("`segue feedback RUN up --comment TEXT`, or down"));
    }
    let run_id = match args.run.as_str() {
        "last" => last_answer(context).await?,
        prefix => context.agent.runs().find(prefix).await?.run_id,
    };
    let given = context.agent.runs().set_feedback(run_id, args.thumb.rating(), comment).await?;
    if context.format == Format::Json {
        // A run without feedback says so, as in the history.
        context.json(&json!({"run_id": run_id, "feedback": given}))?;
        return Ok(Code::Done);
    }
    let run_id = run_id.to_string();
    let run_id = &run_id[..LASTING_ID];
    let text = match &given {
        None => format!("Run {run_id} has no feedback of yours any more."),
        Some(given) => {
            let rated = match given.rating {
                Rating::Up => "rated up",
                Rating::Down => "rated down",
            };
            let comment = given.comment.as_deref().map(|comment| format!(": {}", one_line(comment)));
            format!("Run {run_id} {rated}{}", comment.unwrap_or_else(|| ".".to_owned()))
        }
    };
    context.screen.line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    Ok(Code::Done)
}

/// Returns the run of the newest answer of the newest thread: one that only condensed has said nothing to rate.
async fn last_answer(context: &Context) -> Result<RunId, Failure> {
    let thread_id = context.agent.threads().find("last").await?.thread_id;
    let feedback = Some(RunFeedback::LOCAL.to_owned());
    let query = HistoryQuery { limit: ENTRIES_READ_MAX, feedback, ..HistoryQuery::default() };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let mut answers = page.entries.iter().rev().filter(|entry| entry.feedback.is_some());
    let found = answers.find_map(|entry| entry.run_id);
    found.ok_or_else(|| agent::Error::from(agent::RunError::Unknown("last".to_owned())).into())
}
