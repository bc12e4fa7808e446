//! The changes that a person made to the proposals of a handoff, replayed on a later draft: the facts that they dropped,
//! changed or added stay so until they go back to an earlier proposal.

use protocol::{
    CarriedFacts, CarriedFiles, HandoffSummary, PinnedText, Proposal, ReferencedFile, Rule, Seq, SummaryItem,
    SummaryItemKind, TodoItem,
};

use crate::review::edit::AUTHOR;

/// The edits of a person, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReviewerChanges {
    edits: Vec<Edit>,
}

/// One edit: the proposal that was shown, and the one that the person made of it.
#[derive(Debug, Clone, PartialEq)]
struct Edit {
    before: HandoffSummary,
    after: HandoffSummary,
}

/// An entry of a list that a person can drop, change or add.
trait Entry: Clone + PartialEq {
    /// Returns the text by which an entry is recognized in another draft.
    fn key(&self) -> &str;

    /// Returns the entry `after`, which a person made of `before`, as a later draft contains it instead of `fresh`.
    fn replayed(_before: &Self, after: &Self, _fresh: &Self) -> Self {
        after.clone()
    }
}

impl Entry for String {
    fn key(&self) -> &str {
        self
    }
}

impl Entry for Rule {
    fn key(&self) -> &str {
        &self.text
    }
}

impl Entry for PinnedText {
    fn key(&self) -> &str {
        &self.text
    }
}

impl Entry for ReferencedFile {
    fn key(&self) -> &str {
        &self.path
    }
}

impl Entry for SummaryItem {
    fn key(&self) -> &str {
        &self.text
    }
}

impl Entry for TodoItem {
    fn key(&self) -> &str {
        &self.text
    }

    /// The status is the one that the conversation shows, unless the person changed it.
    fn replayed(before: &Self, after: &Self, fresh: &Self) -> Self {
        let status = if before.status == after.status { fresh.status } else { after.status };
        Self { text: after.text.clone(), status }
    }
}

impl ReviewerChanges {
    /// Returns the changes in the newest of `proposals`, which are all proposals of a handoff in their order.
    ///
    /// A proposal with the text of an earlier one goes back to it, so it has the changes of that one.
    pub(crate) fn of_proposals(proposals: &[Proposal]) -> Self {
        let mut changes: Vec<Self> = Vec::with_capacity(proposals.len());
        for (index, proposal) in proposals.iter().enumerate() {
            let is_same = |earlier: &Proposal| earlier.summary_sha256 == proposal.summary_sha256;
            let previous = index.checked_sub(1);
            let of_previous = previous.map(|previous| changes[previous].clone()).unwrap_or_default();
            changes.push(match (proposals[..index].iter().position(is_same), previous) {
                (Some(earlier), _) => changes[earlier].clone(),
                (None, Some(previous)) if proposal.summary_json.model == AUTHOR => {
                    let before = proposals[previous].summary_json.clone();
                    let edit = Edit { before, after: proposal.summary_json.clone() };
                    Self { edits: of_previous.edits.into_iter().chain([edit]).collect() }
                }
                (None, _) => of_previous,
            });
        }
        changes.pop().unwrap_or_default()
    }

    /// Returns the facts of a later draft with the changes of the person.
    pub(crate) fn apply_to_facts(&self, fresh: CarriedFacts) -> CarriedFacts {
        self.edits.iter().fold(fresh, |facts, Edit { before, after }| {
            let (before, after) = (&before.carried, &after.carried);
            let last_user_request =
                replay_single(&before.last_user_request, &after.last_user_request, facts.last_user_request);
            CarriedFacts {
                goal: replay_single(&before.goal, &after.goal, facts.goal),
                last_request_answered: facts.last_request_answered.filter(|_| last_user_request.is_some()),
                last_user_request,
                rules: replay(&before.rules, &after.rules, facts.rules),
                pins: replay(&before.pins, &after.pins, facts.pins),
                todos: replay(&before.todos, &after.todos, facts.todos),
                files: CarriedFiles {
                    changed: replay(&before.files.changed, &after.files.changed, facts.files.changed),
                    read: replay(&before.files.read, &after.files.read, facts.files.read),
                    deleted: replay(&before.files.deleted, &after.files.deleted, facts.files.deleted),
                },
                in_use: replay(&before.in_use, &after.in_use, facts.in_use),
                commands: replay(&before.commands, &after.commands, facts.commands),
                errors: replay(&before.errors, &after.errors, facts.errors),
                skills: replay(&before.skills, &after.skills, facts.skills),
                delegations: replay(&before.delegations, &after.delegations, facts.delegations),
                pending_approvals: replay(
                    &before.pending_approvals,
                    &after.pending_approvals,
                    facts.pending_approvals,
                ),
                referenced_files: replay(
                    &before.referenced_files,
                    &after.referenced_files,
                    facts.referenced_files,
                ),
                whole_entries: replay(&before.whole_entries, &after.whole_entries, facts.whole_entries),
                is_in_markdown: facts.is_in_markdown,
                more: facts.more,
            }
        })
    }

