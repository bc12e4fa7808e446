//! Operations on a record: normalizing its entries, removing duplicates, and dropping the least needed ones.

use facts::formatting::{strip_markdown, truncate_with_ellipsis};
use model::{tokens, untrusted_text};
use protocol::CondensedSummary;
use secrets::redact;

/// The maximum length of an entry, of the goal and of the next step, in grapheme clusters.
const ENTRY_GRAPHEMES_MAX: usize = 480;
/// The maximum number of entries of a section.
const ENTRIES_MAX: usize = 64;

/// The lists of a record, the least needed first. In this order their oldest entries are dropped.
pub(super) const SECTIONS: [RecordSection; 7] = [
    RecordSection { name: "Progress", list: |record| &mut record.progress, newest_kept: 6 },
    RecordSection { name: "Files", list: |record| &mut record.files, newest_kept: 6 },
    RecordSection { name: "Errors and fixes", list: |record| &mut record.errors, newest_kept: 4 },
    RecordSection {
        name: "What the user asked for, in order",
        list: |record| &mut record.user_messages,
        newest_kept: 6,
    },
    RecordSection { name: "Decisions", list: |record| &mut record.decisions, newest_kept: 6 },
    RecordSection { name: "Pending", list: |record| &mut record.pending, newest_kept: 6 },
    RecordSection { name: "Constraints", list: |record| &mut record.constraints, newest_kept: 8 },
];

/// A list of a record.
pub(super) struct RecordSection {
    /// The heading of the section.
    pub name: &'static str,
    /// The function that returns the list in a record.
    pub list: fn(&mut CondensedSummary) -> &mut Vec<String>,
    /// The number of newest entries that are dropped only after the older entries of every section.
    newest_kept: usize,
}

/// Returns `text` as an entry: on one line, redacted, without Markdown, without hidden characters, and cut to
/// [`ENTRY_GRAPHEMES_MAX`].
pub(super) fn normalize_entry(text: &str) -> String {
    let visible = untrusted_text::strip_hidden_characters(text);
    let safe = redact(&visible);
    let mut line = strip_markdown(&safe);
    // Removing one marker may leave a line that begins with another, so it is repeated until nothing changes.
    loop {
        let stripped = strip_markdown(&line);
        if stripped == line {
            break;
        }
        line = stripped;
    }
    while line.contains("```") {
        line = line.replace("```", "`");
    }
    truncate_with_ellipsis(&line, ENTRY_GRAPHEMES_MAX)
}

/// Returns the record with normalized entries, without blank entries and duplicates, and with at most [`ENTRIES_MAX`]
/// entries in each section: the first one and the newest ones.
pub(super) fn normalize_record(mut record: CondensedSummary) -> CondensedSummary {
    record.goal = normalize_entry(&record.goal);
    record.next_step = normalize_entry(&record.next_step);
    for section in &SECTIONS {
        let list = (section.list)(&mut record);
        let entries = list.iter().map(|text| normalize_entry(text)).collect();
        *list = keep_newest(dedup_entries(entries), ENTRIES_MAX);
    }
    record
}

/// Returns the entries without blank entries and without duplicates, ignoring case. The last of several equal entries
/// is retained.
pub(super) fn dedup_entries(entries: Vec<String>) -> Vec<String> {
    let mut known = std::collections::HashSet::new();
    let mut unique: Vec<String> = entries
        .into_iter()
        .rev()
        .filter(|entry| !entry.trim().is_empty() && known.insert(entry.to_lowercase()))
        .collect();
    unique.reverse();
    unique
}

/// Returns the first entry and the newest entries, `max` in total. The first entry is retained because later ones
/// often refer to it.
fn keep_newest(mut entries: Vec<String>, max: usize) -> Vec<String> {
    let excess = entries.len().saturating_sub(max);
    if excess > 0 {
        entries.drain(1..=excess);
    }
    entries
}

/// Returns the estimated tokens of all entries, each with one token for its bullet.
pub(super) fn estimate_tokens(record: &CondensedSummary) -> u64 {
    let CondensedSummary { goal, next_step, .. } = record;
    let entries = lists(record).into_iter().flatten();
    [goal, next_step].into_iter().chain(entries).map(|text| tokens::estimate_tokens(text) + 1).sum()
}

/// Returns the lists of a record, in the order of [`SECTIONS`].
fn lists(record: &CondensedSummary) -> [&Vec<String>; 7] {
    let CondensedSummary {
        goal: _,
        constraints,
        progress,
        decisions,
        files,
        errors,
        user_messages,
        pending,
        next_step: _,
    } = record;
    [progress, files, errors, user_messages, decisions, pending, constraints]
}

/// Drops the least needed entry. Returns false when the record has no entry left; the goal is never dropped.
pub(super) fn drop_least_needed_entry(record: &mut CondensedSummary) -> bool {
    for is_last_resort in [false, true] {
        for section in &SECTIONS {
            let list = (section.list)(record);
            let retained = if is_last_resort { 0 } else { section.newest_kept };
            if list.len() > retained {
                // The first entry stays as long as possible, because the later ones often refer to it.
                let index = usize::from(list.len() > 2);
                list.remove(index);
                return true;
            }
        }
    }
    let had_next_step = !record.next_step.is_empty();
    record.next_step.clear();
    had_next_step
}
