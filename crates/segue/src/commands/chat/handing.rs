//! Handing off in a chat: `/handoff`, `/new`, a handoff the agent asks for, and one that waits when its thread is opened.
//! All of them are the same review, and lead on to the child, or stay.

use agent::{HandoffRequest, PendingHandoff, RunEnd};
use protocol::{Decision, ThreadId};
use terminal::{Audience, Choice, ask_amid, one_line, wrap};

use crate::commands::chat::Chat;
use crate::commands::handoff::show_child;
use crate::commands::review::{self, Left, Review};
use crate::commands::threads::ago;
use crate::exit::{Code, Failure};

/// What a handoff is, in a word.
const BRIDGE: &str = "A bridge of context, not a fork: only what you see here and accept goes along; this thread stays as it is.";

/// What `/handoff` was given.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    goal: Vec<String>,
    messages: Option<u64>,
    answer: Answer,
}

/// Where the answer to `/handoff` comes from.
#[derive(Debug, Default, PartialEq, Eq)]
enum Answer {
    #[default]
    Ask,
    Preview,
    Apply,
}

/// What a review was begun for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Handoff,
    /// `/new`: a blank thread is what was asked for.
    New,
}

/// How a new thread begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Carry,
    Skip,
}

const BEGINNINGS: [Choice<Beginning>; 2] = [
    Choice { key: 'c', label: "Carry context forward", answer: Beginning::Carry },
    Choice { key: 's', label: "Skip: begin blank", answer: Beginning::Skip },
];

const REVIEW_NOW: [Choice<()>; 1] = [Choice { key: 'r', label: "Review now", answer: () }];

