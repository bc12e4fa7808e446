//! Renders a handoff's summary for review: title, items under their headings, unverified names, coverage, author and
//! cost.
//!
//! Apart from sanitizing, the text of the summary is shown verbatim, because the reviewer must see what the child
//! thread will get.

use agent::{HandoffCost, OFFLINE_SUMMARY_MODEL, summary_heading};
use protocol::{HandoffSummary, Proposal, SummaryItem, SummaryItemKind};

use crate::render::{coverage, facts, notes};
use crate::screen::Screen;
use crate::text::amount::{format_dollars, format_tokens};
use crate::text::sanitize::sanitize_line;
use crate::text::style::Style;
use crate::text::wrap::wrap;

/// The model name that is stored for a summary written by the user.
pub const USER_AUTHOR: &str = "user";
/// The most unverified names shown per item; `…` stands for the others.
const UNFOUND_MAX: usize = 4;

/// Returns the whole proposal with its facts, coverage and author; long lists are folded.
///
/// The stored Markdown is not rendered: the items are laid out from the structured summary, so that headings and the
/// names that make an item unverified can be styled.
pub fn render_proposal(screen: &Screen, proposal: &Proposal) -> String {
    let summary = &proposal.summary_json;
    let columns = screen.text_columns();
    let title_mark = unverified_mark(&summary.notes.title_unfound);
    let title = format!("{}{title_mark}", sanitize_line(&summary.title));
    let mut lines = vec![screen.style.bold(wrap(&title, columns, "", ""))];
    lines.extend(unverified_line(screen, &summary.notes.title_unfound, "  ! "));
    lines.push(render_body(screen, summary));
    lines.extend(facts::render_folded(screen, proposal));
    lines.extend(notes::render_notes(screen, &summary.notes));
    lines.push(String::new());
    for note in [coverage::render_line(&summary.coverage), origin_line(proposal)] {
        lines.push(screen.style.dim(wrap(&note, columns, "", "  ")));
    }
    lines.join("\n")
}

/// Returns the TL;DR and the items, grouped by kind under headings.
pub fn render_body(screen: &Screen, summary: &HandoffSummary) -> String {
    let tldr_unfound = &summary.notes.tldr_unfound;
    let tldr = format!("{}{}", sanitize_line(&summary.tldr), unverified_mark(tldr_unfound));
    let mut lines = vec![wrap(&color_code_spans(&tldr, screen.style), screen.text_columns(), "", "")];
    lines.extend(unverified_line(screen, tldr_unfound, "  ! "));
    for kind in SummaryItemKind::ALL {
        let items: Vec<&SummaryItem> = summary.body.iter().filter(|item| item.kind == kind).collect();
        if items.is_empty() {
            continue;
        }
        lines.push(String::new());
        lines.push(screen.style.bold(summary_heading(kind)));
        lines.extend(items.into_iter().flat_map(|item| item_lines(screen, item)));
    }
    lines.join("\n")
}

/// Returns the cost of the draft, and the cost of the child's first request compared with continuing the parent.
/// Unknown amounts are omitted; the text is empty if nothing is known.
pub fn render_cost(screen: &Screen, cost: &HandoffCost) -> String {
    let amount = |count: u64, price: Option<f64>| match price {
        Some(price) => format!("{} tokens ({})", format_tokens(count), format_dollars(price)),
        None => format!("{} tokens", format_tokens(count)),
    };
    let draft = (cost.draft_tokens > 0)
        .then(|| format!("This draft used {}", amount(cost.draft_tokens, cost.draft_dollars)));
    let first = cost.first_turn_tokens.map(|count| {
        let first = amount(count, cost.first_turn_dollars);
        let continuing = cost.continuing_tokens.map(|count| amount(count, cost.continuing_dollars));
        let instead = continuing.map(|amount| format!(" instead of {amount}")).unwrap_or_default();
        format!("new thread's first request is about {first}{instead}.")
    });
    let text = match (draft, first) {
        (Some(draft), Some(first)) => format!("{draft}; the {first}"),
        (Some(draft), None) => format!("{draft}."),
        (None, Some(first)) => format!("The {first}"),
        (None, None) => return String::new(),
    };
    screen.style.dim(wrap(&text, screen.text_columns(), "", "  "))
}

