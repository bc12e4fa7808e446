//! The questions about a conversation. They are made from the collected facts, not from the summary, so that a summary
//! without a fact fails the question about it.

use facts::formatting::to_single_line;
use facts::{ConversationFacts, FileUse};
use protocol::{CarriedFacts, ContinuityProbe, ProbeJudge, ProbeKind, Rule, Seq, TodoStatus};

/// The number of answers that are accepted to a question about the newest files or decisions.
const ALTERNATIVES_MAX: usize = 3;

/// The words of messages that only agree.
const AGREEMENTS: [&str; 27] = [
    "ok", "okay", "k", "yes", "y", "yep", "yeah", "sure", "thanks", "thank", "you", "go", "on", "ahead",
    "continue", "proceed", "please", "good", "great", "nice", "perfect", "cool", "fine", "right", "lgtm",
    "ja", "oui",
];
/// Beginnings with which the noun introduces a decision.
const DECISION_OPENERS: [&str; 4] = ["decision:", "decision is to", "decision was to", "decision is that"];

/// A question with its right answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedProbe {
    /// The subject.
    pub(super) kind: ProbeKind,
    /// The question.
    pub(super) question: &'static str,
    /// The right answers, of which one is enough. The first one is shown.
    pub(super) answers: Vec<String>,
    /// The event that contains the first answer.
    pub(super) seq: Option<Seq>,
}

/// The result of comparing an answer with the right ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    /// True if the answer agrees with a right one.
    pub(super) passed: bool,
    /// The judge.
    pub(super) judged_by: ProbeJudge,
}

impl PlannedProbe {
    /// Returns the probe with the answer that was given or found.
    pub(super) fn result(
        &self,
        answer: Option<String>,
        Judgement { passed, judged_by }: Judgement,
    ) -> ContinuityProbe {
        ContinuityProbe {
            kind: self.kind,
            question: self.question.to_owned(),
            expected: self.answers.first().cloned().unwrap_or_default(),
            seq: self.seq,
            answer,
            passed,
            judged_by,
        }
    }
}

/// Returns at most one question of each kind about the facts of the conversation, with those that it inherited in `carried`.
/// A kind about which it has no fact is left out. `package` holds the facts of the package that is checked.
pub(super) fn plan_probes(
    facts: &ConversationFacts,
    carried: &CarriedFacts,
    package: &CarriedFacts,
) -> Vec<PlannedProbe> {
    let planned = [
        last_request(facts, carried),
        open_task(facts, carried),
        rule(carried, package),
        file_in_use(facts),
        decision(facts, carried),
    ];
    planned.into_iter().flatten().filter(|probe| !probe.answers.is_empty()).collect()
}

/// Returns the question about the last request. A message that only agrees requests nothing.
fn last_request(facts: &ConversationFacts, carried: &CarriedFacts) -> Option<PlannedProbe> {
    let quote = facts.requests.iter().rev().find(|quote| !is_agreement(&quote.text));
    let inherited = || carried.last_user_request.as_deref().filter(|text| !is_agreement(text));
    let text = quote.map(|quote| quote.text.as_str()).or_else(inherited)?;
    let is_last = quote.is_none_or(|quote| facts.requests.last().is_some_and(|last| last.seq == quote.seq));
    Some(PlannedProbe {
        kind: ProbeKind::LastRequest,
        question: match is_last {
            true => "What did the user ask for last?",
            false => "What did the user ask for last, before they only agreed?",
        },
        answers: vec![to_single_line(text)],
        seq: quote.map(|quote| quote.seq),
    })
}

/// Returns the question about the open tasks: of the task list, else those that the last answer names.
fn open_task(facts: &ConversationFacts, carried: &CarriedFacts) -> Option<PlannedProbe> {
    let mut open: Vec<_> = carried.todos.iter().filter(|todo| todo.status != TodoStatus::Completed).collect();
    open.sort_by_key(|todo| todo.status != TodoStatus::InProgress);
    let (answers, seq): (Vec<String>, _) = match open.is_empty() {
        false => (
            open.iter().map(|todo| to_single_line(&todo.text)).collect(),
            Some(facts.todos_seq).filter(|seq| *seq > 0),
        ),
        true => (
            facts.left_open.iter().map(|quote| to_single_line(&quote.text)).collect(),
            facts.left_open.first().map(|quote| quote.seq),
        ),
    };
    let question = "Which tasks are still open?";
    (!answers.is_empty()).then_some(PlannedProbe { kind: ProbeKind::OpenTask, question, answers, seq })
}

