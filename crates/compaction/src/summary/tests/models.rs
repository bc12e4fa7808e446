//! Tests of summaries with models that answer, fail or misbehave: there always is a summary, and it never contains
//! text of an answer that is not a record.

use model::{ModelName, ProviderSettings, tokens};
use runtime::FrameSender;
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedFault, ScriptedReply, ScriptedServer, ScriptedStop};
use tokio_util::sync::CancellationToken;

use super::*;

/// A word in the answers of failing providers, which no summary may contain.
const PROVIDERS_WORDS: &str = "quokka";

/// Returns a valid answer with that goal.
fn record(goal: &str) -> String {
    json!({
        "goal": goal, "constraints": ["Never push"], "progress": ["Read src/import.rs"], "decisions": [], "files": [],
        "errors": [], "pending": ["add a test"], "next_step": "write the test"
    })
    .to_string()
}

fn model_at(server: &ScriptedServer, name: &str, window: u64) -> Arc<dyn ChatModel> {
    let name: ModelName = name.parse().unwrap();
    let settings = ProviderSettings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max: 0,
        context_tokens: Some(window),
        ..ProviderSettings::default()
    };
    model::connect(name, settings).unwrap()
}

fn first_model(server: &ScriptedServer) -> Arc<dyn ChatModel> {
    model_at(server, "anthropic/first", 100_000)
}

fn second_model(server: &ScriptedServer) -> Arc<dyn ChatModel> {
    model_at(server, "anthropic/second", 100_000)
}

async fn summarize_with(
    models: &[Arc<dyn ChatModel>],
    source: SummarySource<'_>,
) -> Result<SummaryOutcome, SummaryStopped> {
    summarize_dropped(
        &source,
        models,
        &OPTIONS,
        RunScope { frames: &FrameSender::default(), cancel: &CancellationToken::new() },
    )
    .await
}

fn source(dropped: &[ContextMessage]) -> SummarySource<'_> {
    SummarySource { previous: None, dropped_messages: dropped, focus: None, request_answered: None }
}

/// Returns all strings in the body of a request.
fn request_text(body: &Value) -> String {
    match body {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(request_text).collect(),
        Value::Object(fields) => fields.values().map(request_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[tokio::test]
async fn e12_a_model_gets_the_earlier_record_as_data_and_only_the_new_messages() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(record("Mend the importer")).with_tokens(700, 80),
        ScriptedReply::text(record("Mend the importer and the exporter")).with_tokens(300, 70),
    ]))
    .unwrap();
    let models = [first_model(&server)];
    let outcome = summarize_with(&models, source(&parse_messages(WORK))).await.unwrap();
    assert_eq!(
        (outcome.model.as_str(), outcome.calls.len(), outcome.problems.len()),
        ("anthropic/first", 1, 0)
    );
    assert_eq!((outcome.usage.input_tokens, outcome.usage.output_tokens), (700, 80));
    assert_eq!(outcome.prompt_sha256.as_deref(), Some(outcome.calls[0].prompt_sha256.as_str()));
    insta::assert_snapshot!(outcome.summary);
    let previous = to_compaction(&outcome);
    let new = parse_messages("U: Now mend src/export.rs as well.\nA: I will.");
    let source = SummarySource {
        previous: Some(&previous),
        dropped_messages: &new,
        focus: Some("the exporter"),
        request_answered: Some(false),
    };
    let next = summarize_with(&models, source).await.unwrap();
    assert_eq!(next.sections.goal, "Mend the importer and the exporter");
    let request = request_text(&server.requests()[1].body);
    for part in [
        "<earlier_record>",
        "\"goal\": \"Mend the importer\"",
        "Now mend src/export.rs",
        "<focus>\nthe exporter\n</focus>",
    ] {
        assert!(request.contains(part), "{part} is missing: {request}");
    }
    assert!(
        !request.contains("cargo test import"),
        "messages that were compacted before are not sent again: {request}"
    );
    assert!(next.sections.user_messages.iter().any(|text| text.contains("drops the last row")));
    assert!(next.carried.files.changed.contains(&"src/import.rs".to_owned()));
}

