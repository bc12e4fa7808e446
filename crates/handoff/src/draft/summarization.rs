//! The node that drafts a proposal: scan and select, draft, ground, fit to the budget, render.
//!
//! The node has no side effect except the model call. The driver stores the proposal with the step's commit, before a
//! person is asked about it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use memory::ThreadPins;
use model::ChatModel;
use protocol::event::body::HandoffTruncated;
use protocol::{
    CarriedFacts, Coverage, HandoffSummary, NewEvent, OFFLINE_SUMMARY_MODEL, Pin, PinnedText, ReviewNotes,
    Usage,
};
use runtime::{Channels, Frame, GraphUpdate, Node, StepContext, StepFailure};

use crate::accept::waiting_calls::waiting_call_lines;
use crate::draft::attempt::{DraftAttempt, DraftCall, SummaryDraft};
use crate::draft::parts::DraftMaterial;
use crate::draft::parts::estimate::PriceUsage;
use crate::draft::pending::PendingDraft;
use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::{ScanRequest, ThreadScanCache, WindowScan};
use crate::limits::INPUT_TOKENS_MAX;
use crate::request::tool::RESULT_NODE;
use crate::request::{DraftProblem, HandoffMetadata, WAITING_CALL_CHANNEL};
use crate::review::approval::APPROVAL_NODE;
use crate::state::{HandoffState, Revision};
use crate::summary::files::referenced_files;
use crate::summary::message_use::is_covered_message;
use crate::summary::redaction::redact_summary;
use crate::summary::render;

/// The name of the drafting node.
pub const SUMMARIZATION_NODE: &str = "handoff_summarization";

/// The maximum size of the transcript in one drafting prompt, in tokens, for a model with a large window.
/// Measurements on long inputs (see the design notes) show that drafts get worse, not better, with a larger input.
const MODEL_INPUT_TOKENS_MAX: u64 = 48_000;
/// The divisor of a model's context window that gives the transcript's budget: a quarter of the window.
const WINDOW_SHARE: u64 = 4;

/// A function that opens a model by its name, `provider/name`. Its error is one line that says why the model cannot be
/// used.
pub type OpenModel = dyn Fn(&str) -> Result<Arc<dyn ChatModel>, String> + Send + Sync;

/// The settings of drafting.
#[derive(Clone)]
pub struct DraftSettings {
    /// The configured model. Without one, and when the first draft fails, the offline summary is proposed.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The function that opens another model by name, when a person chooses one.
    pub open_model: Arc<OpenModel>,
    /// The budget of the rendered summary in tokens, unless the request names one.
    pub max_summary_tokens: u64,
    /// The maximum size of the transcript in the prompt, in tokens; `None` derives it from the model's window.
    pub max_input_tokens: Option<u64>,
    /// The maximum number of calls that summarize the parts of a conversation before its draft; 0 for none.
    pub max_part_calls: u32,
    /// The prices of the models, for the estimate of these calls.
    pub price: Arc<PriceUsage>,
    /// The cache of thread scans, shared by all drafts of the process.
    pub scan_cache: Arc<ThreadScanCache>,
}

/// Routes the graph at the start of a handoff run: to drafting when a draft is due, to the approval node when a
/// proposal awaits its decision, otherwise to the end.
///
/// # Errors
///
/// When the handoff state in `channels` cannot be read.
pub fn route_entry(channels: &Channels) -> runtime::NextNode {
    Ok(match HandoffState::read(channels)? {
        Some(HandoffState::Requested { .. } | HandoffState::Redrafting { .. }) => Some(SUMMARIZATION_NODE),
        Some(HandoffState::AwaitingDecision { .. }) => Some(APPROVAL_NODE),
        Some(HandoffState::Accepted { .. } | HandoffState::Declined | HandoffState::Previewed) | None => None,
    })
}

/// Routes the graph after a decision: to drafting when another draft is due, to the result node when a tool call waits
/// for the outcome, otherwise to the end.
///
/// # Errors
///
/// When the handoff state in `channels` cannot be read.
pub fn route_after_decision(channels: &Channels) -> runtime::NextNode {
    let is_revised = HandoffState::read(channels)?.is_some_and(|state| state.revision().is_some());
    Ok(match is_revised {
        true => Some(SUMMARIZATION_NODE),
        false => WAITING_CALL_CHANNEL.is_set(channels).then_some(RESULT_NODE),
    })
}

