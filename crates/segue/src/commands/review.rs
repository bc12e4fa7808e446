//! The review of a handoff, shared by `segue handoff` and the chat: shows the proposal, asks the user, and submits the
//! answer, until the handoff is decided or left pending. The crate `handoff` decides the effect of an answer.

mod change;
mod choices;
mod continuity;
mod drafting;
mod left_out;
mod pane;
mod panel;
mod user_text;
mod waiting_calls;

use agent::{ErrorClass, HandoffOutcome, OFFLINE_SUMMARY_MODEL, PendingHandoff, ProbeMethod};
use protocol::decision::EditedAction;
use protocol::{ContinuityReport, Decision, Decisions, Proposal};
use serde_json::{Map, Value, json};
use terminal::summary::USER_AUTHOR;
use terminal::{
    CursorMode, NoEchoGuard, PickResult, TurnTotals, TypeAheadBuffer, ask, ask_draft, ask_line, ask_text,
    ask_while_typing, coverage, diff, facts, notes, pick, pick_or_type, sanitize, sanitize_line, shorten,
    signals, wrap, wrap_lines,
};

use crate::commands::CommandContext;
use crate::commands::agent_work::{WorkResult, WorkVisibility};
use crate::exit::{self, CliFailure, error_chain};
pub(crate) use change::draft_origin;
use choices::{HandoffRequester, ReviewAnswer, ReviewState, review_choices};
pub(crate) use panel::{FoldedLists, show_proposal};
use user_text::UserTextEditor;

pub(crate) use continuity::{requested_report, show_report};
pub(crate) use drafting::{decide_handoff, draft_handoff, preview_handoff};

/// The reason of the rejection if the user continues without a summary. It is stored, and the agent gets it as the
/// result of its request.
const WITHOUT_SUMMARY: &str = "the person continues without a summary";

/// The outcome of a review.
#[derive(Debug)]
pub(crate) enum ReviewOutcome {
    /// The handoff is still pending.
    Deferred,
    /// The handoff was decided.
    Decided(Box<HandoffOutcome>),
    /// The handoff was declined in favour of a new thread without a summary.
    BlankThread(Box<HandoffOutcome>),
}

/// A handoff under review.
pub(crate) struct HandoffReviewSession<'a> {
    /// The agent and the output.
    context: &'a CommandContext,
    /// The buffer for text that is typed meanwhile.
    type_ahead: &'a mut TypeAheadBuffer,
    /// The frames that are shown of runs that an answer starts. Only the chat shows all of them.
    visibility: WorkVisibility,
    /// The proposal under review.
    pending: PendingHandoff,
    /// All proposals of the handoff, the newest last.
    proposals: Vec<Proposal>,
    /// The check of the proposal under review; `None` if it was not made.
    continuity: Option<ContinuityReport>,
    /// The user's feedback that no draft has used yet.
    feedback: String,
    /// The user's own text of the summary.
    user_text: UserTextEditor,
    /// True if a new thread without a summary is offered.
    offers_blank_thread: bool,
    /// The totals of the runs that the answers started.
    pub(crate) totals: TurnTotals,
}

/// The effect of submitting one answer.
enum ReviewStep {
    /// The handoff was decided.
    Decided(Box<HandoffOutcome>),
    /// The handoff has a new proposal, or the same proposal is pending again.
    StillPending,
    /// The answer is invalid; contains the reason.
    Rejected(String),
}

/// Returns the decision that accepts exactly the shown proposal. The decision contains the proposal's hash, so that a
/// newer proposal is not accepted unseen.
pub(crate) fn acceptance(pending: &PendingHandoff) -> Decision {
    Decision::Approve { args: None, summary_sha256: Some(pending.proposal.summary_sha256.clone()) }
}

/// Returns whether the agent requested the handoff. In that case the agent's turn continues after every decision other
/// than accept.
pub(crate) fn is_requested_by_agent(pending: &PendingHandoff) -> bool {
    request_arg(pending, "initiated_by").and_then(Value::as_str) == Some("agent")
}

/// Returns the requester that the interrupt names.
fn requester(pending: &PendingHandoff) -> HandoffRequester {
    let is_preview = request_arg(pending, "preview_only").and_then(Value::as_bool).unwrap_or_default();
    match (is_requested_by_agent(pending), is_preview) {
        (false, _) => HandoffRequester::Person,
        (true, false) => HandoffRequester::Agent,
        (true, true) => HandoffRequester::AgentForPreview,
    }
}

