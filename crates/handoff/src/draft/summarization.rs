//! The node that drafts a proposal: select → draft → structure → ground → render, and its result as values. It has
//! no side effect; the proposal is stored by the step's commit, before anyone is asked.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use model::ChatModel;
use protocol::{
    Coverage, EventType, Handoff, HandoffSummary, NewEvent, Proposal, SCHEMA_VERSION, SummaryItem,
    ToolStatus, Usage,
};
use runtime::{Channels, Failure, FailureKind, Frame, Node, StepContext, Update};
use serde_json::{Value, json};
use tracing::Instrument;

use crate::draft::trace::Trace;
use crate::draft::window::Reading;
use crate::draft::window::folds::{Folds, Known, Part};
use crate::draft::{self, DraftError, DraftInput, Drafted};
use crate::lifecycle::{Step, moved};
use crate::limits::INPUT_TOKENS_MAX;
use crate::request::{Asker, Metadata, Problem, cleared, keys};
use crate::sha256_hex;
use crate::summary::files::referenced_files;
use crate::summary::render;
use crate::summary::select::Selection;
use crate::tool::{self, RESULT_NODE};
use ledger::redact;

/// The name of the node that drafts.
pub const SUMMARIZATION_NODE: &str = "handoff_summarization";

/// The most tokens of a conversation a model is shown for one draft, however large its window: beyond it, what is
/// selected gets worse and not better (see the measurements on long inputs in the design notes).
const MODEL_INPUT_TOKENS_MAX: u64 = 48_000;
/// The part of a model's window a draft may fill.
const WINDOW_SHARE: u64 = 4;
/// The name of the offline summary in the place of a model's.
pub const EXTRACTIVE: &str = "extractive";

/// Opens a model by its name, `provider/name`; the error is one line that says why it cannot be used.
pub type OpenModel = dyn Fn(&str) -> Result<Arc<dyn ChatModel>, String> + Send + Sync;

/// How drafts are made.
#[derive(Clone)]
pub struct Drafting {
    /// The model; without one, and when it fails, the offline extract.
    pub model: Option<Arc<dyn ChatModel>>,
    /// Opens another one that a person names.
    pub open_model: Arc<OpenModel>,
    /// The summary's budget in tokens.
    pub max_summary_tokens: u64,
    /// The most tokens of the conversation a model is shown; `None` follows its window.
    pub max_input_tokens: Option<u64>,
    /// What is known of the threads that were drafted last; one for all that draft.
    pub folds: Arc<Folds>,
}

/// The edge into a handoff: to the draft that was asked for, or to the question when there is a proposal.
pub fn entry(channels: &Channels) -> Option<&'static str> {
    let is_drafted = channels.contains_key(keys::PROPOSAL) && !is_redraft(channels);
    match channels.contains_key(keys::METADATA) {
        true if is_drafted => Some(crate::review::approval::APPROVAL_NODE),
        true => Some(SUMMARIZATION_NODE),
        false => None,
    }
}

/// The edge after a decision: back to another draft; to the tool call that asked, if one did; otherwise the graph is idle.
pub fn after_decision(channels: &Channels) -> Option<&'static str> {
    if is_redraft(channels) {
        return Some(SUMMARIZATION_NODE);
    }
    channels.contains_key(keys::ASKER).then_some(RESULT_NODE)
}

/// The edge after a draft: to the question, unless a person stopped it.
pub fn after_draft(channels: &Channels) -> Option<&'static str> {
    channels.contains_key(keys::METADATA).then_some(crate::review::approval::APPROVAL_NODE)
}

fn is_redraft(channels: &Channels) -> bool {
    channels.contains_key(keys::FEEDBACK) || channels.contains_key(keys::REDRAFT)
}

impl Drafting {
    /// Returns the most tokens of a conversation that the model is shown.
    fn input_tokens(&self, model: &Arc<dyn ChatModel>) -> u64 {
        let by_window = model
            .limits()
            .context_tokens
            .map(|tokens| (tokens / WINDOW_SHARE).clamp(INPUT_TOKENS_MAX, MODEL_INPUT_TOKENS_MAX));
        self.max_input_tokens.or(by_window).unwrap_or(INPUT_TOKENS_MAX)
    }

