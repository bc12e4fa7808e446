//! How often tests repeat what they repeat: generated transcripts, handoffs, runs, killed processes.
//!
//! A test with a count checks the same guarantee with both counts. The small count keeps `cargo xtask test` fast; the full
//! count, in `cargo xtask soak`, finds what breaks rarely. Property tests without a number of their own take theirs from
//! `PROPTEST_CASES`, which `.cargo/config.toml` and `soak` set.

/// The environment variable that selects the counts: `full`, else the small ones.
pub const COUNTS_VARIABLE: &str = "SEGUE_TEST_COUNTS";

/// Returns `full` if [`COUNTS_VARIABLE`] is `full`, else `small`.
#[must_use]
pub fn count<T>(small: T, full: T) -> T {
    match std::env::var_os(COUNTS_VARIABLE) {
        Some(counts) if counts == "full" => full,
        _ => small,
    }
}
