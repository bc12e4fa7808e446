//! The review of a handoff, the same for `segue handoff` and the chat: show the proposal, take the person's answer,
//! pass it on, until the handoff is decided or left for later. What an answer means is decided by the `handoff` room.

mod change;
mod choices;
mod own;
mod panel;
mod work;

use agent::{Class, Decided, EXTRACTIVE, PendingHandoff};
use protocol::decision::EditedAction;
use protocol::{Decision, Decisions, Proposal};
use serde_json::{Map, Value, json};
use terminal::{
    Picked, Quiet, Spent, Typed, ask, ask_amid, ask_draft, ask_line, ask_text, carry, diff, facts, one_line,
    pick, pick_or_type, safe, shorten, signals, wrap, wrap_lines,
};

use crate::commands::Context;
use crate::commands::work::{Done, Telling};
use crate::exit::{self, Failure, chain};
pub(crate) use change::came_about;
use choices::{Answer, Asked, Offer, choices};
use own::Own;
pub(crate) use panel::show;

pub(crate) use work::{decide, draft};

/// What the agent that asked is told when a person goes on without a summary.
const WITHOUT_SUMMARY: &str = "the person went on without a summary";

/// How a review ended.
#[derive(Debug)]
pub(crate) enum Left {
    /// The handoff waits.
    Later,
    Decided(Box<Decided>),
    /// It was declined, for a blank thread without a summary.
    Blank(Box<Decided>),
}

/// A handoff under review.
pub(crate) struct Review<'a> {
    context: &'a Context,
    typed: &'a mut Typed,
    telling: Telling,
    pending: PendingHandoff,
    /// Everything that was proposed, the newest last.
    proposals: Vec<Proposal>,
    /// Feedback that was not worked in yet.
    feedback: String,
    own: Own,
    /// Whether a blank thread without a summary is offered.
    offers_blank: bool,
    /// What the runs took that the answers led to.
    pub(crate) spent: Spent,
}

/// What came of passing an answer on.
enum Passed {
    Decided(Box<Decided>),
    /// There is another proposal, or the same one again.
    Again,
    /// It cannot be taken as it is, and why.
    Refused(String),
}

/// Returns the answer that accepts exactly what was shown.
pub(crate) fn acceptance(pending: &PendingHandoff) -> Decision {
    Decision::Approve { args: None, summary_sha256: Some(pending.proposal.summary_sha256.clone()) }
}

/// Returns whether the agent asked for the handoff, so that its turn goes on after a decision.
pub(crate) fn is_asked_by_agent(pending: &PendingHandoff) -> bool {
    arg(pending, "initiated_by").and_then(Value::as_str) == Some("agent")
}

fn asked(pending: &PendingHandoff) -> Asked {
    let is_preview = arg(pending, "preview_only").and_then(Value::as_bool).unwrap_or_default();
    match (is_asked_by_agent(pending), is_preview) {
        (false, _) => Asked::Person,
        (true, false) => Asked::Agent,
        (true, true) => Asked::AgentToPreview,
    }
}

/// Asks the person until the handoff is decided; `None` when they leave it for later. The proposal was shown already.
///
/// # Errors
/// When the terminal fails, or the answer could not be taken.
pub(crate) async fn ask_person(
    context: &Context,
    pending: &PendingHandoff,
    typed: &mut Typed,
) -> Result<Option<Decided>, Failure> {
    // Between two questions keys are neither echoed nor changed.
    let _quiet = Quiet::begin(&context.screen)?;
    let mut review = Review::open(context, pending.clone(), typed).await?;
    review.telling = Telling::Progress;
    let left = review.ask().await;
    show_typed(context, typed)?;
    match left? {
        Left::Later => Ok(None),
        Left::Decided(decided) => Ok(Some(*decided)),
        Left::Blank(decided) => {
            context.screen.line("A blank thread begins with: segue chat")?;
            Ok(Some(*decided))
        }
    }
}

/// Shows what was typed while something else was done: outside a chat it is no message.
pub(crate) fn show_typed(context: &Context, typed: &mut Typed) -> Result<(), Failure> {
    let unsent = typed.unsent();
    if !unsent.trim().is_empty() {
        context.screen.line("You typed meanwhile, and it was sent nowhere:")?;
        context.screen.line(safe(&unsent))?;
    }
    Ok(())
}

impl<'a> Review<'a> {
    /// Begins a review of a proposal that was shown already; what is typed meanwhile goes to `typed`.
    pub(crate) async fn open(
        context: &'a Context,
        pending: PendingHandoff,
        typed: &'a mut Typed,
    ) -> Result<Self, Failure> {
        let proposals = context.agent.handoffs().review(pending.handoff.handoff_id).await?.proposals;
        Ok(Self {
            context,
            typed,
            telling: Telling::Everything,
            feedback: pending.unused_feedback.clone().unwrap_or_default(),
            pending,
            proposals,
            own: Own::default(),
            offers_blank: false,
            spent: Spent::default(),
        })
    }