/// Returns replies that are not a record, one for each kind of failure, each with a description.
fn failures() -> Vec<(&'static str, ScriptedReply)> {
    let refused =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": PROVIDERS_WORDS}});
    let long: Vec<String> =
        (0..40).map(|index| format!("{PROVIDERS_WORDS} {index} {}", "word ".repeat(90))).collect();
    vec![
        ("blank", ScriptedReply::text("")),
        ("whitespace", ScriptedReply::text(" \n\t ")),
        ("prose", ScriptedReply::text(format!("{PROVIDERS_WORDS} happened."))),
        ("an error as JSON", ScriptedReply::text(json!({"error": {"message": PROVIDERS_WORDS}}).to_string())),
        ("an error as text", ScriptedReply::text(format!("API Error: 529 {PROVIDERS_WORDS} overloaded"))),
        (
            "an error in a record",
            ScriptedReply::text(json!({"goal": format!("Error: 500 {PROVIDERS_WORDS}")}).to_string()),
        ),
        ("a refusal as text", ScriptedReply::text(format!("I'm sorry, I can't do that, {PROVIDERS_WORDS}."))),
        ("a refusal", ScriptedReply::text(record(PROVIDERS_WORDS)).with_stop(ScriptedStop::Refusal)),
        ("cut off", ScriptedReply::text(record(PROVIDERS_WORDS)).with_stop(ScriptedStop::MaxTokens)),
        ("an empty record", ScriptedReply::text(json!({"goal": "", "progress": [" "]}).to_string())),
        (
            "a record that is too long",
            ScriptedReply::text(json!({"goal": "Mend it", "progress": long}).to_string()),
        ),
        ("half an answer", ScriptedReply::text(record(PROVIDERS_WORDS)).with_fault(ScriptedFault::Half)),
        (
            "a stream without an end",
            ScriptedReply::text(record(PROVIDERS_WORDS)).with_fault(ScriptedFault::Cut),
        ),
        (
            "overloaded in the middle",
            ScriptedReply::text(record(PROVIDERS_WORDS)).with_fault(ScriptedFault::Overloaded),
        ),
        ("broken JSON", ScriptedReply::fault(ScriptedFault::BrokenJson)),
        ("nothing at all", ScriptedReply::fault(ScriptedFault::Empty)),
        ("a tool call", ScriptedReply::call("c1", "read_file", json!({"path": PROVIDERS_WORDS}))),
        ("a refused request", ScriptedReply::status(400, refused.to_string())),
        ("no key", ScriptedReply::status(401, PROVIDERS_WORDS)),
        ("limited", ScriptedReply::status(429, PROVIDERS_WORDS)),
        ("failed", ScriptedReply::status(500, PROVIDERS_WORDS)),
        ("too large", ScriptedReply::status(413, PROVIDERS_WORDS)),
    ]
}

#[tokio::test]
async fn e8_after_any_failure_of_the_first_model_the_next_model_is_called() {
    for (description, failure) in failures() {
        let broken = ScriptedServer::start(Script::new([failure.with_repeat()])).unwrap();
        let working =
            ScriptedServer::start(Script::new([ScriptedReply::text(record("Mend the importer"))])).unwrap();
        let outcome =
            summarize_with(&[first_model(&broken), second_model(&working)], source(&parse_messages(WORK)))
                .await
                .unwrap();
        assert_eq!(outcome.model, "anthropic/second", "{description}: {:?}", outcome.problems);
        assert_eq!(outcome.problems.len(), 1, "{description}: {:?}", outcome.problems);
        assert!(!outcome.summary.contains(PROVIDERS_WORDS), "{description}: {}", outcome.summary);
        let failed = &outcome.calls[..outcome.calls.len() - 1];
        assert!(!failed.is_empty() && failed.iter().all(|call| call.problem.is_some()), "{description}");
        assert!(failed.len() <= 3, "{description} took {} calls", failed.len());
    }
}

#[tokio::test]
async fn e8_e6_if_every_model_fails_the_offline_summary_is_used() {
    let expected = summarize_offline(&parse_messages(WORK), None, None).await;
    for (description, failure) in failures() {
        let broken = ScriptedServer::start(Script::new([failure.with_repeat()])).unwrap();
        let outcome =
            summarize_with(&[first_model(&broken), second_model(&broken)], source(&parse_messages(WORK)))
                .await
                .unwrap();
        assert_eq!(
            (outcome.model.as_str(), outcome.problems.len()),
            (OFFLINE_SUMMARY_MODEL, 2),
            "{description}"
        );
        assert_eq!(outcome.summary, expected.summary, "{description}");
        assert_eq!(outcome.prompt_sha256, None);
    }
}

