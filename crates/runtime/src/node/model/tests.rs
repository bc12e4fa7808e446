//! Tests of which answers count as empty.

use super::*;

#[test]
fn an_answer_without_anything_to_read_or_run_is_empty() {
    let thinking = ContentBlock::Thinking { text: "hm".to_owned(), provider: None, raw: None };
    let call = ContentBlock::ToolCall {
        id: "1".to_owned(),
        name: "ls".to_owned(),
        args: serde_json::json!("{\"pa"),
    };
    let end = Some(StopReason::EndTurn);
    for (content, stop, expected) in [
        (vec![], end, Some("it is empty")),
        (vec![], None, Some("it is empty")),
        (vec![ContentBlock::text(" \n")], end, Some("it is empty")),
        (vec![thinking.clone()], end, Some("it is empty")),
        (vec![thinking], Some(StopReason::MaxTokens), Some("it reached its limit before it said anything")),
        (vec![], Some(StopReason::Refusal), Some("the model declined to answer")),
        (vec![ContentBlock::text("I can't.")], Some(StopReason::Refusal), None),
        (vec![ContentBlock::text("One two")], Some(StopReason::MaxTokens), None),
        (vec![call], Some(StopReason::MaxTokens), None),
    ] {
        let answer = AiMessage { content, stop, ..AiMessage::default() };
        assert_eq!(empty_reason(&answer), expected, "{answer:?}");
    }
}