/// Routes the graph after a draft: to the approval node, or to the end when a person stopped the first draft.
///
/// # Errors
///
/// When the handoff state in `channels` cannot be read.
pub fn route_after_draft(channels: &Channels) -> runtime::NextNode {
    let is_pending = HandoffState::read(channels)?.is_some_and(|state| state.in_progress().is_some());
    Ok(is_pending.then_some(APPROVAL_NODE))
}

impl DraftSettings {
    /// Returns the transcript's budget for `model` in tokens: the configured one, else a share of the model's window
    /// within [`INPUT_TOKENS_MAX`] and [`MODEL_INPUT_TOKENS_MAX`].
    pub(crate) fn input_tokens_max(&self, model: &Arc<dyn ChatModel>) -> u64 {
        let by_window = model
            .limits()
            .context_tokens
            .map(|tokens| (tokens / WINDOW_SHARE).clamp(INPUT_TOKENS_MAX, MODEL_INPUT_TOKENS_MAX));
        self.max_input_tokens.or(by_window).unwrap_or(INPUT_TOKENS_MAX)
    }

    /// Returns the budget of the rendered summary in tokens: the one in the request, else the configured one.
    pub(crate) fn summary_tokens_max(&self, metadata: &HandoffMetadata) -> u64 {
        metadata.options.max_summary_tokens.unwrap_or(self.max_summary_tokens)
    }

    /// Returns the model of that name; `None` for the offline summary.
    ///
    /// # Errors
    ///
    /// One line that says why the model cannot be used.
    pub(crate) fn open_named_model(&self, name: &str) -> Result<Option<Arc<dyn ChatModel>>, String> {
        if name == OFFLINE_SUMMARY_MODEL {
            return Ok(None);
        }
        let is_configured = |model: &&Arc<dyn ChatModel>| model.name().to_string() == name;
        match self.model.as_ref().filter(is_configured) {
            Some(configured) => Ok(Some(Arc::clone(configured))),
            None => (self.open_model)(name).map(Some),
        }
    }

    /// Returns the model for this draft: the one named for the redraft, else the one the person chose earlier, else the
    /// configured one. `None` stands for the offline summary.
    fn selected_model(&self, pending: &PendingDraft) -> Result<Option<Arc<dyn ChatModel>>, String> {
        let named = match &pending.revision {
            Some(Revision::Redraft { model }) => model.as_ref(),
            Some(Revision::Refine(_) | Revision::CoverNewer { .. }) | None => None,
        };
        match named.or(pending.in_progress.model.as_ref()) {
            Some(name) => self.open_named_model(name),
            None => Ok(self.model.clone()),
        }
    }
}

/// The node that drafts a proposal.
///
/// A failed first draft falls back to the offline summary. A failed refinement keeps the last good proposal. A draft
/// whose proposal is stored already is not made again.
pub struct HandoffSummarization {
    /// The settings of drafting.
    pub drafting: DraftSettings,
}

