//! The notes of a review about the user's standing rules: rules that an item seems to contradict, and rules that an earlier
//! proposal contained and the text does not.

use facts::ValueChange;
use model::sentence_ranking::split_sentences;
use protocol::{HandoffSummary, Rule, RuleNote, RuleProblem, Seq, SummaryItem, SummaryItemKind, TodoStatus};

use super::render;

mod negation;
mod prohibition;

/// Maximum number of notes about contradicted rules. More would mean that the comparison fails for this text.
const CONFLICTS_MAX: usize = 8;
/// Maximum number of notes about one rule.
const CONFLICTS_PER_RULE_MAX: usize = 3;
/// The share of a rule's words, in percent, that another rule has to contain to be the same one in other words.
const REWORDED_PERCENT: usize = 50;

/// The minimum length of a sentence of an objective that is recognized as a rule, in bytes.
const RULE_BYTES_MIN: usize = 12;

/// Words that deny. A rule with more or fewer of them demands something else.
const NEGATIONS: &[&str] = &[
    "never",
    "no",
    "not",
    "don't",
    "dont",
    "doesn't",
    "mustn't",
    "shouldn't",
    "can't",
    "cannot",
    "won't",
    "without",
    "nor",
    "neither",
    "none",
    "nothing",
    "nobody",
    "avoid",
    "nie",
    "nicht",
    "kein",
    "keine",
    "keinen",
    "jamais",
    "pas",
    "nunca",
];
/// Words that make a rule strict. A rule without one of them demands less.
const STRICT_WORDS: &[&str] =
    &["always", "only", "exactly", "must", "every", "each", "all", "until", "before", "after", "unless"];
/// Words that revoke a rule.
const REVOCATIONS: &[&str] = &[
    "revoked",
    "ignore",
    "ignored",
    "obsolete",
    "optional",
    "suspended",
    "dropped",
    "void",
    "formerly",
    "waived",
];

/// Sets the notes about rules. `earlier` are the rules of the proposal before the text, with those that it had lost.
pub(crate) fn note_rules(summary: &mut HandoffSummary, earlier: &[Rule]) {
    let rules = &summary.carried.rules;
    // A rule that the person put in other words is new, and stands for one that is gone.
    let is_kept = |rule: &Rule| {
        rules.iter().any(|kept| kept.text == rule.text)
            || rules.iter().any(|kept| {
                !earlier.iter().any(|earlier| earlier.text == kept.text)
                    && is_reworded(rule, kept)
                    && keeps_meaning(&rule.text, &kept.text)
            })
    };
    // The person put a rule of the conversation back in the place of one that they had written themselves.
    let is_withdrawn = |rule: &Rule| {
        let is_original =
            |kept: &Rule| earlier.iter().any(|known| known.text == kept.text && !known.refs.is_empty());
        rule.refs.is_empty() && rules.iter().any(|kept| is_reworded(rule, kept) && is_original(kept))
    };
    let lost = earlier.iter().filter(|rule| !is_kept(rule) && !is_withdrawn(rule));
    let mut notes: Vec<RuleNote> =
        lost.map(|rule| RuleNote { rule: rule.clone(), problem: RuleProblem::Lost }).collect();
    notes.extend(conflicts(summary));
    summary.notes.rules = notes;
}

/// Returns the rules of a proposal and those that it has lost, for the text that follows it.
pub(crate) fn known_rules(summary: &HandoffSummary) -> Vec<Rule> {
    let lost = summary.notes.rules.iter().filter(|note| note.problem == RuleProblem::Lost);
    summary.carried.rules.iter().cloned().chain(lost.map(|note| note.rule.clone())).collect()
}

