//! Renders the notes for the review of a summary: the rules that it may contradict, what its draft left out, the largest topics
//! that it does not mention, and the rules that it no longer contains. The numbers are those with which a review adds them.

use protocol::{
    ConversationTopic, DoneTaskClaim, LeftOutFacts, LeftOutItem, LeftOutReason, ReviewNotes, Rule, RuleNote,
    RuleProblem,
};

use serde_json::{Value, json};

use crate::screen::Screen;
use crate::text::amount::format_tokens;
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, wrap};

/// Returns the notes as lines; empty if there are none.
pub fn render_notes(screen: &Screen, notes: &ReviewNotes) -> Vec<String> {
    let mut lines = render_warnings(screen, notes);
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    let entries = note_entries(notes);
    if entries.is_empty() {
        return lines;
    }
    lines.push(String::new());
    lines.push(screen.style.bold("Not in this text"));
    for (index, entry) in entries.iter().enumerate() {
        let bullet = format!("  {}. ", index + 1);
        lines.push(screen.style.dim(wrap(entry, screen.text_columns(), &bullet, "     ")));
    }
    lines
}

/// Returns the warnings as lines: parts that the model could not summarize, open tasks that the text tells as done, rules
/// that the text may contradict, and names of the user that the conversation does not contain.
pub fn render_warnings(screen: &Screen, notes: &ReviewNotes) -> Vec<String> {
    let claims = notes.done_task_claims.iter().map(done_task_line);
    let warnings = unsummarized_line(notes).into_iter().chain(claims);
    let warnings =
        warnings.chain(notes.rules.iter().filter_map(contradiction_line)).chain(user_names_line(notes));
    warnings.map(|line| warning_line(screen, &line)).collect()
}

/// Returns one line for each note about something that can be added: the left-out items, the topics, the lost rules, and the
/// left-out facts.
pub fn note_entries(notes: &ReviewNotes) -> Vec<String> {
    let left_out = notes.left_out.iter().map(left_out_line);
    let lost = lost_rules(notes).map(|(_, rule)| format!("Rule: {} (removed)", sanitize_line(&rule.text)));
    let facts = notes.left_out_facts.iter().map(left_out_facts_line);
    left_out.chain(notes.topics.iter().map(topic_line)).chain(lost).chain(facts).collect()
}

/// Returns the argument of a decision that adds the entry of [`note_entries`] with that index.
pub fn added_entry(notes: &ReviewNotes, index: usize) -> Value {
    let (left_out, topics) = (notes.left_out.len(), notes.topics.len());
    match index.checked_sub(left_out) {
        None => json!({"left_out": [index]}),
        Some(topic) if topic < topics => json!({"topics": [topic]}),
        Some(rule) => match lost_rules(notes).nth(rule - topics) {
            Some((index, _)) => json!({"rules": [index]}),
            None => json!({"facts": [rule - topics - lost_rules(notes).count()]}),
        },
    }
}

/// Returns the topic of the entry of [`note_entries`] with that index; `None` if the entry is no topic.
pub fn topic_at(notes: &ReviewNotes, index: usize) -> Option<&ConversationTopic> {
    notes.topics.get(index.checked_sub(notes.left_out.len())?)
}

/// Returns the rules that the text no longer contains, each with its index in the notes about rules.
pub fn lost_rules(notes: &ReviewNotes) -> impl Iterator<Item = (usize, &Rule)> {
    notes.rules.iter().enumerate().filter_map(|(index, note)| match note.problem {
        RuleProblem::Lost => Some((index, &note.rule)),
        RuleProblem::Contradicted { .. } => None,
    })
}

/// Returns the warning about a rule that a line of the text may contradict; `None` for another note.
pub(crate) fn contradiction_line(note: &RuleNote) -> Option<String> {
    let RuleProblem::Contradicted { line } = &note.problem else { return None };
    let (line, rule) = (sanitize_line(line), sanitize_line(&note.rule.text));
    Some(format!("“{line}” may contradict your rule: {rule}"))
}

/// Returns the warning about a line that tells an open task as done.
pub(crate) fn done_task_line(claim: &DoneTaskClaim) -> String {
    let (line, task) = (sanitize_line(&claim.line), sanitize_line(&claim.task));
    format!("“{line}” tells an open task as done: {task}")
}

/// Returns the warning about names that the user wrote and that the conversation does not contain; `None` if there are none.
pub(crate) fn user_names_line(notes: &ReviewNotes) -> Option<String> {
    let names: Vec<String> = notes.names_by_user.iter().map(|name| sanitize_line(name)).collect();
    (!names.is_empty())
        .then(|| format!("Written by you, not found in the conversation: {}", names.join(", ")))
}

/// Returns the warning about the parts of the conversation that the model could not summarize; `None` if there are none.
pub(crate) fn unsummarized_line(notes: &ReviewNotes) -> Option<String> {
    let places = notes
        .unsummarized_parts
        .iter()
        .map(|part| format!("#{}–#{} ({})", part.first_seq, part.last_seq, sanitize_line(&part.reason)));
    let places: Vec<String> = places.collect();
    (!places.is_empty()).then(|| {
        format!(
            "The model could not summarize {}. Of these messages the draft contains only what the offline summary found.",
            places.join(", ")
        )
    })
}

