//! The Gemini `streamGenerateContent` format: request bodies and event decoding. Sending is done elsewhere.
//!
//! A signature that arrives with a call or a text is stored as a thinking block directly before it. When the
//! conversation is sent, the signature is put back into that part.
//!
//! | pitfall | solution | test |
//! | --- | --- | --- |
//! | without `alt=sse` the answer is one array | the parameter is always sent | `base_urls_work_with_and_without_the_version` |
//! | a key in the URL appears in logs | the key is sent in a header | `k4_no_provider_puts_the_key_into_the_url` |
//! | roles must alternate, with as many responses as calls | messages of the user's side are merged | `body_of_a_conversation` |
//! | `parameters` accepts a dialect of JSON schema | `parametersJsonSchema` accepts all of it | `body_of_a_conversation` |
//! | signatures belong to one part | stored next to the part and put back | `signatures_return_to_their_parts` |
//! | Gemini 3 refuses a call without a signature | calls of other models get the documented placeholder | `calls_of_other_models_are_marked_for_gemini_3` |
//! | thinking is set by a level or a budget, depending on the model | chosen by the version in the name | `thinking_is_asked_for_in_the_models_own_way` |
//! | calls have no ids | unique ids are generated | `calls_without_ids_get_unique_ones` |
//! | there is no `[DONE]` | an answer may end after it has a finish reason | `text_thinking_and_usage_are_streamed` |
//! | reasoning tokens are counted separately | both counts are output | `text_thinking_and_usage_are_streamed` |
//! | a refused prompt has no candidates | an empty answer with the stop reason refusal | `a_blocked_prompt_is_a_refusal` |
//! | the finish reason is `STOP` although tools are called | corrected | `calls_without_ids_get_unique_ones` |

mod events;
mod request;

pub(super) use events::GeminiDecoder;
pub(super) use request::request_body;

#[cfg(test)]
mod tests;