    /// Sets the title to the one that the person wrote, if they wrote one.
    pub(crate) fn apply_to_title(&self, summary: &mut HandoffSummary) {
        let titled = self.edits.iter().rev().find(|edit| edit.before.title != edit.after.title);
        if let Some(Edit { after, .. }) = titled {
            summary.title.clone_from(&after.title);
            summary.notes.title_unfound.clone_from(&after.notes.title_unfound);
        }
    }

    /// Drops, changes and adds the lines of items that the person did. A sentence that the person wrote instead of the TL;DR
    /// stays as long as the draft would still have that TL;DR.
    pub(crate) fn apply_to_items(&self, summary: &mut HandoffSummary) {
        for Edit { before, after } in &self.edits {
            if summary.tldr == before.tldr {
                summary.tldr.clone_from(&after.tldr);
                summary.notes.tldr_unfound.clone_from(&after.notes.tldr_unfound);
            }
            let mut body = Vec::new();
            for kind in SummaryItemKind::ALL {
                let of_kind = |items: &[SummaryItem]| -> Vec<SummaryItem> {
                    items.iter().filter(|item| item.kind == kind).flat_map(split_into_lines).collect()
                };
                let lines = replay(&of_kind(&before.body), &of_kind(&after.body), of_kind(&summary.body));
                body.extend(join_lines(lines));
            }
            // A summary needs an item: without one, the draft's own are better than none.
            if !body.is_empty() {
                summary.body = body;
            }
        }
    }
}

/// Returns an item for each line of a verified item, with the references of the line. An unverified item stays whole, because
/// its mark belongs to all of it.
fn split_into_lines(item: &SummaryItem) -> Vec<SummaryItem> {
    if !item.verified {
        return vec![item.clone()];
    }
    let line_item = |(text, refs): (&str, Vec<Seq>)| SummaryItem {
        text: text.to_owned(),
        refs,
        line_refs: Vec::new(),
        ..item.clone()
    };
    let lines = item.lines_with_refs();
    // The references of an item whose lines have none of their own belong to each line.
    let is_by_line = item.line_refs.len() >= lines.len();
    let lines =
        lines.into_iter().map(|(text, refs)| (text, if is_by_line { refs } else { item.refs.clone() }));
    lines.map(line_item).collect()
}

/// Joins the verified lines of one kind that follow each other into one item, as an offline summary has them.
fn join_lines(lines: Vec<SummaryItem>) -> Vec<SummaryItem> {
    let mut joined: Vec<SummaryItem> = Vec::new();
    for line in lines {
        match joined.last_mut().filter(|item| item.verified && line.verified) {
            Some(item) => {
                item.text.push('\n');
                item.text.push_str(&line.text);
                item.refs.extend(&line.refs);
                item.line_refs.push(line.refs);
            }
            None => joined.push(SummaryItem { line_refs: vec![line.refs.clone()], ..line }),
        }
    }
    for item in &mut joined {
        item.refs.sort_unstable();
        item.refs.dedup();
        if item.line_refs.len() < 2 {
            item.line_refs.clear();
        }
    }
    joined
}

/// Returns the single entry `fresh` of a later draft after the change from `before` to `after`. An entry that the person
/// did not see stays.
fn replay_single<T: Entry>(before: &Option<T>, after: &Option<T>, fresh: Option<T>) -> Option<T> {
    replay(before.as_slice(), after.as_slice(), fresh.into_iter().collect()).into_iter().next()
}