/// Returns a warning, wrapped.
fn warning_line(screen: &Screen, text: &str) -> String {
    screen.style.warn(wrap(text, screen.text_columns(), "! ", "  "))
}

/// The maximum number of columns of the last answer in its line. Adding it shows the whole.
const ANSWER_COLUMNS: usize = 160;

/// Returns a left-out item with the reason.
fn left_out_line(left_out: &LeftOutItem) -> String {
    let text = &left_out.item.text;
    let reason = match left_out.reason {
        LeftOutReason::LastAnswer => {
            let line = sanitize_line(text);
            let beginning = shorten(&line, ANSWER_COLUMNS);
            return format!("The last answer, whole: {beginning} ({} characters)", text.chars().count());
        }
        LeftOutReason::TooMany => "one item too many",
        LeftOutReason::TooLong => "left out for length",
        LeftOutReason::Shortened => "shortened",
        LeftOutReason::Inherited => "from the package that this thread began with",
    };
    let heading = agent::summary_heading(left_out.item.kind);
    format!("{heading}: {} ({reason})", sanitize_line(text))
}

/// Returns left-out entries of a section of the facts.
fn left_out_facts_line(facts: &LeftOutFacts) -> String {
    let entries: Vec<String> = facts.entries.iter().map(|entry| sanitize_line(entry)).collect();
    match facts.reason {
        LeftOutReason::TooMany
        | LeftOutReason::TooLong
        | LeftOutReason::LastAnswer
        | LeftOutReason::Inherited => {
            format!("{}, {} more: {}", facts.section, entries.len(), entries.join(", "))
        }
        LeftOutReason::Shortened => format!("{}: {} (shortened)", facts.section, entries.join(", ")),
    }
}

/// Returns a topic with its place and size.
fn topic_line(topic: &ConversationTopic) -> String {
    let noun = if topic.messages == 1 { "message" } else { "messages" };
    format!(
        "Not mentioned: {} (#{}–#{}, {} {noun}, {} tokens)",
        sanitize_line(&topic.request),
        topic.first_seq,
        topic.last_seq,
        topic.messages,
        format_tokens(topic.tokens)
    )
}

#[cfg(test)]
mod tests {
    use protocol::{SummaryItem, SummaryItemKind};

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    #[test]
    fn every_note_has_a_number_a_reason_and_a_place() {
        let item = SummaryItem {
            kind: SummaryItemKind::Artifact,
            text: "Branch `fix`".to_owned(),
            refs: vec![4],
            verified: true,
            unfound: Vec::new(),
            line_refs: Vec::new(),
            false_refs: Vec::new(),
        };
        let topic = ConversationTopic {
            first_seq: 40,
            last_seq: 61,
            messages: 20,
            tokens: 3_120,
            request: "Now look at the importer".to_owned(),
            answer: None,
            item_text: String::new(),
        };
        let rule = |text: &str| Rule { text: text.to_owned(), refs: vec![3] };
        let notes = ReviewNotes {
            left_out: vec![LeftOutItem { item, reason: LeftOutReason::TooMany }],
            topics: vec![topic],
            left_out_facts: vec![
                LeftOutFacts {
                    section: "Files read".to_owned(),
                    entries: vec!["a.rs".to_owned(), "b.rs".to_owned()],
                    reason: LeftOutReason::TooMany,
                },
                LeftOutFacts {
                    section: "Tasks".to_owned(),
                    entries: vec!["[ ] A long task".to_owned()],
                    reason: LeftOutReason::Shortened,
                },
            ],
            names_by_user: vec!["src/typo.rs".to_owned(), "PORT".to_owned()],
            rules: vec![
                RuleNote { rule: rule("Never use mocks."), problem: RuleProblem::Lost },
                RuleNote {
                    rule: rule("Don't touch the public API."),
                    problem: RuleProblem::Contradicted { line: "Change the public API.".to_owned() },
                },
            ],
            done_task_claims: vec![DoneTaskClaim {
                task: "Write the tests".to_owned(),
                line: "The tests are done.".to_owned(),
            }],
            ..ReviewNotes::default()
        };
        let screen = Screen {
            style: Style::Plain,
            columns: 80,
            audience: Audience::Program,
            cursor: CursorMode::Fixed,
        };
        insta::assert_snapshot!(render_notes(&screen, &notes).join("\n"));
        let added: Vec<String> =
            (0..note_entries(&notes).len()).map(|index| added_entry(&notes, index).to_string()).collect();
        assert_eq!(
            added,
            [
                r#"{"left_out":[0]}"#,
                r#"{"topics":[0]}"#,
                r#"{"rules":[0]}"#,
                r#"{"facts":[0]}"#,
                r#"{"facts":[1]}"#
            ]
        );
        assert_eq!(render_notes(&screen, &ReviewNotes::default()), [""; 0]);
    }
}
