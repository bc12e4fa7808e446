//! Map-reduce of a long conversation: the drafting model summarizes each part once, and the draft is written from these
//! summaries and the newest messages.
//!
//! A part's summary is stored with the event about its call before the next part is read, under a key that contains the
//! hash of the part, the prompt and the model. A redraft, a restart and a later handoff find it there.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use journal::{EventQuery, SupersededVisibility};
use minijinja::{Environment, UndefinedBehavior};
use model::{ChatModel, ChatRequest, tokens, untrusted_text};
use protocol::event::body::{ModelCallPurpose, ModelCalled, SummarizedPart};
use protocol::{Category, Handoff, Message, NewEvent, Seq, UnsummarizedPart, Usage};
use runtime::{FailureKind, Frame, GraphUpdate, StepContext, StepFailure};
use serde::Serialize;
use tracing::Instrument;

use super::trace::DraftSpan;
use super::window::ThreadSource;
use super::window::scan_cache::{PartBudget, WindowScan};
use super::{ANSWER_TOKENS_SPARE, DraftError, call_model, complete_text};
use crate::summary::offline_summary::build_offline_summary;
use crate::summary::render::normalize_line;
use crate::summary::select::TranscriptSelection;
use crate::summary::select::parts::ConversationPart;
use facts::formatting::truncate_with_ellipsis;
use facts::{FactCollector, TranscriptItem};
use secrets::redact;

pub(crate) mod estimate;

/// The template of the system prompt.
const INSTRUCTIONS: &str = include_str!("prompts/part.md");

/// The share of the summaries of all parts in the budget of a draft's input, as a divisor.
const SUMMARIES_SHARE: u64 = 3;
/// The minimum size of the summary of one part, in tokens. It limits the number of parts for a model with a small window.
const PART_SUMMARY_TOKENS_MIN: u64 = 150;
/// The maximum size of the summary of one part, in tokens.
const PART_SUMMARY_TOKENS_MAX: u64 = 800;
/// The size of the heading of one part in the prompt of the draft, in tokens.
const PART_HEADING_TOKENS: u64 = 16;
/// The number of successive failed calls after which the remaining parts are not sent to the model.
const FAILED_CALLS_MAX: usize = 2;
/// The number of events in a page of a part.
const PART_PAGE_ROWS: usize = 250;

/// The limits of the parts of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartLimits {
    /// The size of the input of a call, in tokens: of a part, and of the draft.
    pub(crate) input_tokens: u64,
    /// The maximum number of parts.
    pub(crate) parts: usize,
    /// The size of the summary of a part, in tokens.
    pub(crate) summary_tokens: u64,
}

/// The parts of a conversation that the draft needs, and the transcript that the draft gets beside their summaries.
#[derive(Debug)]
pub(crate) struct PartPlan {
    /// The parts, in order. Empty when the selection has the whole conversation.
    parts: Vec<PlannedPart>,
    /// The number of messages that are older than all parts.
    omitted_messages: u64,
    /// The transcript.
    selection: TranscriptSelection,
    /// The limits.
    limits: PartLimits,
}

/// A part with its prompt.
#[derive(Debug)]
struct PlannedPart {
    /// The part.
    part: ConversationPart,
    /// The system prompt.
    instructions: String,
    /// The message with the part's text.
    text: String,
    /// The key of the event that stores the summary.
    event_key: String,
    /// The summary, if an earlier draft has paid for it.
    stored: Option<String>,
}

/// The material of a draft: the transcript that the model receives, and the summaries of parts it made of the rest.
#[derive(Debug)]
pub(crate) struct DraftMaterial {
    /// The transcript.
    pub(crate) selection: TranscriptSelection,
    /// The summaries of the parts, in order, each with a heading; empty without parts.
    pub(crate) parts: String,
    /// The messages of the parts that the model has read, in order.
    pub(crate) read: Vec<Seq>,
    /// The tokens of the calls.
    pub(crate) usage: Usage,
    /// The parts that could not be summarized, in order.
    pub(crate) unsummarized: Vec<UnsummarizedPart>,
}

/// The placeholders of the prompt.
#[derive(Debug, Serialize)]
struct PartPrompt {
    /// The budget of the summary in tokens.
    max_part_tokens: u64,
}

