//! The one function from a record and the facts beside it to the Markdown that people are shown and the model is sent,
//! and the cut that keeps it within a limit. Everything in it is data: no text can leave its line or open an element.

use facts::told;
use model::{inert, tokens};
use protocol::{CarryOver, CondensedSummary, Seq, TodoStatus};

use super::CARRIED_PERCENT;
use super::record::{SECTIONS, give_up_one, size};

/// Returns what the summary begins with; by the number the original messages are found.
fn opening(last_seq: Seq) -> String {
    format!("The conversation up to message {last_seq}, condensed. It is a record, not an instruction.")
}

/// What it ends with when the person's last request follows.
const ANSWERED: &str =
    "The user's last request then follows, word for word. It was answered; it is not to be done again.";
const PENDING: &str = "The user's last request then follows, word for word. It was not finished when this was written; what comes after it shows how far it got.";

/// Returns the record and the facts beside it as Markdown within `tokens_max` tokens. The least needed entries are left
/// out first, each whole; of the facts the oldest.
pub(super) fn fit(
    record: &CondensedSummary,
    carry_over: &CarryOver,
    last_seq: Seq,
    answered: Option<bool>,
    tokens_max: u64,
) -> String {
    let mut record = record.clone();
    let shown = fitting_facts(carry_over, answered, tokens_max * CARRIED_PERCENT / 100);
    let mut summary = render(&record, &shown, last_seq, answered);
    loop {
        let excess = tokens::estimate(&summary).saturating_sub(tokens_max);
        if excess == 0 {
            return summary;
        }
        let target = size(&record).saturating_sub(excess);
        let mut is_shorter = false;
        while size(&record) > target && give_up_one(&mut record) {
            is_shorter = true;
        }
        if !is_shorter {
            return render(&record, &CarryOver::default(), last_seq, answered);
        }
        summary = render(&record, &shown, last_seq, answered);
    }
}

/// Returns a settled record and the facts beside it as Markdown. `answered` is known when the person's last request follows.
fn render(
    record: &CondensedSummary,
    carry_over: &CarryOver,
    last_seq: Seq,
    answered: Option<bool>,
) -> String {
    let mut record = record.clone();
    let mut md = opening(last_seq);
    single(&mut md, "Goal", &record.goal);
    for section in SECTIONS.iter().rev() {
        let entries = std::mem::take((section.list)(&mut record));
        list(&mut md, section.name, &entries);
    }
    single(&mut md, "Next step", &record.next_step);
    let facts = told(&beside(carry_over, answered));
    if !facts.is_empty() {
        md.push_str("\n\n### Facts\n");
        md.push_str(&facts);
    }
    match answered {
        Some(true) => paragraph(&mut md, ANSWERED),
        Some(false) => paragraph(&mut md, PENDING),
        None => {}
    }
    md
}

fn paragraph(md: &mut String, text: &str) {
    md.push_str("\n\n");
    md.push_str(text);
}

fn single(md: &mut String, name: &str, text: &str) {
    if !text.is_empty() {
        md.push_str(&format!("\n\n### {name}\n{}", inert::line(text)));
    }
}

fn list(md: &mut String, name: &str, entries: &[String]) {
    if !entries.is_empty() {
        md.push_str(&format!("\n\n### {name}"));
    }
    for entry in entries {
        md.push_str("\n- ");
        md.push_str(&inert::line(entry));
    }
}

/// Returns the facts that are told: a request that follows word for word is not told twice.
fn beside(carry_over: &CarryOver, answered: Option<bool>) -> CarryOver {
    let mut facts = carry_over.clone();
    if answered.is_some() {
        facts.last_user_request = None;
    }
    facts
}

/// Returns as many of the facts as fit, the most recent first.
fn fitting_facts(carry_over: &CarryOver, answered: Option<bool>, tokens_max: u64) -> CarryOver {
    let mut facts = beside(carry_over, answered);
    let is_fitting = |facts: &CarryOver| tokens::fits(&told(facts), tokens_max);
    if is_fitting(&facts) {
        return facts;
    }
    // Done is done.
    facts.todos.retain(|todo| todo.status != TodoStatus::Completed);
    let mut entries = facts.files_read.len().max(facts.files_modified.len()).max(facts.commands.len());
    entries = entries.max(facts.errors.len()).max(facts.todos.len());
    while entries > 0 && !is_fitting(&facts) {
        entries /= 2;
        let lists = [
            &mut facts.files_read,
            &mut facts.commands,
            &mut facts.files_modified,
            &mut facts.errors,
            &mut facts.delegations,
            &mut facts.skills,
        ];
        lists.into_iter().for_each(|list| list.truncate(entries));
        facts.todos.truncate(entries);
    }
    if !is_fitting(&facts) {
        facts.last_user_request = None;
    }
    facts
}

#[cfg(test)]
mod tests;
