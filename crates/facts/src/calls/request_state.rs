//! The state of the user's last request: whether the conversation shows that it was answered.

use model::sentence_ranking::split_sentences;
use protocol::{Seq, TodoStatus};
use secrets::redact;

use crate::calls::commits::repository_order;
use crate::facts::{FileUse, Quote};
use crate::limits::STATEMENT_BYTES_MAX;
use crate::text::identifier::{NameKind, scan_names};
use crate::text::open_work::{self, AnswerReview};
use crate::text::{cues, request_kind};
use crate::tool_use::{is_file_path, tail_words};
use crate::{FactCollector, formatting};

/// Minimum content words of an answer that is a text.
const ANSWER_WORDS_MIN: usize = 3;
/// Maximum bytes of a question that is asked in several sentences.
const QUESTION_BYTES_MAX: usize = 400;
/// Lowercase nouns with which a line begins that names one of several options.
const OPTION_NOUNS: [&str; 4] = ["option", "alternative", "approach", "variant"];

impl FactCollector {
    /// Returns what the answer to the last request says about the state of the work. In the answer to a request for a report,
    /// such as a review, the problems that it names are results; only what the report itself lacks is left open.
    pub(crate) fn review_answer(&self) -> AnswerReview {
        let mut review = open_work::review_answer(&self.answer.text);
        if self.is_report_requested() {
            review.left_open.retain(|sentence| request_kind::leaves_report_open(sentence));
        }
        review
    }

    /// Returns the question that the answer to the last request ends with, unless it is only polite.
    pub(crate) fn open_question(&self) -> Option<&Quote> {
        let is_open = !self.answer.text.is_empty() && !self.tool_outcomes.has_pending_calls();
        self.open_question.as_ref().filter(|quote| is_open && !open_work::is_courtesy(&quote.text))
    }

    /// Remembers that the last request was answered, if it was, because the user has another agent begin something else.
    pub(crate) fn settle_request(&mut self) {
        if !self.answer.text.is_empty() && self.request_answered(&self.review_answer()) == Some(true) {
            self.settled_request_seq = self.last_request_seq;
        }
    }

    /// Returns whether the last request was answered; see [`ConversationFacts::request_answered`](crate::ConversationFacts::request_answered).
    pub(crate) fn request_answered(&self, review: &AnswerReview) -> Option<bool> {
        if self.last_request_seq == 0 {
            return None;
        }
        let is_report = self.is_report_requested();
        let is_interrupted = self.tool_outcomes.has_pending_calls()
            || !is_report && self.tool_outcomes.has_failure_since(self.last_request_seq);
        if !is_interrupted && (self.is_settled() || self.is_performed()) {
            return Some(true);
        }
        let todos = self.tasks.items();
        let are_tasks_done = !todos.is_empty() && self.tasks.seq() > self.last_request_seq;
        let has_open_tasks = todos.iter().any(|todo| todo.status != TodoStatus::Completed);
        // The agent ended its work with a call, after its last words.
        let is_submitted = self.submission_seq > self.last_request_seq;
        let is_open = !is_submitted && (self.answer.text.is_empty() || !self.is_answer_complete)
            || is_interrupted
            || self.open_question().is_some()
            || !review.left_open.is_empty()
            || review.ends_in_announcement && !review.has_result
            || has_open_tasks && self.tasks.seq() > self.last_request_seq;
        let is_unclear = review.ends_in_announcement
            || has_open_tasks
            || self.tool_outcomes.was_declined_since(self.last_request_seq);
        match (is_open, is_unclear) {
            (true, _) => Some(false),
            (false, true) => None,
            (false, false) if self.leaves_named_part() => None,
            (false, false) => {
                let is_reported = is_report && self.is_answer_worded();
                (is_submitted
                    || review.has_result
                    || are_tasks_done
                    || is_reported
                    || self.answers_question())
                .then_some(true)
            }
        }
    }