/// Returns the entries `fresh` of a later draft after the change from `before` to `after`: without those that the person
/// dropped, with what they made of others in the same place, and with those that they added at the end.
fn replay<T: Entry>(before: &[T], after: &[T], mut fresh: Vec<T>) -> Vec<T> {
    let gone: Vec<&T> = before.iter().filter(|entry| !after.contains(entry)).collect();
    let new: Vec<&T> = after.iter().filter(|entry| !before.contains(entry)).collect();
    let index_of = |fresh: &[T], entry: &T| fresh.iter().position(|fresh| fresh.key() == entry.key());
    // As many entries as before: each that is gone became the new one at its rank.
    let are_changed = gone.len() == new.len();
    for (rank, entry) in gone.iter().enumerate() {
        match (index_of(&fresh, entry), new.get(rank).filter(|_| are_changed)) {
            (Some(index), Some(changed)) => fresh[index] = T::replayed(entry, changed, &fresh[index]),
            (Some(index), None) => drop(fresh.remove(index)),
            (None, _) => {}
        }
    }
    for entry in new {
        if index_of(&fresh, entry).is_none() {
            fresh.push(entry.clone());
        }
    }
    fresh
}

#[cfg(test)]
mod tests {
    use protocol::TodoStatus;

    use super::*;
    use crate::review::edit::tests::shown_summary;

    #[test]
    fn changes_of_a_list_are_replayed_on_a_later_list() {
        for (before, after, fresh, expected) in [
            ("a b c", "a b c", "c d", "c d"),
            ("a b c", "a c", "a b c d", "a c d"),
            ("a b c", "a B c", "z a b c", "z a B c"),
            ("a b", "a b own", "a b new", "a b new own"),
            ("a b", "A", "a b c", "c A"),
            ("a b", "a B", "a c", "a c B"),
            ("a", "", "a b", "b"),
            ("a", "a own", "own b", "own b"),
            ("", "own", "", "own"),
        ] {
            let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let replayed = replay(&list(before), &list(after), list(fresh));
            assert_eq!(replayed.join(" "), expected, "{before} -> {after} on {fresh}");
        }
    }

    #[test]
    fn m6_a_changed_line_stays_changed_in_a_later_draft_with_more_lines() {
        let item = |lines: &[(&str, Seq)]| SummaryItem {
            text: lines.iter().map(|(line, _)| *line).collect::<Vec<_>>().join("\n"),
            refs: lines.iter().map(|(_, seq)| *seq).collect(),
            line_refs: lines.iter().map(|(_, seq)| vec![*seq]).collect(),
            ..shown_summary().body[0].clone()
        };
        let summary = |body: Vec<SummaryItem>| HandoffSummary { body, ..shown_summary() };
        let own = SummaryItem { text: "Ported and reviewed.".to_owned(), ..item(&[]) };
        let before = summary(vec![item(&[("Ported.", 3), ("Removed it.", 5), ("Noise.", 6)])]);
        let after = summary(vec![own, item(&[("Removed it.", 5)])]);
        let changes = ReviewerChanges { edits: vec![Edit { before, after }] };
        let mut fresh =
            summary(vec![item(&[("Ported.", 3), ("Removed it.", 5), ("Noise.", 6), ("Measured it.", 9)])]);
        changes.apply_to_items(&mut fresh);
        let lines: Vec<&str> = fresh.body.iter().flat_map(|item| item.text.lines()).collect();
        assert_eq!(lines, ["Removed it.", "Measured it.", "Ported and reviewed."]);
        assert_eq!((fresh.body.len(), &fresh.body[0].line_refs), (1, &vec![vec![5], vec![9], vec![]]));
    }

    #[test]
    fn a_request_that_the_reviewer_did_not_see_replaces_the_one_they_changed() {
        for (before, after, fresh, expected) in [
            (Some("old"), Some("own"), Some("old"), Some("own")),
            (Some("old"), None, Some("old"), None),
            (Some("old"), None, Some("newer"), Some("newer")),
            (Some("old"), Some("own"), Some("newer"), Some("newer")),
            (None, Some("own"), None, Some("own")),
        ] {
            let text = |text: Option<&str>| text.map(str::to_owned);
            let replayed = replay_single(&text(before), &text(after), text(fresh));
            assert_eq!(replayed.as_deref(), expected, "{before:?} -> {after:?} on {fresh:?}");
        }
    }

    #[test]
    fn a_changed_task_has_the_status_that_the_conversation_shows() {
        let task = |text: &str, status| TodoItem { text: text.to_owned(), status };
        let (pending, done) = (TodoStatus::Pending, TodoStatus::Completed);
        let renamed =
            replay(&[task("test", pending)], &[task("test all", pending)], vec![task("test", done)]);
        assert_eq!(renamed, [task("test all", done)]);
        let closed = replay(&[task("test", pending)], &[task("test", done)], vec![task("test", pending)]);
        assert_eq!(closed, [task("test", done)]);
    }
}
