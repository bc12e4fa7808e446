//! Anthropic Messages: how a request looks and how its events read. Sending is done elsewhere.
//!
//! | trap | what is done | test |
//! | --- | --- | --- |
//! | thinking is adaptive or budgeted, by model | by the version in the name | `thinking_is_asked_for_in_the_models_own_way` |
//! | a budget must leave room for the answer | half of `max_tokens` at most, 1,024 at least | `a_budget_leaves_room_for_the_answer` |
//! | a tool loop begun without thinking cannot go on with a budget | it is not asked for | `a_tool_loop_begun_without_thinking_goes_on_without` |
//! | all results of a batch are in one user message, first | neighbours of the user's side are joined | `body_of_a_conversation` |
//! | `max_tokens` is required | the model's longest answer | `body_of_a_conversation` |
//! | signatures replay byte for byte | the block is kept as it came | `thinking_and_its_signature_are_kept_as_they_came` |
//! | pings arrive between events | they count as life, nothing else | `pings_and_unknown_events_add_nothing` |
//! | `usage` in `message_delta` is cumulative | the last one counts | `usage_is_cumulative` |
//! | errors arrive inside a 200 | read as if by status | `an_error_inside_the_stream_is_an_error` |
//! | some proxies send a call's input at once | it is used when no pieces come | `input_may_come_whole` |

mod events;
mod request;

pub(super) use events::Events;
pub(super) use request::body;

#[cfg(test)]
mod tests;