    /// Returns the model of that name; `None` for the offline extract.
    pub(crate) fn named(&self, name: &str) -> Result<Option<Arc<dyn ChatModel>>, String> {
        if name == EXTRACTIVE {
            return Ok(None);
        }
        let is_own = |model: &&Arc<dyn ChatModel>| model.name().to_string() == name;
        match self.model.as_ref().filter(is_own) {
            Some(own) => Ok(Some(Arc::clone(own))),
            None => (self.open_model)(name).map(Some),
        }
    }

    /// Returns what drafts in this state: the model a person chose, else the one that is configured.
    fn chosen(&self, channels: &Channels) -> Result<Option<Arc<dyn ChatModel>>, String> {
        let redraft = channels.get(keys::REDRAFT).and_then(|redraft| redraft.get("model"));
        let named = redraft.filter(|name| !name.is_null()).or_else(|| channels.get(keys::MODEL));
        match named.and_then(Value::as_str) {
            Some(name) => self.named(name),
            None => Ok(self.model.clone()),
        }
    }
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

/// What came of asking a model.
enum Attempt {
    Drafted(Box<Draft>),
    /// It gave nothing usable: why, in one line.
    Failed(String),
    /// A person stopped it.
    Stopped,
}

#[async_trait]
impl Node for HandoffSummarization {
    fn name(&self) -> &'static str {
        SUMMARIZATION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let (metadata, handoff) = read(&step).await?;
        if step.cancel.is_cancelled() {
            return match is_redraft(step.channels) {
                true => unchanged(&step, &handoff, Update::default(), None),
                false => stopped(&step, &handoff, Update::default()),
            };
        }
        let chosen = self.drafting.chosen(step.channels);
        let tokens_max = chosen
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map_or(0, |model| self.drafting.input_tokens(model));
        let goal = metadata.options.goal.as_deref().map(redact);
        let part = Part { messages: metadata.options.messages, goal: goal.as_deref(), tokens_max };
        let known = self.drafting.folds.known(Reading::of(&step), part).await?;
        let mut update = Update::default();
        let attempt = match chosen {
            Ok(Some(model)) => {
                let input = self.input(&step, &metadata, known.selection(tokens_max));
                let asking = Asking { step: &step, metadata: &metadata, handoff: &handoff, model: &model };
                Some(asking.attempt(input, &mut update).await?)
            }
            Ok(None) => None,
            Err(problem) => Some(Attempt::Failed(problem)),
        };
        let is_again = is_redraft(step.channels);
        let (draft, problem) = match attempt {
            Some(Attempt::Drafted(draft)) => (*draft, None),
            Some(Attempt::Failed(cause)) if is_again => {
                return unchanged(&step, &handoff, update, Some(&cause));
            }
            Some(Attempt::Failed(cause)) => {
                (self.extracted(&known, &metadata), Some(told_failure(&step, &cause)))
            }
            None => (self.extracted(&known, &metadata), None),
            Some(Attempt::Stopped) if is_again => return unchanged(&step, &handoff, update, None),
            Some(Attempt::Stopped) => return stopped(&step, &handoff, update),
        };
        let is_extract = draft.model == EXTRACTIVE;
        let mut summary = assemble(&metadata, &handoff, &step, draft, &known);
        // The extract names nothing that is not from the covered events, which the tests prove.
        if !is_extract {
            let workspace = metadata.options.workspace.as_deref();
            let words = feedback_given(step.channels);
            let checked = known.ground(Reading::of(&step), &mut summary, workspace, &words).await;
            if let Err(failure) = checked {
                // The draft is paid for: it is shown, and nothing in it counts as checked.
                let text = format!("failed to check the draft: {failure}");
                step.frames.send(Frame::Notice { text });
                summary.body.iter_mut().for_each(|item| item.verified = false);
            }
        }
        look_at_files(&metadata, &mut summary).await;
        let render::Fitted { summary, cut } = render::fit(summary, self.budget(&metadata));
        if let Some(render::Cut { tokens_before, tokens_after }) = cut {
            let content = json!({
                "handoff_id": handoff.handoff_id, "tokens_before": tokens_before, "tokens_after": tokens_after,
            });
            update.events.push(NewEvent::new(EventType::HandoffTruncated, &content, Timestamp::now())?);
        }
        let problem = problem.map(|problem| Problem { problem, unused_feedback: None });
        update.channels.insert(keys::PROBLEM.to_owned(), json!(problem));
        propose(&step, &handoff, summary, update)
    }
}

impl HandoffSummarization {
    fn budget(&self, metadata: &Metadata) -> u64 {
        metadata.options.max_summary_tokens.unwrap_or(self.drafting.max_summary_tokens)
    }