/// Asks the user about a proposal that is already printed, until the handoff is decided; `None` if the user leaves it
/// pending.
///
/// # Errors
/// Fails if the terminal cannot be read or written, or if the handoff can no longer be decided here.
pub(crate) async fn ask_for_decision(
    context: &CommandContext,
    pending: &PendingHandoff,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<HandoffOutcome>, CliFailure> {
    // Keys that are pressed between two questions must not be echoed.
    let _no_echo = NoEchoGuard::enable(&context.screen)?;
    let mut review = HandoffReviewSession::open(context, pending.clone(), typed).await?;
    review.visibility = WorkVisibility::Progress;
    let outcome = review.ask_until_decided().await;
    show_unsent_input(context, typed)?;
    match outcome? {
        ReviewOutcome::Deferred => Ok(None),
        ReviewOutcome::Decided(decided) => Ok(Some(*decided)),
        ReviewOutcome::BlankThread(decided) => {
            context.screen.print_line("Start a new thread with: segue chat")?;
            Ok(Some(*decided))
        }
    }
}

/// Prints text that was typed ahead, because it cannot be sent as a message outside a chat.
pub(crate) fn show_unsent_input(
    context: &CommandContext,
    typed: &mut TypeAheadBuffer,
) -> Result<(), CliFailure> {
    let unsent = typed.take_all_drafts();
    if !unsent.trim().is_empty() {
        context.screen.print_line("You typed this meanwhile; it was not sent:")?;
        context.screen.print_line(sanitize(&unsent))?;
    }
    Ok(())
}

impl<'a> HandoffReviewSession<'a> {
    /// Starts a review of a proposal that is already printed. Text that is typed meanwhile goes to `typed`.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(crate) async fn open(
        context: &'a CommandContext,
        pending: PendingHandoff,
        typed: &'a mut TypeAheadBuffer,
    ) -> Result<Self, CliFailure> {
        let proposals = context.agent.handoffs().review(pending.handoff.handoff_id).await?.proposals;
        Ok(Self {
            context,
            type_ahead: typed,
            visibility: WorkVisibility::Everything,
            feedback: pending.unused_feedback.clone().unwrap_or_default(),
            pending,
            proposals,
            continuity: None,
            user_text: UserTextEditor::default(),
            offers_blank_thread: false,
            totals: TurnTotals::default(),
        })
    }

    /// Offers a new thread without a summary as an additional answer.
    pub(crate) fn offer_blank_thread(&mut self) {
        self.offers_blank_thread = true;
    }

    /// Asks until the handoff is decided or left pending.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written, or if the handoff can no longer be decided here. Text of the
    /// user is not lost: an edited summary is saved in a file, and feedback is printed.
    pub(crate) async fn ask_until_decided(&mut self) -> Result<ReviewOutcome, CliFailure> {
        self.check_automatically().await?;
        let outcome = self.run_question_loop().await;
        self.user_text.save_to_file(self.context, &self.pending.proposal)?;
        match &outcome {
            Ok(ReviewOutcome::Decided(_) | ReviewOutcome::BlankThread(_)) => {}
            Ok(ReviewOutcome::Deferred) | Err(_) => self.show_unused_feedback()?,
        }
        outcome
    }

    /// Prints feedback that no draft has used, unless it is stored with the handoff and will be shown again.
    fn show_unused_feedback(&self) -> Result<(), CliFailure> {
        let is_stored = self.pending.unused_feedback.as_deref() == Some(&self.feedback);
        if self.feedback.is_empty() || is_stored {
            return Ok(());
        }
        let screen = &self.context.screen;
        screen.print_line("Your feedback was not used:")?;
        Ok(screen.print_line(wrap_lines(&sanitize(&self.feedback), screen.text_columns(), "  "))?)
    }

    /// Asks and submits answers until the handoff is decided or left pending.
    async fn run_question_loop(&mut self) -> Result<ReviewOutcome, CliFailure> {
        loop {
            self.note_long_text()?;
            let (screen, choices) = (&self.context.screen, review_choices(&self.review_state()));
            let answer = match self.visibility {
                WorkVisibility::Everything => {
                    ask_while_typing(screen, &choices, "Decide later", self.type_ahead)?
                }
                // Outside a chat there is no conversation to which typed text could be sent.
                WorkVisibility::Progress => ask(screen, &choices, "Decide later")?,
            };
            let Some(answer) = answer else { return Ok(ReviewOutcome::Deferred) };
            let decision = match answer {
                ReviewAnswer::Edit => match self.edit_text().await? {
                    Some(decided) => return Ok(ReviewOutcome::Decided(decided)),
                    None => None,
                },
                ReviewAnswer::Open => {
                    self.show_pane().await?;
                    None
                }
                ReviewAnswer::Check => {
                    self.check_proposal(ProbeMethod::Model).await?;
                    None
                }
                answer => self.decision_for(answer)?,
            };
            let Some(decision) = decision else { continue };
            match self.apply_decision(decision).await? {
                ReviewStep::Decided(decided) if answer == ReviewAnswer::BlankThread => {
                    return Ok(ReviewOutcome::BlankThread(decided));
                }
                ReviewStep::Decided(decided) => return Ok(ReviewOutcome::Decided(decided)),
                ReviewStep::StillPending => {}
                ReviewStep::Rejected(reason) => self.context.print_notice(&format!("failed to {reason}")),
            }
        }
    }

    /// Submits a decision without asking.
    ///
    /// # Errors
    /// Fails if the decision is refused or the terminal cannot be written.
    pub(crate) async fn submit_decision(&mut self, decision: Decision) -> Result<ReviewOutcome, CliFailure> {
        let decided = self.run_decision(decision).await?.output?;
        Ok(ReviewOutcome::Decided(Box::new(decided)))
    }

    /// Returns the state on which the offered answers depend.
    fn review_state(&self) -> ReviewState {
        ReviewState {
            is_failed: self.pending.problem.is_some(),
            is_offline_summary: self.pending.proposal.summary_json.model == OFFLINE_SUMMARY_MODEL,
            refinements_left: self.pending.remaining_refinements,
            proposal_count: self.proposals.len(),
            has_pane: self.context.screen.cursor == CursorMode::Free,
            has_unanswered: self.continuity.as_ref().is_some_and(|report| report.feedback().is_some()),
            is_checked: self.continuity.is_some(),
            has_notes: !notes::note_entries(&self.pending.proposal.summary_json.notes).is_empty(),
            is_outdated: self.pending.uncovered_messages > 0,
            offers_blank_thread: self.offers_blank_thread,
            requester: requester(&self.pending),
        }
    }

    /// Returns the decision for an answer, after a further question if the answer needs one; `None` if the answer only
    /// shows information, or if the user left the further question.
    fn decision_for(&mut self, answer: ReviewAnswer) -> Result<Option<Decision>, CliFailure> {
        Ok(match answer {
            ReviewAnswer::Accept => self.ask_about_calls(acceptance(&self.pending))?,
            ReviewAnswer::Preview => Some(Decision::Preview {}),
            ReviewAnswer::Decline => {
                ask_line(&self.context.screen, "Reason (Enter for none)")?.map(|reason| Decision::Reject {
                    message: Some(reason.trim().to_owned()).filter(|text| !text.is_empty()),
                })
            }
            ReviewAnswer::BlankThread => Some(Decision::Reject { message: Some(WITHOUT_SUMMARY.to_owned()) }),
            ReviewAnswer::Refine => self.ask_for_feedback()?,
            ReviewAnswer::RefineUnanswered => {
                self.add_unanswered_to_feedback();
                self.ask_for_feedback()?
            }
            ReviewAnswer::Redraft if self.feedback.is_empty() => {
                Some(self.edit_decision("redraft", json!({})))
            }
            ReviewAnswer::Redraft => Some(self.edit_decision("feedback", json!(self.feedback))),
            ReviewAnswer::CoverNewer => Some(cover_newer_decision(&self.pending)),
            ReviewAnswer::OtherModel => {
                self.choose_model()?.map(|model| self.edit_decision("redraft", json!({"model": model})))
            }
            ReviewAnswer::OfflineSummary => {
                Some(self.edit_decision("redraft", json!({"model": OFFLINE_SUMMARY_MODEL})))
            }
            ReviewAnswer::EarlierDraft => self
                .choose_earlier_draft()?
                .map(|iteration| self.edit_decision("revert_to", json!(iteration))),
            ReviewAnswer::Add => self.choose_note()?.map(|added| self.edit_decision("add", added)),
            ReviewAnswer::Diff => {
                self.show_diff()?;
                None
            }
            ReviewAnswer::Coverage => {
                self.show_coverage()?;
                None
            }
            // The caller performs these itself, because they take time.
            ReviewAnswer::Edit | ReviewAnswer::Check | ReviewAnswer::Open => None,
        })
    }

    /// Returns the decision with the user's choice about calls that wait for approval; `None` if they leave the question.
    fn ask_about_calls(&self, decision: Decision) -> Result<Option<Decision>, CliFailure> {
        Ok(waiting_calls::ask_about_calls(&self.context.screen, &self.pending.proposal, decision)?)
    }

    /// Returns an `edit` decision about the shown proposal with one argument.
    fn edit_decision(&self, key: &str, value: Value) -> Decision {
        build_edit_decision(&self.pending, hashed_arg(&self.pending, key, value))
    }

    /// Submits a decision, and shows the next proposal if the handoff is still pending.
    async fn apply_decision(&mut self, decision: Decision) -> Result<ReviewStep, CliFailure> {
        let WorkResult { output, is_stopped } = self.run_decision(decision).await?;
        match output {
            Ok(decided) => match decided.next.clone() {
                Some(next) => {
                    let reason = if is_stopped { "Stopped" } else { "There is no new draft" };
                    self.show_next_proposal(next, reason).await?;
                    Ok(ReviewStep::StillPending)
                }
                None => Ok(ReviewStep::Decided(Box::new(decided))),
            },
            Err(error) => self.handle_rejected_decision(error).await,
        }
    }

    /// Reports the reason why a decision was refused, if the handoff is still pending, and shows a newer proposal of
    /// another client.
    ///
    /// # Errors
    /// Returns the error if the handoff is no longer pending or the program is ending.
    async fn handle_rejected_decision(&mut self, error: agent::Error) -> Result<ReviewStep, CliFailure> {
        let review = self.context.agent.handoffs().review(self.pending.handoff.handoff_id).await;
        let review = match review {
            Ok(review) if review.handoff.status.is_pending() && !signals::is_exiting() => review,
            Ok(_) | Err(_) => return Err(error.into()),
        };
        let shown_iteration = self.pending.proposal.iteration;
        let newer = review.pending.filter(|pending| pending.proposal.iteration != shown_iteration);
        if newer.is_none() && error.class() == ErrorClass::User {
            return Ok(ReviewStep::Rejected(sanitize_line(&error_chain(&error))));
        }
        match CliFailure::from(error) {
            CliFailure::Reported(failure) => exit::print_failure(&failure, self.context.format),
            closed @ CliFailure::OutputClosed => return Err(closed),
        }
        if let Some(next) = newer {
            let own_feedback = std::mem::take(&mut self.feedback);
            let is_used = next.proposal.feedback.as_ref() == Some(&own_feedback);
            self.show_next_proposal(next, "Another client has changed the handoff").await?;
            // The draft of the other client used that client's feedback, not the feedback that was written here.
            if !own_feedback.is_empty() && !is_used {
                self.feedback = own_feedback;
            }
        }
        if !self.feedback.is_empty() {
            self.context.screen.print_line("Your feedback is kept: Refine starts with it.")?;
        }
        Ok(ReviewStep::StillPending)
    }

    /// Makes `next` the proposal under review and prints it with its changes. If it is the same proposal as before,
    /// prints `reason` instead.
    async fn show_next_proposal(&mut self, next: PendingHandoff, reason: &str) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        let is_other = next.proposal.iteration != self.pending.proposal.iteration;
        if is_other {
            self.user_text.save_to_file(self.context, &self.pending.proposal)?;
        }
        match (&next.unused_feedback, &next.proposal.feedback) {
            (Some(unused), _) => unused.clone_into(&mut self.feedback),
            // A new draft from feedback has used it. A draft without feedback leaves it for the next refinement.
            (None, Some(_)) if is_other => self.feedback.clear(),
            (None, _) => {}
        }
        let before = std::mem::replace(&mut self.pending, next);
        if !is_other && self.pending.problem.is_none() {
            return Ok(screen.print_line(format!("{reason}; the proposal is unchanged."))?);
        }
        let id = self.pending.handoff.handoff_id;
        self.proposals = self.context.agent.handoffs().review(id).await?.proposals;
        show_proposal(self.context, &self.pending, FoldedLists::ReviewKey).await?;
        if is_other {
            if let Some(earlier) = change::find_identical_draft(&self.proposals, &self.pending.proposal) {
                screen.print_line(format!("Same as draft {}.", earlier.iteration + 1))?;
            }
            let text =
                change::change_text(&before.proposal.summary_json, &self.pending.proposal.summary_json);
            screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?;
            self.continuity = None;
            self.check_automatically().await?;
        }
        Ok(())
    }

    /// Asks for feedback until the user writes some; `None` if the user leaves the question.
    fn ask_for_feedback(&mut self) -> Result<Option<Decision>, CliFailure> {
        let screen = &self.context.screen;
        let instructions = "Describe in your own words what should change.";
        screen.print_line(screen.style.dim(match screen.is_plain() {
            true => instructions.to_owned(),
            false => wrap(
                &format!("{instructions} Alt-Enter starts a new line, Esc goes back."),
                screen.text_columns(),
                "",
                "",
            ),
        }))?;
        loop {
            let Some(feedback) = ask_draft(screen, "Feedback", &mut self.feedback)? else {
                self.remove_unchanged_suggestion();
                return Ok(None);
            };
            if !feedback.trim().is_empty() {
                feedback.trim().clone_into(&mut self.feedback);
                return Ok(Some(self.edit_decision("feedback", json!(self.feedback))));
            }
            screen.print_line("The feedback is empty: describe what should change, or go back.")?;
            // A plain terminal has no key to go back with, so an empty line goes back.
            if screen.is_plain() {
                return Ok(None);
            }
        }
    }

    /// Asks the user to choose another model from a list or to type its name; `None` if the user leaves the question.
    fn choose_model(&self) -> Result<Option<String>, CliFailure> {
        let screen = &self.context.screen;
        let status = self.context.agent.model_status();
        let mut names: Vec<String> = status.default.into_iter().collect();
        let mut items: Vec<String> =
            names.iter().map(|name| format!("{} (in use)", sanitize_line(name))).collect();
        for provider in status.providers.into_iter().filter(|provider| provider.configured) {
            names.push(format!("{}/", provider.provider));
            items.push(format!("{}/… (type its name)", provider.provider));
        }
        items.push("another (type provider/name)".to_owned());
        let index = match pick_or_type(screen, "Draft with", items, is_model_name)? {
            Some(PickResult::Item(index)) => index,
            Some(PickResult::Typed(name)) => return Ok(Some(name)),
            None => return Ok(None),
        };
        let start = names.get(index).map_or("", String::as_str);
        if !start.is_empty() && !start.ends_with('/') {
            return Ok(Some(start.to_owned()));
        }
        let name = match screen.is_plain() {
            true => ask_line(screen, &format!("Model (after {start})"))?.map(|name| format!("{start}{name}")),
            false => ask_text(screen, "Model", start)?,
        };
        Ok(name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && !name.ends_with('/')))
    }

    /// Asks the user to choose an earlier draft and returns its iteration; `None` if the user leaves the question.
    fn choose_earlier_draft(&self) -> Result<Option<u32>, CliFailure> {
        let screen = &self.context.screen;
        let shown_iteration = self.pending.proposal.iteration;
        let earlier: Vec<&Proposal> =
            self.proposals.iter().rev().filter(|proposal| proposal.iteration != shown_iteration).collect();
        let columns = screen.columns.saturating_sub(8);
        let items = earlier.iter().map(|proposal| {
            let summary = &proposal.summary_json;
            let text = format!(
                "draft {} · {} · {}",
                proposal.iteration + 1,
                sanitize_line(&summary.title),
                sanitize_line(&summary.model)
            );
            shorten(&text, columns).into_owned()
        });
        Ok(pick(screen, "Return to", items.collect())?.map(|index| earlier[index].iteration))
    }

    /// Prints the diff between the shown draft and the previous one.
    fn show_diff(&self) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        let shown = &self.pending.proposal;
        let before = self.proposals.iter().rev().find(|proposal| proposal.iteration < shown.iteration);
        let Some(before) = before else {
            return Ok(screen.print_line("There is no earlier draft to compare this one with.")?);
        };
        let text = format!("Draft {} (-) and draft {} (+):", before.iteration + 1, shown.iteration + 1);
        screen.print_line(screen.style.bold(text))?;
        let lines =
            diff::render_versions(screen, &sanitize(&before.package_md), &sanitize(&shown.package_md));
        if lines.is_empty() {
            screen.print_line("The drafts are identical.")?;
        }
        Ok(screen.print_lines(&lines)?)
    }

    /// Prints the coverage of the summary and the facts that are carried over, in full.
    fn show_coverage(&self) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        let proposal = &self.pending.proposal;
        screen.print_line("")?;
        let facts = facts::render_full(screen, proposal);
        let lines = coverage::render_full(screen, &proposal.summary_json.coverage).into_iter().chain(facts);
        screen.print_lines(lines)?;
        Ok(screen.print_line("")?)
    }

    /// Lets the user edit the summary's text until it is accepted; `None` if the user returns to the question.
    async fn edit_text(&mut self) -> Result<Option<Box<HandoffOutcome>>, CliFailure> {
        let mut refused: Option<String> = None;
        loop {
            let decision = self.user_text.edit(self.context, &self.pending, refused.as_deref()).await?;
            let Some(decision) = decision else { return Ok(None) };
            let Some(decision) = self.ask_about_calls(decision)? else { return Ok(None) };
            let (edited, user_text) = (self.pending.proposal.clone(), self.user_text.take());
            let step = self.apply_decision(decision).await;
            if let Ok(ReviewStep::Decided(decided)) = step {
                return Ok(Some(decided));
            }
            let is_stored = self.proposals.iter().any(|proposal| {
                proposal.iteration > edited.iteration && proposal.summary_json.model == USER_AUTHOR
            });
            if !is_stored {
                self.user_text = user_text;
            }
            match step? {
                ReviewStep::Rejected(reason) => {
                    self.context.print_notice(&format!("failed to {reason}"));
                    refused = Some(reason);
                }
                ReviewStep::StillPending | ReviewStep::Decided(_) => {
                    if self.pending.proposal.iteration > edited.iteration {
                        // Another client changed the proposal meanwhile, so the text is not an edit of the shown one.
                        self.user_text.save_to_file(self.context, &edited)?;
                    }
                    self.user_text.print_reminder(self.context)?;
                    return Ok(None);
                }
            }
        }
    }
}