#[async_trait]
impl Node for HandoffSummarization {
    fn name(&self) -> &'static str {
        SUMMARIZATION_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let Some(pending) = PendingDraft::read(&step).await? else { return Ok(GraphUpdate::default()) };
        let metadata = &pending.in_progress.metadata;
        if step.cancel.is_cancelled() {
            return pending.stop_draft(&step, GraphUpdate::default());
        }
        let model = self.drafting.selected_model(&pending);
        let tokens_max = model
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map_or(0, |model| self.drafting.input_tokens_max(model));
        let goal = pending.goal();
        let request = ScanRequest { messages: metadata.options.messages, goal: goal.as_deref(), tokens_max };
        let scan = self.drafting.scan_cache.scan_thread(ThreadSource::from_step(&step), request).await?;
        let mut update = GraphUpdate::default();
        let attempt = match model {
            // A person has accepted the package before, and there is nothing that a model could add to it.
            _ if pending.revision.is_none() && scan.unused_package().is_some() => None,
            Ok(Some(model)) => {
                let call = DraftCall {
                    drafting: &self.drafting,
                    step: &step,
                    pending: &pending,
                    scan: &scan,
                    model: &model,
                };
                Some(call.run_attempt(&mut update).await?)
            }
            Ok(None) => None,
            Err(problem) => Some(DraftAttempt::Failed(problem)),
        };
        let (draft, problem) = match attempt {
            Some(DraftAttempt::Drafted(draft)) => (*draft, None),
            Some(DraftAttempt::Failed(cause)) if pending.revision.is_some() => {
                let problem = report_failure(&step, &cause);
                return pending.keep_proposal(&step, update, Some(problem));
            }
            Some(DraftAttempt::Failed(cause)) => {
                let problem = DraftProblem::failed(report_failure(&step, &cause));
                (self.offline_draft(&scan, metadata), Some(problem))
            }
            None => (self.offline_draft(&scan, metadata), None),
            Some(DraftAttempt::Stopped) => return pending.stop_draft(&step, update),
        };
        let tokens_max = draft.tokens_max;
        let (mut summary, material) = assemble_summary(&pending, &step, draft, &scan);
        summary.carried.pending_approvals.extend(waiting_call_lines(&**step.store, step.thread_id).await?);
        summary.carried.pins = pinned_texts(&step).await?;
        remove_false_refs(&mut summary);
        // The offline summary contains only names from the covered events, which the tests prove. The items of a package have
        // kept their marks.
        if material.is_some() {
            ground_draft(&step, &pending, &scan, &mut summary).await?;
        }
        check_referenced_files(metadata, &mut summary).await;
        let render::FittedSummary { summary, cut } =
            fit_to_review(&pending, &step, summary, tokens_max).await?;
        let mut summary = scan.describe_sources(summary, material.as_ref());
        pending.note_user_texts(&step, &mut summary).await?;
        if let Some(render::SummaryCut { tokens_before, tokens_after }) = cut {
            let handoff_id = pending.handoff.handoff_id;
            let truncated = HandoffTruncated { handoff_id, tokens_before, tokens_after };
            update.events.push(NewEvent::from_body(&truncated, Timestamp::now())?);
        }
        pending.propose_summary(&step, summary, problem, update)
    }
}

impl HandoffSummarization {
    /// Returns a draft without a model: the package of a thread that was not used yet, otherwise the offline summary.
    fn offline_draft(&self, scan: &WindowScan, metadata: &HandoffMetadata) -> SummaryDraft {
        let tokens_max = self.drafting.summary_tokens_max(metadata);
        if let Some(package) = scan.unused_package() {
            return package_draft(package, scan.coverage_without_quotes());
        }
        let (summary, coverage) = scan.offline_summary(tokens_max);
        let title_unfound = scan.inherited_title_unfound(&summary.title);
        SummaryDraft {
            title: summary.title,
            tldr: summary.tldr,
            body: summary.body,
            model: OFFLINE_SUMMARY_MODEL.to_owned(),
            usage: Usage::default(),
            coverage,
            response_id: None,
            carried: CarriedFacts { in_use: summary.carried.in_use, ..scan.carried_facts() },
            notes: ReviewNotes { title_unfound, ..ReviewNotes::default() },
            tokens_max,
            material: None,
        }
    }
}

/// Returns the package of an unused thread as a draft. It is not cut, because a person has accepted its length.
fn package_draft(package: HandoffSummary, coverage: Coverage) -> SummaryDraft {
    SummaryDraft {
        title: package.title,
        tldr: package.tldr,
        body: package.body,
        model: package.model,
        usage: Usage::default(),
        coverage,
        response_id: None,
        carried: package.carried,
        notes: package.notes,
        tokens_max: u64::MAX,
        material: None,
    }
}

/// Returns the summary within its budget, with the changes that the person made to the proposals before it.
async fn fit_to_review(
    pending: &PendingDraft,
    step: &StepContext<'_>,
    mut summary: HandoffSummary,
    tokens_max: u64,
) -> Result<render::FittedSummary, StepFailure> {
    let changes = pending.reviewer_changes(step).await?;
    summary.carried = changes.apply_to_facts(summary.carried);
    let mut fitted = render::fit_summary(summary, tokens_max);
    if pending.covered_until().is_some() {
        // A model is asked to keep the person's words; the offline summary is written anew, so they are put in.
        changes.apply_to_title(&mut fitted.summary);
        if fitted.summary.model == OFFLINE_SUMMARY_MODEL {
            changes.apply_to_items(&mut fitted.summary);
        }
    }
    Ok(fitted)
}