/// Returns an item with each of its lines as a bullet, as in the stored Markdown, followed by its unverified names.
/// The last line of an unverified item ends with [`SummaryItem::UNVERIFIED`], as in the stored Markdown.
fn item_lines(screen: &Screen, item: &SummaryItem) -> Vec<String> {
    let columns = screen.text_columns();
    let mut lines: Vec<String> =
        item.text.lines().map(sanitize_line).filter(|line| !line.is_empty()).collect();
    if let Some(last) = lines.last_mut().filter(|_| !item.verified) {
        last.push_str(SummaryItem::UNVERIFIED);
    }
    let mut lines: Vec<String> = lines
        .iter()
        .map(|line| wrap(&color_code_spans(line, screen.style), columns, "  • ", "    "))
        .collect();
    if !item.verified {
        lines.push(screen.style.warn(wrap(&unverified_note(&item.unfound), columns, "    ! ", "      ")));
    }
    if !item.false_refs.is_empty() {
        let text = match item.false_refs.as_slice() {
            [seq] => format!("its reference #{seq} was removed: there is no such message"),
            refs => format!("{} of its references were removed: there are no such messages", refs.len()),
        };
        lines.push(screen.style.warn(wrap(&text, columns, "    ! ", "      ")));
    }
    lines
}

/// Returns the mark behind a title or a TL;DR with unfound names, as in the stored Markdown.
const fn unverified_mark(unfound: &[String]) -> &'static str {
    if unfound.is_empty() { "" } else { SummaryItem::UNVERIFIED }
}

/// Returns the line about the unfound names of a title or a TL;DR; `None` if there are none.
fn unverified_line(screen: &Screen, unfound: &[String], bullet: &str) -> Option<String> {
    let text = || wrap(&unverified_note(unfound), screen.text_columns(), bullet, "    ");
    (!unfound.is_empty()).then(|| screen.style.warn(text()))
}

/// Returns the reason why a text is marked as unverified.
/// The names come from the grounding of the crate `handoff`: they occur in the text, but not in the covered messages.
fn unverified_note(unfound: &[String]) -> String {
    let names: Vec<String> = unfound.iter().take(UNFOUND_MAX).map(|name| sanitize_line(name)).collect();
    let more = if unfound.len() > UNFOUND_MAX { ", …" } else { "" };
    match names.is_empty() {
        true => "unverified: contains a name that is not in the covered messages; check it".to_owned(),
        false => format!("unverified: not in the covered messages: {}{more}; check it", names.join(", ")),
    }
}

/// Returns the author of the proposal, its estimated size, and the number of the draft from the second draft on.
/// The size is an estimate in tokens of what the child thread will get.
fn origin_line(proposal: &Proposal) -> String {
    let size = agent::estimate_tokens(&proposal.package_md);
    let writer = match proposal.summary_json.model.as_str() {
        USER_AUTHOR => "Edited by you".to_owned(),
        OFFLINE_SUMMARY_MODEL => "Written by the offline summary".to_owned(),
        model => format!("Drafted by {}", sanitize_line(model)),
    };
    let draft =
        if proposal.iteration > 0 { format!(" · draft {}", proposal.iteration + 1) } else { String::new() };
    format!("{writer} · about {size} tokens{draft}")
}

