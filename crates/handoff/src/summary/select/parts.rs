//! The division of a conversation into parts of bounded size, each of which one model call can summarize.
//!
//! A part begins at a turn, or within a long turn at an assistant message, so that a tool call and its results are never
//! separated. The parts are cut from the beginning of the conversation, so that new messages change only the last part.

use std::collections::VecDeque;

use model::tokens;
use protocol::{AiMessage, ContentBlock, Message, Seq, ToolMessage, ToolStatus};

use super::event_line::EventLine;
use facts::formatting::{to_single_line, truncate_with_ellipsis};
use facts::tool_use::{head_words, render_call_line, tail_words};
use facts::{TranscriptItem, TranscriptItemKind, strip_answer_wrappers};
use secrets::redact;

/// The maximum length of the text of a message, in grapheme clusters.
const MESSAGE_GRAPHEMES: usize = 6_000;
/// The maximum length of a tool call, in characters.
const CALL_CHARS: usize = 300;
/// The maximum length of a tool result, in grapheme clusters: the same for its beginning and its end.
const RESULT_GRAPHEMES: usize = 1_000;
/// The size of the beginning and of the end of a result that are redacted, in bytes. It is larger than what is shown, so
/// that redaction still recognizes a secret that the cut would split.
const RESULT_BYTES: usize = 4_096;
/// The length of a line below which it is not shortened further, in grapheme clusters.
const SHORTENED_GRAPHEMES_MIN: usize = 40;

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversationPart {
    /// The seq of the first message.
    pub(crate) first_seq: Seq,
    /// The seq of the last message.
    pub(crate) last_seq: Seq,
    /// The seqs of all messages, in order.
    pub(crate) messages: Vec<Seq>,
    /// The text: one line for each message or tool call, with its seq in brackets. It is redacted and neutralized.
    pub(crate) text: String,
}

/// A conversation that was divided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DividedConversation {
    /// The newest parts, in order.
    pub(crate) parts: Vec<ConversationPart>,
    /// The number of messages in older parts, which are beyond the limit.
    pub(crate) omitted_messages: u64,
}

/// A divider of a stream of events. Memory is bounded by the number and the size of the parts.
#[derive(Debug, Clone)]
pub(crate) struct ConversationDivider {
    /// The size of a part in tokens.
    tokens_max: u64,
    /// The number of newest parts to keep.
    parts_max: usize,
    /// The finished parts.
    parts: VecDeque<ConversationPart>,
    /// The number of messages in dropped parts.
    omitted_messages: u64,
    /// The lines of the present part.
    lines: Vec<PartLine>,
    /// The tokens of `lines`.
    tokens: u64,
}

/// A line of a part.
#[derive(Debug, Clone)]
struct PartLine {
    /// The text.
    line: EventLine,
    /// The seqs of the results of the call on the line.
    result_seqs: Vec<Seq>,
    /// Where a part may be divided.
    start: LineStart,
}

/// The unit of the conversation that begins with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineStart {
    /// A turn.
    Turn,
    /// A step of a turn: an assistant message with its calls and their results.
    Step,
    /// Nothing: the line belongs to the step before.
    Continuation,
}

impl ConversationDivider {
    /// Returns a divider that keeps the newest `parts_max` parts of about `tokens_max` tokens.
    pub(crate) const fn new(tokens_max: u64, parts_max: usize) -> Self {
        Self {
            tokens_max,
            parts_max,
            parts: VecDeque::new(),
            omitted_messages: 0,
            lines: Vec::new(),
            tokens: 0,
        }
    }

    /// Adds the next event. Events of sub-agents and injected messages are left out.
    pub(crate) fn visit(&mut self, item: &TranscriptItem) {
        match &item.kind {
            TranscriptItemKind::Message(Message::Human(_)) => {
                if let Some(text) = item.user_text() {
                    let line = EventLine::new(item.seq, "User: ", &text, MESSAGE_GRAPHEMES);
                    self.push_line(line, LineStart::Turn);
                }
            }
            TranscriptItemKind::Message(Message::Ai(message)) if item.is_conversation_message() => {
                self.add_answer(item.seq, message);
            }
            TranscriptItemKind::Message(Message::Tool(message)) if item.is_conversation_message() => {
                self.add_result(item.seq, message);
            }
            TranscriptItemKind::Message(_)
            | TranscriptItemKind::ImportedSummary(_)
            | TranscriptItemKind::InheritedSummary { .. }
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::Note
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => {}
        }
    }

    /// Returns the size of the text in bytes.
    pub(crate) fn size_in_bytes(&self) -> usize {
        let lines = usize::try_from(self.tokens * tokens::CHARS_PER_TOKEN).unwrap_or(usize::MAX);
        self.parts.iter().map(|part| part.text.len()).sum::<usize>() + lines
    }

    /// Returns the parts of all events.
    pub(crate) fn finish(mut self) -> DividedConversation {
        let lines = std::mem::take(&mut self.lines);
        self.add_part(lines);
        DividedConversation { parts: self.parts.into(), omitted_messages: self.omitted_messages }
    }

