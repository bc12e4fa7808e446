//! One attempt of a model at a draft: the calls that summarize the parts of a long conversation, and the call that
//! drafts.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use model::{ChatModel, untrusted_text};
use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::{CarriedFacts, Coverage, NewEvent, ReviewNotes, SummaryItem, Usage};
use runtime::{FailureKind, Frame, GraphUpdate, StepContext, StepFailure};
use tracing::Instrument;

use super::parts::estimate::PartsEstimate;
use super::parts::{DraftMaterial, PartCalls, PartLimits, PartPlan};
use super::pending::PendingDraft;
use super::summarization::DraftSettings;
use super::trace::DraftSpan;
use super::window::ThreadSource;
use super::window::scan_cache::WindowScan;
use super::{DraftError, DraftInput, ModelDraft, prompt_sha256, request_draft};
use crate::state::Revision;
use crate::summary::render;

/// A draft: by a model, by the offline summary, or the package that an unused thread began with.
pub(super) struct SummaryDraft {
    /// The title, on one line.
    pub(super) title: String,
    /// The TL;DR, on one line.
    pub(super) tldr: String,
    /// The items, in the order of their kinds.
    pub(super) body: Vec<SummaryItem>,
    /// The author of the text: the model's name, [`protocol::OFFLINE_SUMMARY_MODEL`], or the author of the package.
    pub(super) model: String,
    /// The tokens that the draft used, with those of the parts.
    pub(super) usage: Usage,
    /// The events that the draft covers.
    pub(super) coverage: Coverage,
    /// The provider's id of the response.
    pub(super) response_id: Option<String>,
    /// The facts that are carried over.
    pub(super) carried: CarriedFacts,
    /// The marks of names in the title and the TL;DR that were not found, if the text was checked before.
    pub(super) notes: ReviewNotes,
    /// The token budget of the text.
    pub(super) tokens_max: u64,
    /// The material that the model received; `None` for a text without a model.
    pub(super) material: Option<DraftMaterial>,
}

/// The outcome of an attempt.
pub(super) enum DraftAttempt {
    /// The model wrote a usable draft.
    Drafted(Box<SummaryDraft>),
    /// The model call failed or its answer is unusable; the reason in one line.
    Failed(String),
    /// The person stopped the draft.
    Stopped,
}

/// An attempt of a model at a draft.
pub(super) struct DraftCall<'a> {
    /// The settings of drafting.
    pub(super) drafting: &'a DraftSettings,
    /// The drafting step.
    pub(super) step: &'a StepContext<'a>,
    /// The draft that is due.
    pub(super) pending: &'a PendingDraft,
    /// The scan of the thread.
    pub(super) scan: &'a WindowScan,
    /// The model.
    pub(super) model: &'a Arc<dyn ChatModel>,
}

