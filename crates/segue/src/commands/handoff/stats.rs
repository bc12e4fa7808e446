//! `segue handoff stats`: statistics of all handoffs by outcome. The command only reads.

use agent::{HandoffStatistics, OutcomeStatistics};
use jiff::Timestamp;
use serde_json::json;
use terminal::{TableColumn, table, wrap};

use crate::cli::OutputFormat;
use crate::cli::handoff::HandoffStatsArgs;
use crate::commands::CommandContext;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The text of a cell without a value.
const EMPTY_CELL: &str = "-";

/// Performs `segue handoff stats`.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn run(context: &CommandContext, args: HandoffStatsArgs) -> CommandResult {
    let since = args.since.map(|since| since.resolve(Timestamp::now()));
    let statistics = context.agent.handoffs().statistics(since).await?;
    if context.format == OutputFormat::Json {
        let HandoffStatistics { handoffs, outcomes } = statistics;
        context.print_json(&json!({"since": since, "handoffs": handoffs, "outcomes": outcomes}))?;
    } else {
        show_statistics(context, &statistics, since)?;
    }
    Ok(ExitReason::Success)
}

/// Prints the statistics as a table, one row for each outcome, with a legend on stderr.
/// The legend explains the columns. It is not on stdout, so that a script can read the table.
///
/// # Errors
/// Fails if stdout cannot be written.
fn show_statistics(
    context: &CommandContext,
    statistics: &HandoffStatistics,
    since: Option<Timestamp>,
) -> Result<(), CliFailure> {
    let screen = &context.screen;
    if statistics.handoffs == 0 {
        let text =
            if since.is_some() { "There are no handoffs since then." } else { "There are no handoffs." };
        return Ok(screen.print_line(text)?);
    }
    let rows: Vec<Vec<String>> =
        statistics.outcomes.iter().map(|(outcome, stats)| outcome_row(outcome, stats)).collect();
    let columns = [
        TableColumn::Left("OUTCOME"),
        TableColumn::Right("COUNT"),
        TableColumn::Right("DRAFTS"),
        TableColumn::Right("TOKENS"),
        TableColumn::Right("IN TEXT"),
        TableColumn::Right("UNVERIFIED"),
        TableColumn::Right("P50"),
        TableColumn::Right("P90"),
    ];
    screen.print_lines(table(screen, &columns, &rows))?;
    let legend = "DRAFTS: average of each handoff, with refinements. TOKENS: of all drafts. IN TEXT: messages that the \
                  summary quotes or represents. UNVERIFIED: items with names that the conversation does not contain. P50, P90: \
                  time from the request to the decision.";
    screen.print_to_stderr(screen.style.dim(wrap(legend, screen.text_columns(), "", "")));
    Ok(())
}

/// Returns the cells of one outcome, in the order of the table's columns.
fn outcome_row(outcome: &str, stats: &OutcomeStatistics) -> Vec<String> {
    vec![
        outcome.to_owned(),
        stats.handoffs.to_string(),
        // Iterations count from 0, so each handoff has one draft more.
        format_average(stats.iterations + stats.handoffs, stats.handoffs),
        stats.tokens_drafting.to_string(),
        format_percent(stats.quoted + stats.represented, stats.messages),
        format!("{} of {}", stats.unverified_items, stats.items),
        stats.decision_ms_p50.map_or_else(|| EMPTY_CELL.to_owned(), format_milliseconds),
        stats.decision_ms_p90.map_or_else(|| EMPTY_CELL.to_owned(), format_milliseconds),
    ]
}

/// Returns `sum / count`, rounded to one decimal; 0.0 if `count` is 0.
fn format_average(sum: u64, count: u64) -> String {
    let tenths = (sum * 10 + count / 2) / count.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Returns `part / whole` as whole percents, rounded down; an empty cell if `whole` is 0.
fn format_percent(part: u64, whole: u64) -> String {
    match whole {
        0 => EMPTY_CELL.to_owned(),
        whole => format!("{} %", part * 100 / whole),
    }
}

/// Returns a duration in the largest unit of which it is at least 1, rounded down.
fn format_milliseconds(milliseconds: u64) -> String {
    match milliseconds / 1_000 {
        0 => format!("{milliseconds} ms"),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_shown_in_few_digits() {
        let averages =
            [format_average(3, 2), format_average(10, 3), format_average(7, 7), format_average(0, 0)];
        assert_eq!(averages, ["1.5", "3.3", "1.0", "0.0"]);
        assert_eq!(
            [format_percent(99, 100), format_percent(1, 3), format_percent(0, 0)],
            ["99 %", "33 %", "-"]
        );
        let durations = [999, 1_000, 59_999, 60_000, 7_200_000, 172_800_000].map(format_milliseconds);
        assert_eq!(durations, ["999 ms", "1 s", "59 s", "1 min", "2 h", "2 d"]);
    }
}
