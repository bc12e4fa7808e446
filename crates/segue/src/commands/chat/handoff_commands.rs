//! Handoffs in the chat: `/handoff`, `/new`, a handoff that the agent requests, and a pending handoff of a thread that is
//! opened. All of them lead to the same review. After an accept the chat continues in the child thread.

use agent::{HandoffRequestOptions, PendingHandoff, RunEnd};
use protocol::ThreadId;
use terminal::{Audience, KeyChoice, ask_while_typing, sanitize, sanitize_line, wrap};

use crate::commands::chat::ChatSession;
use crate::commands::handoff::show_child_thread;
use crate::commands::review::{self, FoldedLists, HandoffReviewSession, ReviewOutcome};
use crate::commands::threads::format_age;
use crate::exit::{CliFailure, ExitReason};

/// The explanation of a handoff that is printed before a draft.
const HANDOFF_EXPLANATION: &str = "A handoff is a bridge of context, not a fork: the new thread gets only the summary that you accept. This thread does not change.";

/// The arguments of `/handoff`.
#[derive(Debug, Default, PartialEq, Eq)]
struct SlashHandoffArgs {
    /// The words of the goal; empty if no goal is given.
    goal: Vec<String>,
    /// The number of newest messages to summarize; `None` covers the whole thread.
    messages: Option<u64>,
    /// The source of the decision.
    answer: HandoffAnswerMode,
}

/// The source of the decision on a handoff: the user, or an option.
#[derive(Debug, Default, PartialEq, Eq)]
enum HandoffAnswerMode {
    /// The user is asked.
    #[default]
    Ask,
    /// `--preview`: only show the draft.
    Preview,
    /// `--apply`: accept the draft without asking.
    Apply,
}

/// The command that led to a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReviewOccasion {
    /// `/handoff`, or a handoff that was already pending.
    Handoff,
    /// `/new`: the user wants a new thread, so the review also offers a new thread without a summary.
    New,
}

/// The start of a new thread: with a handoff, or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewThreadStart {
    /// Hand the current thread off to a new thread.
    Carry,
    /// Start an empty thread.
    Blank,
}

/// The answers to the question of `/new`.
const NEW_THREAD_CHOICES: [KeyChoice<NewThreadStart>; 2] = [
    KeyChoice { key: 'c', label: "Hand off with a summary", answer: NewThreadStart::Carry },
    KeyChoice { key: 's', label: "Skip: start empty", answer: NewThreadStart::Blank },
];

/// The answers when a pending handoff is offered for review.
const REVIEW_NOW_CHOICES: [KeyChoice<()>; 1] = [KeyChoice { key: 'r', label: "Review now", answer: () }];