/// Returns the rules that the text contradicts: each with the open lines that propose what it forbids, or else those anywhere
/// that say the opposite. A line that repeats the rule does not contradict it.
fn conflicts(summary: &HandoffSummary) -> Vec<RuleNote> {
    let items = summary.body.iter().filter(|item| proposes_work(item.kind));
    let open = items.flat_map(|item| item.text.lines()).filter(|line| !line.starts_with("[x] "));
    let tasks = summary.carried.todos.iter().filter(|task| task.status != TodoStatus::Completed);
    let open: Vec<&str> = open.chain(tasks.map(|task| task.text.as_str())).map(without_box).collect();
    let heads = [summary.title.as_str(), &summary.tldr].into_iter().chain(summary.carried.goal.as_deref());
    let items = summary.body.iter().flat_map(|item| item.text.lines()).map(without_box);
    let lines: Vec<&str> = heads.chain(items).chain(open.iter().copied()).collect();
    let conflicts = |rule: &Rule| -> Vec<RuleNote> {
        let bans = prohibition::prohibitions(&rule.text);
        let is_other = |line: &&&str| !rule.text.contains(line.trim_matches(['"', ' ', '.']));
        let mut found: Vec<&str> = open
            .iter()
            .filter(is_other)
            .filter(|line| bans.iter().any(|ban| ban.is_proposed_in(line)))
            .copied()
            .collect();
        if found.is_empty() {
            let negating = lines.iter().filter(is_other).filter(|line| negation::negates(&rule.text, line));
            found = negating.copied().collect();
        }
        found.dedup();
        let note = |line: &str| RuleNote {
            rule: rule.clone(),
            problem: RuleProblem::Contradicted { line: line.to_owned() },
        };
        found.into_iter().take(CONFLICTS_PER_RULE_MAX).map(note).collect()
    };
    summary.carried.rules.iter().flat_map(conflicts).take(CONFLICTS_MAX).collect()
}

/// Returns whether a message of the user proposes what the rule forbids, or says the opposite of it.
pub(crate) fn is_contradicted_by(rule: &str, message: &str) -> bool {
    let bans = prohibition::prohibitions(rule);
    facts::changes_rule(message, rule)
        || message.split(['\n', ';']).any(|clause| {
            bans.iter().any(|ban| ban.is_proposed_in(clause))
                || negation::negates(rule, clause)
                || replaces_demand(rule, clause)
        })
}

/// Words between what a sentence demands and what it rejects for it: "use spaces, not tabs".
const REJECTIONS: &[&[&str]] = &[&["not"], &["instead", "of"], &["rather", "than"], &["no", "longer"]];

/// Returns whether a clause demands something else in the place of what a rule demands: it rejects a word of the rule, which
/// forbids nothing itself, for one that the rule does not contain.
fn replaces_demand(rule: &str, clause: &str) -> bool {
    let (rule, words) = (lowercase_words(rule), lowercase_words(clause));
    if clause.trim_end().ends_with('?') || rule.iter().any(|word| NEGATIONS.contains(&word.as_str())) {
        return false;
    }
    let is_named = |word: &String| word.chars().count() > 2 && rule.contains(word);
    REJECTIONS.iter().any(|rejection| {
        (1..words.len()).any(|at| {
            let is_here =
                words[at..].iter().map(String::as_str).take(rejection.len()).eq(rejection.iter().copied());
            let rejected = words.get(at + rejection.len());
            // A verb before "not" is denied by it, and demands nothing else.
            is_here
                && rejected.is_some_and(is_named)
                && !rule.contains(&words[at - 1])
                && words[at - 1] != "do"
        })
    })
}

/// Returns a line without the box of a task.
fn without_box(line: &str) -> &str {
    line.strip_prefix("[ ] ").or_else(|| line.strip_prefix("[x] ")).unwrap_or(line)
}

/// Returns whether items of the kind propose work, instead of telling what was done or asked.
const fn proposes_work(kind: SummaryItemKind) -> bool {
    match kind {
        SummaryItemKind::Decision | SummaryItemKind::NextStep => true,
        SummaryItemKind::Objective
        | SummaryItemKind::Progress
        | SummaryItemKind::Blocker
        | SummaryItemKind::Artifact => false,
    }
}

