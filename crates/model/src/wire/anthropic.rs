//! The Anthropic Messages format: request bodies and event decoding. Sending is done elsewhere.
//!
//! | pitfall | solution | test |
//! | --- | --- | --- |
//! | thinking is adaptive or has a budget, depending on the model | chosen by the version in the name | `thinking_is_asked_for_in_the_models_own_way` |
//! | the budget must leave room for the answer | at most half of `max_tokens`, at least 1,024 | `a_budget_leaves_room_for_the_answer` |
//! | a tool loop that started without thinking cannot continue with a budget | thinking is not requested | `a_tool_loop_started_without_thinking_continues_without_it` |
//! | all results of a batch must be at the beginning of one user message | messages of the user's side are merged | `body_of_a_conversation` |
//! | `max_tokens` is required | the model's longest answer | `body_of_a_conversation` |
//! | signed blocks must be returned byte for byte | the block is stored unchanged | `thinking_and_its_signature_are_stored_unchanged` |
//! | pings arrive between events | they reset the idle timeout and are otherwise ignored | `pings_and_unknown_events_add_nothing` |
//! | `usage` in `message_delta` is cumulative | the last value counts | `usage_is_cumulative` |
//! | errors arrive in a response with status 200 | classified by the status that they stand for | `an_error_inside_the_stream_is_an_error` |
//! | some proxies send the input of a call in one piece | used if no pieces follow | `input_may_come_whole` |

mod events;
mod request;

pub(super) use events::AnthropicDecoder;
pub(super) use request::request_body;

#[cfg(test)]
mod tests;
