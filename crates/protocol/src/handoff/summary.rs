//! The structured handoff summary. The `handoff` crate renders, verifies and truncates it.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

use super::carried_facts::{CarriedFacts, Rule};
use crate::event::Seq;
use crate::ids::{AssistantId, HandoffId, RunId, ThreadId};

/// A drafted or accepted handoff summary (`summary_json`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffSummary {
    /// Version of this shape ([`HandoffSummary::SCHEMA_VERSION`]). A summary of version 1 is read as one of version 2.
    #[serde(deserialize_with = "read_schema_version")]
    pub schema_version: u32,
    /// The handoff it belongs to; the same in all iterations.
    pub handoff_id: HandoffId,
    /// The assistant of the parent and the child thread.
    pub assistant_id: AssistantId,
    /// The summarized thread.
    pub parent_thread_id: ThreadId,
    /// The child thread; `null` until the summary is accepted.
    pub child_thread_id: Option<ThreadId>,
    /// The title, at most 120 grapheme clusters.
    pub title: String,
    /// The summary in one sentence, at most 200 grapheme clusters.
    pub tldr: String,
    /// The items, in the order of [`SummaryItemKind`]: 3 to 7 in a draft, up to 12 in a text of the user.
    pub body: Vec<SummaryItem>,
    /// `provider/name` of the model that wrote the summary, or `extractive` for an offline summary.
    pub model: String,
    /// The id that the provider gave the response with the draft; `None` for an offline summary and a user's text. In
    /// summaries of earlier versions it is the id of the run.
    pub model_run_id: Option<String>,
    /// The run in which the summary was drafted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Tokens used by the model call; 0 for an offline summary.
    pub tokens_used: u64,
    /// The number of the proposal; 0 is the first.
    pub iteration: u32,
    /// Time of the handoff's first proposal; the same in all iterations.
    pub created_at: Timestamp,
    /// The events that the summary covers, and in which form its author read them.
    pub coverage: Coverage,
    /// Facts computed without a model. Version 1 called them `carry_over`.
    #[serde(alias = "carry_over")]
    pub carried: CarriedFacts,
    /// Notes for the reviewer about the text. It is no part of the text.
    #[serde(default, skip_serializing_if = "ReviewNotes::is_empty")]
    pub notes: ReviewNotes,
}

impl HandoffSummary {
    /// The version of the shape. Since version 2 the facts are in `carried`, and their files are grouped.
    pub const SCHEMA_VERSION: u32 = 2;
}

/// Reads the version of a summary. Reading converts version 1, so the version of what was read is at least
/// [`HandoffSummary::SCHEMA_VERSION`].
fn read_schema_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    Ok(u32::deserialize(deserializer)?.max(HandoffSummary::SCHEMA_VERSION))
}

/// Notes for the reviewer about the text of a summary. It is no part of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewNotes {
    /// The names in the title that the covered messages do not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub title_unfound: Vec<String>,
    /// The names in the TL;DR that the covered messages do not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tldr_unfound: Vec<String>,
    /// The names that the user wrote into the text and that the covered messages do not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names_by_user: Vec<String>,
    /// The items of the draft that the text leaves out or shortens, in the order in which they were cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutItem>,
    /// The entries of the facts that the text only counts or shortens, in the order of the sections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out_facts: Vec<LeftOutFacts>,
    /// The largest parts of the conversation to which nothing in the text refers, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<ConversationTopic>,
    /// The user's standing rules that an item seems to contradict, or that the text no longer contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleNote>,
    /// The lines that tell an open task of the task list as done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done_task_claims: Vec<DoneTaskClaim>,
    /// The parts of a long conversation that the model could not summarize for the draft, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsummarized_parts: Vec<UnsummarizedPart>,
}

/// A part of a long conversation that the model could not summarize. The draft relies on its offline summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsummarizedPart {
    /// The first event of the part.
    pub first_seq: Seq,
    /// The last event of the part (inclusive).
    pub last_seq: Seq,
    /// Why the model could not summarize it, in one line.
    pub reason: String,
}

