//! Probes of a proposal before its acceptance: questions about the conversation, which are answered from the summary
//! alone. A probe that fails names something that the next agent would not know.
//!
//! A model answers as the next agent would, from the section of the system prompt that the child thread's first turn
//! gets. Without a model the text itself is searched for the answers. Neither adds a message to a thread.

mod call;
mod judge;
mod question;

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::Store;
use model::ChatModel;
use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::{ContinuityProbe, ContinuityReport, Handoff, NewEvent, ProbeJudge, Proposal, Usage};
use runtime::{Frame, RunScope, StepFailure};

use crate::draft::DraftError;
use crate::draft::window::ThreadSource;
use crate::draft::window::scan_cache::{ScanRequest, ThreadScanCache};
use crate::request::HandoffOptions;
use call::ProbeCalls;
use judge::{RuleVerdict, judge_answer, search_text};
use question::{Judgement, PlannedProbe, plan_probes};

/// The problem of a check that the user stopped after a call of the model.
const STOPPED_PROBLEM: &str = "the check was stopped";

/// The problem of a check whose answers cannot be read.
const UNUSABLE_ANSWERS: &str = "the reply did not have the requested form";
/// The problem of a check in which the model did not judge its answers.
const UNUSABLE_COMPARISON: &str = "the reply with the judgement did not have the requested form";

/// A check of whether a proposal answers what the next agent has to know.
pub struct ContinuityCheck<'a> {
    /// The store that holds the parent thread. It is only read.
    pub store: &'a Arc<dyn Store>,
    /// The cache of thread scans, in which the draft has left its scan.
    pub scan_cache: &'a ThreadScanCache,
    /// The model that answers; `None` to search the text.
    pub model: Option<Arc<dyn ChatModel>>,
    /// The handoff.
    pub handoff: &'a Handoff,
    /// The proposal to probe.
    pub proposal: &'a Proposal,
    /// The stream and the cancellation token of the check.
    pub scope: RunScope<'a>,
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct ContinuityResult {
    /// The report; `None` if the user stopped the check.
    pub report: Option<ContinuityReport>,
    /// The event that records the report and the cost of the calls; `None` if no call of a model has ended.
    pub event: Option<NewEvent>,
}

