//! The node that drafts a proposal: select → draft → structure → ground → render, and its result as values. It has
//! no side effect; the proposal is stored by the step's commit, before anyone is asked.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use model::ChatModel;
use protocol::{
    Coverage, EventType, Handoff, HandoffStatus, HandoffSummary, NewEvent, Proposal, SCHEMA_VERSION,
    SummaryItem, Usage,
};
use runtime::{Channels, Failure, FailureKind, Frame, Node, StepContext, Update};
use serde_json::{Value, json};

use crate::draft::window::{Known, Window};
use crate::draft::{self, DraftError, DraftInput, Drafted};
use crate::lifecycle::{self, Step};
use crate::limits::INPUT_TOKENS_MAX;
use crate::request::{Metadata, cleared, keys};
use crate::sha256_hex;
use crate::summary::ground::Grounding;
use crate::summary::select::Selector;
use crate::summary::{extract, render};
use memory::redact;

/// The name of the node that takes up a request.
pub const REQUEST_NODE: &str = "handoff_request";
/// The name of the node that drafts.
pub const SUMMARIZATION_NODE: &str = "handoff_summarization";

/// The most tokens of a conversation a model is shown for one draft, however large its window: beyond it, what is
/// selected gets worse and not better (see the measurements on long inputs in the design notes).
const MODEL_INPUT_TOKENS_MAX: u64 = 48_000;
/// The part of a model's window a draft may fill.
const WINDOW_SHARE: u64 = 4;
/// The name of the offline summary in the place of a model's.
pub const EXTRACTIVE: &str = "extractive";

/// How drafts are made.
#[derive(Clone)]
pub struct Drafting {
    /// The model; without one, and when it fails, the offline extract.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The summary's budget in tokens.
    pub max_summary_tokens: u64,
    /// The most tokens of the conversation a model is shown; `None` follows its window.
    pub max_input_tokens: Option<u64>,
}

/// Takes up a request: from here on a draft is being made.
pub struct HandoffRequestNode;

#[async_trait]
impl Node for HandoffRequestNode {
    fn name(&self) -> &'static str {
        REQUEST_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let (_, handoff) = read(&step).await?;
        let mut update = Update::default();
        if handoff.status == HandoffStatus::Requested {
            let patch = HandoffPatch { run_id: Some(step.run_id), ..HandoffPatch::default() };
            update.writes.push(moved(&handoff, Step::Draft, patch, Timestamp::now())?);
        }
        Ok(update)
    }
}

/// The edge into a handoff: to the draft that was asked for, or to the question when there is a proposal.
pub fn entry(channels: &Channels) -> Option<&'static str> {
    if channels.contains_key(keys::FEEDBACK) {
        return Some(SUMMARIZATION_NODE);
    }
    if channels.contains_key(keys::PROPOSAL) {
        return Some(crate::review::approval::APPROVAL_NODE);
    }
    channels.contains_key(keys::METADATA).then_some(REQUEST_NODE)
}

/// The edge after a decision: back to the draft with feedback, otherwise the graph is idle.
pub fn after_decision(channels: &Channels) -> Option<&'static str> {
    channels.contains_key(keys::FEEDBACK).then_some(SUMMARIZATION_NODE)
}

/// Drafts a proposal.
pub struct HandoffSummarization {
    /// How.
    pub drafting: Drafting,
}

/// A draft, by whomever.
struct Draft {
    title: String,
    tldr: String,
    body: Vec<SummaryItem>,
    model: String,
    usage: Usage,
    coverage: Coverage,
}

