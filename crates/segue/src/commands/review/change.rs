//! What changed between two drafts, in one line: which parts, and how many lines came and went. The lines themselves are
//! the diff's.

use agent::summary_heading;
use protocol::{HandoffSummary, ItemKind, Proposal};
use terminal::one_line;
use terminal::summary::EDITED;

/// Returns what changed.
pub(super) fn told(before: &HandoffSummary, after: &HandoffSummary) -> String {
    let mut parts: Vec<String> = Vec::new();
    if before.title != after.title {
        parts.push("title".to_owned());
    }
    if before.tldr != after.tldr {
        parts.push("TL;DR".to_owned());
    }
    for kind in ItemKind::ALL {
        let (old, new) = (lines(before, kind), lines(after, kind));
        let count = |of: &[&str], other: &[&str]| of.iter().filter(|line| !other.contains(line)).count();
        let (gone, come) = (count(&old, &new), count(&new, &old));
        let signs = [(come, '+'), (gone, '-')].into_iter().filter(|(count, _)| *count > 0);
        let signs: Vec<String> = signs.map(|(count, sign)| format!("{sign}{count}")).collect();
        if !signs.is_empty() {
            parts.push(format!("{} ({})", summary_heading(kind), signs.join(" ")));
        }
    }
    match parts.is_empty() {
        true => "Changed: nothing.".to_owned(),
        false => format!("Changed: {}. d shows the difference.", parts.join(", ")),
    }
}

/// Returns how a draft came about.
pub(crate) fn came_about(proposals: &[Proposal], of: &Proposal) -> String {
    match (&of.feedback, repeated(proposals, of)) {
        (Some(feedback), _) => format!("refined: “{}”", one_line(feedback)),
        (None, _) if of.iteration == 0 => "first draft".to_owned(),
        (None, Some(earlier)) => format!("as draft {}", earlier.iteration + 1),
        (None, None) if of.summary_json.model == EDITED => "edited".to_owned(),
        (None, None) => format!("drafted again by {}", one_line(&of.summary_json.model)),
    }
}

/// Returns the draft whose very text this one shows again.
pub(super) fn repeated<'a>(proposals: &'a [Proposal], of: &Proposal) -> Option<&'a Proposal> {
    proposals.iter().find(|earlier| {
        earlier.iteration < of.iteration
            && earlier.summary_sha256 == of.summary_sha256
            && of.feedback.is_none()
    })
}

fn lines(summary: &HandoffSummary, kind: ItemKind) -> Vec<&str> {
    summary.body.iter().filter(|item| item.kind == kind).flat_map(|item| item.text.lines()).collect()
}

#[cfg(test)]
mod tests {
    use protocol::{CarryOver, Coverage, SummaryItem};

    use super::*;

    fn summary(title: &str, tldr: &str, items: &[(ItemKind, &str)]) -> HandoffSummary {
        let item = |(kind, text): &(ItemKind, &str)| SummaryItem {
            kind: *kind,
            text: (*text).to_owned(),
            refs: Vec::new(),
            verified: true,
            unfound: Vec::new(),
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
            tokens_used: 0,
            iteration: 0,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            coverage: Coverage::default(),
            carry_over: CarryOver::default(),
        }
    }

    #[test]
    fn the_parts_that_changed_are_named_with_the_lines_that_came_and_went() {
        use ItemKind::{NextStep, Objective, Progress};
        let before = summary("T", "Tl", &[(Objective, "o"), (Progress, "one\ntwo"), (NextStep, "n")]);
        let check = |after: &HandoffSummary, expected: &str| assert_eq!(told(&before, after), expected);
        check(&before, "Changed: nothing.");
        let after = summary(
            "T",
            "Tl.",
            &[(Objective, "o"), (Progress, "one\nthree"), (NextStep, "n"), (NextStep, "m")],
        );
        check(&after, "Changed: TL;DR, Progress (+1 -1), Next steps (+1). d shows the difference.");
        check(&summary("U", "Tl", &before_items()), "Changed: title. d shows the difference.");
    }

    fn before_items() -> [(ItemKind, &'static str); 3] {
        [(ItemKind::Objective, "o"), (ItemKind::Progress, "one\ntwo"), (ItemKind::NextStep, "n")]
    }
}
