//! Tests of the drafts of the evaluation, with the scripted model over HTTP.

use std::sync::Arc;

use facts::TranscriptItemKind;
use facts::notation::parse_items;
use jiff::Timestamp;
use model::{ChatModel, ProviderSettings};
use protocol::NewEvent;
use test_model::{Script, ScriptedReply, ScriptedServer};

#[path = "../../examples/eval_handoff/model_draft.rs"]
#[expect(dead_code, reason = "the example opens its model by the variables of the environment")]
mod model_draft;

/// Returns the events of a conversation in the notation of `facts`.
fn events(text: &str) -> Vec<NewEvent> {
    let event = |kind: &TranscriptItemKind| match kind {
        TranscriptItemKind::Message(message) => NewEvent::from_message(message, Timestamp::UNIX_EPOCH).ok(),
        _ => None,
    };
    parse_items(text).iter().filter_map(|item| event(&item.kind)).collect()
}

/// Returns a client of the server.
fn connect(server: &ScriptedServer) -> Arc<dyn ChatModel> {
    let settings = ProviderSettings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max: 0,
        ..ProviderSettings::default()
    };
    model::connect("anthropic/claude-test".parse().unwrap(), settings).unwrap()
}

/// The conversation to draft for.
const CONVERSATION: &str = "U: Port src/reader.rs, never touch the lexer.\nC: 1 Edit {\"file_path\": \"src/reader.rs\"}\nT: 1 ok\nA: Ported. The tests are still to be run.";

#[tokio::test]
async fn the_evaluated_text_is_the_draft_of_the_model_within_the_budget() {
    let item = |kind: &str, text: &str| format!("{{\"kind\":\"{kind}\",\"text\":\"{text}\",\"refs\":[1]}}");
    let items = [
        item("objective", "Port src/reader.rs."),
        item("decision", "Never touch the lexer."),
        item("next_step", "Run the tests."),
    ];
    let draft = format!(
        "{{\"title\":\"Port of the reader\",\"tldr\":\"Ported, not tested.\",\"body\":[{}]}}",
        items.join(",")
    );
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(draft).with_repeat()])).unwrap();
    let model = connect(&server);
    let text = model_draft::draft_with_model(&model, events(CONVERSATION), 300).await.unwrap();
    assert!(text.starts_with("**Port of the reader**\nPorted, not tested."), "{text}");
    assert!(text.contains("### Next steps\n- Run the tests."), "{text}");
    let request = server.requests()[0].body.to_string();
    assert!(request.contains("under 300 tokens") && request.contains("never touch the lexer"), "{request}");
    assert_eq!(server.call_count(), 1);
}

#[tokio::test]
async fn a_failed_draft_is_an_error_and_not_the_offline_summary() {
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::text("I cannot.").with_repeat()])).unwrap();
    let drafted = model_draft::draft_with_model(&connect(&server), events(CONVERSATION), 300).await;
    assert!(drafted.unwrap_err().contains("not the JSON asked for"));
}