/// Returns whether a text is a complete name of a model: `provider/name`.
fn is_model_name(text: &str) -> bool {
    text.trim().split_once('/').is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty())
}

/// Returns an `edit` decision with the given arguments for the first action of the handoff's interrupt.
fn build_edit_decision(pending: &PendingHandoff, args: Map<String, Value>) -> Decision {
    let request = pending.interrupt.payload.action_requests.first();
    let name = request.map(|request| request.name.clone()).unwrap_or_default();
    Decision::Edit { edited_action: EditedAction { name, args } }
}

/// Returns the decision that requests a draft which also covers the messages after the shown proposal.
pub(crate) fn cover_newer_decision(pending: &PendingHandoff) -> Decision {
    build_edit_decision(pending, hashed_arg(pending, "redraft", json!(true)))
}

/// Returns one argument of a decision, with the hash of the shown proposal.
fn hashed_arg(pending: &PendingHandoff, key: &str, value: Value) -> Map<String, Value> {
    let hash = json!(pending.proposal.summary_sha256);
    Map::from_iter([(key.to_owned(), value), ("summary_sha256".to_owned(), hash)])
}

/// Returns an argument of the interrupt's action request.
fn request_arg<'a>(pending: &'a PendingHandoff, key: &str) -> Option<&'a Value> {
    pending.interrupt.payload.action_requests.first()?.args.get(key)
}

/// Returns the list that contains only this decision.
fn single_decision(decision: Decision) -> Decisions {
    Decisions { decisions: vec![decision] }
}