    /// Adds the lines of an assistant message: one for each text, one for each tool call.
    fn add_answer(&mut self, seq: Seq, message: &AiMessage) {
        let mut start = LineStart::Step;
        for block in &message.content {
            let line = match block {
                ContentBlock::Text { text } if !text.trim().is_empty() => {
                    EventLine::new(seq, "Assistant: ", &strip_answer_wrappers(text), MESSAGE_GRAPHEMES)
                }
                ContentBlock::ToolCall { id, name, args } => {
                    let call = render_call_line(name, args, CALL_CHARS);
                    let mut line = EventLine::new(seq, "", &call, CALL_CHARS);
                    line.call_id = Some(id.clone());
                    line
                }
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::Media { .. }
                | ContentBlock::Opaque { .. } => continue,
            };
            self.push_line(line, start);
            start = LineStart::Continuation;
        }
    }

    /// Adds a tool result to the line of its call. A result whose call is unknown gets a line of its own.
    fn add_result(&mut self, seq: Seq, message: &ToolMessage) {
        let text = message.content.iter().find_map(|block| match block {
            ContentBlock::Text { text } => Some(text.trim()),
            ContentBlock::Thinking { .. }
            | ContentBlock::ToolCall { .. }
            | ContentBlock::Media { .. }
            | ContentBlock::Opaque { .. } => None,
        });
        let shown = result_text(text.unwrap_or_default());
        let call_id = Some(message.call_id.as_str());
        let call = self.lines.iter_mut().rev().find(|line| line.line.call_id.as_deref() == call_id);
        let Some(call) = call else {
            let line = EventLine::new(seq, "Result: ", &shown, MESSAGE_GRAPHEMES);
            return self.push_line(line, LineStart::Continuation);
        };
        self.tokens -= call.tokens();
        call.result_seqs.push(seq);
        call.line.detail = match message.status {
            ToolStatus::Error => format!("failed: {shown}"),
            ToolStatus::Success => shown,
        };
        self.tokens += call.tokens();
    }

    /// Adds a line, and ends the present part before it if the line would exceed the part's size.
    fn push_line(&mut self, line: EventLine, start: LineStart) {
        let line = PartLine { line, result_seqs: Vec::new(), start };
        let is_full = !self.lines.is_empty() && self.tokens + line.tokens() > self.tokens_max;
        if is_full && start != LineStart::Continuation {
            let end = match start {
                LineStart::Turn => self.lines.len(),
                LineStart::Step | LineStart::Continuation => self.last_turn_start(),
            };
            let rest = self.lines.split_off(end);
            let lines = std::mem::replace(&mut self.lines, rest);
            self.add_part(lines);
            self.tokens = self.lines.iter().map(PartLine::tokens).sum();
        }
        self.tokens += line.tokens();
        self.lines.push(line);
    }

    /// Returns the index of the last line that begins a turn, if the lines before it fill at least half of a part;
    /// otherwise the number of lines.
    fn last_turn_start(&self) -> usize {
        let Some(index) = self.lines.iter().rposition(|line| line.start == LineStart::Turn) else {
            return self.lines.len();
        };
        let before: u64 = self.lines[..index].iter().map(PartLine::tokens).sum();
        if before >= self.tokens_max / 2 { index } else { self.lines.len() }
    }

    /// Adds a part with these lines, and drops the oldest part above the limit.
    fn add_part(&mut self, lines: Vec<PartLine>) {
        let mut messages: Vec<Seq> = lines
            .iter()
            .flat_map(|line| std::iter::once(line.line.seq).chain(line.result_seqs.iter().copied()))
            .collect();
        messages.sort_unstable();
        messages.dedup();
        let (Some(first_seq), Some(last_seq)) = (messages.first().copied(), messages.last().copied()) else {
            return;
        };
        let text = self.render_lines(&lines);
        self.parts.push_back(ConversationPart { first_seq, last_seq, messages, text });
        while self.parts.len() > self.parts_max {
            let Some(dropped) = self.parts.pop_front() else { break };
            self.omitted_messages += dropped.messages.len() as u64;
        }
    }

    /// Returns the lines as one text. One step may be larger than a part; all of its lines are shortened then.
    fn render_lines(&self, lines: &[PartLine]) -> String {
        let rendered: Vec<String> = lines.iter().map(PartLine::render).collect();
        let text = rendered.join("\n");
        if tokens::estimate_tokens(&text) <= self.tokens_max * 5 / 4 {
            return text;
        }
        let share = self.tokens_max * tokens::CHARS_PER_TOKEN / lines.len() as u64;
        let graphemes = usize::try_from(share).unwrap_or(usize::MAX).max(SHORTENED_GRAPHEMES_MIN);
        let shortened = rendered.iter().map(|line| truncate_with_ellipsis(line, graphemes));
        shortened.collect::<Vec<_>>().join("\n")
    }
}

impl PartLine {
    /// Returns the approximate size of the rendered line in tokens.
    fn tokens(&self) -> u64 {
        self.line.tokens() + self.line.detail.len() as u64 / tokens::CHARS_PER_TOKEN
    }