impl DraftCall<'_> {
    /// Drafts with one call, after the calls for the parts of a conversation that does not fit into it. The usage and the
    /// `model_called` event are added to `update`, also when the call failed; a stopped call adds nothing.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read, a prompt cannot be rendered or an event cannot be serialized.
    pub(super) async fn run_attempt(&self, update: &mut GraphUpdate) -> Result<DraftAttempt, StepFailure> {
        let handoff = &self.pending.handoff;
        let prompt = self.revision_input();
        let span = DraftSpan::for_draft(handoff, &prompt);
        let tracing_span = span.span();
        let collected = self.collect_material(&span, update).instrument(tracing_span.clone()).await?;
        let Some(material) = collected else { return Ok(DraftAttempt::Stopped) };
        let name = self.model.name().to_string();
        self.step.frames.send(Frame::Progress { what: format!("draft with {name}"), done: 0, total: None });
        let input = self.draft_input(prompt, &material);
        let started = Instant::now();
        let drafted = request_draft(self.model, &input, self.step.cancel).instrument(tracing_span).await;
        let duration = started.elapsed();
        let (drafted, problem) = match drafted {
            Ok(drafted) => (Some(drafted), None),
            Err(DraftError::Stopped) => return Ok(DraftAttempt::Stopped),
            Err(error @ (DraftError::Prompt(_) | DraftError::Record(_))) => {
                return Err(StepFailure::new(FailureKind::Internal, error.to_string()));
            }
            Err(error @ (DraftError::Model(_) | DraftError::Unusable(_))) => (None, Some(error.to_string())),
        };
        let own_usage = drafted.as_ref().and_then(|drafted| drafted.answer.usage).unwrap_or_default();
        update.usage.add(own_usage);
        let called = ModelCalled {
            purpose: ModelCallPurpose::HandoffSummary,
            handoff_id: Some(handoff.handoff_id),
            model: Some(name.clone()),
            usage: Some(own_usage),
            prompt_sha256: Some(prompt_sha256()),
            problem: problem.clone(),
            trace: Some(span.to_draft_trace()?),
            continuity: None,
            part: None,
        };
        update.events.push(NewEvent::from_body(&called, Timestamp::now())?.with_duration(duration)?);
        let Some(ModelDraft { title, tldr, body, answer }) = drafted else {
            return Ok(DraftAttempt::Failed(problem.unwrap_or_default()));
        };
        let mut usage = own_usage;
        usage.add(material.usage);
        let tokens_max = self.drafting.summary_tokens_max(&self.pending.in_progress.metadata);
        let mut carried = self.scan.carried_facts();
        carried.in_use = self
            .scan
            .names_in_use(&shown_text(&render::render_markdown(&title, &tldr, &body), &carried), tokens_max);
        Ok(DraftAttempt::Drafted(Box::new(SummaryDraft {
            title,
            tldr,
            body,
            model: name,
            usage,
            coverage: material.selection.coverage.clone(),
            response_id: answer.id,
            carried,
            notes: ReviewNotes {
                unsummarized_parts: material.unsummarized.clone(),
                ..ReviewNotes::default()
            },
            tokens_max,
            material: Some(material),
        })))
    }

    /// Returns the material of the draft; `None` when the person stopped the calls for the parts. Their cost is announced
    /// before the first of them.
    async fn collect_material(
        &self,
        trace: &DraftSpan,
        update: &mut GraphUpdate,
    ) -> Result<Option<DraftMaterial>, StepFailure> {
        let input_tokens = self.drafting.input_tokens_max(self.model);
        let Some(limits) = PartLimits::new(input_tokens, self.drafting.max_part_calls) else {
            return Ok(Some(DraftMaterial::from_selection(self.scan.selection(input_tokens))));
        };
        let plan = PartPlan::new(ThreadSource::from_step(self.step), self.scan, self.model, limits).await?;
        let estimate = PartsEstimate::from_plan(&plan, self.model, &*self.drafting.price);
        if let Some(text) = estimate.notice() {
            self.step.frames.send(Frame::Notice { text });
        }
        let calls = PartCalls { step: self.step, handoff: &self.pending.handoff, model: self.model, trace };
        calls.summarize(plan, update).await
    }

    /// Returns the part of the prompt input that follows from the revision: a refinement includes the previous summary and the
    /// feedback.
    fn revision_input(&self) -> DraftInput {
        let (previous_summary, feedback) = match &self.pending.revision {
            Some(Revision::Refine(refinement)) => {
                (Some(refinement.summary_md.clone()), Some(refinement.feedback.clone()))
            }
            Some(Revision::CoverNewer { summary_md, .. }) => (Some(summary_md.clone()), None),
            Some(Revision::Redraft { .. }) | None => (None, None),
        };
        DraftInput {
            earlier_feedback: previous_summary.as_ref().and_then(|_| self.pending.earlier_feedback()),
            covered_until: self.pending.covered_until(),
            previous_summary,
            feedback,
            ..DraftInput::default()
        }
    }

    /// Returns the whole prompt input for this draft.
    fn draft_input(&self, revision: DraftInput, material: &DraftMaterial) -> DraftInput {
        let metadata = &self.pending.in_progress.metadata;
        let selection = &material.selection;
        let carried = self.scan.carried_facts();
        DraftInput {
            goal: metadata.options.goal.clone(),
            facts: selection.facts.clone(),
            rules: list_lines(carried.rules.iter().map(|rule| rule.text.as_str())),
            delegations: list_lines(carried.delegations.iter().map(String::as_str)),
            summary_so_far: selection.summary_so_far.clone(),
            requests: selection.requests.clone(),
            parts: material.parts.clone(),
            conversation: selection.events.clone(),
            max_summary_tokens: self.drafting.summary_tokens_max(metadata),
            ..revision
        }
    }
}

/// Returns the text of a draft with the facts that name files and work in full, so that the names in use do not repeat them.
fn shown_text(draft: &str, carried: &CarriedFacts) -> String {
    let rules = carried.rules.iter().map(|rule| &rule.text);
    let facts = carried.files.changed.iter().chain(&carried.last_user_request).chain(rules);
    facts.fold(draft.to_owned(), |text, fact| text + "\n" + fact)
}

/// Returns the texts as a list for a prompt, without secrets and with everything escaped that could be read as a tag.
fn list_lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let lines = texts.map(|text| format!("- {}", untrusted_text::neutralize_line(&secrets::redact(text))));
    lines.collect::<Vec<_>>().join("\n")
}
