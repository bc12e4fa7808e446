//! The node that drafts a proposal: select → draft → structure → ground → render, and its result as values. It has
//! no side effect; the proposal is stored by the step's commit, before anyone is asked.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use model::ChatModel;
use protocol::event::body::{CallPurpose, HandoffFailed, HandoffProposed, HandoffTruncated, ModelCalled};
use protocol::{
    Coverage, Handoff, HandoffSummary, NewEvent, Proposal, SCHEMA_VERSION, SummaryItem, ToolStatus, Usage,
};
use runtime::{Channels, Failure, FailureKind, Frame, Node, StepContext, Update};
use tracing::Instrument;

use crate::draft::trace::Trace;
use crate::draft::window::Reading;
use crate::draft::window::folds::{Folds, Known, Part};
use crate::draft::{self, DraftError, DraftInput, Drafted};
use crate::lifecycle::{Step, moved};
use crate::limits::INPUT_TOKENS_MAX;
use crate::request::tool::{self, RESULT_NODE};
use crate::request::{ASKER_CHANNEL, Metadata};
use crate::review::approval::APPROVAL_NODE;
use crate::state::{HandoffInProgress, HandoffInput, HandoffState, ProposalRef, Revision, changed, cleared};
use crate::summary::files::referenced_files;
use crate::summary::render;
use crate::summary::select::Selection;
use facts::redact;

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
pub fn entry(channels: &Channels) -> runtime::NextNode {
    Ok(match HandoffState::read(channels)? {
        Some(HandoffState::Requested { .. } | HandoffState::Redrafting { .. }) => Some(SUMMARIZATION_NODE),
        Some(HandoffState::AwaitingDecision { .. }) => Some(APPROVAL_NODE),
        Some(HandoffState::Accepted { .. } | HandoffState::Declined | HandoffState::Previewed) | None => None,
    })
}

/// The edge after a decision: back to another draft; to the tool call that asked, if one did; otherwise the graph is idle.
pub fn after_decision(channels: &Channels) -> runtime::NextNode {
    let is_revised = HandoffState::read(channels)?.is_some_and(|state| state.revision().is_some());
    Ok(match is_revised {
        true => Some(SUMMARIZATION_NODE),
        false => ASKER_CHANNEL.is_set(channels).then_some(RESULT_NODE),
    })
}

/// The edge after a draft: to the question, unless a person stopped it.
pub fn after_draft(channels: &Channels) -> runtime::NextNode {
    let is_pending = HandoffState::read(channels)?.is_some_and(|state| state.in_progress().is_some());
    Ok(is_pending.then_some(APPROVAL_NODE))
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
    fn chosen(&self, work: &DraftWork) -> Result<Option<Arc<dyn ChatModel>>, String> {
        let named = match &work.revision {
            Some(Revision::Redraft { model }) => model.as_ref(),
            Some(Revision::Refine(_)) | None => None,
        };
        match named.or(work.in_progress.model.as_ref()) {
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
    Stopped,
}

#[async_trait]
impl Node for HandoffSummarization {
    fn name(&self) -> &'static str {
        SUMMARIZATION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let Some(work) = DraftWork::read(&step).await? else { return Ok(Update::default()) };
        let metadata = &work.in_progress.metadata;
        if step.cancel.is_cancelled() {
            return work.stopped(&step, Update::default());
        }
        let chosen = self.drafting.chosen(&work);
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
                let input = self.input(&work, known.selection(tokens_max));
                let asking = Asking { step: &step, handoff: &work.handoff, model: &model };
                Some(asking.attempt(input, &mut update).await?)
            }
            Ok(None) => None,
            Err(problem) => Some(Attempt::Failed(problem)),
        };
        let (draft, problem) = match attempt {
            Some(Attempt::Drafted(draft)) => (*draft, None),
            Some(Attempt::Failed(cause)) if work.revision.is_some() => {
                let problem = told_failure(&step, &cause);
                return work.keep_proposal(&step, update, Some(problem));
            }
            Some(Attempt::Failed(cause)) => {
                (self.extracted(&known, metadata), Some(told_failure(&step, &cause)))
            }
            None => (self.extracted(&known, metadata), None),
            Some(Attempt::Stopped) => return work.stopped(&step, update),
        };
        let is_extract = draft.model == EXTRACTIVE;
        let mut summary = assemble(&work, &step, draft, &known);
        // The extract names nothing that is not from the covered events, which the tests prove.
        if !is_extract {
            let workspace = metadata.options.workspace.as_deref();
            let words = work.feedback_given();
            let checked = known.ground(Reading::of(&step), &mut summary, workspace, &words).await;
            if let Err(failure) = checked {
                // The draft is paid for: it is shown, and nothing in it counts as checked.
                let text = format!("failed to check the draft: {failure}");
                step.frames.send(Frame::Notice { text });
                summary.body.iter_mut().for_each(|item| item.verified = false);
            }
        }
        look_at_files(metadata, &mut summary).await;
        let render::Fitted { summary, cut } = render::fit(summary, self.budget(metadata));
        if let Some(render::Cut { tokens_before, tokens_after }) = cut {
            let handoff_id = work.handoff.handoff_id;
            let truncated = HandoffTruncated { handoff_id, tokens_before, tokens_after };
            update.events.push(NewEvent::of(&truncated, Timestamp::now())?);
        }
        work.propose(&step, summary, problem, update)
    }
}