    /// Returns whether the answer or the calls since the last request name some of the files and numbered things in it, and not
    /// all: "fix bug 17 and bug 18" is not known to be answered by "bug 17 is fixed".
    fn leaves_named_part(&self) -> bool {
        let names = named_parts(&self.last_request_head.text);
        if names.len() < 2 {
            return false;
        }
        let files = self.files.latest();
        let is_named = |name: &String| {
            let is_file = |file: &FileUse| {
                file.last_use_seq() > self.last_request_seq && file.path.rsplit('/').next() == Some(name)
            };
            contains_name(&self.answer.text, name) || files.iter().any(is_file)
        };
        let (named, missing): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| is_named(name));
        !named.is_empty() && !missing.is_empty()
    }

    /// Returns whether the last request was answered before the user had another agent begin something else.
    fn is_settled(&self) -> bool {
        self.settled_request_seq == self.last_request_seq
    }

    /// Returns whether the last request orders only a commit or a push, and a call has performed it.
    fn is_performed(&self) -> bool {
        let order = self.last_request().and_then(|quote| repository_order(&quote.text));
        order.is_some_and(|order| self.commits.fulfils(order, self.last_request_seq))
    }

    /// Returns whether the last request asks only for a report.
    fn is_report_requested(&self) -> bool {
        self.last_request().is_some_and(|quote| request_kind::asks_for_report(&quote.text))
    }

    /// Returns whether the last request is a question and the answer has enough words to be one.
    fn answers_question(&self) -> bool {
        let is_question = |quote: &Quote| quote.text.trim_end().ends_with(['?', '？']);
        self.last_request().is_some_and(is_question) && self.is_answer_worded()
    }

    /// Returns whether the answer has enough words to tell something.
    fn is_answer_worded(&self) -> bool {
        formatting::count_content_words(&self.answer.text) >= ANSWER_WORDS_MIN
    }

    /// Returns the last request.
    fn last_request(&self) -> Option<&Quote> {
        self.last_requests.back().or(self.first_requests.last())
    }
}

/// Nouns before the number of a thing that a request names.
const NUMBERED_NOUNS: [&str; 8] = ["bug", "issue", "ticket", "task", "case", "item", "finding", "pr"];

/// Returns the names of the files in a request, without their folders, and the numbers of bugs and the like, each once.
fn named_parts(request: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    scan_names(request, |kind, name| {
        if kind == NameKind::Path && is_file_path(name) {
            add(name.rsplit('/').next().unwrap_or(name));
        }
    });
    let words: Vec<&str> = request.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        let number = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '#');
        let is_after_noun = index
            .checked_sub(1)
            .is_some_and(|before| NUMBERED_NOUNS.contains(&words[before].to_lowercase().as_str()));
        let digits = number.strip_prefix('#').or(is_after_noun.then_some(number)).unwrap_or_default();
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            add(digits);
        }
    }
    names
}

/// Returns whether a text contains a name that is not a part of a longer one.
fn contains_name(text: &str, name: &str) -> bool {
    let continues = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, name)| {
        !continues(text[..at].chars().next_back()) && !continues(text[at + name.len()..].chars().next())
    })
}

/// Returns the question at the end of the text, ignoring Markdown emphasis and closing brackets after it; with the questions and
/// the choices in a list directly before it, which it may continue, or the names of the options that the text describes.
pub(crate) fn trailing_question(seq: Seq, text: &str) -> Option<Quote> {
    let tail = redact(tail_words(text.trim_end(), STATEMENT_BYTES_MAX));
    let sentences: Vec<&str> = split_sentences(&tail).collect();
    let last = *sentences.last()?;
    if !text.trim_end().trim_end_matches(['*', '_', ')', ' ']).ends_with(['?', '？'])
        && !open_work::asks_for_choice(last)
    {
        return None;
    }
    let offset = |sentence: &str| sentence.as_ptr() as usize - tail.as_ptr() as usize;
    let end = offset(last) + last.len();
    let is_part = |sentence: &&&str| {
        let is_choice =
            sentence.starts_with(|c: char| c.is_ascii_digit()) || sentence.starts_with(['-', '*', '•']);
        let is_introduction = sentence.trim_end_matches(['*', ' ']).ends_with(':');
        let is_short = end - offset(sentence) <= QUESTION_BYTES_MAX;
        is_short && (is_choice || is_introduction || cues::is_question(sentence))
    };
    let parts = sentences.iter().rev().skip(1).take_while(is_part).count();
    let asks = |sentence: &&&str| {
        cues::is_question(sentence) || sentence.trim_end_matches(['*', ' ']).ends_with(':')
    };
    let first = sentences[sentences.len() - 1 - parts..].iter().find(asks).copied().unwrap_or(last);
    let question = &tail[offset(first)..end];
    let options = option_names(&tail[..offset(first)]);
    let text = match options.len() + question.len() <= QUESTION_BYTES_MAX {
        true => options + question,
        false => question.to_owned(),
    };
    Some(Quote { seq, text, is_cut: false })
}

