//! A record in its sections: its entries made plain, bounded and told once. What they say is not judged here.

use facts::phrase::{clip, plain};
use facts::redact;
use model::{inert, tokens};
use protocol::CondensedSummary;

/// Graphemes of one entry, and of the goal and the next step.
const ENTRY_GRAPHEMES_MAX: usize = 480;
/// Entries of one section.
const ENTRIES_MAX: usize = 64;

/// The lists of a record, the least needed first: in this order they give up their oldest entries.
pub(super) const SECTIONS: [Section; 7] = [
    Section { name: "Progress", list: |record| &mut record.progress, newest_kept: 6 },
    Section { name: "Files", list: |record| &mut record.files, newest_kept: 6 },
    Section { name: "Errors and fixes", list: |record| &mut record.errors, newest_kept: 4 },
    Section {
        name: "What the user asked for, in order",
        list: |record| &mut record.user_messages,
        newest_kept: 6,
    },
    Section { name: "Decisions", list: |record| &mut record.decisions, newest_kept: 6 },
    Section { name: "Pending", list: |record| &mut record.pending, newest_kept: 6 },
    Section { name: "Constraints", list: |record| &mut record.constraints, newest_kept: 8 },
];

/// One list of a record.
pub(super) struct Section {
    pub name: &'static str,
    pub list: fn(&mut CondensedSummary) -> &mut Vec<String>,
    /// How many of its newest entries outlast the older ones of every other section.
    newest_kept: usize,
}

/// Returns `text` as an entry: one line without Markdown of its own, without secrets and characters that hide.
pub(super) fn entry(text: &str) -> String {
    let visible = inert::visible(text);
    let safe = redact(&visible);
    let mut line = plain(&safe);
    // What is left without a marker may begin with another one.
    loop {
        let barer = plain(&line);
        if barer == line {
            break;
        }
        line = barer;
    }
    while line.contains("```") {
        line = line.replace("```", "`");
    }
    clip(&line, ENTRY_GRAPHEMES_MAX)
}

/// Returns the record with plain entries, none blank and none twice; of too many the newest.
pub(super) fn settled(mut record: CondensedSummary) -> CondensedSummary {
    record.goal = entry(&record.goal);
    record.next_step = entry(&record.next_step);
    for section in &SECTIONS {
        let list = (section.list)(&mut record);
        let entries = list.iter().map(|text| entry(text)).collect();
        *list = newest(once(entries), ENTRIES_MAX);
    }
    record
}

/// Returns the entries, of those that say the same only the last.
pub(super) fn once(entries: Vec<String>) -> Vec<String> {
    let mut told = std::collections::HashSet::new();
    let mut kept: Vec<String> = entries
        .into_iter()
        .rev()
        .filter(|entry| !entry.trim().is_empty() && told.insert(entry.to_lowercase()))
        .collect();
    kept.reverse();
    kept
}

/// Returns the first entry and the newest ones, `max` together.
fn newest(mut entries: Vec<String>, max: usize) -> Vec<String> {
    let beyond = entries.len().saturating_sub(max);
    if beyond > 0 {
        entries.drain(1..=beyond);
    }
    entries
}

/// Returns about how many tokens the entries take.
pub(super) fn size(record: &CondensedSummary) -> u64 {
    let CondensedSummary { goal, next_step, .. } = record;
    let entries = lists(record).into_iter().flatten();
    [goal, next_step].into_iter().chain(entries).map(|text| tokens::estimate(text) + 1).sum()
}

/// Returns the lists of a record, in order.
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

/// Gives up one entry, the least needed; returns whether there was one.
pub(super) fn give_up_one(record: &mut CondensedSummary) -> bool {
    for is_last_resort in [false, true] {
        for section in &SECTIONS {
            let list = (section.list)(record);
            let least = if is_last_resort { 0 } else { section.newest_kept };
            if list.len() > least {
                // What came first is what the rest is about.
                let at = usize::from(list.len() > 2);
                list.remove(at);
                return true;
            }
        }
    }
    let is_said = !record.next_step.is_empty();
    record.next_step.clear();
    is_said
}
