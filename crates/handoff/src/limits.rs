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

/// Bytes of a user's message that are kept, most of all for the last one, which is carried over verbatim.
pub(crate) const REQUEST_BYTES_MAX: usize = 4_000;
/// Bytes of an assistant's message that are kept.
pub(crate) const STATEMENT_BYTES_MAX: usize = 2_400;
/// Bytes looked at on each end of one message; what is between them is not scanned.
pub(crate) const SCAN_BYTES_MAX: usize = 16_384;
/// User messages kept from the beginning of the covered part.
pub(crate) const FIRST_REQUESTS_MAX: usize = 4;
/// User messages kept from the end.
pub(crate) const LAST_REQUESTS_MAX: usize = 48;
/// Assistant messages kept from the end.
pub(crate) const STATEMENTS_MAX: usize = 12;
/// Older statements and requests kept because the goal is about them.
pub(crate) const ABOUT_GOAL_MAX: usize = 24;
/// Rules and decisions kept from the end, each.
pub(crate) const RULES_MAX: usize = 48;
/// Characters above which a sentence is a paragraph and not a rule.
pub(crate) const RULE_CHARS_MAX: usize = 300;
/// Errors kept from the end.
pub(crate) const ERRORS_MAX: usize = 12;
/// Tasks kept of a task list.
pub(crate) const TASKS_MAX: usize = 200;
/// Tool calls that may wait for a result at a time; the oldest is given up.
pub(crate) const OPEN_CALLS_MAX: usize = 256;
/// Names (paths, identifiers, references) counted at a time, each kind; the rarest and oldest are given up.
pub(crate) const NAMES_MAX: usize = 4_096;
/// Names handed to the extract, each kind.
pub(crate) const NAMES_KEPT_MAX: usize = 40;
/// Bytes of one name.
pub(crate) const NAME_BYTES_MAX: usize = 200;
/// Seq ranges of one coverage ledger; beyond it neighbours are merged into the weaker claim.
pub(crate) const COVERAGE_RANGES_MAX: usize = 100_000;