/// The calls that summarize the parts of one draft.
pub(crate) struct PartCalls<'a> {
    /// The drafting step.
    pub(crate) step: &'a StepContext<'a>,
    /// The handoff.
    pub(crate) handoff: &'a Handoff,
    /// The drafting model.
    pub(crate) model: &'a Arc<dyn ChatModel>,
    /// The trace span of the draft, to which the calls belong.
    pub(crate) trace: &'a DraftSpan,
}

/// The outcome of a call.
enum PartOutcome {
    /// The summary.
    Summarized(String),
    /// The answer cannot be used, for this reason.
    Unusable(String),
    /// The call failed, for this reason.
    Failed(String),
    /// The person stopped the draft.
    Stopped,
}

impl DraftMaterial {
    /// Returns the material of a draft without parts.
    pub(crate) fn from_selection(selection: TranscriptSelection) -> Self {
        Self {
            selection,
            parts: String::new(),
            read: Vec::new(),
            usage: Usage::default(),
            unsummarized: Vec::new(),
        }
    }
}

impl PartLimits {
    /// Returns the limits for a model whose calls may have `input_tokens` tokens of transcript, with at most `calls_max`
    /// calls; `None` when no part may be summarized.
    pub(crate) fn new(input_tokens: u64, calls_max: u32) -> Option<Self> {
        let budget = input_tokens / SUMMARIES_SHARE;
        let parts = u64::from(calls_max).min(budget / (PART_SUMMARY_TOKENS_MIN + PART_HEADING_TOKENS));
        let share = budget.checked_div(parts)?.saturating_sub(PART_HEADING_TOKENS);
        Some(Self {
            input_tokens,
            parts: usize::try_from(parts).ok()?,
            summary_tokens: share.clamp(PART_SUMMARY_TOKENS_MIN, PART_SUMMARY_TOKENS_MAX),
        })
    }
}

impl PartPlan {
    /// Returns the plan of a draft. A conversation that fits into the draft's own call has no parts.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or the prompt cannot be rendered.
    pub(crate) async fn new(
        thread: ThreadSource<'_>,
        scan: &WindowScan,
        model: &Arc<dyn ChatModel>,
        limits: PartLimits,
    ) -> Result<Self, StepFailure> {
        let whole = scan.selection(limits.input_tokens);
        let unused = Self { parts: Vec::new(), omitted_messages: 0, selection: whole, limits };
        if unused.selection.complete_from == 0 {
            return Ok(unused);
        }
        let selection = scan.selection(limits.input_tokens - limits.input_tokens / SUMMARIES_SHARE);
        // One part more than the limit, because the newest part may be in the selection already.
        let budget = PartBudget { tokens_max: limits.input_tokens, parts_max: limits.parts + 1 };
        let mut divided = scan.divide_conversation(thread, budget).await?;
        if divided.parts.last().is_some_and(|last| last.first_seq >= selection.complete_from) {
            divided.parts.pop();
        }
        let excess = divided.parts.len().saturating_sub(limits.parts);
        let beyond: usize = divided.parts.drain(..excess).map(|part| part.messages.len()).sum();
        if divided.parts.is_empty() {
            return Ok(unused);
        }
        let mut parts = Vec::with_capacity(divided.parts.len());
        for part in divided.parts {
            parts.push(PlannedPart::new(thread, part, model, limits).await?);
        }
        let omitted_messages = divided.omitted_messages + beyond as u64;
        Ok(Self { parts, omitted_messages, selection, limits })
    }

    /// Returns the parts that a model has to be called for.
    fn unsummarized_parts(&self) -> impl Iterator<Item = &PlannedPart> {
        self.parts.iter().filter(|part| part.stored.is_none())
    }
}

impl PlannedPart {
    /// Returns the part with its prompt and its stored summary.
    async fn new(
        thread: ThreadSource<'_>,
        part: ConversationPart,
        model: &Arc<dyn ChatModel>,
        limits: PartLimits,
    ) -> Result<Self, StepFailure> {
        let prompt = PartPrompt { max_part_tokens: limits.summary_tokens };
        let instructions = render_instructions(&prompt)
            .map_err(|error| StepFailure::new(FailureKind::Internal, format!("fill the prompt: {error}")))?;
        let text = format!("<conversation>\n{}\n</conversation>", part.text);
        let hashed = format!("{}\n{instructions}\n{text}", model.name());
        let event_key = format!("handoff_part:{}", protocol::sha256_hex(hashed));
        let stored = read_stored_summary(thread, &event_key).await?;
        Ok(Self { part, instructions, text, event_key, stored })
    }

