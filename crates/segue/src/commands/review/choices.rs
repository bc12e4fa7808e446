//! The answers that a review offers, which depend on the state of the proposal. `HandoffReviewSession` performs the
//! chosen answer.

use terminal::KeyChoice;

/// An answer to the question of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewAnswer {
    /// Accept the shown proposal.
    Accept,
    /// Draft again with feedback.
    Refine,
    /// Draft again with feedback that names what the summary does not answer.
    RefineUnanswered,
    /// Edit the text of the summary.
    Edit,
    /// Decline the handoff and stay in this thread.
    Decline,
    /// End the handoff without a decision; the proposal was only a preview.
    Preview,
    /// Show the changes since the previous draft.
    Diff,
    /// Return to an earlier draft.
    EarlierDraft,
    /// Add something that the draft left out.
    Add,
    /// Show the proposal in a pane with sections and references.
    Open,
    /// Show the coverage of the summary and the facts that are carried over.
    Coverage,
    /// Check what the summary alone answers.
    Check,
    /// Draft again after a failure.
    Redraft,
    /// Draft again so that the newer messages are covered too.
    CoverNewer,
    /// Draft with another model.
    OtherModel,
    /// Use the offline summary.
    OfflineSummary,
    /// Decline, and start a new thread without a summary.
    BlankThread,
}

/// The state of a review, on which its answers depend.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReviewState {
    /// True if the newest draft failed.
    pub(super) is_failed: bool,
    /// True if the shown proposal is the offline summary.
    pub(super) is_offline_summary: bool,
    /// The number of further drafts from feedback that are allowed.
    pub(super) refinements_left: u32,
    /// The number of proposals of the handoff.
    pub(super) proposal_count: usize,
    /// True if the check has found a question that the summary does not answer.
    pub(super) has_unanswered: bool,
    /// True if it was checked what the shown proposal answers.
    pub(super) is_checked: bool,
    /// True if the terminal can show a pane.
    pub(super) has_pane: bool,
    /// True if the draft left something out that can be added.
    pub(super) has_notes: bool,
    /// True if the thread has messages that the shown proposal does not cover.
    pub(super) is_outdated: bool,
    /// True if a new thread without a summary is offered even if no draft failed.
    pub(super) offers_blank_thread: bool,
    /// The requester of the handoff.
    pub(super) requester: HandoffRequester,
}

/// The requester of a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandoffRequester {
    /// The user.
    Person,
    /// The agent, which expects a decision.
    Agent,
    /// The agent, which requested only a preview.
    AgentForPreview,
}

