//! What a person can answer to a proposal, as it stands. What each answer does is not decided here.

use terminal::Choice;

/// What the person wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Accept,
    Refine,
    Edit,
    Decline,
    Preview,
    /// Show what changed since the previous draft.
    Diff,
    /// Show an earlier draft again.
    Back,
    /// Show what the summary rests on.
    Ledger,
    /// Draft again, since it failed.
    Again,
    /// Draft with another model.
    OtherModel,
    /// Take the offline extract.
    Extract,
    /// Decline, and begin a blank thread.
    Blank,
}

/// What decides which answers there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer {
    pub(super) is_failed: bool,
    /// Whether the offline extract is what is shown.
    pub(super) is_extract: bool,
    pub(super) refinements: u32,
    pub(super) proposals: usize,
    /// Whether a blank thread is offered in any case.
    pub(super) offers_blank: bool,
    pub(super) asked: Asked,
}

/// Who asked for the handoff, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Person,
    Agent,
    /// The agent, to be shown only.
    AgentToPreview,
}

/// Returns the answers: first what the agent asked for, if that is only a preview; after a failure the ways out of it.
pub(super) fn choices(offer: &Offer) -> Vec<Choice<Answer>> {
    let mut choices = Vec::new();
    let mut add = |key, label, answer, is_there: bool| {
        if is_there {
            choices.push(Choice { key, label, answer });
        }
    };
    let failed = offer.is_failed;
    let is_preview_first = offer.asked == Asked::AgentToPreview;
    let has_earlier = offer.proposals > 1;
    add('p', "Preview only (ends it)", Answer::Preview, is_preview_first);
    add('t', "Try again", Answer::Again, failed);
    add('m', "Another model", Answer::OtherModel, failed);
    add('x', "Offline extract", Answer::Extract, failed && !offer.is_extract);
    let accept = if failed && offer.is_extract { "Accept the offline extract" } else { "Accept" };
    add('a', accept, Answer::Accept, true);
    add('r', "Refine", Answer::Refine, offer.refinements > 0);
    add('e', "Edit", Answer::Edit, true);
    let blank = if failed { "Continue without a summary" } else { "Skip the summary" };
    add('s', blank, Answer::Blank, (failed || offer.offers_blank) && offer.asked == Asked::Person);
    // The small letter shows the difference, even where there is none yet: no key changes its meaning.
    let decline = if failed { "Decline (stay here)" } else { "Decline" };
    add('D', decline, Answer::Decline, true);
    add('p', "Preview only (ends it)", Answer::Preview, !is_preview_first);
    add('d', "Diff", Answer::Diff, true);
    add('u', "Earlier draft", Answer::Back, has_earlier);
    add('l', "Ledger", Answer::Ledger, true);
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offer: Offer, expected: &str) {
        let keys: Vec<String> =
            choices(&offer).iter().map(|choice| format!("{} {}", choice.key, choice.label)).collect();
        assert_eq!(keys.join(" · "), expected, "{offer:?}");
    }

    #[test]
    fn what_can_be_answered_follows_from_how_it_stands() {
        let offer = Offer {
            is_failed: false,
            is_extract: false,
            refinements: 3,
            proposals: 1,
            offers_blank: false,
            asked: Asked::Person,
        };
        check(
            offer,
            "a Accept · r Refine · e Edit · D Decline · p Preview only (ends it) · d Diff · l Ledger",
        );
        check(
            Offer { proposals: 3, refinements: 0, ..offer },
            "a Accept · e Edit · D Decline · p Preview only (ends it) · d Diff · u Earlier draft · l Ledger",
        );
        check(
            Offer { is_failed: true, is_extract: true, ..offer },
            "t Try again · m Another model · a Accept the offline extract · r Refine · e Edit · \
             s Continue without a summary · D Decline (stay here) · p Preview only (ends it) · d Diff · l Ledger",
        );
        let failed = Offer { is_failed: true, asked: Asked::Agent, refinements: 0, ..offer };
        check(
            failed,
            "t Try again · m Another model · x Offline extract · a Accept · e Edit · D Decline (stay here) · p Preview only (ends it) · d Diff · l Ledger",
        );
        check(
            Offer { offers_blank: true, refinements: 0, ..offer },
            "a Accept · e Edit · s Skip the summary · D Decline · p Preview only (ends it) · d Diff · l Ledger",
        );
        check(
            Offer { asked: Asked::AgentToPreview, ..offer },
            "p Preview only (ends it) · a Accept · r Refine · e Edit · D Decline · d Diff · l Ledger",
        );
    }

    #[test]
    fn no_two_answers_have_the_same_key() {
        for bits in 0..64u8 {
            let is = |bit: u8| bits & (1 << bit) != 0;
            let offer = Offer {
                is_failed: is(0),
                is_extract: is(1),
                refinements: u32::from(is(2)),
                proposals: 1 + usize::from(is(3)),
                offers_blank: is(4),
                asked: if is(5) { Asked::AgentToPreview } else { Asked::Person },
            };
            let mut keys: Vec<char> = choices(&offer).iter().map(|choice| choice.key).collect();
            let count = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), count, "{offer:?}");
        }
    }
}