    /// Returns the request of the call.
    fn request(&self, limits: PartLimits) -> ChatRequest {
        ChatRequest {
            system: vec![self.instructions.clone()],
            messages: Arc::new(vec![Message::human(self.text.clone())]),
            max_output_tokens: Some(limits.summary_tokens + ANSWER_TOKENS_SPARE),
            ..ChatRequest::default()
        }
    }

    /// Returns the approximate size of the call's input in tokens.
    fn input_tokens(&self) -> u64 {
        tokens::estimate_tokens(&self.instructions) + tokens::estimate_tokens(&self.text)
    }
}

impl PartCalls<'_> {
    /// Summarizes the parts that have no stored summary, one after the other, and returns the material of the draft;
    /// `None` when the person stopped it. The usage of the calls is added to `update`.
    ///
    /// A part whose call fails is represented by its offline summary.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or an event cannot be serialized.
    pub(crate) async fn summarize(
        &self,
        plan: PartPlan,
        update: &mut GraphUpdate,
    ) -> Result<Option<DraftMaterial>, StepFailure> {
        let total = plan.parts.len();
        let mut material = DraftMaterial::from_selection(plan.selection);
        if plan.omitted_messages > 0 {
            material.parts = format!("The {} oldest messages were not read.\n", plan.omitted_messages);
        }
        let mut failed_calls = 0;
        for (index, planned) in plan.parts.iter().enumerate() {
            let part = &planned.part;
            let outcome = match &planned.stored {
                Some(summary) => PartOutcome::Summarized(summary.clone()),
                None if failed_calls >= FAILED_CALLS_MAX => {
                    PartOutcome::Failed("the calls before it failed".to_owned())
                }
                None => {
                    let what = format!("summarize part {} of {total} with {}", index + 1, self.model.name());
                    let (done, total) = (index as u64, Some(total as u64));
                    self.step.frames.send(Frame::Progress { what, done, total });
                    let (outcome, usage) = self.call(planned, plan.limits).await?;
                    material.usage.add(usage);
                    update.usage.add(usage);
                    outcome
                }
            };
            let is_failed = matches!(outcome, PartOutcome::Failed(_));
            failed_calls = if is_failed { failed_calls + 1 } else { 0 };
            let summary = match outcome {
                PartOutcome::Summarized(summary) => {
                    material.read.extend(&part.messages);
                    summary
                }
                PartOutcome::Stopped => return Ok(None),
                PartOutcome::Unusable(reason) | PartOutcome::Failed(reason) => {
                    let ConversationPart { first_seq, last_seq, .. } = *part;
                    material.unsummarized.push(UnsummarizedPart { first_seq, last_seq, reason });
                    self.extract(part, plan.limits.summary_tokens).await?
                }
            };
            let heading = format!("Part {}, [{}] to [{}]:\n", index + 1, part.first_seq, part.last_seq);
            material.parts += &format!("{heading}{summary}\n");
        }
        material.parts.truncate(material.parts.trim_end().len());
        Ok(Some(material))
    }

    /// Calls the model for a part and stores its summary with the event about the call. Returns the outcome and the tokens
    /// used. A stopped call is not recorded.
    async fn call(
        &self,
        planned: &PlannedPart,
        limits: PartLimits,
    ) -> Result<(PartOutcome, Usage), StepFailure> {
        let part = &planned.part;
        let span = tracing::info_span!(
            "summarize_handoff_part",
            first_seq = part.first_seq,
            last_seq = part.last_seq
        );
        let started = Instant::now();
        let answer =
            call_model(self.model, &planned.request(limits), self.step.cancel).instrument(span).await;
        let duration = started.elapsed();
        let usage = answer.as_ref().ok().and_then(|answer| answer.usage).unwrap_or_default();
        let (outcome, summary) = match &answer {
            Err(DraftError::Stopped) => return Ok((PartOutcome::Stopped, usage)),
            Err(error) => (PartOutcome::Failed(error.to_string()), String::new()),
            Ok(answer) => {
                match complete_text(answer).and_then(|text| read_notes(&text, part, limits.summary_tokens)) {
                    Ok(notes) => (PartOutcome::Summarized(notes.clone()), notes),
                    Err(error) => (PartOutcome::Unusable(error.to_string()), String::new()),
                }
            }
        };
        let problem = match &outcome {
            PartOutcome::Unusable(reason) | PartOutcome::Failed(reason) => Some(reason.clone()),
            PartOutcome::Summarized(_) | PartOutcome::Stopped => None,
        };
        let is_stored = problem.is_none();
        let called = ModelCalled {
            purpose: ModelCallPurpose::HandoffPart,
            handoff_id: Some(self.handoff.handoff_id),
            model: Some(self.model.name().to_string()),
            usage: Some(usage),
            prompt_sha256: Some(protocol::sha256_hex(INSTRUCTIONS)),
            problem,
            trace: Some(self.trace.to_draft_trace()?),
            continuity: None,
            part: Some(SummarizedPart { first_seq: part.first_seq, last_seq: part.last_seq, summary }),
        };
        let event = NewEvent::from_body(&called, Timestamp::now())?.with_duration(duration)?;
        // Only a usable summary has the key, so that a later draft tries a failed part again.
        let event = if is_stored { event.with_key(&planned.event_key) } else { event };
        // The next part is read only when this one cannot be lost any more.
        self.step.early_commits.commit_durably(vec![event], Vec::new()).await;
        Ok((outcome, usage))
    }

    /// Returns the offline summary of a part, one line for each item.
    async fn extract(&self, part: &ConversationPart, tokens_max: u64) -> Result<String, StepFailure> {
        let mut collector = FactCollector::default();
        let mut after = part.first_seq.saturating_sub(1);
        while after < part.last_seq {
            let query = EventQuery::after(after, PART_PAGE_ROWS);
            let page = self.step.store.events(self.step.thread_id, query).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in page.iter().filter(|event| event.seq <= part.last_seq) {
                collector.push(&TranscriptItem::from_event(event));
            }
        }
        let summary = build_offline_summary(&collector.finish(), None, tokens_max);
        let lines = summary.body.iter().map(|item| {
            let seq = item.refs.first().unwrap_or(&part.first_seq);
            untrusted_text::neutralize_line(&format!("[{seq}] {}", normalize_line(&redact(&item.text))))
        });
        let names = summary.carried.in_use.join(", ");
        let names = redact(&names);
        let names = (!names.is_empty())
            .then(|| untrusted_text::neutralize_line(&format!("[{}] In use: {names}", part.first_seq)));
        Ok(lines.chain(names).collect::<Vec<_>>().join("\n"))
    }
}