    /// Returns what the model is asked with.
    fn input(&self, step: &StepContext<'_>, metadata: &Metadata, selection: Selection) -> Input {
        let prompt = DraftInput {
            goal: metadata.options.goal.clone(),
            facts: selection.ledger,
            summary_so_far: selection.summary_so_far,
            requests: selection.requests,
            conversation: selection.events,
            previous_summary: text(step.channels, keys::PREVIOUS_SUMMARY),
            feedback: text(step.channels, keys::FEEDBACK),
            earlier_feedback: earlier_feedback(step.channels),
            max_summary_tokens: self.budget(metadata),
        };
        Input { prompt, coverage: selection.coverage }
    }

    fn extracted(&self, known: &Known, metadata: &Metadata) -> Draft {
        let (extract, coverage) = known.extract(self.budget(metadata));
        Draft {
            title: extract.title,
            tldr: extract.tldr,
            body: extract.body,
            model: EXTRACTIVE.to_owned(),
            usage: Usage::default(),
            coverage,
        }
    }
}

/// What a model is shown, and what that covers.
struct Input {
    prompt: DraftInput,
    coverage: Coverage,
}

/// One call of a model.
struct Asking<'a> {
    step: &'a StepContext<'a>,
    metadata: &'a Metadata,
    handoff: &'a Handoff,
    model: &'a Arc<dyn ChatModel>,
}

impl Asking<'_> {
    /// Asks, once. The record of the call is in `update` whatever came of it.
    async fn attempt(&self, input: Input, update: &mut Update) -> Result<Attempt, Failure> {
        let name = self.model.name().to_string();
        self.step.frames.send(Frame::Progress { what: format!("draft with {name}"), done: 0, total: None });
        let trace = Trace::of(self.handoff, input.prompt.feedback.as_deref());
        let begun = Instant::now();
        let drafted =
            draft::draft(self.model, &input.prompt, self.step.cancel).instrument(trace.span()).await;
        let took = begun.elapsed();
        let (drafted, problem) = match drafted {
            Ok(drafted) => (Some(drafted), None),
            Err(DraftError::Stopped) => return Ok(Attempt::Stopped),
            Err(error @ (DraftError::Prompt(_) | DraftError::Record(_))) => {
                return Err(Failure::new(FailureKind::Internal, error.to_string()));
            }
            Err(error @ (DraftError::Model(_) | DraftError::Unusable(_))) => (None, Some(error.to_string())),
        };
        let usage = drafted.as_ref().and_then(|drafted| drafted.answer.usage).unwrap_or_default();
        update.usage = usage;
        let content = json!({
            "purpose": "handoff_summary", "handoff_id": self.metadata.handoff_id, "model": name, "usage": usage,
            "prompt_sha256": draft::prompt_sha256(), "error": problem, "trace": trace,
        });
        update
            .events
            .push(NewEvent::new(EventType::ModelCalled, &content, Timestamp::now())?.that_took(took)?);
        let coverage = input.coverage;
        Ok(match (drafted, problem) {
            (Some(Drafted { title, tldr, body, .. }), _) => {
                Attempt::Drafted(Box::new(Draft { title, tldr, body, model: name, usage, coverage }))
            }
            (None, problem) => Attempt::Failed(problem.unwrap_or_default()),
        })
    }
}

/// Tells at once why a model's draft is missing, and returns the line.
fn told_failure(step: &StepContext<'_>, cause: &str) -> String {
    let problem = format!("summarization failed: {cause}");
    step.frames.send(Frame::Notice { text: problem.clone() });
    problem
}

/// Looks at the files that a summary for a goal names; one that cannot be looked at is left out.
async fn look_at_files(metadata: &Metadata, summary: &mut HandoffSummary) {
    let (Some(_), Some(workspace)) = (&metadata.options.goal, metadata.options.workspace.clone()) else {
        return;
    };
    let named = summary.clone();
    let looked = tokio::task::spawn_blocking(move || referenced_files(&named, &workspace)).await;
    summary.carry_over.referenced_files = looked.unwrap_or_default();
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
        carry_over: known.carry_over(),
    }
}