/// Returns the offered answers with their keys, in the order in which they are shown. If the agent requested only a
/// preview, the preview comes first; after a failure, the ways to get another draft come first.
pub(super) fn review_choices(state: &ReviewState) -> Vec<KeyChoice<ReviewAnswer>> {
    let mut choices = Vec::new();
    let mut add = |key, label, answer, is_offered: bool| {
        if is_offered {
            choices.push(KeyChoice { key, label, answer });
        }
    };
    let failed = state.is_failed;
    let is_preview_first = state.requester == HandoffRequester::AgentForPreview;
    let has_earlier = state.proposal_count > 1;
    add('p', "Preview only (ends the handoff)", ReviewAnswer::Preview, is_preview_first);
    add('t', "Try again", ReviewAnswer::Redraft, failed);
    add('m', "Another model", ReviewAnswer::OtherModel, failed);
    add('n', "Redraft with the newer messages", ReviewAnswer::CoverNewer, state.is_outdated);
    add('x', "Offline summary", ReviewAnswer::OfflineSummary, failed && !state.is_offline_summary);
    let accept = if failed && state.is_offline_summary { "Accept the offline summary" } else { "Accept" };
    add('a', accept, ReviewAnswer::Accept, true);
    add('r', "Refine", ReviewAnswer::Refine, state.refinements_left > 0);
    let refines_unanswered = state.has_unanswered && state.refinements_left > 0;
    add('f', "Fill in what is missing", ReviewAnswer::RefineUnanswered, refines_unanswered);
    add('e', "Edit", ReviewAnswer::Edit, true);
    add('+', "Add", ReviewAnswer::Add, state.has_notes);
    let blank = if failed { "Continue without a summary" } else { "Skip the summary" };
    let offers_blank = (failed || state.offers_blank_thread) && state.requester == HandoffRequester::Person;
    add('s', blank, ReviewAnswer::BlankThread, offers_blank);
    // Decline has the capital letter, because `d` always shows the diff: no key changes its meaning.
    let decline = if failed { "Decline (stay here)" } else { "Decline" };
    add('D', decline, ReviewAnswer::Decline, true);
    add('p', "Preview only (ends the handoff)", ReviewAnswer::Preview, !is_preview_first);
    add('d', "Diff", ReviewAnswer::Diff, has_earlier);
    add('u', "Earlier draft", ReviewAnswer::EarlierDraft, has_earlier);
    add('c', "Check", ReviewAnswer::Check, !state.is_checked);
    add('o', "Open sections", ReviewAnswer::Open, state.has_pane);
    add('l', "List all", ReviewAnswer::Coverage, true);
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the keys and labels that are offered in a state.
    fn check(state: ReviewState, expected: &str) {
        let keys: Vec<String> =
            review_choices(&state).iter().map(|choice| format!("{} {}", choice.key, choice.label)).collect();
        assert_eq!(keys.join(" · "), expected, "{state:?}");
    }

    #[test]
    fn the_answers_follow_from_the_state_of_the_review() {
        let state = ReviewState {
            is_failed: false,
            is_offline_summary: false,
            refinements_left: 3,
            proposal_count: 1,
            has_unanswered: false,
            is_checked: true,
            has_pane: false,
            has_notes: false,
            is_outdated: false,
            offers_blank_thread: false,
            requester: HandoffRequester::Person,
        };
        check(
            state,
            "a Accept · r Refine · e Edit · D Decline · p Preview only (ends the handoff) · l List all",
        );
        check(
            ReviewState { has_notes: true, ..state },
            "a Accept · r Refine · e Edit · + Add · D Decline · p Preview only (ends the handoff) · l List all",
        );
        check(
            ReviewState { is_checked: false, has_pane: true, ..state },
            "a Accept · r Refine · e Edit · D Decline · p Preview only (ends the handoff) · c Check · o Open sections · \
             l List all",
        );
        check(
            ReviewState { has_unanswered: true, ..state },
            "a Accept · r Refine · f Fill in what is missing · e Edit · D Decline · p Preview only (ends the handoff) · \
             l List all",
        );
        check(
            ReviewState { is_outdated: true, refinements_left: 0, ..state },
            "n Redraft with the newer messages · a Accept · e Edit · D Decline · p Preview only (ends the handoff) · l List all",
        );
        check(
            ReviewState { proposal_count: 3, refinements_left: 0, ..state },
            "a Accept · e Edit · D Decline · p Preview only (ends the handoff) · d Diff · u Earlier draft · l List all",
        );
        check(
            ReviewState { is_failed: true, is_offline_summary: true, ..state },
            "t Try again · m Another model · a Accept the offline summary · r Refine · e Edit · \
             s Continue without a summary · D Decline (stay here) · p Preview only (ends the handoff) · l List all",
        );
        let failed =
            ReviewState { is_failed: true, requester: HandoffRequester::Agent, refinements_left: 0, ..state };
        check(
            failed,
            "t Try again · m Another model · x Offline summary · a Accept · e Edit · D Decline (stay here) · p Preview only (ends the handoff) · l List all",
        );
        check(
            ReviewState { offers_blank_thread: true, refinements_left: 0, ..state },
            "a Accept · e Edit · s Skip the summary · D Decline · p Preview only (ends the handoff) · l List all",
        );
        check(
            ReviewState { requester: HandoffRequester::AgentForPreview, ..state },
            "p Preview only (ends the handoff) · a Accept · r Refine · e Edit · D Decline · l List all",
        );
    }

    /// Each bit sets one property of the state, so that all combinations are checked.
    #[test]
    fn no_two_answers_have_the_same_key() {
        for bits in 0..2048u16 {
            let is = |bit: u16| bits & (1 << bit) != 0;
            let state = ReviewState {
                is_failed: is(0),
                is_offline_summary: is(1),
                refinements_left: u32::from(is(2)),
                proposal_count: 1 + usize::from(is(3)),
                offers_blank_thread: is(4),
                has_notes: is(6),
                is_checked: is(7),
                has_pane: is(8),
                has_unanswered: is(9),
                is_outdated: is(10),
                requester: if is(5) { HandoffRequester::AgentForPreview } else { HandoffRequester::Person },
            };
            let mut keys: Vec<char> = review_choices(&state).iter().map(|choice| choice.key).collect();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{state:?}");
        }
    }
}