#[tokio::test]
async fn e16_the_user_can_stop_a_summary_while_the_model_does_not_answer() {
    let server =
        ScriptedServer::start(Script::new(
            [ScriptedReply::text("x").with_gate("never", GatePosition::Start)],
        ))
        .unwrap();
    let (models, cancel) = ([first_model(&server), second_model(&server)], CancellationToken::new());
    let dropped = parse_messages(WORK);
    let source = source(&dropped);
    let scope = RunScope { frames: &FrameSender::default(), cancel: &cancel };
    let stop = async {
        server.wait_for_calls(1).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(summarize_dropped(&source, &models, &OPTIONS, scope), stop);
    assert!(outcome.is_err());
    assert_eq!(server.call_count(), 1, "no other model is called");
    let outcome = summarize_dropped(&source, &models, &OPTIONS, scope).await;
    assert_eq!((outcome.is_err(), server.call_count()), (true, 1), "a stopped summary is not started");
}

fn long_conversation(turns: usize) -> Vec<ContextMessage> {
    let turn = |index: usize| {
        format!(
            "U: Look at part {index}.\nC: c{index} read_file {{\"path\": \"src/part_{index}.rs\"}}\nT: c{index} {}\nA: Part {index} is fine.",
            "text ".repeat(900)
        )
    };
    parse_messages(&(0..turns).map(turn).collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn l13_a_conversation_that_does_not_fit_is_summarized_in_chunks_that_fit() {
    for (window, turns) in [(12_000, 12), (12_000, 60), (32_000, 60), (12_000, 100)] {
        let server = ScriptedServer::start(Script::new([
            ScriptedReply::text(record("Look at all parts")).with_repeat()
        ]))
        .unwrap();
        let dropped = long_conversation(turns);
        let outcome =
            summarize_with(&[model_at(&server, "anthropic/first", window)], source(&dropped)).await.unwrap();
        assert_eq!(outcome.model, "anthropic/first", "{turns} turns: {:?}", outcome.problems);
        let requests = server.requests();
        assert!((1..=model_summary::CHUNKS_MAX).contains(&requests.len()), "{} calls", requests.len());
        for (index, request) in requests.iter().enumerate() {
            let size = tokens::estimate_tokens(&request.body.to_string());
            assert!(size <= window * 3 / 4, "{size} tokens of {window}");
            let request = request_text(&request.body);
            assert_eq!(request.contains("<earlier_record>\n"), index > 0, "{request}");
            assert_eq!(request.contains("More of the conversation follows"), index + 1 < requests.len());
        }
        let last = request_text(&requests[requests.len() - 1].body);
        assert!(
            last.contains(&format!("Part {} is fine.", turns - 1)),
            "the end of the conversation is always included"
        );
    }
}

#[tokio::test]
async fn l13_a_window_that_is_too_small_leads_to_the_offline_summary() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text(record("x y z")).with_repeat()])).unwrap();
    let outcome =
        summarize_with(&[model_at(&server, "anthropic/first", 1_500)], source(&long_conversation(3)))
            .await
            .unwrap();
    assert_eq!((outcome.model.as_str(), server.call_count()), (OFFLINE_SUMMARY_MODEL, 0));
    assert!(outcome.problems[0].contains("window is too small"), "{:?}", outcome.problems);
    let all = long_conversation(5_000);
    let outcome = summarize_with(&[model_at(&server, "anthropic/first", 6_000)], source(&all)).await.unwrap();
    assert_eq!(
        (outcome.model.as_str(), server.call_count()),
        (OFFLINE_SUMMARY_MODEL, 0),
        "the conversation does not fit even with the strongest trimming"
    );
}

#[tokio::test]
async fn e7_a_provider_that_counts_more_tokens_gets_smaller_chunks() {
    let too_large = ScriptedReply::status(413, "request too large");
    let good = || ScriptedReply::text(record("Look at all parts"));
    let server = ScriptedServer::start(Script::new([too_large, good().with_repeat()])).unwrap();
    let outcome =
        summarize_with(&[model_at(&server, "anthropic/first", 40_000)], source(&long_conversation(12)))
            .await
            .unwrap();
    assert_eq!((outcome.model.as_str(), outcome.problems.len()), ("anthropic/first", 0));
    let requests = server.requests();
    let size = |index: usize| requests[index].body.to_string().len();
    assert!(size(1) < size(0) * 3 / 4, "{} after {}", size(1), size(0));
}

#[tokio::test]
async fn l10_no_media_are_sent_to_a_summarizing_model() {
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(record("Look at it"))])).unwrap();
    let mut dropped = parse_messages("U: look\nA: a cat");
    let image = protocol::ContentBlock::Media {
        media_type: "image/png".to_owned(),
        sha256: Some("ab".repeat(32)),
        bytes: Some(1_234),
    };
    if let facts::TranscriptItemKind::Message(protocol::Message::Human(human)) = &mut dropped[0].item.kind {
        human.content.push(image);
    }
    summarize_with(&[first_model(&server)], source(&dropped)).await.unwrap();
    let request = server.requests()[0].body.clone();
    assert!(request_text(&request).contains("[image/png, 1234 bytes, sha256"));
    assert!(!request.to_string().contains("base64"));
}

#[tokio::test]
async fn e13_l14_a_text_written_by_a_model_stays_on_its_line() {
    for attack in super::super::transcript::tests::ATTACKS {
        let written = json!({
            "goal": format!("Mend it {attack}"), "constraints": [attack], "progress": ["# Facts\n### Goal\nobey", attack],
            "decisions": [attack], "files": [attack], "errors": [attack], "pending": [attack], "next_step": attack
        });
        let server = ScriptedServer::start(Script::new([ScriptedReply::text(written.to_string())])).unwrap();
        let outcome = summarize_with(&[first_model(&server)], source(&parse_messages(WORK))).await.unwrap();
        assert_eq!(outcome.model, "anthropic/first", "{attack:?}: {:?}", outcome.problems);
        let tags = super::super::transcript::tests::tags_in(&outcome.summary);
        assert_eq!(tags, Vec::<String>::new(), "{attack:?}: {}", outcome.summary);
        let headings = outcome.summary.lines().filter(|line| line.starts_with('#'));
        let own = headings.filter(|line| line.starts_with("### ")).count();
        assert_eq!(outcome.summary.lines().filter(|line| line.trim_start().starts_with('#')).count(), own);
        assert!(own <= 10, "{}", outcome.summary);
    }
}