impl ChatSession {
    /// Performs `/handoff`: drafts a handoff of the current thread, asks for the decision, and continues in the child
    /// thread if the handoff is accepted.
    ///
    /// # Errors
    /// Fails if the arguments are invalid, the thread has a different pending handoff, or the draft or the decision
    /// fails.
    pub(super) async fn run_handoff(&mut self, words: &[&str]) -> Result<(), CliFailure> {
        let Some(thread_id) = self.current_thread_id()? else { return Ok(()) };
        let args = parse_args(words)?;
        self.print_info(HANDOFF_EXPLANATION)?;
        let request = HandoffRequestOptions {
            goal: Some(args.goal.join(" ")).filter(|goal| !goal.is_empty()),
            preview_only: args.answer == HandoffAnswerMode::Preview,
            messages: args.messages,
            ..HandoffRequestOptions::default()
        };
        if args.answer == HandoffAnswerMode::Preview {
            return self.preview_handoff(thread_id, request).await;
        }
        let Some(pending) = self.draft_handoff(thread_id, request).await? else { return Ok(()) };
        let decision = match args.answer {
            HandoffAnswerMode::Apply => review::acceptance(&pending),
            HandoffAnswerMode::Ask if self.context.screen.audience == Audience::Program => {
                review::show_proposal(&self.context, &pending, FoldedLists::OnlyFolded).await?;
                return self.print_info("The handoff is pending; /handoff --apply accepts it.");
            }
            HandoffAnswerMode::Ask | HandoffAnswerMode::Preview => {
                return self.review_and_continue(pending, ReviewOccasion::Handoff).await;
            }
        };
        review::show_proposal(&self.context, &pending, FoldedLists::OnlyFolded).await?;
        let mut review = HandoffReviewSession::open(&self.context, pending, &mut self.type_ahead).await?;
        let outcome = review.submit_decision(decision).await;
        let totals = std::mem::take(&mut review.totals);
        self.record_totals(totals).await?;
        match self.follow_review_outcome(outcome?).await? {
            Some(end) => self.handle_run_end(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// Offers a first message for the thread. It is not sent before the user does so.
    fn offer_message(&mut self, message: Option<String>) -> Result<(), CliFailure> {
        let Some(message) = message else { return Ok(()) };
        let how = if self.input.can_suggest() { " (→ inserts it)" } else { "" };
        self.print_info(&format!("Suggested first message{how}: {}", sanitize_line(&message)))?;
        self.input.suggest(Some(sanitize(&message).into()));
        Ok(())
    }

    /// Performs `/handoff --preview`: shows the draft, or the pending handoff, and stores nothing.
    async fn preview_handoff(
        &mut self,
        thread_id: ThreadId,
        request: HandoffRequestOptions,
    ) -> Result<(), CliFailure> {
        let previewed =
            review::preview_handoff(&self.context, thread_id, request, &mut self.type_ahead).await;
        self.type_ahead.hold_queued_lines();
        let pending = match previewed {
            Err(failure) => return Err(self.add_pending_hint(failure, thread_id).await),
            Ok(None) => return self.print_info("Stopped. Nothing was stored."),
            Ok(Some(pending)) => pending,
        };
        review::show_proposal(&self.context, &pending, FoldedLists::OnlyFolded).await?;
        self.print_info(match pending.is_new {
            true => "Only shown: nothing was stored. /handoff drafts it for a decision.",
            false => "The handoff is pending; /handoff asks for the decision.",
        })
    }

    /// Performs `/new`: starts a new thread. If the current thread has context, asks whether to hand it off.
    pub(super) async fn start_new_thread(&mut self) -> Result<(), CliFailure> {
        let thread = match &self.thread {
            Some(thread) if self.context.screen.audience == Audience::Person => {
                Some(self.context.agent.threads().find(&thread.thread_id.to_string()).await?)
            }
            Some(_) | None => None,
        };
        let has_context = |thread: &protocol::Thread| {
            let is_child = thread.handoff_mark().is_some_and(|mark| mark.child_thread_id == thread.thread_id);
            thread.message_count > 0 || is_child
        };
        let Some(thread) = thread.filter(has_context) else { return self.start_blank_thread() };
        match ask_while_typing(&self.context.screen, &NEW_THREAD_CHOICES, "Stay here", &mut self.type_ahead)?
        {
            Some(NewThreadStart::Carry) => {
                self.print_info(HANDOFF_EXPLANATION)?;
                match self.draft_handoff(thread.thread_id, HandoffRequestOptions::default()).await? {
                    Some(pending) => self.review_and_continue(pending, ReviewOccasion::New).await,
                    None => Ok(()),
                }
            }
            Some(NewThreadStart::Blank) => self.start_blank_thread(),
            None => Ok(()),
        }
    }

    /// Leaves the current thread; the next message creates a new one.
    fn start_blank_thread(&mut self) -> Result<(), CliFailure> {
        self.switch_thread(None);
        self.print_info("Your next message starts a new thread.")
    }

    /// Offers to review the pending handoff of a thread, if it has one.
    pub(super) async fn offer_pending_handoff(&mut self, thread_id: ThreadId) -> Result<(), CliFailure> {
        let handoffs = self.context.agent.handoffs().pending(Some(thread_id)).await?;
        let Some(pending) = handoffs.into_iter().next() else { return Ok(()) };
        let (screen, title) = (&self.context.screen, sanitize_line(&pending.proposal.summary_json.title));
        let age = format_age(jiff::Timestamp::now(), pending.handoff.created_at);
        let text = format!("A handoff of this thread needs a decision: {title} (requested {age}).");
        let hint = if screen.audience == Audience::Program { " /handoff shows it." } else { "" };
        screen.print_line(screen.style.warn(wrap(
            &format!("{text}{hint}"),
            screen.text_columns(),
            "",
            "  ",
        )))?;
        if screen.audience == Audience::Program {
            return Ok(());
        }
        let later = "Later: /handoff shows it";
        match ask_while_typing(&self.context.screen, &REVIEW_NOW_CHOICES, later, &mut self.type_ahead)? {
            Some(()) => self.review_and_continue(pending, ReviewOccasion::Handoff).await,
            None => Ok(()),
        }
    }

    /// Reviews the handoff at which a run stopped. Returns the end of the resumed run; `None` if the run did not stop
    /// at a handoff, the handoff was left pending, or the chat has moved to another thread.
    pub(super) async fn review_requested_handoff(
        &mut self,
        thread_id: ThreadId,
        end: &RunEnd,
    ) -> Result<Option<RunEnd>, CliFailure> {
        if self.context.screen.audience == Audience::Program {
            return Ok(None);
        }
        let handoffs = self.context.agent.handoffs().pending(Some(thread_id)).await?;
        let has_interrupted = |pending: &PendingHandoff| {
            end.interrupts.iter().any(|interrupt| interrupt.interrupt_id == pending.interrupt.interrupt_id)
        };
        match handoffs.into_iter().find(has_interrupted) {
            Some(pending) => {
                self.context.screen.print_line("")?;
                // The draft existed before the run stopped, but the user has not seen it yet.
                self.review_handoff(PendingHandoff { is_new: true, ..pending }, ReviewOccasion::Handoff).await
            }
            None => Ok(None),
        }
    }

    /// Drafts a handoff; `None` if the user stopped the draft. After a stop or a failure, lines that were typed ahead
    /// become drafts, so that the user sees them again before they are sent.
    async fn draft_handoff(
        &mut self,
        thread_id: ThreadId,
        request: HandoffRequestOptions,
    ) -> Result<Option<PendingHandoff>, CliFailure> {
        // A draft costs tokens too, so the totals are read from the journal again.
        self.thread_totals = None;
        let drafted = review::draft_handoff(&self.context, thread_id, request, &mut self.type_ahead).await;
        if !matches!(drafted, Ok(Some(_))) {
            self.type_ahead.hold_queued_lines();
        }
        let drafted = match drafted {
            Err(failure) => return Err(self.add_pending_hint(failure, thread_id).await),
            Ok(drafted) => drafted,
        };
        if drafted.is_none() {
            self.print_info("Stopped. No draft was kept, and this thread did not change.")?;
        }
        Ok(drafted)
    }

    /// Adds a hint to the failure of a request with another goal or range than the pending handoff.
    async fn add_pending_hint(&self, failure: CliFailure, thread_id: ThreadId) -> CliFailure {
        if !failure.is_conflict() || failure.is_busy() {
            return failure;
        }
        match self.context.agent.handoffs().pending(Some(thread_id)).await {
            Ok(handoffs) if !handoffs.is_empty() => {
                failure.with_hint("/handoff shows the pending handoff; decide on it first")
            }
            Ok(_) | Err(_) => failure,
        }
    }

    /// Reviews a handoff, and answers the questions of the run that continues after the decision.
    async fn review_and_continue(
        &mut self,
        pending: PendingHandoff,
        occasion: ReviewOccasion,
    ) -> Result<(), CliFailure> {
        let thread_id = pending.handoff.parent_thread_id;
        match self.review_handoff(pending, occasion).await? {
            Some(end) => self.handle_run_end(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// Shows the proposal, asks until it is decided or left pending, and performs the decision. Returns the end of the
    /// run that received the decision, if the chat stays in its thread. Lines that were typed meanwhile become drafts
    /// for the next prompt.
    async fn review_handoff(
        &mut self,
        pending: PendingHandoff,
        occasion: ReviewOccasion,
    ) -> Result<Option<RunEnd>, CliFailure> {
        self.context.screen.update_width();
        self.thread_totals = None;
        review::show_proposal(&self.context, &pending, FoldedLists::ReviewKey).await?;
        let mut review = HandoffReviewSession::open(&self.context, pending, &mut self.type_ahead).await?;
        review.totals.pending_calls = std::mem::take(&mut self.pending_calls);
        if occasion == ReviewOccasion::New {
            review.offer_blank_thread();
        }
        let outcome = review.ask_until_decided().await;
        let totals = std::mem::take(&mut review.totals);
        self.type_ahead.hold_queued_lines();
        self.record_totals(totals).await?;
        self.follow_review_outcome(outcome?).await
    }

    /// Continues after a review: in the child thread, in an empty thread, or in the same thread. Returns the end of the run if
    /// the chat stays in the same thread.
    async fn follow_review_outcome(&mut self, outcome: ReviewOutcome) -> Result<Option<RunEnd>, CliFailure> {
        match outcome {
            ReviewOutcome::Deferred => {
                self.print_info("Nothing was decided; /handoff shows the handoff again.").map(|()| None)
            }
            ReviewOutcome::BlankThread(_) => {
                self.switch_thread(None);
                self.print_info("Your next message starts a new thread without a summary.").map(|()| None)
            }
            ReviewOutcome::Decided(decided) => match decided.child_thread_id {
                Some(child) => {
                    show_child_thread(&self.context, &decided.handoff, &decided.proposal).await?;
                    let child = self.context.agent.threads().find(&child.to_string()).await?;
                    self.switch_thread(Some(child));
                    self.print_info("You are in the new thread, which continues with the summary.")?;
                    self.offer_message(decided.suggested_message).map(|()| None)
                }
                None => {
                    self.is_status_stale = true;
                    let outcome = decided.handoff.status.outcome();
                    self.print_info(&format!("Handoff {outcome}; this thread continues unchanged."))?;
                    Ok(Some(decided.end))
                }
            },
        }
    }
}

/// Parses the arguments of `/handoff`. Words that are not options form the goal.
///
/// # Errors
/// Fails if an option is unknown or `--messages` has no positive number.
fn parse_args(words: &[&str]) -> Result<SlashHandoffArgs, CliFailure> {
    let mut args = SlashHandoffArgs::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preview" => args.answer = HandoffAnswerMode::Preview,
            "--apply" => args.answer = HandoffAnswerMode::Apply,
            "--messages" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                args.messages = Some(number.ok_or_else(|| usage_error("`--messages` needs a number"))?);
            }
            word if word.starts_with("--") => {
                return Err(usage_error(&format!("there is no option `{word}`")));
            }
            word => args.goal.push(word.to_owned()),
        }
    }
    Ok(args)
}

/// Returns the failure for invalid arguments of `/handoff`.
fn usage_error(reason: &str) -> CliFailure {
    CliFailure::new(ExitReason::User, format!("read /handoff: {reason}"))
        .with_hint("/handoff [goal…] [--preview] [--apply] [--messages N]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handoff_takes_a_goal_and_options_in_any_order() {
        let check = |line: &str, goal: &str, messages: Option<u64>, answer: HandoffAnswerMode| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let args = parse_args(&words).unwrap();
            assert_eq!((args.goal.join(" ").as_str(), args.messages, args.answer), (goal, messages, answer));
        };
        check("", "", None, HandoffAnswerMode::Ask);
        check("fix the login --apply", "fix the login", None, HandoffAnswerMode::Apply);
        check("--messages 20 fix --preview", "fix", Some(20), HandoffAnswerMode::Preview);
        for invalid in ["--messages", "--messages x", "--messages 0", "--aply"] {
            let words: Vec<&str> = invalid.split_whitespace().collect();
            assert!(parse_args(&words).is_err(), "{invalid}");
        }
    }
}