    /// Offers a blank thread without a summary besides.
    pub(crate) fn offer_blank(&mut self) {
        self.offers_blank = true;
    }

    /// Asks until the handoff is decided or left.
    ///
    /// # Errors
    /// When the terminal fails, or the handoff can no longer be decided here. What the person wrote is not lost: their own
    /// text is kept in a file, their feedback is shown.
    pub(crate) async fn ask(&mut self) -> Result<Left, Failure> {
        let left = self.ask_on().await;
        self.own.keep(self.context, &self.pending.proposal)?;
        match &left {
            Ok(Left::Decided(_) | Left::Blank(_)) => {}
            Ok(Left::Later) | Err(_) => self.show_feedback()?,
        }
        left
    }

    /// Shows the feedback that was worked in nowhere, unless it is stored and will be shown again.
    fn show_feedback(&self) -> Result<(), Failure> {
        let is_stored = self.pending.unused_feedback.as_deref() == Some(&self.feedback);
        if self.feedback.is_empty() || is_stored {
            return Ok(());
        }
        let screen = &self.context.screen;
        screen.line("Your feedback was not worked in:")?;
        Ok(screen.line(wrap_lines(&safe(&self.feedback), screen.text_columns(), "  "))?)
    }

    async fn ask_on(&mut self) -> Result<Left, Failure> {
        loop {
            let offer = self.offer();
            let (screen, choices) = (&self.context.screen, choices(&offer));
            let asked = match self.telling {
                Telling::Everything => ask_amid(screen, &choices, "Decide later", self.typed)?,
                // Outside a chat nothing that is typed could be sent.
                Telling::Progress => ask(screen, &choices, "Decide later")?,
            };
            let Some(answer) = asked else { return Ok(Left::Later) };
            let decision = match answer {
                Answer::Edit => match self.edit().await? {
                    Some(decided) => return Ok(Left::Decided(decided)),
                    None => None,
                },
                answer => self.decision(answer)?,
            };
            let Some(decision) = decision else { continue };
            match self.pass_on(decision).await? {
                Passed::Decided(decided) if answer == Answer::Blank => return Ok(Left::Blank(decided)),
                Passed::Decided(decided) => return Ok(Left::Decided(decided)),
                Passed::Again => {}
                Passed::Refused(why) => self.context.notice(&format!("failed to {why}")),
            }
        }
    }

    /// Passes an answer on that was not asked for here.
    ///
    /// # Errors
    /// When it could not be taken.
    pub(crate) async fn give(&mut self, decision: Decision) -> Result<Left, Failure> {
        let decided = self.work(decision).await?.done?;
        Ok(Left::Decided(Box::new(decided)))
    }

    fn offer(&self) -> Offer {
        Offer {
            is_failed: self.pending.problem.is_some(),
            is_extract: self.pending.proposal.summary_json.model == EXTRACTIVE,
            refinements: self.pending.remaining_refinements,
            proposals: self.proposals.len(),
            offers_blank: self.offers_blank,
            asked: asked(&self.pending),
        }
    }

    /// Returns the decision an answer stands for; `None` when it was only a view, or the person changed their mind.
    fn decision(&mut self, answer: Answer) -> Result<Option<Decision>, Failure> {
        Ok(match answer {
            Answer::Accept => Some(acceptance(&self.pending)),
            Answer::Preview => Some(Decision::Preview {}),
            Answer::Decline => ask_line(&self.context.screen, "Reason (Enter for none)")?.map(|reason| {
                Decision::Reject { message: Some(reason.trim().to_owned()).filter(|text| !text.is_empty()) }
            }),
            Answer::Blank => Some(Decision::Reject { message: Some(WITHOUT_SUMMARY.to_owned()) }),
            Answer::Refine => self.refined()?,
            Answer::Again if self.feedback.is_empty() => Some(self.edited("redraft", json!({}))),
            Answer::Again => Some(self.edited("feedback", json!(self.feedback))),
            Answer::OtherModel => {
                self.other_model()?.map(|model| self.edited("redraft", json!({"model": model})))
            }
            Answer::Extract => Some(self.edited("redraft", json!({"model": EXTRACTIVE}))),
            Answer::Back => self.earlier()?.map(|iteration| self.edited("revert_to", json!(iteration))),
            Answer::Diff => {
                self.show_diff()?;
                None
            }
            Answer::Ledger => {
                self.show_ledger()?;
                None
            }
            // Asked for where it is answered.
            Answer::Edit => None,
        })
    }