impl ContinuityCheck<'_> {
    /// Asks and judges. A model is called at most twice: for all answers, and for the
    /// judgement of those that a comparison of words leaves open. A failed call makes the check search the text, and the
    /// report says so.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn run(&self) -> BoxFuture<'_, Result<ContinuityResult, StepFailure>> {
        journal::box_future(async move {
            let planned = self.plan().await?;
            let Some(model) = self.model.as_ref().filter(|_| !planned.is_empty()) else {
                let report = self.report(search_all(&planned, &self.proposal.package_md));
                return Ok(ContinuityResult { report: Some(report), event: None });
            };
            let name = model.name().to_string();
            let what = format!("probe the summary with {name}");
            self.scope.frames.send(Frame::Progress { what, done: 0, total: None });
            let started = Instant::now();
            let calls = ProbeCalls { model, cancel: self.scope.cancel };
            let mut usage = Usage::default();
            let report = match self.ask_model(&calls, &planned, &mut usage).await {
                Ok((probes, problem)) => Some(ContinuityReport {
                    model: Some(name.clone()),
                    usage,
                    problem,
                    ..self.report(probes)
                }),
                Err(DraftError::Stopped) if usage == Usage::default() => {
                    return Ok(ContinuityResult { report: None, event: None });
                }
                Err(DraftError::Stopped) => None,
                Err(error) => Some(ContinuityReport {
                    problem: Some(self.problem_line(error)),
                    usage,
                    ..self.report(search_all(&planned, &self.proposal.package_md))
                }),
            };
            let problem = match &report {
                Some(report) => report.problem.clone(),
                None => Some(STOPPED_PROBLEM.to_owned()),
            };
            let called = ModelCalled {
                purpose: ModelCallPurpose::HandoffProbe,
                handoff_id: Some(self.handoff.handoff_id),
                model: Some(name),
                usage: Some(usage),
                prompt_sha256: Some(call::prompt_sha256()),
                problem,
                trace: None,
                continuity: report.clone(),
                part: None,
            };
            let at = report.as_ref().map_or_else(Timestamp::now, |report| report.created_at);
            let event = NewEvent::from_body(&called, at)?.with_duration(started.elapsed())?;
            Ok(ContinuityResult { report, event: Some(event) })
        })
    }

    /// Returns the questions about the part of the thread that the handoff covers.
    async fn plan(&self) -> Result<Vec<PlannedProbe>, StepFailure> {
        let options: HandoffOptions =
            serde_json::from_value(self.handoff.options.clone()).unwrap_or_default();
        let goal = options.goal.as_deref().map(|goal| secrets::redact(goal).into_owned());
        let request = ScanRequest { messages: options.messages, goal: goal.as_deref(), tokens_max: 0 };
        let thread = ThreadSource {
            store: &**self.store,
            thread_id: self.handoff.parent_thread_id,
            frames: self.scope.frames,
        };
        let scan = self.scan_cache.scan_thread(thread, request).await?;
        Ok(plan_probes(scan.facts(), &scan.carried_facts(), &self.proposal.summary_json.carried))
    }

    /// Has the model answer the questions, and judges the answers. Adds the usage of all calls to `usage`. Answers that could not
    /// be compared count as wrong, and the second value says so.
    async fn ask_model(
        &self,
        calls: &ProbeCalls<'_>,
        planned: &[PlannedProbe],
        usage: &mut Usage,
    ) -> Result<(Vec<ContinuityProbe>, Option<String>), DraftError> {
        let answers = calls.answer(&self.proposal.package_md, planned, usage).await?;
        let verdicts: Vec<RuleVerdict> = planned
            .iter()
            .zip(&answers)
            .map(|(probe, answer)| judge_answer(probe, answer.as_deref()))
            .collect();
        let unclear: Vec<usize> =
            (0..verdicts.len()).filter(|index| verdicts[*index] == RuleVerdict::Unclear).collect();
        let pairs: Vec<_> = unclear
            .iter()
            .map(|index| (&planned[*index], answers[*index].as_deref().unwrap_or_default()))
            .collect();
        let mut problem = None;
        let agreed = match pairs.is_empty() {
            true => Vec::new(),
            false => match calls.judge(&pairs, usage).await {
                Err(DraftError::Unusable(reason)) => {
                    tracing::warn!(handoff.id = %self.handoff.handoff_id, "failed to compare the answers: {reason}");
                    problem = Some(UNUSABLE_COMPARISON.to_owned());
                    vec![false; pairs.len()]
                }
                agreed => agreed?,
            },
        };
        let judged = planned.iter().zip(answers).zip(verdicts).enumerate();
        let probes = judged
            .map(|(index, ((probe, answer), verdict))| {
                let by_model = unclear.iter().position(|unclear| *unclear == index).map(|at| agreed[at]);
                let judged_by = if by_model.is_some() { ProbeJudge::Model } else { ProbeJudge::Rules };
                let passed = by_model.unwrap_or(verdict == RuleVerdict::Agrees);
                probe.result(answer, Judgement { passed, judged_by })
            })
            .collect();
        Ok((probes, problem))
    }

    /// Returns the reason why a model's answers could not be used, in one line. What only a developer understands is logged.
    fn problem_line(&self, error: DraftError) -> String {
        match error {
            DraftError::Unusable(reason) => {
                tracing::warn!(handoff.id = %self.handoff.handoff_id, "failed to read the answers: {reason}");
                UNUSABLE_ANSWERS.to_owned()
            }
            error => error.to_string(),
        }
    }

    /// Returns a report without a model.
    fn report(&self, probes: Vec<ContinuityProbe>) -> ContinuityReport {
        ContinuityReport {
            handoff_id: self.handoff.handoff_id,
            iteration: self.proposal.iteration,
            summary_sha256: self.proposal.summary_sha256.clone(),
            model: None,
            usage: Usage::default(),
            probes,
            problem: None,
            created_at: Timestamp::now(),
        }
    }
}

/// Searches the text for the answers to all questions.
fn search_all(planned: &[PlannedProbe], text: &str) -> Vec<ContinuityProbe> {
    planned
        .iter()
        .map(|probe| {
            let found = search_text(probe, text);
            probe.result(found.line, Judgement { passed: found.is_answer, judged_by: ProbeJudge::Rules })
        })
        .collect()
}

#[cfg(test)]
mod tests;
