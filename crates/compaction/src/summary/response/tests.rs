//! Table tests of parsing answers. No model is called.

use protocol::ContentBlock;
use serde_json::json;

use protocol::message::StopReason;

use super::*;

const VALID_ANSWER: &str = r#"{"goal":"Mend the importer","constraints":["Never push"],"progress":["Read src/import.rs"],
    "decisions":[],"files":["src/import.rs: drops the last row"],"errors":[],"pending":["A test"],"next_step":"Write it"}"#;

fn parse_answer(text: &str) -> Result<CondensedSummary, String> {
    parse_response(AiMessage { content: vec![ContentBlock::text(text)], ..AiMessage::default() }, 1_000)
}

fn check(text: &str, expected: &str) {
    let outcome = match parse_answer(text) {
        Ok(record) => format!("{} | {}", record.goal, record.progress.join(" / ")),
        Err(reason) => reason.split(" at line").next().unwrap_or_default().to_owned(),
    };
    assert_eq!(outcome, expected, "{text:?}");
}

#[test]
fn e20_an_answer_is_parsed_strictly_and_repaired_only_without_a_guess() {
    let expected = "Mend the importer | Read src/import.rs";
    check(VALID_ANSWER, expected);
    check(&format!("```json\n{VALID_ANSWER}\n```"), expected);
    check(&format!("Here is the {{record}}: {VALID_ANSWER} I hope it helps."), expected);
    check(&VALID_ANSWER.replace("\"next_step\"", "\"mood\":\"fine\",\"next_step\""), expected);
    check(&VALID_ANSWER.replace("\"decisions\":[],", ""), expected);
    check(&VALID_ANSWER.replace("[\"Read src/import.rs\"]", "\"Read src/import.rs\""), expected);
    check(&VALID_ANSWER.replace("\"errors\":[]", "\"errors\":null"), expected);
}

#[test]
fn e8_an_answer_that_is_not_a_record_is_rejected() {
    check("", "it is empty");
    check(" \n\t ", "it is empty");
    check("I cannot help with that.", "it is not the JSON asked for: expected value");
    check("API Error: 529 overloaded", "it is not the JSON asked for: expected value");
    check(
        r#"{"error":{"message":"overloaded"}}"#,
        "it is not the JSON asked for: unknown field `error`, expected one of `goal`, `constraints`, `progress`, `decisions`, `files`, `errors`, `pending`, `next_step`",
    );
    check(r#"{"goal":""}"#, "it says nothing");
    check(r#"{"goal":" ","progress":["  "],"next_step":"\u200b"}"#, "it says nothing");
    check(
        r#"{"goal":"I'm sorry, but I can't help with this conversation."}"#,
        "it is an error or a refusal and no record",
    );
    check(r#"{"goal":"Error: 529 the provider is overloaded"}"#, "it is an error or a refusal and no record");
    check(
        r#"{"goal":"Prompt is too long: 210000 tokens","progress":[]}"#,
        "it is an error or a refusal and no record",
    );
    check(
        r#"{"goal":"Mend it all","progress":[{"text":"no text"}]}"#,
        "it is not the JSON asked for: invalid type: map, expected a string",
    );
    check(
        &VALID_ANSWER[..VALID_ANSWER.len() - 9],
        "it is not the JSON asked for: EOF while parsing a string",
    );
    let long: Vec<String> = (0..40).map(|index| format!("step {index}: {}", "word ".repeat(60))).collect();
    let long = json!({"goal": "Mend the importer", "progress": long}).to_string();
    assert!(parse_answer(&long).unwrap_err().starts_with("it is too long"));
}

#[test]
fn e8_an_answer_that_was_cut_off_or_refused_is_rejected_even_with_a_valid_text() {
    for (stop, reason) in
        [(StopReason::MaxTokens, "it was cut off"), (StopReason::Refusal, "the model declined to write it")]
    {
        let content = vec![ContentBlock::text(VALID_ANSWER)];
        let answer = AiMessage { content, stop: Some(stop), ..AiMessage::default() };
        assert_eq!(parse_response(answer, 1_000).unwrap_err(), reason);
    }
    let answer = AiMessage {
        content: vec![ContentBlock::text(VALID_ANSWER)],
        incomplete: true,
        ..AiMessage::default()
    };
    assert_eq!(parse_response(answer, 1_000).unwrap_err(), "it was cut off");
}

#[test]
fn a_record_about_errors_is_valid() {
    check(
        r#"{"goal":"Error: handling in the parser","progress":["Wrote the parser"],"next_step":"Test it"}"#,
        "Error: handling in the parser | Wrote the parser",
    );
}

#[test]
fn m16_a_secret_repeated_by_a_model_is_redacted() {
    let record =
        parse_answer(&VALID_ANSWER.replace("Never push", "use ghp_abcdefghijklmnopqrstuvwxyz0123456789"))
            .unwrap();
    assert_eq!(record.constraints, ["use [redacted]"]);
}
