//! The rule that decides when to suggest a handoff to a person: the context fills a share of the model's window, and it
//! has grown noticeably since the last suggestion.
//!
//! A suggestion changes nothing; the person decides whether to request a handoff.

/// The growth of a context after which a handoff is suggested again, in percent of the model's window.
const GROWTH_PERCENT: u64 = 10;

/// The answer to the question whether to suggest a handoff at the present size of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalTiming {
    /// Suggest a handoff.
    Now,
    /// Do not suggest one; keep the record of the last suggestion, if there is one.
    NotNow,
    /// Do not suggest one, and forget the last suggestion: the context has become small again, for example after a
    /// compaction.
    NoLonger,
}

/// Returns whether to suggest a handoff for a context of `tokens` tokens in a window of `window` tokens.
///
/// `share` is the part of the window (0.0 to 1.0) from which on a handoff is suggested; 0 never suggests one.
/// `proposed` is the size of the context at the last suggestion, in tokens.
pub fn proposal_timing(tokens: u64, window: u64, share: f64, proposed: Option<u64>) -> ProposalTiming {
    #[expect(clippy::cast_precision_loss, reason = "a share of a window needs no more digits than f64 has")]
    let is_full = share > 0.0 && tokens as f64 >= share * window as f64;
    match (is_full, proposed) {
        (true, None) => ProposalTiming::Now,
        (true, Some(before)) if tokens >= before + window * GROWTH_PERCENT / 100 => ProposalTiming::Now,
        (true, Some(_)) | (false, None) => ProposalTiming::NotNow,
        (false, Some(_)) => ProposalTiming::NoLonger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m15_a_handoff_is_suggested_once_for_each_growth_of_a_tenth_of_the_window() {
        let check = |tokens, proposed, expected| {
            assert_eq!(proposal_timing(tokens, 1_000, 0.75, proposed), expected, "{tokens}")
        };
        check(749, None, ProposalTiming::NotNow);
        check(750, None, ProposalTiming::Now);
        check(750, Some(750), ProposalTiming::NotNow);
        check(849, Some(750), ProposalTiming::NotNow);
        check(850, Some(750), ProposalTiming::Now);
        check(300, Some(850), ProposalTiming::NoLonger);
        assert_eq!(proposal_timing(1_000, 1_000, 0.0, None), ProposalTiming::NotNow);
    }
}
