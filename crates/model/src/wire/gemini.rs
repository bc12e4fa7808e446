//! Gemini `streamGenerateContent`: how a request looks and how its events read. Sending is done elsewhere.
//!
//! A signature that comes with a call or a text is kept as a thinking block of its own right before it, and is put
//! back into that part when it is sent.
//!
//! | trap | what is done | test |
//! | --- | --- | --- |
//! | without `alt=sse` the answer is one array | it is always asked for | `base_urls_work_with_and_without_the_version` |
//! | the key in the URL ends up in logs | it goes into a header | `k4_no_provider_puts_the_key_into_the_url` |
//! | strict alternation, as many responses as calls | the user's side is joined | `body_of_a_conversation` |
//! | `parameters` takes a dialect of JSON schema | `parametersJsonSchema` takes all of it | `body_of_a_conversation` |
//! | signatures belong to one part | kept beside it and put back | `signatures_return_to_their_parts` |
//! | Gemini 3 refuses a call without a signature | calls of others get the documented placeholder | `calls_of_other_models_are_marked_for_gemini_3` |
//! | thinking is a level or a budget, by model | by the version in the name | `thinking_is_asked_for_in_the_models_own_way` |
//! | calls have no ids | unique ones are made | `calls_without_ids_get_unique_ones` |
//! | there is no `[DONE]` | an answer may end once it has a finish reason | `text_thinking_and_usage_are_streamed` |
//! | reasoning is counted beside the answer | both are output | `text_thinking_and_usage_are_streamed` |
//! | a refused prompt has no candidates | an empty answer that was refused | `a_blocked_prompt_is_a_refusal` |
//! | `STOP` although tools are called | corrected | `calls_without_ids_get_unique_ones` |

mod events;
mod request;

pub(super) use events::Events;
pub(super) use request::body;

#[cfg(test)]
mod tests;