/// A line of a text that tells a task as done which the task list contains as open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneTaskClaim {
    /// The open task.
    pub task: String,
    /// The line.
    pub line: String,
}

impl ReviewNotes {
    /// Returns whether there is nothing to know.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An item of a draft that the text leaves out or shortens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutItem {
    /// The whole item.
    pub item: SummaryItem,
    /// Why the text does not contain it.
    pub reason: LeftOutReason,
}

/// Entries of one section of the facts that the text only counts or shortens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutFacts {
    /// The heading of the section.
    pub section: String,
    /// The whole entries: all that the text counts, or one that it shortens.
    pub entries: Vec<String>,
    /// Why the text does not contain them: too many, or shortened.
    pub reason: LeftOutReason,
}

/// The reason why a text does not contain a whole item of the draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutReason {
    /// The draft had more items than a summary may have.
    TooMany,
    /// The text would have exceeded its token limit.
    TooLong,
    /// The text contains the beginning of the item; the whole would have exceeded the token limit.
    Shortened,
    /// The item is the whole last answer of the assistant, of which the text contains only parts.
    LastAnswer,
    /// The package that the thread began with contains the item, and the draft does not.
    Inherited,
}

/// A note about a standing rule of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleNote {
    /// The rule.
    pub rule: Rule,
    /// The problem that the text has with the rule.
    pub problem: RuleProblem,
}

/// The problem that a text has with a standing rule of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RuleProblem {
    /// An earlier proposal of the handoff contained the rule, and the text does not.
    Lost,
    /// An item proposes something that the rule forbids.
    Contradicted {
        /// The line of the item that proposes it.
        line: String,
    },
}

/// A part of the conversation: a request of the user with everything up to the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationTopic {
    /// The event of the request.
    pub first_seq: Seq,
    /// The last event of the part (inclusive).
    pub last_seq: Seq,
    /// Number of messages.
    pub messages: u64,
    /// Estimated tokens of the messages.
    pub tokens: u64,
    /// The beginning of the request, on one line.
    pub request: String,
    /// The first sentences of the last answer, on one line; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The text of the item that adding the topic puts into the summary; empty in a proposal of an earlier version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub item_text: String,
}

impl ConversationTopic {
    /// Returns the text of the item that adding the topic puts into the summary. It quotes the request and the answer.
    pub fn item_text(&self) -> String {
        if !self.item_text.is_empty() {
            return self.item_text.clone();
        }
        let answer = self.answer.iter().map(|answer| format!("\nAnswered: {answer}"));
        format!("Asked earlier: {}", self.request) + &answer.collect::<String>()
    }
}

/// One item of a summary's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryItem {
    /// The kind of statement that the item makes about the work.
    pub kind: SummaryItemKind,
    /// The text: one or more plain sentences.
    pub text: String,
    /// The seqs of the events that support the item.
    #[serde(default)]
    pub refs: Vec<Seq>,
    /// The references of each line of the text, if the item has several and their sources are known. The end of the text may
    /// have been cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_refs: Vec<Vec<Seq>>,
    /// False if the item names something, such as a file, that the covered messages do not contain.
    #[serde(default = "verified")]
    pub verified: bool,
    /// The names in the item that the covered messages do not contain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfound: Vec<String>,
    /// The references of the draft that name no covered message. They are not among `refs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub false_refs: Vec<Seq>,
}

impl SummaryItem {
    /// The suffix that is rendered after an unverified item.
    pub const UNVERIFIED: &str = " (unverified)";

    /// Returns the lines of the text, each with its references. The last line has those whose line is not known.
    pub fn lines_with_refs(&self) -> Vec<(&str, Vec<Seq>)> {
        let texts: Vec<&str> = self.text.lines().filter(|line| !line.trim().is_empty()).collect();
        let known = if texts.len() <= self.line_refs.len() { self.line_refs.as_slice() } else { &[] };
        let refs_of = |index: usize| {
            let of_line = known.get(index).into_iter().flatten();
            of_line.copied().filter(|seq| self.refs.contains(seq)).collect::<Vec<Seq>>()
        };
        let mut lines: Vec<(&str, Vec<Seq>)> =
            texts.into_iter().enumerate().map(|(index, text)| (text, refs_of(index))).collect();
        let placed: Vec<Seq> = lines.iter().flat_map(|(_, refs)| refs.iter().copied()).collect();
        if let Some((_, refs)) = lines.last_mut() {
            refs.extend(self.refs.iter().filter(|seq| !placed.contains(seq)));
        }
        lines
    }
}