impl Chat {
    /// `/handoff`: draft, review, and go on in the child at once.
    pub(super) async fn handoff(&mut self, words: &[&str]) -> Result<(), Failure> {
        let Some(thread_id) = self.current()? else { return Ok(()) };
        let asked = read(words)?;
        self.say(BRIDGE)?;
        let request = HandoffRequest {
            goal: Some(asked.goal.join(" ")).filter(|goal| !goal.is_empty()),
            preview_only: asked.answer == Answer::Preview,
            messages: asked.messages,
            ..HandoffRequest::default()
        };
        let Some(pending) = self.draft(thread_id, request).await? else { return Ok(()) };
        let decision = match asked.answer {
            Answer::Apply => review::acceptance(&pending),
            Answer::Preview if pending.is_new => Decision::Preview {},
            Answer::Preview => {
                review::show(&self.context, &pending).await?;
                return self.say("It waits for a decision; /handoff asks for it.");
            }
            Answer::Ask if self.context.screen.audience == Audience::Program => {
                review::show(&self.context, &pending).await?;
                return self.say("It waits for a decision: /handoff --apply accepts it.");
            }
            Answer::Ask => return self.review_and_go_on(pending, Occasion::Handoff).await,
        };
        review::show(&self.context, &pending).await?;
        let mut review = Review::open(&self.context, pending, &mut self.typed).await?;
        let left = review.give(decision).await;
        let spent = std::mem::take(&mut review.spent);
        self.took(spent).await?;
        match self.go_on(left?).await? {
            Some(end) => self.settle(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// `/new`: asks whether the thread's context shall be carried forward, and begins a new thread.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        let thread = match &self.thread {
            Some(thread) if self.context.screen.audience == Audience::Person => {
                Some(self.context.agent.threads().find(&thread.thread_id.to_string()).await?)
            }
            Some(_) | None => None,
        };
        let has_context = |thread: &protocol::Thread| {
            let is_child = thread.handoff().is_some_and(|mark| mark.child_thread_id == thread.thread_id);
            thread.message_count > 0 || is_child
        };
        let Some(thread) = thread.filter(has_context) else { return self.begin_blank() };
        match ask_amid(&self.context.screen, &BEGINNINGS, "Stay here", &mut self.typed)? {
            Some(Beginning::Carry) => {
                self.say(BRIDGE)?;
                match self.draft(thread.thread_id, HandoffRequest::default()).await? {
                    Some(pending) => self.review_and_go_on(pending, Occasion::New).await,
                    None => Ok(()),
                }
            }
            Some(Beginning::Skip) => self.begin_blank(),
            None => Ok(()),
        }
    }

    fn begin_blank(&mut self) -> Result<(), Failure> {
        self.go_to(None);
        self.say("New thread; it begins with your next message.")
    }

    /// Offers a handoff of the thread that waits for a decision.
    pub(super) async fn offer_pending(&mut self, thread_id: ThreadId) -> Result<(), Failure> {
        let waiting = self.context.agent.handoffs().pending(Some(thread_id)).await?;
        let Some(pending) = waiting.into_iter().next() else { return Ok(()) };
        let (screen, title) = (&self.context.screen, one_line(&pending.proposal.summary_json.title));
        let since = ago(jiff::Timestamp::now(), pending.handoff.created_at);
        let text = format!("A handoff of this thread waits for a decision: {title} (asked for {since}).");
        let hint = if screen.audience == Audience::Program { " /handoff shows it." } else { "" };
        screen.line(screen.style.warn(wrap(&format!("{text}{hint}"), screen.text_columns(), "", "  ")))?;
        if screen.audience == Audience::Program {
            return Ok(());
        }
        match ask_amid(&self.context.screen, &REVIEW_NOW, "Later: /handoff shows it", &mut self.typed)? {
            Some(()) => self.review_and_go_on(pending, Occasion::Handoff).await,
            None => Ok(()),
        }
    }

    /// Reviews the handoff that a run stopped to ask about; returns how the run went on with the answer, if it did.
    pub(super) async fn review_asked(
        &mut self,
        thread_id: ThreadId,
        end: &RunEnd,
    ) -> Result<Option<RunEnd>, Failure> {
        if self.context.screen.audience == Audience::Program {
            return Ok(None);
        }
        let waiting = self.context.agent.handoffs().pending(Some(thread_id)).await?;
        let is_asked = |pending: &PendingHandoff| {
            end.interrupts.iter().any(|asked| asked.interrupt_id == pending.interrupt.interrupt_id)
        };
        match waiting.into_iter().find(is_asked) {
            Some(pending) => {
                self.context.screen.line("")?;
                // To the person it is new, whatever was drafted before the run stopped.
                self.review(PendingHandoff { is_new: true, ..pending }, Occasion::Handoff).await
            }
            None => Ok(None),
        }
    }

    /// Drafts a handoff; `None` when the person stopped it. What they typed meanwhile is looked at before it is sent.
    async fn draft(
        &mut self,
        thread_id: ThreadId,
        request: HandoffRequest,
    ) -> Result<Option<PendingHandoff>, Failure> {
        // A draft is paid for too; what it took is read again with the rest.
        self.total = None;
        let drafted = review::draft(&self.context, thread_id, request, &mut self.typed).await;
        if !matches!(drafted, Ok(Some(_))) {
            self.typed.hold();
        }
        let drafted = match drafted {
            // Asked for with another goal or window than the one that waits.
            Err(failure) if failure.is_conflict() && !failure.is_busy() && self.waits(thread_id).await => {
                return Err(failure.with_hint("/handoff shows the one that waits; decide it first"));
            }
            drafted => drafted?,
        };
        if drafted.is_none() {
            self.say("Stopped: nothing was left behind, and this thread goes on as it was.")?;
        }
        Ok(drafted)
    }

    /// Returns whether a handoff of the thread waits; what cannot be read is not told.
    async fn waits(&self, thread_id: ThreadId) -> bool {
        let waiting = self.context.agent.handoffs().pending(Some(thread_id)).await;
        waiting.is_ok_and(|waiting| !waiting.is_empty())
    }

    async fn review_and_go_on(&mut self, pending: PendingHandoff, occasion: Occasion) -> Result<(), Failure> {
        let thread_id = pending.handoff.parent_thread_id;
        match self.review(pending, occasion).await? {
            Some(end) => self.settle(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// Shows the proposal, asks until it is decided or left, and goes where that leads; returns how the run came to rest
    /// that took the decision, if the conversation stays in its thread. What was typed meanwhile goes into the next line.
    async fn review(
        &mut self,
        pending: PendingHandoff,
        occasion: Occasion,
    ) -> Result<Option<RunEnd>, Failure> {
        self.context.screen.measure();
        self.total = None;
        review::show(&self.context, &pending).await?;
        let mut review = Review::open(&self.context, pending, &mut self.typed).await?;
        review.spent.waiting = std::mem::take(&mut self.waiting);
        if occasion == Occasion::New {
            review.offer_blank();
        }
        let left = review.ask().await;
        let spent = std::mem::take(&mut review.spent);
        self.typed.hold();
        self.took(spent).await?;
        self.go_on(left?).await
    }

    /// Goes where a review led.
    async fn go_on(&mut self, left: Left) -> Result<Option<RunEnd>, Failure> {
        match left {
            Left::Later => self.say("Nothing was decided; /handoff shows it again.").map(|()| None),
            Left::Blank(_) => {
                self.go_to(None);
                self.say("Without a summary: a blank thread begins with your next message.").map(|()| None)
            }
            Left::Decided(decided) => match decided.child_thread_id {
                Some(child) => {
                    show_child(&self.context, &decided, child).await?;
                    let child = self.context.agent.threads().find(&child.to_string()).await?;
                    self.go_to(Some(child));
                    self.say("You are in the new thread; the summary goes into its first turn, once.")
                        .map(|()| None)
                }
                None => {
                    self.is_changed = true;
                    let outcome = decided.handoff.status.outcome();
                    self.say(&format!("Handoff {outcome}; this thread goes on as it was."))?;
                    Ok(Some(decided.end))
                }
            },
        }
    }
}

fn read(words: &[&str]) -> Result<Asked, Failure> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--preview" => asked.answer = Answer::Preview,
            "--apply" => asked.answer = Answer::Apply,
            "--messages" => {
                let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
                asked.messages = Some(number.ok_or_else(|| usage("`--messages` needs a number"))?);
            }
            word if word.starts_with("--") => return Err(usage(&format!("there is no option `{word}`"))),
            word => asked.goal.push(word.to_owned()),
        }
    }
    Ok(asked)
}

fn usage(why: &str) -> Failure {
    Failure::new(Code::User, format!("read /handoff: {why}"))
        .with_hint("/handoff [goal…] [--preview] [--apply] [--messages N]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handoff_is_asked_for_with_goal_and_options_in_any_order() {
        let check = |line: &str, goal: &str, messages: Option<u64>, answer: Answer| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let asked = read(&words).unwrap();
            assert_eq!(
                (asked.goal.join(" ").as_str(), asked.messages, asked.answer),
                (goal, messages, answer)
            );
        };
        check("", "", None, Answer::Ask);
        check("fix the login --apply", "fix the login", None, Answer::Apply);
        check("--messages 20 fix --preview", "fix", Some(20), Answer::Preview);
        for bad in ["--messages", "--messages x", "--messages 0", "--aply"] {
            let words: Vec<&str> = bad.split_whitespace().collect();
            assert!(read(&words).is_err(), "{bad}");
        }
    }
}