/// The step's result: the proposal, its status and its event, durable together.
fn propose(
    step: &StepContext<'_>,
    handoff: &Handoff,
    summary_json: HandoffSummary,
    mut update: Update,
) -> Result<Update, Failure> {
    let now = Timestamp::now();
    let summary_md = render::render(&summary_json);
    let proposal = Proposal {
        handoff_id: handoff.handoff_id,
        iteration: handoff.iteration,
        summary_json,
        summary_sha256: sha256_hex(summary_md.as_bytes()),
        summary_md,
        feedback: text(step.channels, keys::FEEDBACK),
        created_at: now,
    };
    update.events.push(NewEvent::new(EventType::HandoffProposed, &told(&proposal), now)?);
    update.channels.insert(keys::PROPOSAL.to_owned(), told(&proposal));
    update.channels.extend(worked_in());
    update.writes.push(Write::PutProposal(proposal));
    let patch = HandoffPatch { run_id: Some(step.run_id), ..HandoffPatch::default() };
    update.writes.push(moved(handoff, Step::Propose, patch, now)?);
    Ok(update)
}

/// Returns what the state says of a proposal.
pub(crate) fn told(proposal: &Proposal) -> Value {
    json!({
        "handoff_id": proposal.handoff_id, "iteration": proposal.iteration,
        "summary_sha256": proposal.summary_sha256,
    })
}

/// Returns the channels that end what the newest draft was asked for.
fn worked_in() -> Channels {
    let keys = [keys::FEEDBACK, keys::PREVIOUS_SUMMARY, keys::REDRAFT];
    keys.into_iter().map(|key| (key.to_owned(), Value::Null)).collect()
}

/// Another draft that was stopped or gave nothing usable: the last good proposal waits again, and why is told.
fn unchanged(
    step: &StepContext<'_>,
    handoff: &Handoff,
    mut update: Update,
    cause: Option<&str>,
) -> Result<Update, Failure> {
    let iteration = Some(handoff.iteration.saturating_sub(1));
    let patch = HandoffPatch { iteration, ..HandoffPatch::default() };
    update.writes.push(moved(handoff, Step::Propose, patch, Timestamp::now())?);
    let unused_feedback = text(step.channels, keys::FEEDBACK);
    let problem = cause.map(|cause| Problem { problem: told_failure(step, cause), unused_feedback });
    update.channels.extend(worked_in());
    update.channels.insert(keys::PROBLEM.to_owned(), json!(problem));
    Ok(update)
}

/// A first draft that a person stopped: nothing of the handoff stays but what the journal tells of it.
fn stopped(step: &StepContext<'_>, handoff: &Handoff, mut update: Update) -> Result<Update, Failure> {
    let now = Timestamp::now();
    let content = json!({"handoff_id": handoff.handoff_id, "reason": "the draft was stopped"});
    update.events.push(NewEvent::new(EventType::HandoffFailed, &content, now)?);
    update.writes.push(Write::ForgetHandoff { handoff_id: handoff.handoff_id });
    update.channels.extend(cleared());
    if let Some(asker) = Asker::read(step.channels) {
        update.merge(tool::answered(&asker, ToolStatus::Error, tool::STOPPED.to_owned(), now)?);
    }
    Ok(update)
}

async fn read(step: &StepContext<'_>) -> Result<(Metadata, Handoff), Failure> {
    let lost = || Failure::new(FailureKind::Internal, "find the handoff that is to be drafted");
    let metadata = Metadata::read(step.channels).ok_or_else(lost)?;
    let handoff = step.store.handoff(metadata.handoff_id).await?.ok_or_else(lost)?;
    Ok((metadata, handoff))
}

/// Returns all feedback that was given on the drafts of a handoff.
fn feedback_given(channels: &Channels) -> Vec<&str> {
    let history = channels.get(keys::REFINEMENT_HISTORY).and_then(Value::as_array);
    history.into_iter().flatten().filter_map(|entry| entry.get("feedback")?.as_str()).collect()
}

/// Returns the feedback of earlier refinements, one a line; the newest one is told apart.
fn earlier_feedback(channels: &Channels) -> Option<String> {
    let history = channels.get(keys::REFINEMENT_HISTORY)?.as_array()?;
    let (_, earlier) = history.split_last().filter(|_| channels.contains_key(keys::FEEDBACK))?;
    let lines: Vec<String> = earlier
        .iter()
        .filter_map(|entry| entry.get("feedback")?.as_str())
        .map(|feedback| format!("- {}", feedback.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn text(channels: &Channels, key: &str) -> Option<String> {
    channels.get(key).and_then(Value::as_str).map(str::to_owned)
}