/// Returns the default of [`SummaryItem::verified`] for summaries that were stored without it.
const fn verified() -> bool {
    true
}

/// The kind of a summary item. The order of declaration is the order in which items are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryItemKind {
    /// The user's objective.
    Objective,
    /// Finished work.
    Progress,
    /// Decisions, and the user's standing instructions.
    Decision,
    /// Open work.
    NextStep,
    /// Blockers.
    Blocker,
    /// Files, commands and references on which the work depends.
    Artifact,
}

impl SummaryItemKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 6] =
        [Self::Objective, Self::Progress, Self::Decision, Self::NextStep, Self::Blocker, Self::Artifact];
}

/// An inclusive range of seqs: the first and the last event.
pub type SeqRange = (Seq, Seq);

/// The events that a summary covers, in two classifications, each of which is disjoint and complete: the union of its lists
/// is `first_seq..=last_seq`.
///
/// `verbatim`, `summarized`, `truncated` and `excluded` state how much of an event reached the summarizer. `quoted`,
/// `represented`, `read`, `scanned` and `unread` state what became of it; they are empty in summaries of earlier versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The first covered event.
    pub first_seq: Seq,
    /// The last covered event (inclusive).
    pub last_seq: Seq,
    /// Ranges whose whole text the summarizer read.
    pub verbatim: Vec<SeqRange>,
    /// Ranges that the summarizer read in a shorter form: one line for each call, a ledger entry, or the summary of a
    /// chunk.
    pub summarized: Vec<SeqRange>,
    /// Ranges that the summarizer read truncated.
    pub truncated: Vec<SeqRange>,
    /// Ranges that the summarizer did not read: hidden notes, and messages that did not fit.
    pub excluded: Vec<SeqRange>,
    /// Number of messages among the events. The other events are Segue's own records of runs; they are always excluded and
    /// unread.
    #[serde(default)]
    pub messages: u64,
    /// Ranges of which the text contains words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quoted: Vec<SeqRange>,
    /// Ranges to which an item or a fact refers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub represented: Vec<SeqRange>,
    /// Ranges that the drafting model received, and of which nothing is in the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<SeqRange>,
    /// Ranges from which only facts were extracted, without a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scanned: Vec<SeqRange>,
    /// Ranges that nothing has read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<SeqRange>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_an_item_has_its_own_references() {
        let item = |text: &str, refs: &[Seq], line_refs: &[&[Seq]]| SummaryItem {
            kind: SummaryItemKind::Decision,
            text: text.to_owned(),
            refs: refs.to_vec(),
            line_refs: line_refs.iter().map(|refs| refs.to_vec()).collect(),
            verified: true,
            unfound: Vec::new(),
            false_refs: Vec::new(),
        };
        let refs =
            |item: SummaryItem| item.lines_with_refs().into_iter().map(|(_, refs)| refs).collect::<Vec<_>>();
        assert_eq!(refs(item("a\nb", &[154, 226], &[&[226], &[154]])), [[226], [154]]);
        // The last line was cut, and a reference was removed.
        assert_eq!(refs(item("a\n\nb", &[1, 2, 3], &[&[2], &[9], &[3]])), [vec![2], vec![1, 3]]);
        assert_eq!(refs(item("a\nb", &[1, 2], &[])), [vec![], vec![1, 2]]);
        assert_eq!(refs(item("a\nb\nc", &[1], &[&[1], &[]])), [vec![], vec![], vec![1]]);
        assert_eq!(refs(item("", &[1], &[])), [[0; 0]; 0]);
    }
}