/// Returns a line verbatim, with its code spans coloured. A backtick without a partner is ordinary text.
fn color_code_spans(text: &str, style: Style) -> String {
    let mut out = String::with_capacity(text.len());
    let mut remaining = text;
    while let Some((before, from)) = remaining.split_once('`') {
        let Some((inner, after)) = from.split_once('`').filter(|(inner, _)| !inner.is_empty()) else { break };
        out.push_str(before);
        out.push_str(&style.code(format!("`{inner}`")));
        remaining = after;
    }
    out.push_str(remaining);
    out
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{
        AssistantId, CarriedFacts, CarriedFiles, Coverage, HandoffId, ThreadId, TodoItem, TodoStatus,
    };

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::wrap::width;

    /// Returns an item, which is unverified if `unfound` contains names.
    fn item(kind: SummaryItemKind, text: &str, unfound: &[&str]) -> SummaryItem {
        SummaryItem {
            kind,
            text: text.to_owned(),
            refs: Vec::new(),
            verified: unfound.is_empty(),
            unfound: unfound.iter().map(|name| (*name).to_owned()).collect(),
            line_refs: Vec::new(),
            false_refs: Vec::new(),
        }
    }

    /// Returns the second draft of a handoff with items of most kinds, an unverified item, and facts that are carried
    /// over.
    fn sample_proposal() -> Proposal {
        let handoff_id: HandoffId = "0192f0c1-0000-7000-8000-000000000001".parse().unwrap();
        let parent_thread_id: ThreadId = "0192f0c1-0000-7000-8000-000000000002".parse().unwrap();
        let summary_json = HandoffSummary {
            schema_version: 1,
            handoff_id,
            assistant_id: "agent".parse::<AssistantId>().unwrap(),
            parent_thread_id,
            child_thread_id: None,
            title: "Make `retries_after_timeout` reliable without raising the timeout".to_owned(),
            tldr: "The retry test read the clock twice; it takes one clock now, and the backoff is next."
                .to_owned(),
            body: vec![
                item(SummaryItemKind::Objective, "Find why `retries_after_timeout` fails now and then.", &[]),
                item(
                    SummaryItemKind::Progress,
                    "`src/retry.rs` takes the clock as an argument; 12 runs in a row passed.",
                    &[],
                ),
                item(SummaryItemKind::Decision, "Never raise the timeout.", &[]),
                item(SummaryItemKind::NextStep, "[ ] the same in `src/backoff.rs`\n[ ] the whole suite", &[]),
                item(
                    SummaryItemKind::Artifact,
                    "Commit 4f2a9c1 in src/clock.rs",
                    &["4f2a9c1", "src/clock.rs"],
                ),
            ],
            model: "anthropic/claude-sonnet-4-5".to_owned(),
            model_run_id: None,
            run_id: None,
            notes: protocol::ReviewNotes::default(),
            tokens_used: 5_210,
            iteration: 1,
            created_at: Timestamp::UNIX_EPOCH,
            coverage: Coverage {
                first_seq: 1,
                last_seq: 250,
                messages: 240,
                verbatim: vec![(240, 250)],
                summarized: vec![(1, 180)],
                truncated: vec![(191, 239)],
                excluded: vec![(181, 190)],
                quoted: vec![(250, 250)],
                represented: vec![(1, 4)],
                read: vec![(191, 249)],
                scanned: vec![(5, 180)],
                unread: vec![(181, 190)],
            },
            carried: CarriedFacts {
                last_user_request: Some(
                    "Good. Then do the same in src/backoff.rs and run the whole suite.".to_owned(),
                ),
                todos: vec![TodoItem { text: "run the whole suite".to_owned(), status: TodoStatus::Pending }],
                files: CarriedFiles { changed: vec!["src/retry.rs".to_owned()], ..CarriedFiles::default() },
                errors: vec!["left: 2, right: 3".to_owned()],
                ..CarriedFacts::default()
            },
        };
        Proposal {
            handoff_id,
            iteration: 1,
            package_md: "words ".repeat(200),
            summary_json,
            summary_sha256: String::new(),
            feedback: None,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Renders the sample proposal and its cost on a screen of this width, and checks that every line fits.
    fn render_sample(columns: usize) -> String {
        let screen =
            Screen { style: Style::Plain, columns, audience: Audience::Program, cursor: CursorMode::Fixed };
        let cost = HandoffCost {
            draft_tokens: 5_210,
            draft_dollars: Some(0.0213),
            first_turn_tokens: Some(3_100),
            first_turn_dollars: Some(0.0093),
            continuing_tokens: Some(148_000),
            continuing_dollars: Some(0.444),
        };
        let text =
            format!("{}\n{}", render_proposal(&screen, &sample_proposal()), render_cost(&screen, &cost));
        assert!(text.lines().all(|line| width(line) <= columns), "{text}");
        text
    }

    #[test]
    fn a_proposal_at_60_columns() {
        insta::assert_snapshot!(render_sample(60));
    }

    #[test]
    fn a_proposal_at_100_columns() {
        insta::assert_snapshot!(render_sample(100));
    }

    /// A missing amount must not be shown as zero.
    #[test]
    fn unknown_parts_of_the_cost_are_omitted() {
        let screen = Screen {
            style: Style::Plain,
            columns: 100,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        let check = |cost: HandoffCost, expected: &str| assert_eq!(render_cost(&screen, &cost), expected);
        check(HandoffCost::default(), "");
        check(HandoffCost { draft_tokens: 12, ..HandoffCost::default() }, "This draft used 12 tokens.");
        check(
            HandoffCost { first_turn_tokens: Some(7), continuing_tokens: Some(90), ..HandoffCost::default() },
            "The new thread's first request is about 7 tokens instead of 90 tokens.",
        );
    }

    #[test]
    fn m6_an_unverified_item_lists_the_missing_names() {
        assert_eq!(
            unverified_note(&["a", "b", "c", "d", "e"].map(str::to_owned)),
            "unverified: not in the covered messages: a, b, c, d, …; check it"
        );
    }

    /// The shown text must equal the stored text, so unbalanced marks must not disappear.
    #[test]
    fn m1_verbatim_text_keeps_every_character() {
        for text in
            ["ponylang__ponyc__0.1 `a_b` **x** \\* [l](t)", "```", "`open", "a `` b", "__init__.py ~~x~~"]
        {
            assert_eq!(color_code_spans(text, Style::Plain), text);
        }
        assert_eq!(color_code_spans("a `b` c", Style::Color), "a \u{1b}[36m`b`\u{1b}[39m c");
    }
}
