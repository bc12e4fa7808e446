//! The note about the assistant's last answer: a review, a plan or a result of several paragraphs, of which a summary can contain
//! only a few sentences. The person who reviews the summary sees that the rest is missing, and adds it with one key.

use facts::ConversationFacts;
use facts::formatting::{ELLIPSIS, strip_markdown, to_single_line};
use model::sentence_ranking::split_sentences;
use protocol::{HandoffSummary, LeftOutItem, LeftOutReason, SummaryItem, SummaryItemKind};

use crate::summary::render::{normalize_lines, render_summary};

/// The minimum length of a last answer that is listed, in characters. A shorter one says little more than the summary.
const ANSWER_CHARS_MIN: usize = 20;
/// The number of characters at the beginning of a sentence by which it is found in the text.
const BEGINNING_CHARS: usize = 40;

/// Adds the last answer to what the text leaves out, if the text contains less than half of it.
pub(crate) fn note_last_answer(summary: &mut HandoffSummary, facts: &ConversationFacts) {
    let Some(answer) = &facts.last_answer else { return };
    let is_noted = summary.notes.left_out.iter().any(|left| left.reason == LeftOutReason::LastAnswer);
    let text = render_summary(summary).to_lowercase();
    let (mut chars, mut missing) = (0, 0);
    for sentence in split_sentences(&answer.text) {
        let sentence = to_single_line(&strip_markdown(sentence)).to_lowercase();
        let length = sentence.chars().count();
        let beginning: String = sentence.chars().take(BEGINNING_CHARS).collect();
        chars += length;
        if !text.contains(beginning.trim_end()) {
            missing += length;
        }
    }
    if is_noted || chars < ANSWER_CHARS_MIN || missing * 2 <= chars {
        return;
    }
    let ellipsis = if answer.is_cut { ELLIPSIS.to_string() } else { String::new() };
    let lines: Vec<String> = answer.text.lines().filter(|line| !is_fence(line)).map(strip_markdown).collect();
    let text = normalize_lines(&format!("{ellipsis}{}", lines.join("\n")));
    let item = SummaryItem {
        kind: SummaryItemKind::Progress,
        line_refs: vec![vec![answer.seq]; text.lines().count()],
        text,
        refs: vec![answer.seq],
        verified: true,
        unfound: Vec::new(),
        false_refs: Vec::new(),
    };
    summary.notes.left_out.push(LeftOutItem { item, reason: LeftOutReason::LastAnswer });
}

/// Returns whether a line is a code fence.
fn is_fence(line: &str) -> bool {
    ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence))
}

#[cfg(test)]
mod tests {
    use facts::notation::parse_facts;

    use super::*;
    use crate::review::edit::tests::shown_summary;

    /// Returns the texts that are listed for a session with this last answer.
    fn listed_answers(answer: &str, tldr: &str) -> Vec<String> {
        let facts = parse_facts(&format!("U: Review the branch.\n A: {answer}"));
        let mut summary = shown_summary();
        summary.tldr = tldr.to_owned();
        note_last_answer(&mut summary, &facts);
        note_last_answer(&mut summary, &facts);
        summary.notes.left_out.into_iter().map(|left| left.item.text).collect()
    }

    #[test]
    fn a_long_last_answer_is_listed_once_unless_the_text_contains_it() {
        let finding = "The limit in `src/size.rs` is checked after the body was read, so a large upload is held in memory first.";
        let answer = format!(
            "Found 3 issues worth fixing.\\n\\n1. **High** {finding}\\n2. The exception list matches the package only.\\n3. The test does not cover chunked uploads, which the worker accepts.\\n\\n```\\nlet x = 1;\\n```"
        );
        let listed = listed_answers(&answer, "Reviewed.");
        assert_eq!(listed.len(), 1);
        assert!(listed[0].contains(finding) && listed[0].contains("let x = 1;"), "{listed:?}");
        assert!(!listed[0].contains("```") && !listed[0].contains("**"), "{listed:?}");
        assert_eq!(listed_answers("Found nothing.", "Reviewed."), [""; 0]);
        let settings = r#"{"strategy_options":{"summarize":{"enabled":true}}}"#;
        assert_eq!(listed_answers(settings, "Reviewed."), [settings]);
        let whole = answer.replace("\\n", " ");
        assert_eq!(
            listed_answers(
                &format!("{}. It is long. {}", "It ends ".repeat(20), "And so on. ".repeat(20)),
                &whole
            )
            .len(),
            1
        );
        assert_eq!(listed_answers(&format!("{finding} {finding} {finding}"), finding), [""; 0]);
    }
}