    fn edited(&self, key: &str, value: Value) -> Decision {
        edited(&self.pending, Map::from_iter([(key.to_owned(), value)]))
    }

    /// Passes an answer on; another proposal is shown.
    async fn pass_on(&mut self, decision: Decision) -> Result<Passed, Failure> {
        let Done { done, is_stopped } = self.work(decision).await?;
        match done {
            Ok(decided) => match decided.next.clone() {
                Some(next) => {
                    let why = if is_stopped { "Stopped" } else { "Nothing was drafted" };
                    self.turn_to(next, why).await?;
                    Ok(Passed::Again)
                }
                None => Ok(Passed::Decided(Box::new(decided))),
            },
            Err(error) => self.not_taken(error).await,
        }
    }

    /// Tells why an answer was not taken, as long as the handoff is undecided; what another client had drafted is shown.
    async fn not_taken(&mut self, error: agent::Error) -> Result<Passed, Failure> {
        let review = self.context.agent.handoffs().review(self.pending.handoff.handoff_id).await;
        let review = match review {
            Ok(review) if review.handoff.status.is_pending() && !signals::is_ending() => review,
            Ok(_) | Err(_) => return Err(error.into()),
        };
        let shown = self.pending.proposal.iteration;
        let newer = review.pending.filter(|pending| pending.proposal.iteration != shown);
        if newer.is_none() && error.class() == Class::User {
            return Ok(Passed::Refused(one_line(&chain(&error))));
        }
        match Failure::from(error) {
            Failure::Told(told) => exit::tell(&told, self.context.format),
            closed @ Failure::OutputClosed => return Err(closed),
        }
        if let Some(next) = newer {
            let mine = std::mem::take(&mut self.feedback);
            let is_worked_in = next.proposal.feedback.as_ref() == Some(&mine);
            self.turn_to(next, "Another client was here").await?;
            // The feedback of the other client is no answer to this person's.
            if !mine.is_empty() && !is_worked_in {
                self.feedback = mine;
            }
        }
        if !self.feedback.is_empty() {
            self.context.screen.line("Your feedback is kept: Refine begins with it.")?;
        }
        Ok(Passed::Again)
    }

    /// Goes on with what is proposed after an answer; `why` is told where that is what was proposed before.
    async fn turn_to(&mut self, next: PendingHandoff, why: &str) -> Result<(), Failure> {
        let screen = &self.context.screen;
        let is_other = next.proposal.iteration != self.pending.proposal.iteration;
        if is_other {
            self.own.keep(self.context, &self.pending.proposal)?;
        }
        match (&next.unused_feedback, &next.proposal.feedback) {
            (Some(unused), _) => unused.clone_into(&mut self.feedback),
            // A draft that was made without it leaves it for the next refinement.
            (None, Some(_)) if is_other => self.feedback.clear(),
            (None, _) => {}
        }
        let before = std::mem::replace(&mut self.pending, next);
        if !is_other && self.pending.problem.is_none() {
            return Ok(screen.line(format!("{why}; the proposal stays as it was shown."))?);
        }
        let id = self.pending.handoff.handoff_id;
        self.proposals = self.context.agent.handoffs().review(id).await?.proposals;
        show(self.context, &self.pending).await?;
        if is_other {
            if let Some(earlier) = change::repeated(&self.proposals, &self.pending.proposal) {
                screen.line(format!("As draft {}.", earlier.iteration + 1))?;
            }
            let text = change::told(&before.proposal.summary_json, &self.pending.proposal.summary_json);
            screen.line(wrap(&text, screen.text_columns(), "", "  "))?;
        }
        Ok(())
    }

    /// Asks for feedback until there is some; `None` when the person leaves it.
    fn refined(&mut self) -> Result<Option<Decision>, Failure> {
        let screen = &self.context.screen;
        let how = "Say in your own words what should change.";
        screen.line(screen.style.dim(match screen.is_plain() {
            true => how.to_owned(),
            false => wrap(
                &format!("{how} Alt-Enter begins a new line, Esc goes back."),
                screen.text_columns(),
                "",
                "",
            ),
        }))?;
        loop {
            let Some(feedback) = ask_draft(screen, "Feedback", &mut self.feedback)? else { return Ok(None) };
            if !feedback.trim().is_empty() {
                feedback.trim().clone_into(&mut self.feedback);
                return Ok(Some(self.edited("feedback", json!(self.feedback))));
            }
            screen.line("There is no feedback yet: say what should change, or go back.")?;
            // Where nothing can be drawn over, an empty line is the way back.
            if screen.is_plain() {
                return Ok(None);
            }
        }
    }

