//! When a handoff is worth proposing: the context fills a share of the window, and has really grown since the last time.
//! Proposing changes nothing; a person decides.

/// Of every hundred tokens of the window, how many a context grows by before it is proposed again.
const GROWTH_PERCENT: u64 = 10;

/// Whether it is time to propose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It is.
    Now,
    /// Not at this size.
    NotNow,
    /// Not at this size, and what was proposed before is over: the context has become small again.
    NoLonger,
}

/// Returns whether to propose for a context of `tokens` in a window of `window` tokens, when a share of it is reached
/// (0 never proposes) and the last proposal was at `proposed` tokens.
pub fn due(tokens: u64, window: u64, share: f64, proposed: Option<u64>) -> Due {
    #[expect(clippy::cast_precision_loss, reason = "a share of a window needs no more digits than f64 has")]
    let is_full = share > 0.0 && tokens as f64 >= share * window as f64;
    match (is_full, proposed) {
        (true, None) => Due::Now,
        (true, Some(before)) if tokens >= before + window * GROWTH_PERCENT / 100 => Due::Now,
        (true, Some(_)) | (false, None) => Due::NotNow,
        (false, Some(_)) => Due::NoLonger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m15_it_is_proposed_once_for_each_real_growth() {
        let check =
            |tokens, proposed, expected| assert_eq!(due(tokens, 1_000, 0.75, proposed), expected, "{tokens}");
        check(749, None, Due::NotNow);
        check(750, None, Due::Now);
        check(750, Some(750), Due::NotNow);
        check(849, Some(750), Due::NotNow);
        check(850, Some(750), Due::Now);
        check(300, Some(850), Due::NoLonger);
        assert_eq!(due(1_000, 1_000, 0.0, None), Due::NotNow);
    }
}
