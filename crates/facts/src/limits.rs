//! The limits of what is kept of a conversation, each with its unit.

/// Bytes of a user's message that are kept, most of all for the last one, which is carried over verbatim.
pub const REQUEST_BYTES_MAX: usize = 4_000;
/// Bytes of an assistant's message that are kept.
pub const STATEMENT_BYTES_MAX: usize = 2_400;
/// Bytes looked at on each end of one message; what is between them is not scanned.
pub const SCAN_BYTES_MAX: usize = 16_384;
/// User messages kept from the beginning of the covered part.
pub const FIRST_REQUESTS_MAX: usize = 4;
/// User messages kept from the end.
pub const LAST_REQUESTS_MAX: usize = 48;
/// Assistant messages kept from the end.
pub const STATEMENTS_MAX: usize = 12;
/// Older statements and requests kept because the goal is about them.
pub const GOAL_QUOTES_MAX: usize = 24;
/// Rules and decisions kept from the end, each.
pub const RULES_MAX: usize = 48;
/// Characters above which a sentence is a paragraph and not a rule.
pub const RULE_CHARS_MAX: usize = 300;
/// Errors kept from the end.
pub const ERRORS_MAX: usize = 12;
/// Tasks kept of a task list.
pub const TASKS_MAX: usize = 200;
/// Tool calls that may wait for a result at a time; the oldest is given up.
pub const PENDING_CALLS_MAX: usize = 256;
/// Names (paths, identifiers, references) counted at a time, each kind; the rarest and oldest are given up.
pub const NAMES_COUNTED_MAX: usize = 4_096;
/// Names handed to the extract, each kind.
pub const NAMES_KEPT_MAX: usize = 40;
/// Bytes of one name.
pub const NAME_BYTES_MAX: usize = 200;