#[async_trait]
impl Node for HandoffSummarization {
    fn name(&self) -> &'static str {
        SUMMARIZATION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let (metadata, handoff) = read(&step).await?;
        let budget = metadata.options.max_summary_tokens.unwrap_or(self.drafting.max_summary_tokens);
        let window = Window::of(&step, metadata.options.messages).await?;
        let known = window.known(&step).await?;
        let feedback = text(step.channels, keys::FEEDBACK);
        let mut update = Update::default();
        let drafted = match &self.drafting.model {
            Some(model) => {
                let input = self.input(&step, &metadata, &window, &known, budget).await?;
                with_model(&step, model, &metadata, input, &mut update).await
            }
            None => Ok(None),
        };
        let draft = match drafted {
            Ok(Some(draft)) => draft,
            Ok(None) if feedback.is_some() => return unrefined(&handoff, update),
            Ok(None) => extracted(&known, &metadata, budget),
            Err(DraftError::Stopped) if feedback.is_some() => return unrefined(&handoff, update),
            Err(DraftError::Stopped) => return stopped(&handoff, update),
            Err(error) => return Err(Failure::new(FailureKind::Internal, error.to_string())),
        };
        let is_extract = draft.model == EXTRACTIVE;
        let mut summary = assemble(&metadata, &handoff, &step, draft, &known);
        if !is_extract {
            let mut grounding = Grounding::new(&summary);
            let checked = window.each(&step, "check the draft", |item| grounding.see(item)).await;
            checked.map_err(|failure| failure.keeping(std::mem::take(&mut update)))?;
            grounding.finish(&mut summary);
        }
        let (summary, cut) = render::fit(summary, budget);
        if cut {
            let content = json!({"handoff_id": handoff.handoff_id, "tokens_max": budget});
            update.events.push(NewEvent::new(EventType::HandoffTruncated, &content, Timestamp::now())?);
        }
        propose(&handoff, summary, feedback, update)
    }
}

impl HandoffSummarization {
    /// Selects what the model is shown.
    async fn input(
        &self,
        step: &StepContext<'_>,
        metadata: &Metadata,
        window: &Window,
        known: &Known,
        max_summary_tokens: u64,
    ) -> Result<Input, Failure> {
        let limits = self.drafting.model.as_ref().and_then(|model| model.limits().context_tokens);
        let by_window =
            limits.map(|tokens| (tokens / WINDOW_SHARE).clamp(INPUT_TOKENS_MAX, MODEL_INPUT_TOKENS_MAX));
        let tokens_max = self.drafting.max_input_tokens.or(by_window).unwrap_or(INPUT_TOKENS_MAX);
        let mut selector = Selector::new(0, tokens_max);
        window.each(step, "select", |item| selector.see(item)).await?;
        let selection = selector.finish(&known.facts, metadata.options.goal.as_deref());
        let prompt = DraftInput {
            goal: metadata.options.goal.clone(),
            facts: selection.ledger,
            summary_so_far: selection.summary_so_far,
            requests: selection.requests,
            conversation: selection.events,
            previous_summary: text(step.channels, keys::PREVIOUS_SUMMARY),
            feedback: text(step.channels, keys::FEEDBACK),
            max_summary_tokens,
        };
        Ok(Input { prompt, coverage: selection.coverage })
    }
}

/// What a model is shown, and what that covers.
struct Input {
    prompt: DraftInput,
    coverage: Coverage,
}

/// Asks the model. `None` when it gave nothing usable; the record of the call is in `update` either way.
async fn with_model(
    step: &StepContext<'_>,
    model: &Arc<dyn ChatModel>,
    metadata: &Metadata,
    input: Input,
    update: &mut Update,
) -> Result<Option<Draft>, DraftError> {
    let name = model.name().to_string();
    step.frames.send(Frame::Progress { what: format!("draft with {name}"), done: 0, total: None });
    let (drafted, problem) = match draft::draft(model, &input.prompt, step.cancel).await {
        Ok(drafted) => (Some(drafted), None),
        Err(error @ (DraftError::Stopped | DraftError::Prompt(_) | DraftError::Record(_))) => {
            return Err(error);
        }
        Err(error @ (DraftError::Model(_) | DraftError::Unusable(_))) => (None, Some(error.to_string())),
    };
    let usage = drafted.as_ref().and_then(|drafted| drafted.answer.usage).unwrap_or_default();
    update.usage = usage;
    let content = json!({
        "purpose": "handoff_summary", "handoff_id": metadata.handoff_id, "model": name, "usage": usage,
        "prompt_sha256": draft::prompt_sha256(), "error": problem,
    });
    update.events.push(NewEvent::new(EventType::ModelCalled, &content, Timestamp::now())?);
    if let Some(problem) = problem {
        step.frames.send(Frame::Notice {
            text: format!("failed to {problem}; the model is left out of this draft"),
        });
    }
    Ok(drafted.map(|Drafted { title, tldr, body, .. }| Draft {
        title,
        tldr,
        body,
        model: name,
        usage,
        coverage: input.coverage,
    }))
}

