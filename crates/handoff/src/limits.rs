//! The limits of summaries and selections (contract §4), each with its unit.
//!
//! The code that applies a limit decides what happens when it is reached: cut, reject or fall back.

/// The maximum length of a summary's title, in grapheme clusters.
pub const TITLE_GRAPHEMES_MAX: usize = 120;
/// The maximum length of a summary's TL;DR, in grapheme clusters.
pub const TLDR_GRAPHEMES_MAX: usize = 200;
/// The minimum number of items in the body of a model's draft. An offline draft and a person's own text may have fewer.
pub const BODY_ITEMS_MIN: usize = 3;
/// The maximum number of items in the body of a drafted summary.
pub const BODY_ITEMS_MAX: usize = 7;
/// The maximum number of items in a person's own text: more than in a draft, so that items which a draft left out can be
/// added back.
pub const EDITED_ITEMS_MAX: usize = 12;
/// The default budget of a rendered summary, in tokens (`handoff.max_summary_tokens`).
pub const SUMMARY_TOKENS_MAX: u64 = 300;
/// The default budget of the transcript selected for a model with a small or unknown context window, in tokens
/// (`handoff.max_input_tokens`).
pub const INPUT_TOKENS_MAX: u64 = 4_000;
/// The maximum number of proposals of one handoff: first, refined, reverted and redrafted ones together.
pub const ITERATIONS_MAX: u32 = 64;
/// The maximum length of one piece of feedback, and of the reason of a decline, in bytes. Feedback is never cut, because it
/// goes into a prompt whole.
pub const FEEDBACK_BYTES_MAX: usize = 8_000;
/// The maximum length of the goal of a request, in characters. It is part of the package whole.
pub const GOAL_CHARS_MAX: usize = 2_000;

/// The maximum number of files named by a summary that are inspected on disk.
pub const REFERENCED_FILES_MAX: usize = 50;
/// The largest file whose hash is computed, in bytes.
pub const REFERENCED_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The maximum number of seq ranges in one coverage ledger. Above it, adjacent ranges are merged, and the merged range
/// gets the weaker claim of the two.
pub(crate) const COVERAGE_RANGES_MAX: usize = 100_000;
