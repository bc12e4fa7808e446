//! `segue memory embed`: embeds the messages that have no embedding yet. What is embedded is stored batch by batch, so stopping the
//! work loses nothing.

use agent::{CancellationToken, EmbeddingOutcome, FrameSender};
use serde_json::json;
use terminal::{TurnTotals, TypeAheadBuffer};

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::commands::agent_work::{
    WorkDisplay, WorkVisibility, is_interactive, run_with_display, run_with_notices,
};
use crate::commands::import::format_count;
use crate::exit::{CommandResult, ExitReason};

/// The label of the progress until the worker reports its first batch.
const PHASE_LABEL: &str = "embedding messages";

/// Performs `segue memory embed`.
///
/// # Errors
/// Fails if no embedding model is configured, or if the model or the journal fails.
pub(crate) async fn run(context: &CommandContext) -> CommandResult {
    let work = async |agent: &agent::Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.memory().embed_messages(frames, cancel).await
    };
    let result = match is_interactive(context) {
        true => {
            let display = WorkDisplay { label: PHASE_LABEL, visibility: WorkVisibility::Progress };
            let (mut typed, mut totals) = (TypeAheadBuffer::default(), TurnTotals::default());
            run_with_display(context, display, &mut typed, &mut totals, work).await?
        }
        false => run_with_notices(context, work).await?,
    };
    let outcome = result.output?;
    if context.format == OutputFormat::Json {
        let (state, messages, tokens) = match outcome {
            EmbeddingOutcome::Complete { messages } => ("complete", messages, None),
            EmbeddingOutcome::BudgetUsed { messages, tokens, .. } => ("budget_used", messages, Some(tokens)),
            EmbeddingOutcome::Stopped { messages } => ("stopped", messages, None),
        };
        context.print_json(&json!({"state": state, "embedded": messages, "tokens_of_day": tokens}))?;
    } else {
        context.screen.print_line(outcome_text(outcome))?;
    }
    Ok(match outcome {
        EmbeddingOutcome::Stopped { .. } => ExitReason::Cancelled,
        EmbeddingOutcome::Complete { .. } | EmbeddingOutcome::BudgetUsed { .. } => ExitReason::Success,
    })
}

/// Returns the sentence about the result.
fn outcome_text(outcome: EmbeddingOutcome) -> String {
    let embedded = |messages| format_count(messages, "message");
    match outcome {
        EmbeddingOutcome::Complete { messages: 0 } => "All messages have embeddings.".to_owned(),
        EmbeddingOutcome::Complete { messages } => {
            format!("{} embedded. All messages have embeddings now.", embedded(messages))
        }
        EmbeddingOutcome::BudgetUsed { messages, tokens, tokens_max } => format!(
            "{} embedded. The model has read {tokens} tokens today (UTC), and `search.embeddings.daily_tokens` allows {tokens_max}; \
             the rest follows tomorrow.",
            embedded(messages)
        ),
        EmbeddingOutcome::Stopped { messages } => {
            format!("Stopped: {} embedded. The next call embeds the rest.", embedded(messages))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_says_how_much_was_embedded_and_what_follows() {
        let check = |outcome, expected: &str| assert_eq!(outcome_text(outcome), expected);
        check(EmbeddingOutcome::Complete { messages: 0 }, "All messages have embeddings.");
        check(
            EmbeddingOutcome::Complete { messages: 1 },
            "1 message embedded. All messages have embeddings now.",
        );
        check(
            EmbeddingOutcome::Stopped { messages: 64 },
            "Stopped: 64 messages embedded. The next call embeds the rest.",
        );
        let budget =
            outcome_text(EmbeddingOutcome::BudgetUsed { messages: 2, tokens: 990, tokens_max: 1_000 });
        assert!(budget.contains("990 tokens today (UTC)") && budget.contains("allows 1000;"), "{budget}");
    }
}
