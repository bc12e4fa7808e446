//! The limits of summaries and selections, each with its unit. What happens at a limit is decided where it is used.

/// Graphemes of a summary's title.
pub const TITLE_GRAPHEMES_MAX: usize = 120;
/// Graphemes of a summary's TL;DR.
pub const TLDR_GRAPHEMES_MAX: usize = 200;
/// Items a summary's body has at least.
pub const BODY_ITEMS_MIN: usize = 3;
/// Items a summary's body has at most.
pub const BODY_ITEMS_MAX: usize = 7;
/// Tokens of a rendered summary, unless configured.
pub const SUMMARY_TOKENS_MAX: u64 = 300;
/// Tokens of the selection a model with a small window is given, unless configured.
pub const INPUT_TOKENS_MAX: u64 = 4_000;
/// Proposals of one handoff, refined, reverted and redrafted ones together.
pub const ITERATIONS_MAX: u32 = 64;
/// Bytes of the feedback a person gives at a time; it goes into a prompt whole.
pub const FEEDBACK_BYTES_MAX: usize = 8_000;

/// Files a summary refers to that are looked at.
pub const REFERENCED_FILES_MAX: usize = 50;
/// Bytes of such a file whose hash is computed.
pub const REFERENCED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Seq ranges of one coverage ledger; beyond it neighbours are merged into the weaker claim.
pub(crate) const COVERAGE_RANGES_MAX: usize = 100_000;