impl HandoffSummarization {
    fn budget(&self, metadata: &Metadata) -> u64 {
        metadata.options.max_summary_tokens.unwrap_or(self.drafting.max_summary_tokens)
    }

    /// Returns what the model is asked with.
    fn input(&self, work: &DraftWork, selection: Selection) -> Input {
        let metadata = &work.in_progress.metadata;
        let (previous_summary, feedback) = match &work.revision {
            Some(Revision::Refine(refinement)) => {
                (Some(refinement.summary_md.clone()), Some(refinement.feedback.clone()))
            }
            Some(Revision::Redraft { .. }) | None => (None, None),
        };
        let prompt = DraftInput {
            goal: metadata.options.goal.clone(),
            facts: selection.ledger,
            summary_so_far: selection.summary_so_far,
            requests: selection.requests,
            conversation: selection.events,
            earlier_feedback: feedback.as_ref().and_then(|_| work.earlier_feedback()),
            previous_summary,
            feedback,
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
        let called = ModelCalled {
            purpose: CallPurpose::HandoffSummary,
            handoff_id: Some(self.handoff.handoff_id),
            model: Some(name.clone()),
            usage: Some(usage),
            prompt_sha256: Some(draft::prompt_sha256().to_owned()),
            problem: problem.clone(),
            trace: Some(trace.noted()?),
        };
        update.events.push(NewEvent::of(&called, Timestamp::now())?.that_took(took)?);
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
    step.frames.send(Frame::AttemptFailed { text: problem.clone() });
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

fn assemble(work: &DraftWork, step: &StepContext<'_>, draft: Draft, known: &Known) -> HandoffSummary {
    let handoff = &work.handoff;
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
        created_at: work.in_progress.metadata.created_at,
        coverage: draft.coverage,
        carry_over: known.carry_over(),
    }
}

/// A proposal that is to be drafted.
struct DraftWork {
    /// The state before the draft.
    state: HandoffState,
    in_progress: HandoffInProgress,
    /// What the draft is to follow, when there was one before.
    revision: Option<Revision>,
    handoff: Handoff,
}

impl DraftWork {
    /// Returns what is to be drafted; nothing when the proposal is there already.
    async fn read(step: &StepContext<'_>) -> Result<Option<Self>, Failure> {
        let lost = || Failure::new(FailureKind::Internal, "find the handoff that is to be drafted");
        let state = HandoffState::read(step.channels)?.ok_or_else(lost)?;
        if matches!(state, HandoffState::AwaitingDecision { .. }) {
            return Ok(None);
        }
        let in_progress = state.in_progress().ok_or_else(lost)?.clone();
        let handoff = step.store.handoff(in_progress.metadata.handoff_id).await?.ok_or_else(lost)?;
        let revision = state.revision().cloned();
        Ok(Some(Self { state, in_progress, revision, handoff }))
    }

    /// The step's result: the proposal, its status and its event, durable together.
    fn propose(
        self,
        step: &StepContext<'_>,
        summary_json: HandoffSummary,
        problem: Option<String>,
        mut update: Update,
    ) -> Result<Update, Failure> {
        let now = Timestamp::now();
        let summary_md = render::render(&summary_json);
        let proposal = Proposal {
            handoff_id: self.handoff.handoff_id,
            iteration: self.handoff.iteration,
            summary_json,
            summary_sha256: protocol::sha256_hex(&summary_md),
            summary_md,
            feedback: self.revision.as_ref().and_then(Revision::feedback).map(str::to_owned),
            created_at: now,
        };
        let named = ProposalRef::of(&proposal);
        let proposed = HandoffProposed {
            handoff_id: proposal.handoff_id,
            iteration: proposal.iteration,
            summary_sha256: proposal.summary_sha256.clone(),
        };
        update.events.push(NewEvent::of(&proposed, now)?);
        update.writes.push(Write::PutProposal(proposal));
        let patch = HandoffPatch { run_id: Some(step.run_id), ..HandoffPatch::default() };
        update.writes.push(moved(&self.handoff, Step::Propose, patch, now)?);
        let state = self.state.next(HandoffInput::Propose { proposal: named, problem })?;
        update.channels.extend(changed(state.channels(), step.channels));
        Ok(update)
    }

    /// A draft that a person stopped: the last good proposal waits again, and without one nothing of the handoff stays but
    /// what the journal tells of it.
    fn stopped(self, step: &StepContext<'_>, mut update: Update) -> Result<Update, Failure> {
        if self.revision.is_some() {
            return self.keep_proposal(step, update, None);
        }
        let now = Timestamp::now();
        let reason = "the draft was stopped".to_owned();
        let failed = HandoffFailed { handoff_id: self.handoff.handoff_id, reason };
        update.events.push(NewEvent::of(&failed, now)?);
        update.writes.push(Write::ForgetHandoff { handoff_id: self.handoff.handoff_id });
        update.channels.extend(changed(cleared(), step.channels));
        if let Some(asker) = ASKER_CHANNEL.get(step.channels)? {
            update.merge(tool::answered(&asker, ToolStatus::Error, tool::STOPPED.to_owned(), now)?);
        }
        Ok(update)
    }

    /// Another draft that was stopped or gave nothing usable: the last good proposal waits again, and why is told.
    fn keep_proposal(
        self,
        step: &StepContext<'_>,
        mut update: Update,
        problem: Option<String>,
    ) -> Result<Update, Failure> {
        let iteration = Some(self.handoff.iteration.saturating_sub(1));
        let patch = HandoffPatch { iteration, ..HandoffPatch::default() };
        update.writes.push(moved(&self.handoff, Step::Propose, patch, Timestamp::now())?);
        let state = self.state.next(HandoffInput::KeepProposal { problem })?;
        update.channels.extend(changed(state.channels(), step.channels));
        Ok(update)
    }

    /// Returns all feedback that was given on the drafts of the handoff.
    fn feedback_given(&self) -> Vec<&str> {
        let earlier = self.in_progress.refinements.iter().map(|refinement| refinement.feedback.as_str());
        earlier.chain(self.revision.as_ref().and_then(Revision::feedback)).collect()
    }

    /// Returns the feedback of earlier refinements, one a line.
    fn earlier_feedback(&self) -> Option<String> {
        let line =
            |feedback: &str| format!("- {}", feedback.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines: Vec<String> =
            self.in_progress.refinements.iter().map(|refinement| line(&refinement.feedback)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}