/// Returns the lines of a text that name its options, such as `Option A: keep both`, as a list; empty if there are less than two.
fn option_names(text: &str) -> String {
    let names = text.lines().map(formatting::strip_markdown).filter(|line| {
        let lower = line.to_lowercase();
        let label = OPTION_NOUNS.iter().find_map(|noun| lower.strip_prefix(noun)?.strip_prefix(' '));
        label
            .is_some_and(|label| label.chars().nth(1).is_some_and(|end| matches!(end, ':' | '.' | ')' | ' ')))
    });
    let names: Vec<String> = names.map(|name| format!("- {}\n", name.trim_end_matches(':'))).collect();
    if names.len() > 1 { names.concat() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use crate::notation::parse_facts;

    #[test]
    fn the_last_answer_is_the_last_message_and_what_is_left_keeps_its_place() {
        let facts = parse_facts("U: Port it.\nA: The tag is not pushed yet.\nA: The reader is ported.");
        let last = facts.last_answer.unwrap();
        assert_eq!((last.seq, last.text.as_str()), (3, "The reader is ported."));
        assert_eq!((facts.left_open.len(), facts.left_open[0].seq), (1, 2));
        let unanswered =
            parse_facts("U: Port it.\nA: Reading it.\nC: r Read {\"file_path\":\"/a\"}\nT: r ok");
        assert_eq!(unanswered.last_answer, None);
    }

    #[test]
    fn an_open_question_has_the_choices_before_it() {
        for (answer, expected) in [
            ("I ported it. Should I commit it?", "Should I commit it?"),
            (
                "Ported. Which one do you want? Or should I combine both?",
                "Which one do you want? Or should I combine both?",
            ),
            (
                "Ported. What now?\\n\\n1. Delete the old file?\\n2. Or keep it?",
                "What now?\n\n1. Delete the old file?\n2. Or keep it?",
            ),
            ("- one\\n- two\\n\\nShall I go on?", "Shall I go on?"),
            ("There are two ways. Let me know which one to take.", "Let me know which one to take."),
            (
                "**Option A: Short**\\n```\\nHi.\\n```\\n**Option B: Long**\\nMore.\\n\\nWhich do you prefer?",
                "- Option A: Short\n- Option B: Long\nWhich do you prefer?",
            ),
        ] {
            let facts = parse_facts(&format!("U: Port it.\n A: {answer}"));
            assert_eq!(facts.open_question.map(|quote| quote.text).as_deref(), Some(expected), "{answer}");
        }
    }

    #[test]
    fn l7_a_request_of_several_parts_is_answered_by_all_of_them() {
        for (text, is_answered) in [
            // Of several files or numbered things in the request, the work and the answer name only some.
            ("U: Fix bug 17 and bug 18.\n A: Bug 17 is fixed.", None),
            ("U: Fix bug 17 and bug 18.\n A: Bugs 17 and 18 are fixed.", Some(true)),
            (
                "U: Add a retry to uploader.py and document it in README.md.\n C: 1 Edit {\"file_path\": \"uploader.py\"}\n T: 1 ok\n A: Done: uploader.py retries.",
                None,
            ),
            (
                "U: Add a retry to uploader.py and document it in README.md.\n C: 1 Edit {\"file_path\": \"uploader.py\"}\n T: 1 ok\n C: 2 Edit {\"file_path\": \"/srv/README.md\"}\n T: 2 ok\n A: Done.",
                Some(true),
            ),
            // The remote rejected the push, which git tells on an output that some formats do not mark as an error.
            (
                "U: Push the tag.\n C: 1 Bash {\"command\": \"git push origin v3\"}\n T: 1 ! [remote rejected] v3 (protected tag)\\nerror: failed to push some refs to 'x'\n A: Done.",
                Some(false),
            ),
        ] {
            assert_eq!(parse_facts(text).request_answered, is_answered, "{text}");
        }
    }
}
