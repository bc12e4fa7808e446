//! `segue handoffs stats`: figures about all handoffs, by what became of them. It changes nothing.

use agent::{HandoffFigures, HandoffStatistics};
use jiff::Timestamp;
use serde_json::json;
use terminal::{Column, table, wrap};

use crate::cli::Format;
use crate::cli::mirror::{Handoffs, Stats};
use crate::commands::Context;
use crate::exit::{Code, Outcome};

/// What is shown where there is nothing to be counted.
const NOTHING: &str = "-";

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Handoffs) -> Outcome {
    match args {
        Handoffs::Stats(Stats { since }) => {
            let since = since.map(|when| when.seen_from(Timestamp::now()));
            let statistics = context.agent.handoffs().statistics(since).await?;
            if context.format == Format::Json {
                let HandoffStatistics { handoffs, outcomes } = statistics;
                context.json(&json!({"since": since, "handoffs": handoffs, "outcomes": outcomes}))?;
            } else {
                show(context, &statistics)?;
            }
            Ok(Code::Done)
        }
    }
}

fn show(context: &Context, statistics: &HandoffStatistics) -> Result<(), crate::exit::Failure> {
    let screen = &context.screen;
    if statistics.handoffs == 0 {
        return Ok(screen.line("There was no handoff in that time.")?);
    }
    let rows: Vec<Vec<String>> =
        statistics.outcomes.iter().map(|(outcome, figures)| row(outcome, figures)).collect();
    let columns = [
        Column::Left("OUTCOME"),
        Column::Right("COUNT"),
        Column::Right("DRAFTS"),
        Column::Right("TOKENS"),
        Column::Right("COVERED"),
        Column::Right("UNVERIFIED"),
        Column::Right("P50"),
        Column::Right("P90"),
    ];
    screen.lines(table(screen, &columns, &rows))?;
    let legend = "DRAFTS: on average, refined ones included. TOKENS: of all drafts. COVERED: messages that reached the summary. \
                  UNVERIFIED: items that name what the conversation does not. P50, P90: from the request to the decision.";
    screen.note(screen.style.dim(wrap(legend, screen.text_columns(), "", "")));
    Ok(())
}

fn row(outcome: &str, figures: &HandoffFigures) -> Vec<String> {
    let reached = figures.verbatim + figures.summarized + figures.truncated;
    vec![
        outcome.to_owned(),
        figures.handoffs.to_string(),
        tenths(figures.iterations + figures.handoffs, figures.handoffs),
        figures.tokens_drafting.to_string(),
        percent(reached, figures.messages),
        format!("{} of {}", figures.unverified_items, figures.items),
        figures.decision_ms_p50.map_or_else(|| NOTHING.to_owned(), time),
        figures.decision_ms_p90.map_or_else(|| NOTHING.to_owned(), time),
    ]
}

/// Returns a quotient with one digit behind the point.
fn tenths(number: u64, of: u64) -> String {
    let tenths = (number * 10 + of / 2) / of.max(1);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => NOTHING.to_owned(),
        of => format!("{} %", part * 100 / of),
    }
}

/// Returns a time for people.
fn time(milliseconds: u64) -> String {
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
    fn figures_are_told_in_few_digits() {
        assert_eq!([tenths(3, 2), tenths(10, 3), tenths(7, 7), tenths(0, 0)], ["1.5", "3.3", "1.0", "0.0"]);
        assert_eq!([percent(99, 100), percent(1, 3), percent(0, 0)], ["99 %", "33 %", "-"]);
        let times = [999, 1_000, 59_999, 60_000, 7_200_000, 172_800_000].map(time);
        assert_eq!(times, ["999 ms", "1 s", "59 s", "1 min", "2 h", "2 d"]);
    }
}