fn extracted(known: &Known, metadata: &Metadata, budget: u64) -> Draft {
    let goal = metadata.options.goal.as_deref().map(redact);
    let extract = extract::extract(&known.facts, goal.as_deref(), budget);
    Draft {
        title: extract.title,
        tldr: extract.tldr,
        body: extract.body,
        model: EXTRACTIVE.to_owned(),
        usage: Usage::default(),
        coverage: known.coverage.clone(),
    }
}

fn assemble(
    metadata: &Metadata,
    handoff: &Handoff,
    step: &StepContext<'_>,
    draft: Draft,
    known: &Known,
) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        child_thread_id: None,
        title: draft.title,
        tldr: draft.tldr,
        body: draft.body,
        model: draft.model,
        model_run_id: Some(step.run_id),
        tokens_used: draft.usage.total_tokens(),
        iteration: handoff.iteration,
        created_at: metadata.created_at,
        coverage: draft.coverage,
        carry_over: extract::carry_over(&known.facts),
    }
}

/// The step's result: the proposal, its status and its event, durable together.
fn propose(
    handoff: &Handoff,
    summary_json: HandoffSummary,
    feedback: Option<String>,
    mut update: Update,
) -> Result<Update, Failure> {
    let now = Timestamp::now();
    let summary_md = render::render(&summary_json);
    let summary_sha256 = sha256_hex(summary_md.as_bytes());
    let told = json!({
        "handoff_id": handoff.handoff_id, "iteration": handoff.iteration, "summary_sha256": summary_sha256,
    });
    update.events.push(NewEvent::new(EventType::HandoffProposed, &told, now)?);
    update.channels.insert(keys::PROPOSAL.to_owned(), told);
    update.channels.insert(keys::FEEDBACK.to_owned(), Value::Null);
    update.channels.insert(keys::PREVIOUS_SUMMARY.to_owned(), Value::Null);
    update.writes.push(Write::PutProposal(Proposal {
        handoff_id: handoff.handoff_id,
        iteration: handoff.iteration,
        summary_json,
        summary_md,
        summary_sha256,
        feedback,
        created_at: now,
    }));
    update.writes.push(moved(handoff, Step::Propose, HandoffPatch::default(), now)?);
    Ok(update)
}

/// A refinement that was stopped or gave nothing usable: the last good proposal waits again.
fn unrefined(handoff: &Handoff, mut update: Update) -> Result<Update, Failure> {
    let patch =
        HandoffPatch { iteration: Some(handoff.iteration.saturating_sub(1)), ..HandoffPatch::default() };
    update.writes.push(moved(handoff, Step::Propose, patch, Timestamp::now())?);
    update.channels.insert(keys::FEEDBACK.to_owned(), Value::Null);
    update.channels.insert(keys::PREVIOUS_SUMMARY.to_owned(), Value::Null);
    Ok(update)
}

/// A draft that a person stopped: the handoff is over, and another can be asked for.
fn stopped(handoff: &Handoff, mut update: Update) -> Result<Update, Failure> {
    let now = Timestamp::now();
    let reason = "the draft was stopped";
    let content = json!({"handoff_id": handoff.handoff_id, "reason": reason});
    update.events.push(NewEvent::new(EventType::HandoffFailed, &content, now)?);
    let patch = HandoffPatch { note: Some(reason.to_owned()), ..HandoffPatch::default() };
    update.writes.push(moved(handoff, Step::Fail, patch, now)?);
    update.channels.extend(cleared());
    Ok(update)
}

fn moved(handoff: &Handoff, step: Step, patch: HandoffPatch, at: Timestamp) -> Result<Write, Failure> {
    let to = lifecycle::next(handoff.status, step)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
    Ok(Write::MoveHandoff { handoff_id: handoff.handoff_id, from: handoff.status, to, patch, at })
}

async fn read(step: &StepContext<'_>) -> Result<(Metadata, Handoff), Failure> {
    let lost = || Failure::new(FailureKind::Internal, "find the handoff that is to be drafted");
    let metadata = Metadata::read(step.channels).ok_or_else(lost)?;
    let handoff = step.store.handoff(metadata.handoff_id).await?.ok_or_else(lost)?;
    Ok((metadata, handoff))
}

fn text(channels: &Channels, key: &str) -> Option<String> {
    channels.get(key).and_then(Value::as_str).map(str::to_owned)
}
