//! OpenAI Chat Completions and what speaks like it (Ollama, llama.cpp, vLLM, proxies): how a request looks and how its
//! events read. Sending is done elsewhere.
//!
//! | trap | what is done | test |
//! | --- | --- | --- |
//! | no usage unless asked for | `stream_options.include_usage` | `body_of_a_conversation` |
//! | the usage event has no choices | it is read after the last choice | `usage_comes_after_the_last_choice` |
//! | `max_tokens` is refused by OpenAI's newer models, the longer name is unknown to others | by endpoint | `the_longest_answer_has_two_names` |
//! | reasoning arrives as `reasoning_content` or `reasoning` | both are read and sent back under their name | `reasoning_has_two_names` |
//! | reasoning is wanted back inside a tool loop and refused behind it | only what follows the person's last words is sent | `reasoning_is_sent_back_inside_its_tool_loop_only` |
//! | ids of calls are missing or count from zero in each answer | replaced by unique ones | `missing_and_repeated_ids_become_unique` |
//! | parallel calls share index 0, or have none | another id or name is another call | `calls_without_an_index_of_their_own` |
//! | the name is repeated with every piece | the first counts | `a_repeated_name_is_one_name` |
//! | some servers never send `[DONE]` | an answer may end once a choice has | `done_may_be_missing` |
//! | `stop` although tools are called | corrected | `missing_and_repeated_ids_become_unique` |
//! | errors arrive inside a 200 | read as if by status | `an_error_inside_the_stream_is_an_error` |

mod events;
mod request;

pub(super) use events::Events;
pub(super) use request::body;

#[cfg(test)]
mod tests;
