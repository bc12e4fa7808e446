//! Limits on the facts that are kept of a conversation. Together they bound the memory of a
//! [`FactCollector`](crate::FactCollector), however long the thread is.

/// Maximum bytes kept of one user message. The limit is larger than the one for statements because requests are quoted.
pub const REQUEST_BYTES_MAX: usize = 4_000;
/// Maximum bytes kept of the last user message, which is carried over verbatim. More is a pasted file; the package then shows
/// where it ends.
pub const LAST_REQUEST_BYTES_MAX: usize = 65_536;
/// Maximum bytes kept of one text block of the assistant.
pub const STATEMENT_BYTES_MAX: usize = 2_400;
/// Maximum bytes at the beginning of a result that are searched for secrets whose values later texts may repeat.
pub const RESULT_SECRETS_BYTES_MAX: usize = 4_096;
/// Maximum bytes scanned at each end of one message. The middle of a longer message is not scanned.
pub const SCAN_BYTES_MAX: usize = 16_384;
/// Number of user messages kept from the beginning of the part after the last compaction boundary.
pub const FIRST_REQUESTS_MAX: usize = 4;
/// Number of the latest user messages kept.
pub const LAST_REQUESTS_MAX: usize = 48;
/// Number of the latest assistant messages kept.
pub const STATEMENTS_MAX: usize = 12;
/// Number of older messages kept because they mention the goal, for each role.
pub const GOAL_QUOTES_MAX: usize = 24;
/// Number of the latest rules kept, and of the latest decisions.
pub const RULES_MAX: usize = 48;
/// Number of the latest standing rules kept.
pub const STANDING_RULES_MAX: usize = 300;
/// Number of standing rules kept of one message. A message with more is a pasted document.
pub const RULES_PER_MESSAGE_MAX: usize = 10;
/// Maximum bytes of a standing rule with the sentences that continue it.
pub const RULE_TEXT_BYTES_MAX: usize = 1_200;
/// Maximum bytes kept of the end of the assistant's answer to the last request, which tells what is left to do.
pub const ANSWER_BYTES_MAX: usize = 8_192;
/// Maximum bytes of the arguments of one tool call that are searched for names.
pub const ARGUMENT_BYTES_MAX: usize = 8_192;
/// Maximum characters of a rule. A longer sentence is a paragraph, not a rule.
pub const RULE_CHARS_MAX: usize = 300;
/// Number of the latest unresolved errors kept, and of the latest checks.
pub const ERRORS_MAX: usize = 100;
/// Maximum entries of a task list. Later entries are ignored.
pub const TASKS_MAX: usize = 1_000;
/// Maximum tool calls that wait for a result at a time. Above it, the oldest call is dropped.
pub const PENDING_CALLS_MAX: usize = 256;
/// Maximum distinct names (paths, identifiers, references) counted at a time, for each kind. Above it, the rarest and
/// oldest names are dropped.
pub const NAMES_COUNTED_MAX: usize = 4_096;
/// Number of names in the result, for each kind of name in messages and arguments. It is large because a name that is used
/// rarely but was used just now is more likely to be used next than one that was used often long ago.
pub const NAMES_KEPT_MAX: usize = 256;
/// Number of commands in the result, and of files that were only read.
pub const USES_KEPT_MAX: usize = 512;
/// Maximum bytes of one name. Longer texts are not names.
pub const NAME_BYTES_MAX: usize = 200;
