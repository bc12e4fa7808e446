//! Describes the changes between two drafts in one line: the changed parts with the number of added and removed lines.
//! The diff shows the lines themselves.

use agent::summary_heading;
use protocol::{HandoffSummary, Proposal, SummaryItemKind};
use terminal::sanitize_line;
use terminal::summary::USER_AUTHOR;

/// Returns the changes as a sentence. Items are compared line by line, ignoring their order.
pub(super) fn change_text(before: &HandoffSummary, after: &HandoffSummary) -> String {
    let mut parts: Vec<String> = Vec::new();
    if before.title != after.title {
        parts.push("title".to_owned());
    }
    if before.tldr != after.tldr {
        parts.push("TL;DR".to_owned());
    }
    for kind in SummaryItemKind::ALL {
        let (old, new) = (item_lines(before, kind), item_lines(after, kind));
        let count_missing =
            |lines: &[&str], other: &[&str]| lines.iter().filter(|line| !other.contains(line)).count();
        let (removed, added) = (count_missing(&old, &new), count_missing(&new, &old));
        let signs = [(added, '+'), (removed, '-')].into_iter().filter(|(count, _)| *count > 0);
        let signs: Vec<String> = signs.map(|(count, sign)| format!("{sign}{count}")).collect();
        if !signs.is_empty() {
            parts.push(format!("{} ({})", summary_heading(kind), signs.join(" ")));
        }
    }
    if before.carried != after.carried {
        parts.push("facts".to_owned());
    }
    match parts.is_empty() {
        true => "Changed: nothing.".to_owned(),
        false => format!("Changed: {}. d shows the diff.", parts.join(", ")),
    }
}

/// Returns the origin of a draft: refined, reverted, edited by the user, or drafted again.
pub(crate) fn draft_origin(proposals: &[Proposal], draft: &Proposal) -> String {
    match (&draft.feedback, find_identical_draft(proposals, draft)) {
        (Some(feedback), _) => format!("refined: “{}”", sanitize_line(feedback)),
        (None, _) if draft.iteration == 0 => "first draft".to_owned(),
        (None, Some(earlier)) => format!("same as draft {}", earlier.iteration + 1),
        (None, None) if draft.summary_json.model == USER_AUTHOR => "edited".to_owned(),
        (None, None) => format!("drafted again by {}", sanitize_line(&draft.summary_json.model)),
    }
}

/// Returns the earlier draft that a revert has restored in `draft`. A restored draft has the same hash.
pub(super) fn find_identical_draft<'a>(proposals: &'a [Proposal], draft: &Proposal) -> Option<&'a Proposal> {
    proposals.iter().find(|earlier| {
        earlier.iteration < draft.iteration
            && earlier.summary_sha256 == draft.summary_sha256
            && draft.feedback.is_none()
    })
}

/// Returns the lines of all items of a kind.
fn item_lines(summary: &HandoffSummary, kind: SummaryItemKind) -> Vec<&str> {
    summary.body.iter().filter(|item| item.kind == kind).flat_map(|item| item.text.lines()).collect()
}

#[cfg(test)]
mod tests {
    use protocol::{CarriedFacts, Coverage, SummaryItem};

    use super::*;

    /// Returns a summary with these texts and verified items.
    fn summary(title: &str, tldr: &str, items: &[(SummaryItemKind, &str)]) -> HandoffSummary {
        let item = |(kind, text): &(SummaryItemKind, &str)| SummaryItem {
            kind: *kind,
            text: (*text).to_owned(),
            refs: Vec::new(),
            verified: true,
            unfound: Vec::new(),
            line_refs: Vec::new(),
            false_refs: Vec::new(),
        };
        HandoffSummary {
            schema_version: 1,
            handoff_id: "0192f0c1-0000-7000-8000-000000000001".parse().unwrap(),
            assistant_id: "agent".parse().unwrap(),
            parent_thread_id: "0192f0c1-0000-7000-8000-000000000002".parse().unwrap(),
            child_thread_id: None,
            title: title.to_owned(),
            tldr: tldr.to_owned(),
            body: items.iter().map(item).collect(),
            model: "user".to_owned(),
            model_run_id: None,
            run_id: None,
            notes: protocol::ReviewNotes::default(),
            tokens_used: 0,
            iteration: 0,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            coverage: Coverage::default(),
            carried: CarriedFacts::default(),
        }
    }

    #[test]
    fn the_changed_parts_are_listed_with_their_added_and_removed_lines() {
        use SummaryItemKind::{NextStep, Objective, Progress};
        let before = summary("T", "Tl", &[(Objective, "o"), (Progress, "one\ntwo"), (NextStep, "n")]);
        let check =
            |after: &HandoffSummary, expected: &str| assert_eq!(change_text(&before, after), expected);
        check(&before, "Changed: nothing.");
        let after = summary(
            "T",
            "Tl.",
            &[(Objective, "o"), (Progress, "one\nthree"), (NextStep, "n"), (NextStep, "m")],
        );
        check(&after, "Changed: TL;DR, Progress (+1 -1), Next steps (+1). d shows the diff.");
        check(&summary("U", "Tl", &before_items()), "Changed: title. d shows the diff.");
    }

    /// Returns the items that the new title is compared with.
    fn before_items() -> [(SummaryItemKind, &'static str); 3] {
        [
            (SummaryItemKind::Objective, "o"),
            (SummaryItemKind::Progress, "one\ntwo"),
            (SummaryItemKind::NextStep, "n"),
        ]
    }
}