/// Returns whether a rule in other words still demands the same: it denies as much, keeps every word that makes the rule
/// strict, and revokes nothing. Only words are compared.
fn keeps_meaning(rule: &str, kept: &str) -> bool {
    let (before, after) = (lowercase_words(rule), lowercase_words(kept));
    let count = |words: &[String]| words.iter().filter(|word| NEGATIONS.contains(&word.as_str())).count();
    let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
    count(&before) == count(&after)
        && STRICT_WORDS.iter().all(|word| !has(&before, word) || has(&after, word))
        && REVOCATIONS.iter().all(|word| !has(&after, word) || has(&before, word))
        && !negation::negates(rule, kept)
}

/// Returns the words of a text in lowercase. An apostrophe belongs to its word.
fn lowercase_words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')));
    words.filter(|word| !word.is_empty()).map(|word| word.to_lowercase().replace('’', "'")).collect()
}

/// Returns whether `kept` has most words of the rule.
fn is_reworded(rule: &Rule, kept: &Rule) -> bool {
    let (words, kept) = (lowercase_words(&rule.text), lowercase_words(&kept.text));
    let common = words.iter().filter(|word| kept.contains(word)).count();
    common * 100 > words.len() * REWORDED_PERCENT
}

/// Returns the items without the lines that only quote a standing rule, and objectives without the sentences that are rules or
/// whose number a rule has changed. An objective of which nothing is left is the title, so that the text still states one. The rules are among the facts, where the child reads them too. A text that has nothing else stays as it is.
pub(crate) fn without_repeated_rules(
    title: &str,
    body: Vec<SummaryItem>,
    rules: &[Rule],
) -> Vec<SummaryItem> {
    let rule_texts: Vec<String> = rules.iter().map(|rule| render::normalize_line(&rule.text)).collect();
    let repeats_rule = |line: &str| {
        let quoted = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
        quoted.is_some_and(|quoted| rule_texts.iter().any(|rule| rule.contains(quoted.trim_end_matches('.'))))
    };
    let is_rule = |sentence: &str| {
        let sentence = render::normalize_line(sentence);
        sentence.len() >= RULE_BYTES_MIN && rule_texts.iter().any(|rule| rule.contains(&sentence))
    };
    let without = |item: &SummaryItem| {
        let is_objective = item.kind == SummaryItemKind::Objective;
        let without_rules = |line: &str| -> String {
            match is_objective && split_sentences(line).any(is_rule) {
                true => {
                    split_sentences(line).filter(|sentence| !is_rule(sentence)).collect::<Vec<_>>().join(" ")
                }
                false => line.to_owned(),
            }
        };
        let lines = item.text.lines().map(without_rules).enumerate();
        let kept: Vec<(usize, String)> =
            lines.filter(|(_, line)| !line.is_empty() && !repeats_rule(line)).collect();
        let line_refs: Vec<Vec<Seq>> =
            kept.iter().filter_map(|(index, _)| item.line_refs.get(*index).cloned()).collect();
        let text = kept.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n");
        // A reference of a line that is gone supports nothing any more.
        let is_kept = |seq: &Seq| {
            let is_of_line = |refs: &Vec<Seq>| refs.contains(seq);
            line_refs.iter().any(is_of_line) || !item.line_refs.iter().any(is_of_line)
        };
        let refs = item.refs.iter().copied().filter(is_kept).collect();
        match is_objective && text.is_empty() && !title.is_empty() {
            true => SummaryItem { text: title.to_owned(), line_refs: Vec::new(), ..item.clone() },
            false => SummaryItem { text, refs, line_refs, ..item.clone() },
        }
    };
    let others = body.iter().map(without).filter(|item| !item.text.is_empty());
    let others: Vec<SummaryItem> = others.map(|item| without_changed_values(item, rules)).collect();
    if others.is_empty() { body } else { others }
}

