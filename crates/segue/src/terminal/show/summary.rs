//! A handoff's summary as people read it: title, items under their headings, what it covers, who wrote it. It changes
//! no word of it.

use protocol::summary::SeqRange;
use protocol::{Coverage, HandoffSummary, ItemKind, Proposal, SummaryItem};

use crate::terminal::screen::Screen;
use crate::terminal::show::inline::inline;
use crate::terminal::text::safe::one_line;
use crate::terminal::text::wrap::wrap;

/// The name of the summariser that needs no model.
const EXTRACTIVE: &str = "extractive";
/// The name of a summary that a person wrote.
const EDITED: &str = "user";

/// Returns the whole proposal, ready for the screen.
pub(crate) fn proposal(screen: &Screen, proposal: &Proposal, uncovered_messages: u64) -> String {
    let summary = &proposal.summary_json;
    let title = screen.style.bold(wrap(&one_line(&summary.title), screen.text_columns(), "", ""));
    let mut lines = vec![title, body(screen, summary), String::new()];
    if summary.body.iter().any(|item| !item.verified) {
        let why = "unverified: the item names something that the covered messages do not contain; check it.";
        lines.push(screen.style.warn(wrap(why, screen.text_columns(), "", "")));
    }
    let facts = [coverage(&summary.coverage), newer(uncovered_messages), origin(proposal)];
    for fact in facts.into_iter().flatten() {
        lines.push(screen.style.dim(wrap(&fact, screen.text_columns(), "", "  ")));
    }
    lines.join("\n")
}

/// Returns TL;DR and items.
pub(crate) fn body(screen: &Screen, summary: &HandoffSummary) -> String {
    let mut lines =
        vec![wrap(&inline(&one_line(&summary.tldr), screen.style), screen.text_columns(), "", "")];
    for kind in ItemKind::ALL {
        let items: Vec<&SummaryItem> = summary.body.iter().filter(|item| item.kind == kind).collect();
        if items.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(screen.style.bold(heading(kind)));
        lines.extend(items.into_iter().flat_map(|item| bullets(screen, item)));
    }
    lines.join("\n")
}

/// The headings of contract §4.
const fn heading(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Objective => "Objective",
        ItemKind::Progress => "Progress",
        ItemKind::Decision => "Decisions",
        ItemKind::NextStep => "Next steps",
        ItemKind::Blocker => "Blockers",
        ItemKind::Artifact => "Artifacts",
    }
}

/// Each line of an item is a bullet, as in the Markdown that is stored.
fn bullets(screen: &Screen, item: &SummaryItem) -> Vec<String> {
    let mut lines: Vec<String> = item.text.lines().map(one_line).filter(|line| !line.is_empty()).collect();
    if let Some(last) = lines.last_mut().filter(|_| !item.verified) {
        last.push_str(" (unverified)");
    }
    lines
        .iter()
        .map(|line| wrap(&inline(line, screen.style), screen.text_columns(), "  • ", "    "))
        .collect()
}

/// Returns what the summary covers, in numbers that equal its ledger.
fn coverage(coverage: &Coverage) -> Option<String> {
    let count = |ranges: &[SeqRange]| ranges.iter().map(|(first, last)| last + 1 - first).sum::<u64>();
    let parts = [
        (count(&coverage.verbatim), "verbatim"),
        (count(&coverage.summarized), "condensed"),
        (count(&coverage.truncated), "shortened"),
        (count(&coverage.excluded), "not included"),
    ];
    let covered: u64 = parts.iter().map(|(count, _)| count).sum();
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
    match covered {
        0 => None,
        _ => Some(format!("Covers {covered} of {} events: {}", coverage.last_seq, parts.join(" · "))),
    }
}

fn newer(uncovered_messages: u64) -> Option<String> {
    match uncovered_messages {
        0 => None,
        1 => Some("1 newer message is not covered".to_owned()),
        count => Some(format!("{count} newer messages are not covered")),
    }
}

fn origin(proposal: &Proposal) -> Option<String> {
    let summary = &proposal.summary_json;
    let size = agent::estimate_tokens(&proposal.summary_md);
    let writer = match summary.model.as_str() {
        EDITED => "Edited by you".to_owned(),
        EXTRACTIVE => "Written by the offline extract".to_owned(),
        model if summary.tokens_used > 0 => {
            format!("Drafted by {} with {} tokens", one_line(model), summary.tokens_used)
        }
        model => format!("Drafted by {}", one_line(model)),
    };
    let draft =
        if summary.iteration > 0 { format!(" · draft {}", summary.iteration + 1) } else { String::new() };
    Some(format!("{writer} · about {size} tokens{draft}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m5_the_numbers_on_screen_equal_the_ledger() {
        let ledger = Coverage {
            first_seq: 1,
            last_seq: 214,
            verbatim: vec![(1, 10), (185, 214)],
            summarized: vec![(11, 170)],
            truncated: vec![],
            excluded: vec![(171, 184)],
        };
        let expected = "Covers 214 of 214 events: 40 verbatim · 160 condensed · 14 not included";
        assert_eq!(coverage(&ledger).unwrap(), expected);
        let newest =
            Coverage { first_seq: 205, last_seq: 214, verbatim: vec![(205, 214)], ..Coverage::default() };
        assert_eq!(coverage(&newest).unwrap(), "Covers 10 of 214 events: 10 verbatim");
        assert_eq!(coverage(&Coverage::default()), None);
    }
}