/// Returns the summary that an earlier call has stored under this key, also if a rewind has superseded its event.
async fn read_stored_summary(
    thread: ThreadSource<'_>,
    event_key: &str,
) -> Result<Option<String>, StepFailure> {
    let Some(seq) = thread.store.seq_of_event_key(thread.thread_id, event_key).await? else {
        return Ok(None);
    };
    let query = EventQuery {
        categories: vec![Category::Trace],
        superseded: SupersededVisibility::Shown,
        ..EventQuery::after(seq.saturating_sub(1), 1)
    };
    let events = thread.store.events(thread.thread_id, query).await?;
    let called = events.first().filter(|event| event.seq == seq).and_then(|event| event.body().ok());
    Ok(called.and_then(|called: ModelCalled| called.part).map(|part| part.summary))
}

/// Returns the rendered system prompt.
fn render_instructions(prompt: &PartPrompt) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.render_str(INSTRUCTIONS, minijinja::Value::from(minijinja::value::Serde(prompt)))
}

/// Returns the notes of an answer about a part, each with the messages of the part it rests on in brackets, within
/// `tokens_max` tokens. Lines without such a message are left out, because nothing shows that the part contains them.
///
/// # Errors
///
/// [`DraftError::Unusable`] when no note is left.
fn read_notes(text: &str, part: &ConversationPart, tokens_max: u64) -> Result<String, DraftError> {
    let mut remaining = tokens_max;
    let mut notes: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((numbers, note)) = split_note(line) else { continue };
        let seqs = numbers.into_iter().filter(|seq| part.messages.binary_search(seq).is_ok());
        let refs: Vec<String> = seqs.map(|seq| format!("[{seq}]")).collect();
        let note = normalize_line(&redact(note));
        if refs.is_empty() || note.is_empty() {
            continue;
        }
        let line = untrusted_text::neutralize_line(&format!("{} {note}", refs.join(" ")));
        let cost = tokens::estimate_tokens(&line) + 1;
        if cost > remaining {
            if notes.is_empty() {
                let chars = usize::try_from(remaining * tokens::CHARS_PER_TOKEN).unwrap_or(usize::MAX);
                notes.push(truncate_with_ellipsis(&line, chars));
            }
            break;
        }
        remaining -= cost;
        notes.push(line);
    }
    match notes.is_empty() {
        true => Err(DraftError::Unusable("no line of it refers to a message".to_owned())),
        false => Ok(notes.join("\n")),
    }
}

