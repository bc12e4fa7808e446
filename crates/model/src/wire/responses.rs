//! The OpenAI Responses format: request bodies and event decoding. Sending is done elsewhere.
//!
//! | pitfall | solution | test |
//! | --- | --- | --- |
//! | nothing may be stored at the provider, but reasoning must be continued | `store: false` and encrypted reasoning | `body_of_a_conversation` |
//! | models without reasoning refuse encrypted reasoning | requested depending on the model's name | `encrypted_reasoning_is_asked_of_models_that_reason` |
//! | reasoning without its encrypted content cannot be sent back | it is stored and not sent | `reasoning_that_cannot_be_sent_back_is_not` |
//! | limits below 16 tokens of answer are refused | raised to 16 | `the_shortest_limit_is_sixteen_tokens` |
//! | a call has two ids | `call_id` connects call and result | `parallel_calls_with_pieces_of_arguments` |
//! | proxies leave out deltas | missing content is taken from the finished item | `a_finished_item_fills_in_what_was_not_streamed` |
//! | failures arrive in a response with status 200, in two shapes | classified by the status that they stand for | `an_error_inside_the_stream_is_an_error` |

mod events;
mod request;

pub(super) use events::ResponsesDecoder;
pub(super) use request::request_body;

#[cfg(test)]
mod tests;
