//! The outline of a conversation: its topics, each a request of the user with everything up to the next one. The review
//! lists the largest topics that the text of a summary does not mention.

use facts::{TranscriptItem, TranscriptItemKind};
use protocol::{ConversationTopic, Coverage, Message, Seq};
use secrets::redact;
use unicode_segmentation::UnicodeSegmentation;

use crate::summary::render;

/// The maximum number of retained topics. Above it, the smaller half is discarded: only the largest are ever shown.
const TOPICS_MAX: usize = 512;
/// The number of topics that a review lists.
const LISTED_TOPICS_MAX: usize = 5;
/// The size below which a topic is not worth listing, in tokens.
const LISTED_TOKENS_MIN: u64 = 100;
/// The maximum length of a topic's request, in grapheme clusters.
const REQUEST_GRAPHEMES: usize = 160;
/// The maximum length of a topic's answer, in grapheme clusters. It is made of whole sentences.
const ANSWER_GRAPHEMES: usize = 240;
/// The beginning of an answer that is searched for sentences, in bytes.
const ANSWER_BYTES_READ: usize = 2_048;

/// A collector of the topics of a conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConversationOutline {
    /// The topics, in order. The last one is still open.
    topics: Vec<ConversationTopic>,
}

impl ConversationOutline {
    /// Adds the next event.
    pub(crate) fn visit(&mut self, item: &TranscriptItem) {
        let TranscriptItemKind::Message(message) = &item.kind else { return };
        if item.seq == 0 || !item.is_conversation_message() {
            return;
        }
        if let Some(text) = item.user_text() {
            self.limit_topics();
            let line = render::normalize_line(&redact(&text));
            self.topics.push(ConversationTopic {
                first_seq: item.seq,
                last_seq: item.seq,
                messages: 0,
                tokens: 0,
                request: facts::formatting::truncate_with_ellipsis(&line, REQUEST_GRAPHEMES),
                answer: None,
                item_text: String::new(),
            });
        }
        if let Some(topic) = self.topics.last_mut() {
            topic.last_seq = item.seq;
            topic.messages += 1;
            topic.tokens += model::tokens::message_tokens(message);
            if let Message::Ai(_) = message {
                topic.answer = first_sentences(&message.text()).or(topic.answer.take());
            }
        }
    }

    /// Returns the largest topics within the covered range to which no item, rule or fact of the summary refers, the largest
    /// first.
    pub(crate) fn unrepresented_topics(&self, coverage: &Coverage) -> Vec<ConversationTopic> {
        let is_covered = |topic: &&ConversationTopic| topic.last_seq <= coverage.last_seq;
        let used: Vec<(Seq, Seq)> = coverage.quoted.iter().chain(&coverage.represented).copied().collect();
        let is_used = |topic: &ConversationTopic| {
            used.iter().any(|(first, last)| *first <= topic.last_seq && topic.first_seq <= *last)
        };
        let is_large = |topic: &&ConversationTopic| topic.tokens >= LISTED_TOKENS_MIN;
        let mut topics: Vec<&ConversationTopic> =
            self.topics.iter().filter(is_covered).filter(is_large).filter(|topic| !is_used(topic)).collect();
        topics.sort_by_key(|topic| std::cmp::Reverse(topic.tokens));
        let listed = topics.into_iter().take(LISTED_TOPICS_MAX);
        listed.map(|topic| ConversationTopic { item_text: topic.item_text(), ..topic.clone() }).collect()
    }

    /// Discards the smaller half of the topics when there are too many.
    fn limit_topics(&mut self) {
        if self.topics.len() < TOPICS_MAX {
            return;
        }
        self.topics.sort_by_key(|topic| std::cmp::Reverse(topic.tokens));
        self.topics.truncate(TOPICS_MAX / 2);
        self.topics.sort_by_key(|topic| topic.first_seq);
    }
}

/// Returns the first sentences of an answer on one line, within the length limit; `None` if it has no sentence that short.
fn first_sentences(text: &str) -> Option<String> {
    // Only the beginning is needed, and an answer may be long. Whole words are read, so that no secret is cut.
    let beginning = facts::tool_use::head_words(text, ANSWER_BYTES_READ);
    let line = render::normalize_line(&redact(&facts::formatting::strip_markdown(beginning)));
    let mut answer = String::new();
    let sentences = model::sentence_ranking::split_sentences(&line);
    // "Perfect!" says nothing about the work.
    for sentence in sentences.skip_while(|sentence| facts::is_conversational(sentence)) {
        let longer = format!("{answer} {}", sentence.trim());
        if longer.graphemes(true).count() > ANSWER_GRAPHEMES {
            break;
        }
        longer.trim_start().clone_into(&mut answer);
    }
    (!answer.is_empty()).then_some(answer)
}
