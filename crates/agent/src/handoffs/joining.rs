//! Handing several threads off into one: the thread of an accepted handoff, which has no message yet, gets a further package.

use handoff::HandoffOptions;
use protocol::{Decision, Decisions, Interrupt, ParentKind, Thread, ThreadId};

use super::queries::handoff_id_of;
use crate::{HandoffError, HandoffService, Result};

impl HandoffService<'_> {
    /// Checks that the answer to the question of a handoff does not add its package to a thread that cannot get it. Answers that
    /// end the handoff, and other questions, pass. Every client's answer is checked here, whichever endpoint it uses.
    ///
    /// # Errors
    /// [`HandoffError::NotJoinable`] with the reason, or fails if the journal does.
    pub(crate) async fn check_answer_joinable(
        self,
        interrupt: &Interrupt,
        decisions: &Decisions,
    ) -> Result<()> {
        let ends = |decision: &Decision| matches!(decision, Decision::Reject { .. } | Decision::Preview {});
        if decisions.decisions.iter().all(ends) {
            return Ok(());
        }
        let Some(handoff_id) = handoff_id_of(interrupt) else { return Ok(()) };
        // A handoff that another client has decided is refused for that reason.
        let handoff = self.agent.store.handoff(handoff_id).await?;
        let Some(handoff) = handoff.filter(|handoff| handoff.status.is_pending()) else { return Ok(()) };
        let options = serde_json::from_value::<HandoffOptions>(handoff.options).unwrap_or_default();
        self.check_joined_thread(handoff.parent_thread_id, options.into).await
    }

    /// Checks that the thread `into` can get a further package, from `parent`. `None` stands for a new thread, which can.
    ///
    /// # Errors
    /// [`HandoffError::NotJoinable`] with the reason, or fails if the journal does.
    pub(crate) async fn check_joined_thread(self, parent: ThreadId, into: Option<ThreadId>) -> Result<()> {
        let Some(thread_id) = into else { return Ok(()) };
        let child = self.agent.thread(thread_id).await?;
        let parent = self.agent.thread(parent).await?;
        let is_joined = self
            .origins(&child)
            .await?
            .iter()
            .any(|origin| origin.handoff.parent_thread_id == parent.thread_id);
        let repeated = is_joined.then_some("it has a summary of the same thread already");
        match joining_problem(&parent, &child).or(repeated) {
            Some(reason) => Err(HandoffError::NotJoinable { thread_id, reason }.into()),
            None => Ok(()),
        }
    }
}

/// Returns the reason why `child` cannot get the package of `parent`; `None` if it can.
fn joining_problem(parent: &Thread, child: &Thread) -> Option<&'static str> {
    match () {
        () if child.thread_id == parent.thread_id => Some("a thread cannot be handed off into itself"),
        () if child.parent_kind != Some(ParentKind::Handoff) => Some("no handoff created it"),
        () if child.message_count > 0 => Some("it has messages already"),
        () if child.assistant_id != parent.assistant_id => Some("it belongs to another assistant"),
        () => None,
    }
}
