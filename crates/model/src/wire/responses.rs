//! OpenAI Responses: how a request looks and how its events read. Sending is done elsewhere.
//!
//! | trap | what is done | test |
//! | --- | --- | --- |
//! | nothing of ours shall stay with the provider, yet reasoning must go on | `store: false` and encrypted reasoning | `body_of_a_conversation` |
//! | encrypted reasoning is refused by models that do not reason | asked for by name | `encrypted_reasoning_is_asked_of_models_that_reason` |
//! | reasoning without its encrypted content cannot be sent back | it is kept and not sent | `reasoning_that_cannot_be_sent_back_is_not` |
//! | fewer than 16 tokens of answer are refused | raised to 16 | `the_shortest_limit_is_sixteen_tokens` |
//! | a call has two ids | `call_id` links the result | `parallel_calls_with_pieces_of_arguments` |
//! | proxies leave out deltas | the finished item fills in | `a_finished_item_fills_in_what_was_not_streamed` |
//! | failures arrive inside a 200, in two shapes | read as if by status | `an_error_inside_the_stream_is_an_error` |

mod events;
mod request;

pub(super) use events::Events;
pub(super) use request::body;

#[cfg(test)]
mod tests;
