//! The OpenAI Chat Completions format, as OpenAI and compatible servers (Ollama, llama.cpp, vLLM, proxies)
//! implement it: request bodies and event decoding. Sending is done elsewhere.
//!
//! | pitfall | solution | test |
//! | --- | --- | --- |
//! | usage is sent only on request | `stream_options.include_usage` | `body_of_a_conversation` |
//! | the event with the usage has no choices | it is read after the last choice | `usage_comes_after_the_last_choice` |
//! | OpenAI's newer models refuse `max_tokens`; other servers do not know the newer name | chosen by endpoint | `the_longest_answer_has_two_names` |
//! | reasoning arrives as `reasoning_content` or `reasoning` | both are read, and sent back under the same name | `reasoning_has_two_names` |
//! | reasoning is required inside a tool loop and refused after it | only reasoning after the person's last message is sent | `reasoning_is_sent_back_inside_its_tool_loop_only` |
//! | call ids are missing, or count from zero in each answer | replaced by unique ones | `missing_and_repeated_ids_become_unique` |
//! | parallel calls share index 0, or have none | another id or name starts another call | `calls_without_an_index_of_their_own` |
//! | the name is repeated with every delta | the first one counts | `a_repeated_name_is_one_name` |
//! | some servers never send `[DONE]` | an answer may end after a choice has a finish reason | `done_may_be_missing` |
//! | the finish reason is `stop` although tools are called | corrected | `missing_and_repeated_ids_become_unique` |
//! | errors arrive in a response with status 200 | classified by the status that they stand for | `an_error_inside_the_stream_is_an_error` |

mod events;
mod request;

pub(super) use events::ChatDecoder;
pub(super) use request::request_body;

#[cfg(test)]
mod tests;