    /// Returns the line with the result of its call.
    fn render(&self) -> String {
        let detailed = self.line.detailed_line(2 * RESULT_GRAPHEMES);
        detailed.unwrap_or_else(|| self.line.rendered_line().text.clone())
    }
}

/// Returns a tool result on one line, redacted; of a long one the beginning and the end.
fn result_text(text: &str) -> String {
    if text.len() <= 2 * RESULT_GRAPHEMES {
        return to_single_line(&redact(text));
    }
    let head = redact(head_words(text, RESULT_BYTES)).into_owned();
    let tail = redact(tail_words(text, RESULT_BYTES)).into_owned();
    let head = truncate_with_ellipsis(&to_single_line(&head), RESULT_GRAPHEMES - 10);
    let tail = to_single_line(&tail);
    format!("{head} … {}", tail_words(&tail, RESULT_GRAPHEMES - 10))
}

#[cfg(test)]
mod tests {
    use facts::notation::parse_items;
    use proptest::prelude::*;

    use super::*;

    /// Divides a conversation in the notation of `facts`.
    fn divide(text: &str, tokens_max: u64, parts_max: usize) -> DividedConversation {
        let mut divider = ConversationDivider::new(tokens_max, parts_max);
        parse_items(text).iter().for_each(|item| divider.visit(item));
        divider.finish()
    }

    /// Returns a conversation of turns, each with as many steps as its number says.
    fn conversation(turns: &[usize]) -> String {
        let step = |turn: usize, at: usize| {
            let id = turn * 100 + at;
            format!(
                "A: Step {at} of turn {turn}.\nC: {id} Bash {{\"command\": \"make {id}\"}}\nT: {id} made {id}\n"
            )
        };
        let turn = |(turn, steps): (usize, &usize)| {
            let steps: String = (0..*steps).map(|at| step(turn, at)).collect();
            format!("U: Request {turn}.\n{steps}")
        };
        turns.iter().enumerate().map(turn).collect()
    }

    #[test]
    fn a_short_conversation_is_one_part() {
        let divided =
            divide("U: Fix it.\nC: 1 Read {\"file_path\": \"a.rs\"}\nT: 1 fn a() {}\nA: Fixed.", 100, 4);
        let [part] = divided.parts.as_slice() else { panic!("{divided:?}") };
        assert_eq!((part.first_seq, part.last_seq, part.messages.len()), (1, 4, 4));
        assert_eq!(part.text, "[1] User: Fix it.\n[2] [Read] a.rs -> fn a() {}\n[4] Assistant: Fixed.");
        assert_eq!(divided.omitted_messages, 0);
    }

    #[test]
    fn a_long_result_shows_its_beginning_and_its_end_without_secrets() {
        let secret = ["sk", "ant", "api03", "abcdefghijklmnop1234"].join("-");
        let result = format!("first {secret} {}last", "middle ".repeat(2_000));
        let text = format!("U: Go.\nC: 1 Bash {{\"command\": \"make\"}}\nT: 1 {result}");
        let divided = divide(&text, 4_000, 4);
        let text = &divided.parts[0].text;
        assert!(text.contains("-> first ") && text.ends_with(" last"), "{text}");
        assert!(text.len() < 2_200 && !text.contains("abcdefghij"), "{text}");
    }

    #[test]
    fn a_step_that_is_larger_than_a_part_is_shortened() {
        let calls: String =
            (0..40).map(|n| format!("C: {n} Bash {{\"command\": \"{}\"}}\n", "make ".repeat(50))).collect();
        let divided = divide(&format!("U: Go.\n{calls}"), 300, 50);
        for part in &divided.parts {
            assert!(tokens::estimate_tokens(&part.text) <= 500, "{}", part.text);
        }
    }

    proptest! {
        #[test]
        fn every_message_is_in_one_part_and_new_messages_change_only_the_last(
            turns in prop::collection::vec(0usize..8, 1..12),
            more in prop::collection::vec(0usize..8, 1..4),
            tokens_max in 60u64..400,
        ) {
            let text = conversation(&turns);
            let divided = divide(&text, tokens_max, usize::MAX);
            let seqs: Vec<Seq> = divided.parts.iter().flat_map(|part| part.messages.clone()).collect();
            prop_assert_eq!(&seqs, &(1..=seqs.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(seqs.len(), text.lines().count());
            for part in &divided.parts {
                prop_assert_eq!(part.text.matches("[Bash]").count(), part.text.matches("-> made").count());
                let start = format!("[{}] ", part.first_seq);
                prop_assert!(part.text.starts_with(&start));
            }
            let longer = divide(&conversation(&[turns.as_slice(), &more].concat()), tokens_max, usize::MAX);
            let unchanged = divided.parts.len() - 1;
            prop_assert_eq!(&longer.parts[..unchanged], &divided.parts[..unchanged]);
            let newest = divide(&text, tokens_max, 2);
            let first = divided.parts.len().saturating_sub(2);
            prop_assert_eq!(newest.parts.as_slice(), &divided.parts[first..]);
            let omitted: usize = divided.parts[..first].iter().map(|part| part.messages.len()).sum();
            prop_assert_eq!(newest.omitted_messages, omitted as u64);
        }
    }
}