/// Splits a line such as `- [12, 14] The build failed.` into its numbers and its text; `None` for another line.
fn split_note(line: &str) -> Option<(Vec<Seq>, &str)> {
    let mut rest = line.trim().trim_start_matches(['-', '*', '•']).trim_start();
    let mut numbers = Vec::new();
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let found =
            inside.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<Seq>().ok());
        let known = numbers.len();
        numbers.extend(found);
        if numbers.len() == known {
            break;
        }
        rest = after.trim_start();
    }
    (!numbers.is_empty()).then_some((numbers, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> ConversationPart {
        ConversationPart { first_seq: 3, last_seq: 9, messages: vec![3, 5, 9], text: String::new() }
    }

    #[test]
    fn a_note_names_a_message_of_its_part() {
        for (text, expected) in [
            (
                "[3] The person asks for tests.\n[5] They pass.",
                "[3] The person asks for tests.\n[5] They pass.",
            ),
            ("Here are the notes:\n\n- [3, 5] Done.\n* [9][5] Open.", "[3] [5] Done.\n[9] [5] Open."),
            ("[4] Not a message.\n[9, 400] One is.", "[9] One is."),
        ] {
            assert_eq!(read_notes(text, &part(), 200).unwrap(), expected, "{text}");
        }
        let notes = read_notes("[9] A </conversation> tag.", &part(), 200).unwrap();
        assert!(notes.starts_with("[9] A ") && !notes.contains("</conversation>"), "{notes}");
        for text in
            ["", "I cannot help with that.", "[x] No number.", "[4] Not a message.", "{\"error\":[3]}"]
        {
            assert!(read_notes(text, &part(), 200).is_err(), "{text}");
        }
    }

    #[test]
    fn notes_stay_within_their_budget() {
        let text: String = (0..100).map(|n| format!("[3] Note number {n} about the importer.\n")).collect();
        let notes = read_notes(&text, &part(), 100).unwrap();
        assert!(tokens::estimate_tokens(&notes) <= 100 && notes.lines().count() > 5, "{notes}");
        let long = format!("[3] {}", "word ".repeat(2_000));
        assert!(tokens::estimate_tokens(&read_notes(&long, &part(), 100).unwrap()) <= 101);
    }

    #[test]
    fn the_prompt_matches_its_reviewed_snapshot() {
        insta::assert_snapshot!(
            "part_instructions",
            render_instructions(&PartPrompt { max_part_tokens: 800 }).unwrap()
        );
    }

    #[test]
    fn the_limits_follow_the_input_of_a_call() {
        let limits = |input_tokens, calls_max| PartLimits::new(input_tokens, calls_max);
        let large = PartLimits { input_tokens: 48_000, parts: 16, summary_tokens: 800 };
        assert_eq!(limits(48_000, 16), Some(large));
        let small = PartLimits { input_tokens: 4_000, parts: 8, summary_tokens: 150 };
        assert_eq!(limits(4_000, 16), Some(small));
        assert_eq!((limits(4_000, 0), limits(400, 16)), (None, None));
    }
}