/// Returns an objective without the sentences that state a number which a later rule has changed, unless it has no other.
fn without_changed_values(item: SummaryItem, rules: &[Rule]) -> SummaryItem {
    let last = item.refs.iter().max();
    let is_later = |rule: &&Rule| rule.refs.iter().min() > last;
    let later = rules.iter().filter(is_later).filter_map(|rule| ValueChange::read(&rule.text));
    let later: Vec<ValueChange> = later.collect();
    if item.kind != SummaryItemKind::Objective || later.is_empty() {
        return item;
    }
    let is_changed = |sentence: &str| later.iter().any(|change| change.changes(sentence));
    let without = |line: &str| match split_sentences(line).any(&is_changed) {
        true => split_sentences(line).filter(|sentence| !is_changed(sentence)).collect::<Vec<_>>().join(" "),
        false => line.to_owned(),
    };
    let lines: Vec<String> = item.text.lines().map(without).collect();
    // A line that is gone would take its references with it.
    match lines.iter().any(String::is_empty) {
        true => item,
        false => SummaryItem { text: lines.join("\n"), ..item },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::edit::tests::shown_summary;

    fn rule(text: &str) -> Rule {
        Rule { text: text.to_owned(), refs: vec![1] }
    }

    #[test]
    fn a_quoted_rule_is_not_repeated_in_the_text() {
        let item =
            |kind, text: &str| SummaryItem { kind, text: text.to_owned(), ..shown_summary().body[0].clone() };
        let decision = "\"Never sleep in tests.\"\n\"Let's go with B.\"\nNever sleep in tests.";
        let body = vec![
            item(SummaryItemKind::Decision, decision),
            item(SummaryItemKind::Blocker, "\"Never sleep in tests.\""),
        ];
        let rules = [rule("Never sleep in tests, not even a millisecond."), rule("Never sleep in tests.")];
        let texts = |body: Vec<SummaryItem>| body.into_iter().map(|item| item.text).collect::<Vec<_>>();
        let remaining = without_repeated_rules("The queue", body.clone(), &rules);
        assert_eq!(texts(remaining), ["\"Let's go with B.\"\nNever sleep in tests."]);
        let referenced = SummaryItem {
            refs: vec![3, 4, 5],
            line_refs: vec![vec![3, 4], vec![4], vec![5]],
            ..item(SummaryItemKind::Decision, decision)
        };
        let remaining = without_repeated_rules("The queue", vec![referenced], &rules);
        assert_eq!((&remaining[0].refs, remaining[0].line_refs.len()), (&vec![4, 5], 2));
        let only_rule = without_repeated_rules("The queue", body[1..].to_vec(), &rules);
        assert_eq!(texts(only_rule), ["\"Never sleep in tests.\""]);
        assert_eq!(texts(without_repeated_rules("The queue", body.clone(), &[])), texts(body));
        let objective = |text: &str| vec![item(SummaryItemKind::Objective, text)];
        let remaining = |text: &str| texts(without_repeated_rules("The queue", objective(text), &rules));
        assert_eq!(remaining("Mend the lid. Never sleep in tests."), ["Mend the lid."]);
        assert_eq!(remaining("Never sleep in tests."), ["The queue"]);
    }

    #[test]
    fn an_objective_states_no_number_that_a_rule_has_changed() {
        for (seq, objective, expected) in [
            (9, "Build a server. It must listen on port 8080.", "Build a server."),
            (
                2,
                "Build a server. It must listen on port 8080.",
                "Build a server. It must listen on port 8080.",
            ),
            (9, "It must listen on port 8080.", "It must listen on port 8080."),
            (9, "Build a server for 80 users.  It is fast.", "Build a server for 80 users.  It is fast."),
        ] {
            let rules =
                [Rule { text: "Change the port to 9090, 8080 is taken.".to_owned(), refs: vec![seq] }];
            let item = SummaryItem {
                text: objective.to_owned(),
                refs: vec![3, 5],
                ..shown_summary().body[0].clone()
            };
            assert_eq!(without_repeated_rules("The queue", vec![item], &rules)[0].text, expected);
        }
    }

    #[test]
    fn a_rule_is_lost_unless_the_text_has_it_in_these_or_in_other_words() {
        let before = ["Never use mocks in tests.", "No new dependencies."];
        for (after, lost) in [
            (&["Never use mocks in tests.", "No new dependencies."][..], &[][..]),
            (&["Never use mocks in tests."], &["No new dependencies."]),
            (&["Never use mocks in tests of the store.", "No new dependencies."], &[]),
            // Another rule with common words does not stand for a lost one.
            (&["No new dependencies.", "Be brief."], &["Never use mocks in tests."]),
            // The opposite of a rule does not stand for it.
            (&["Mocks in tests are fine.", "No new dependencies."], &["Never use mocks in tests."]),
            (&["Always use mocks in tests.", "No new dependencies."], &["Never use mocks in tests."]),
            (&["Use mocks in tests.", "New dependencies."], &before),
            (
                &["Never use mocks in tests. (Revoked.)", "No new dependencies."],
                &["Never use mocks in tests."],
            ),
            (&["Do not use mocks in tests.", "No new dependencies."], &[]),
            (&[], &before),
        ] {
            let mut summary = shown_summary();
            summary.carried.rules = after.iter().map(|text| rule(text)).collect();
            note_rules(&mut summary, &before.map(rule));
            let noted: Vec<&str> = summary.notes.rules.iter().map(|note| note.rule.text.as_str()).collect();
            assert_eq!(noted, lost, "{after:?}");
            let known: Vec<String> = known_rules(&summary).into_iter().map(|rule| rule.text).collect();
            assert!(lost.iter().all(|text| known.iter().any(|known| known == text)), "{known:?}");
        }
    }

    #[test]
    fn a_changed_rule_keeps_its_meaning_only_with_its_negations_and_strict_words() {
        for (rule, kept, expected) in [
            ("Don't touch the public API.", "Touch the public API.", false),
            ("Don't adjust an expectation.", "Do adjust an expectation.", false),
            ("No fix until I have read the ADR.", "Fix before I have read the ADR.", false),
            ("No fix until I have read the ADR.", "Now fix until I have read the ADR.", false),
            ("The reaper must not hold all locks.", "The reaper must hold all locks.", false),
            ("Keep the line exactly as it is.", "Keep the line as you like.", false),
            ("One line, and don't bump the version.", "One line, and bump the version.", false),
            ("Don't bump the version.", "Do not bump the version number.", true),
            ("Keep the line exactly as it is.", "Keep the log line exactly as it is.", true),
        ] {
            assert_eq!(keeps_meaning(rule, kept), expected, "{rule} / {kept}");
        }
    }

    #[test]
    fn a_rule_that_the_person_wrote_and_took_back_is_not_lost() {
        let own = Rule { text: "Use mocks in tests.".to_owned(), refs: Vec::new() };
        let mut edited = shown_summary();
        edited.carried.rules = vec![own];
        note_rules(&mut edited, &[rule("Never use mocks in tests.")]);
        assert_eq!(edited.notes.rules.len(), 1, "the rule of the conversation is lost");
        let mut restored = edited.clone();
        restored.carried.rules = vec![Rule { refs: Vec::new(), ..rule("Never use mocks in tests.") }];
        note_rules(&mut restored, &known_rules(&edited));
        assert_eq!(restored.notes.rules, []);
    }

    #[test]
    fn a_rule_that_any_line_negates_is_noted_with_that_line() {
        let line = "Wider margins in the appendix are fine.";
        let mut summary = shown_summary();
        summary.carried.rules = vec![rule("Keep the margins narrow."), rule("Never sleep in tests.")];
        note_rules(&mut summary, &[]);
        assert_eq!(summary.notes.rules, []);
        for kind in SummaryItemKind::ALL {
            let mut edited = summary.clone();
            let item =
                SummaryItem { kind, text: format!("The draft is set.\n{line}"), ..edited.body[0].clone() };
            edited.body.push(item);
            note_rules(&mut edited, &[]);
            let problem = RuleProblem::Contradicted { line: line.to_owned() };
            assert_eq!(edited.notes.rules, [RuleNote { rule: rule("Keep the margins narrow."), problem }]);
        }
        summary.tldr = line.to_owned();
        note_rules(&mut summary, &[]);
        assert_eq!(summary.notes.rules.len(), 1, "the TL;DR");
    }
}