/// Returns the pins of the thread as facts.
///
/// # Errors
///
/// When the journal cannot be read.
async fn pinned_texts(step: &StepContext<'_>) -> Result<Vec<PinnedText>, StepFailure> {
    let ThreadPins { pins, .. } = ThreadPins::read(&**step.store, step.thread_id).await?;
    let to_fact =
        |pin: Pin| PinnedText { text: pin.text, author: pin.author, refs: Vec::from_iter(pin.message_seq) };
    Ok(pins.into_iter().map(to_fact).collect())
}

/// Marks the parts of a drafted summary that contain names which the covered events do not.
///
/// # Errors
///
/// When the person's texts about the drafts cannot be read.
async fn ground_draft(
    step: &StepContext<'_>,
    pending: &PendingDraft,
    scan: &WindowScan,
    summary: &mut HandoffSummary,
) -> Result<(), StepFailure> {
    let workspace = pending.in_progress.metadata.options.workspace.as_deref();
    let own_texts = pending.user_texts(step).await?;
    let own_texts: Vec<&str> = own_texts.iter().map(String::as_str).collect();
    let checked = scan.ground_summary(ThreadSource::from_step(step), summary, workspace, &own_texts).await;
    if let Err(failure) = checked {
        // The model call has been paid for, so the draft is proposed with every item marked as unverified.
        let text = format!("failed to check the draft: {failure}");
        step.frames.send(Frame::Notice { text });
        summary.body.iter_mut().for_each(|item| item.verified = false);
    }
    Ok(())
}

/// Sends the failure of a draft to the subscribers of the run, and returns the line that is stored with the proposal.
fn report_failure(step: &StepContext<'_>, cause: &str) -> String {
    let problem = format!("summarization failed: {cause}");
    step.frames.send(Frame::AttemptFailed { text: problem.clone() });
    problem
}

/// Adds the state of the files that the summary names, if the handoff has a goal and a workspace. A file that cannot be
/// inspected is left out.
async fn check_referenced_files(metadata: &HandoffMetadata, summary: &mut HandoffSummary) {
    let (Some(_), Some(workspace)) = (&metadata.options.goal, metadata.options.workspace.clone()) else {
        return;
    };
    let copy = summary.clone();
    let files = tokio::task::spawn_blocking(move || referenced_files(&copy, &workspace)).await;
    summary.carried.referenced_files = files.unwrap_or_default();
}

/// Returns the summary of a draft: the draft's text with the identity of the handoff, the coverage and the facts that
/// are carried over. The material of the draft is returned with it.
fn assemble_summary(
    pending: &PendingDraft,
    step: &StepContext<'_>,
    draft: SummaryDraft,
    scan: &WindowScan,
) -> (HandoffSummary, Option<DraftMaterial>) {
    let handoff = &pending.handoff;
    let carried = draft.carried;
    let summary = HandoffSummary {
        schema_version: HandoffSummary::SCHEMA_VERSION,
        handoff_id: handoff.handoff_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_thread_id: handoff.parent_thread_id,
        child_thread_id: None,
        title: draft.title,
        tldr: draft.tldr,
        body: draft.body,
        model: draft.model,
        model_run_id: draft.response_id,
        run_id: Some(step.run_id),
        tokens_used: draft.usage.total_tokens(),
        iteration: handoff.iteration,
        created_at: pending.in_progress.metadata.created_at,
        coverage: draft.coverage,
        carried: CarriedFacts {
            is_in_markdown: true,
            goal: pending.goal().or(carried.goal.clone()),
            ..carried
        },
        notes: draft.notes,
    };
    (redact_summary(summary, &scan.facts().known_secrets), draft.material)
}

/// Removes the references of items that name no covered message, and records them as false.
fn remove_false_refs(summary: &mut HandoffSummary) {
    for item in &mut summary.body {
        let (refs, false_refs) =
            item.refs.iter().partition(|seq| is_covered_message(&summary.coverage, **seq));
        (item.refs, item.false_refs) = (refs, false_refs);
    }
}