/// Returns the question about the newest standing rule that the package has lost, else about the newest one. The answer has to
/// contain that one.
fn rule(carried: &CarriedFacts, package: &CarriedFacts) -> Option<PlannedProbe> {
    let mut rules = carried.rules.iter().rev().filter(|rule| !is_output(&rule.text)).peekable();
    let newest = *rules.peek()?;
    let is_kept = |rule: &Rule| package.rules.iter().any(|kept| kept.text.contains(&rule.text));
    let rule = rules.find(|rule| !is_kept(rule)).unwrap_or(newest);
    Some(PlannedProbe {
        kind: ProbeKind::Rule,
        question: "Which standing rules has the user given for this work?",
        answers: vec![to_single_line(&rule.text)],
        seq: rule.refs.last().copied(),
    })
}

/// Returns the question about the files that were changed last, else about those that were read last.
fn file_in_use(facts: &ConversationFacts) -> Option<PlannedProbe> {
    let mut files: Vec<&FileUse> = facts.files.iter().filter(|file| !file.is_deleted()).collect();
    let is_changed = |file: &&FileUse| file.last_write_seq > 0;
    let question = match files.iter().any(is_changed) {
        true => {
            files.retain(is_changed);
            files.sort_by_key(|file| std::cmp::Reverse(file.last_write_seq));
            "Which files were changed last?"
        }
        false => "Which files were read last?",
    };
    let first = files.first()?;
    Some(PlannedProbe {
        kind: ProbeKind::File,
        question,
        seq: Some(first.last_write_seq.max(first.last_read_seq)),
        answers: files.iter().take(ALTERNATIVES_MAX).map(|file| file.path.clone()).collect(),
    })
}

/// Returns the question about the newest decisions. Rules and the last request have questions of their own.
fn decision(known: &ConversationFacts, carried: &CarriedFacts) -> Option<PlannedProbe> {
    let last_request = known.requests.last();
    let is_other = |text: &str| {
        states_decision(text)
            && !facts::announces_work(text)
            && !carried.rules.iter().any(|rule| rule.text.contains(text))
            && !last_request.is_some_and(|request| request.text.contains(text))
    };
    let newest: Vec<_> =
        known.decisions.iter().rev().filter(|quote| is_other(&quote.text)).take(ALTERNATIVES_MAX).collect();
    Some(PlannedProbe {
        kind: ProbeKind::Decision,
        question: "Which decisions were made that the work has to follow?",
        seq: Some(newest.first()?.seq),
        answers: newest.iter().map(|quote| to_single_line(&quote.text)).collect(),
    })
}

/// Returns whether a message only agrees, such as "ok" or "yes, go on".
fn is_agreement(text: &str) -> bool {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')));
    let mut words = words.filter(|word| !word.is_empty()).map(str::to_lowercase).peekable();
    words.peek().is_some() && words.all(|word| AGREEMENTS.contains(&word.as_str()))
}

/// Returns whether a text is output of a program that the user pasted, such as "No fixes applied."
fn is_output(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is_count =
        words.first().is_some_and(|word| word == "no" || word.bytes().all(|byte| byte.is_ascii_digit()));
    let last = words.last().map(String::as_str).unwrap_or_default();
    let is_result = last == "found" || last.ends_with("ed") && !facts::is_rule_participle(last);
    facts::is_pasted(text) || is_count && is_result
}

/// Returns whether a sentence states a decision. One that only speaks of decisions states none.
fn states_decision(text: &str) -> bool {
    let lower = text.to_lowercase();
    let names_it = DECISION_OPENERS.iter().any(|opener| lower.contains(opener));
    facts::states_choice(text)
        && !text.trim_end().ends_with(':')
        && (names_it || facts::states_choice(&lower.replace("decision", "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_with_a_result_is_output_and_a_prohibition_is_not() {
        for (text, expected) in
            [("No fixes applied.", true), ("3 errors found", true), ("No mocks allowed.", false)]
        {
            assert_eq!(is_output(text), expected, "{text}");
        }
    }
}