    /// Lets the person choose another model, or name one.
    fn other_model(&self) -> Result<Option<String>, Failure> {
        let screen = &self.context.screen;
        let status = self.context.agent.models();
        let mut names: Vec<String> = status.default.into_iter().collect();
        let mut items: Vec<String> =
            names.iter().map(|name| format!("{} (in use)", one_line(name))).collect();
        for provider in status.providers.into_iter().filter(|provider| provider.configured) {
            names.push(format!("{}/", provider.provider));
            items.push(format!("{}/… (type its name)", provider.provider));
        }
        items.push("another (type provider/name)".to_owned());
        let at = match pick_or_type(screen, "Draft with", items, is_model)? {
            Some(Picked::At(at)) => at,
            Some(Picked::Typed(name)) => return Ok(Some(name)),
            None => return Ok(None),
        };
        let begun = names.get(at).map_or("", String::as_str);
        if !begun.is_empty() && !begun.ends_with('/') {
            return Ok(Some(begun.to_owned()));
        }
        let named = match screen.is_plain() {
            true => ask_line(screen, &format!("Model (after {begun})"))?.map(|name| format!("{begun}{name}")),
            false => ask_text(screen, "Model", begun)?,
        };
        Ok(named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty() && !name.ends_with('/')))
    }

    /// Lets the person choose an earlier iteration.
    fn earlier(&self) -> Result<Option<u32>, Failure> {
        let screen = &self.context.screen;
        let shown = self.pending.proposal.iteration;
        let earlier: Vec<&Proposal> =
            self.proposals.iter().rev().filter(|proposal| proposal.iteration != shown).collect();
        let columns = screen.columns.saturating_sub(8);
        let items = earlier.iter().map(|proposal| {
            let summary = &proposal.summary_json;
            let text = format!(
                "draft {} · {} · {}",
                proposal.iteration + 1,
                one_line(&summary.title),
                one_line(&summary.model)
            );
            shorten(&text, columns).into_owned()
        });
        Ok(pick(screen, "Go back to", items.collect())?.map(|at| earlier[at].iteration))
    }

    fn show_diff(&self) -> Result<(), Failure> {
        let screen = &self.context.screen;
        let shown = &self.pending.proposal;
        let before = self.proposals.iter().rev().find(|proposal| proposal.iteration < shown.iteration);
        let Some(before) = before else {
            return Ok(screen.line("There is no earlier draft to compare this one with.")?);
        };
        let text = format!("Draft {} (-) and draft {} (+):", before.iteration + 1, shown.iteration + 1);
        screen.line(screen.style.bold(text))?;
        let lines = diff::versions(screen, &safe(&before.summary_md), &safe(&shown.summary_md));
        if lines.is_empty() {
            screen.line("They say the same.")?;
        }
        Ok(screen.lines(&lines)?)
    }

    fn show_ledger(&self) -> Result<(), Failure> {
        let screen = &self.context.screen;
        let summary = &self.pending.proposal.summary_json;
        screen.line("")?;
        let facts = carry::full(screen, &summary.carry_over);
        let lines = facts::full(screen, &summary.coverage).into_iter().chain(facts);
        screen.lines(lines)?;
        Ok(screen.line("")?)
    }

    /// Lets the person change the text until it is taken, or they leave it as it is.
    async fn edit(&mut self) -> Result<Option<Box<Decided>>, Failure> {
        let mut refused: Option<String> = None;
        loop {
            let decision = self.own.edit(self.context, &self.pending, refused.as_deref())?;
            let Some(decision) = decision else { return Ok(None) };
            match self.pass_on(decision).await? {
                Passed::Decided(decided) => {
                    self.own.taken();
                    return Ok(Some(decided));
                }
                Passed::Again => {
                    self.own.remind(self.context)?;
                    return Ok(None);
                }
                Passed::Refused(why) => {
                    self.context.notice(&format!("failed to {why}"));
                    refused = Some(why);
                }
            }
        }
    }
}

/// Returns whether a text is the whole name of a model: `provider/name`.
fn is_model(text: &str) -> bool {
    text.trim().split_once('/').is_some_and(|(provider, name)| !provider.is_empty() && !name.is_empty())
}

/// Returns an answer of the sort `edit`.
fn edited(pending: &PendingHandoff, args: Map<String, Value>) -> Decision {
    let request = pending.interrupt.payload.action_requests.first();
    let name = request.map(|request| request.name.clone()).unwrap_or_default();
    Decision::Edit { edited_action: EditedAction { name, args } }
}

/// Returns what the question says beside the proposal.
fn arg<'a>(pending: &'a PendingHandoff, key: &str) -> Option<&'a Value> {
    pending.interrupt.payload.action_requests.first()?.args.get(key)
}

/// Returns one decision as an answer.
fn single(decision: Decision) -> Decisions {
    Decisions { decisions: vec![decision] }
}
