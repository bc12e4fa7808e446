//! Handing several threads off into one: the thread of an accepted handoff, which has no message yet, gets a further package.

use protocol::{ParentKind, Thread, ThreadId};

use crate::{HandoffError, HandoffService, Result};

impl HandoffService<'_> {
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
