//! Models that answer, fail and lie: whatever they do, there is a summary and nothing in it is theirs that is no record.

use model::{ModelName, Settings, tokens};
use runtime::Frames;
use serde_json::{Value, json};
use test_model::{Fault, Place, Reply, Script, Server, Stop};
use tokio_util::sync::CancellationToken;

use super::*;

/// Words that a failing provider says, and that no summary may hold.
const PROVIDERS_WORDS: &str = "quokka";

fn record(goal: &str) -> String {
    json!({
        "goal": goal, "constraints": ["Never push"], "progress": ["Read src/import.rs"], "decisions": [], "files": [],
        "errors": [], "pending": ["add a test"], "next_step": "write the test"
    })
    .to_string()
}

fn model_at(server: &Server, name: &str, window: u64) -> Arc<dyn ChatModel> {
    let name: ModelName = name.parse().unwrap();
    let settings = Settings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max: 0,
        context_tokens: Some(window),
        ..Settings::default()
    };
    model::connect(name, settings).unwrap()
}

fn first(server: &Server) -> Arc<dyn ChatModel> {
    model_at(server, "anthropic/first", 100_000)
}

fn second(server: &Server) -> Arc<dyn ChatModel> {
    model_at(server, "anthropic/second", 100_000)
}

async fn told_by(models: &[Arc<dyn ChatModel>], source: Source<'_>) -> Result<Told, Stopped> {
    summarise(
        &source,
        models,
        &OPTIONS,
        RunScope { frames: &Frames::default(), cancel: &CancellationToken::new() },
    )
    .await
}

fn source(dropped: &[Unit]) -> Source<'_> {
    Source { previous: None, dropped, focus: None, answered: None }
}

/// Returns all text of a request that was sent.
fn sent(body: &Value) -> String {
    match body {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(sent).collect(),
        Value::Object(fields) => fields.values().map(sent).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[tokio::test]
async fn e12_a_model_is_shown_the_earlier_record_as_data_and_only_what_is_new() {
    let server = Server::start(Script::new([
        Reply::text(record("Mend the importer")).tokens(700, 80),
        Reply::text(record("Mend the importer and the exporter")).tokens(300, 70),
    ]))
    .unwrap();
    let models = [first(&server)];
    let told = told_by(&models, source(&units(WORK))).await.unwrap();
    assert_eq!((told.model.as_str(), told.calls.len(), told.problems.len()), ("anthropic/first", 1, 0));
    assert_eq!((told.usage.input_tokens, told.usage.output_tokens), (700, 80));
    assert_eq!(told.prompt_sha256.as_deref(), Some(told.calls[0].prompt_sha256.as_str()));
    insta::assert_snapshot!(told.summary);
    let previous = stored(&told);
    let new = units("U: Now mend src/export.rs as well.\nA: I will.");
    let source = Source {
        previous: Some(&previous),
        dropped: &new,
        focus: Some("the exporter"),
        answered: Some(false),
    };
    let next = told_by(&models, source).await.unwrap();
    assert_eq!(next.sections.goal, "Mend the importer and the exporter");
    let asked = sent(&server.requests()[1].body);
    for part in [
        "<earlier_record>",
        "\"goal\": \"Mend the importer\"",
        "Now mend src/export.rs",
        "<focus>\nthe exporter\n</focus>",
    ] {
        assert!(asked.contains(part), "{part} is missing: {asked}");
    }
    assert!(!asked.contains("cargo test import"), "what is condensed already is not shown again: {asked}");
    assert!(next.sections.user_messages.iter().any(|text| text.contains("drops the last row")));
    assert!(next.carry_over.files_modified.contains(&"src/import.rs".to_owned()));
}

/// Every way in which a model may give no record.
fn failures() -> Vec<(&'static str, Reply)> {
    let refused =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": PROVIDERS_WORDS}});
    let long: Vec<String> =
        (0..40).map(|at| format!("{PROVIDERS_WORDS} {at} {}", "word ".repeat(90))).collect();
    vec![
        ("blank", Reply::text("")),
        ("whitespace", Reply::text(" \n\t ")),
        ("prose", Reply::text(format!("{PROVIDERS_WORDS} happened."))),
        ("an error as JSON", Reply::text(json!({"error": {"message": PROVIDERS_WORDS}}).to_string())),
        ("an error as text", Reply::text(format!("API Error: 529 {PROVIDERS_WORDS} overloaded"))),
        (
            "an error in a record",
            Reply::text(json!({"goal": format!("Error: 500 {PROVIDERS_WORDS}")}).to_string()),
        ),
        ("a refusal as text", Reply::text(format!("I'm sorry, I can't do that, {PROVIDERS_WORDS}."))),
        ("a refusal", Reply::text(record(PROVIDERS_WORDS)).stop(Stop::Refusal)),
        ("cut off", Reply::text(record(PROVIDERS_WORDS)).stop(Stop::MaxTokens)),
        ("an empty record", Reply::text(json!({"goal": "", "progress": [" "]}).to_string())),
        ("a record that is too long", Reply::text(json!({"goal": "Mend it", "progress": long}).to_string())),
        ("half an answer", Reply::text(record(PROVIDERS_WORDS)).then(Fault::Half)),
        ("a stream without an end", Reply::text(record(PROVIDERS_WORDS)).then(Fault::Cut)),
        ("overloaded in the middle", Reply::text(record(PROVIDERS_WORDS)).then(Fault::Overloaded)),
        ("broken JSON", Reply::fault(Fault::BrokenJson)),
        ("nothing at all", Reply::fault(Fault::Empty)),
        ("a tool call", Reply::call("c1", "read_file", json!({"path": PROVIDERS_WORDS}))),
        ("a refused request", Reply::status(400, refused.to_string())),
        ("no key", Reply::status(401, PROVIDERS_WORDS)),
        ("limited", Reply::status(429, PROVIDERS_WORDS)),
        ("failed", Reply::status(500, PROVIDERS_WORDS)),
        ("too large", Reply::status(413, PROVIDERS_WORDS)),
    ]
}

#[tokio::test]
async fn e8_whatever_is_wrong_with_the_first_model_the_next_one_is_asked() {
    for (what, failure) in failures() {
        let broken = Server::start(Script::new([failure.repeated()])).unwrap();
        let working = Server::start(Script::new([Reply::text(record("Mend the importer"))])).unwrap();
        let told = told_by(&[first(&broken), second(&working)], source(&units(WORK))).await.unwrap();
        assert_eq!(told.model, "anthropic/second", "{what}: {:?}", told.problems);
        assert_eq!(told.problems.len(), 1, "{what}: {:?}", told.problems);
        assert!(!told.summary.contains(PROVIDERS_WORDS), "{what}: {}", told.summary);
        let failed = &told.calls[..told.calls.len() - 1];
        assert!(!failed.is_empty() && failed.iter().all(|call| call.problem.is_some()), "{what}");
        assert!(failed.len() <= 3, "{what} took {} calls", failed.len());
    }
}

#[tokio::test]
async fn e8_e6_when_no_model_gives_a_record_it_is_the_extract_and_never_a_providers_words() {
    let expected = extracted(&units(WORK), None, None).await;
    for (what, failure) in failures() {
        let broken = Server::start(Script::new([failure.repeated()])).unwrap();
        let told = told_by(&[first(&broken), second(&broken)], source(&units(WORK))).await.unwrap();
        assert_eq!((told.model.as_str(), told.problems.len()), (EXTRACTIVE, 2), "{what}");
        assert_eq!(told.summary, expected.summary, "{what}");
        assert_eq!(told.prompt_sha256, None);
    }
}

#[tokio::test]
async fn e16_a_person_stops_it_while_a_model_is_silent() {
    let server = Server::start(Script::new([Reply::text("x").gated("never", Place::Start)])).unwrap();
    let (models, cancel) = ([first(&server), second(&server)], CancellationToken::new());
    let dropped = units(WORK);
    let source = source(&dropped);
    let scope = RunScope { frames: &Frames::default(), cancel: &cancel };
    let stop = async {
        server.called(1).await;
        cancel.cancel();
    };
    let (told, ()) = tokio::join!(summarise(&source, &models, &OPTIONS, scope), stop);
    assert!(told.is_err());
    assert_eq!(server.calls(), 1, "no other model is asked");
    let told = summarise(&source, &models, &OPTIONS, scope).await;
    assert_eq!((told.is_err(), server.calls()), (true, 1), "what is stopped already does not begin");
}

fn long(turns: usize) -> Vec<Unit> {
    let turn = |at: usize| {
        format!(
            "U: Look at part {at}.\nC: c{at} read_file {{\"path\": \"src/part_{at}.rs\"}}\nT: c{at} {}\nA: Part {at} is fine.",
            "text ".repeat(900)
        )
    };
    units(&(0..turns).map(turn).collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn l13_what_does_not_fit_at_once_is_recorded_in_turn_and_every_request_fits() {
    for (window, turns) in [(12_000, 12), (12_000, 60), (32_000, 60), (12_000, 100)] {
        let server =
            Server::start(Script::new([Reply::text(record("Look at all parts")).repeated()])).unwrap();
        let dropped = long(turns);
        let told = told_by(&[model_at(&server, "anthropic/first", window)], source(&dropped)).await.unwrap();
        assert_eq!(told.model, "anthropic/first", "{turns} turns: {:?}", told.problems);
        let requests = server.requests();
        assert!((1..=ask::CHUNKS_MAX).contains(&requests.len()), "{} calls", requests.len());
        for (at, request) in requests.iter().enumerate() {
            let size = tokens::estimate(&request.body.to_string());
            assert!(size <= window * 3 / 4, "{size} tokens of {window}");
            let asked = sent(&request.body);
            assert_eq!(asked.contains("<earlier_record>\n"), at > 0, "{asked}");
            assert_eq!(asked.contains("More of the conversation follows"), at + 1 < requests.len());
        }
        let last = sent(&requests[requests.len() - 1].body);
        assert!(last.contains(&format!("Part {} is fine.", turns - 1)), "the end is always shown");
    }
}

#[tokio::test]
async fn l13_a_window_that_is_too_small_for_anything_means_the_extract() {
    let server = Server::start(Script::new([Reply::text(record("x y z")).repeated()])).unwrap();
    let told = told_by(&[model_at(&server, "anthropic/first", 1_500)], source(&long(3))).await.unwrap();
    assert_eq!((told.model.as_str(), server.calls()), (EXTRACTIVE, 0));
    assert!(told.problems[0].contains("window is too small"), "{:?}", told.problems);
    let all = long(5_000);
    let told = told_by(&[model_at(&server, "anthropic/first", 6_000)], source(&all)).await.unwrap();
    assert_eq!(
        (told.model.as_str(), server.calls()),
        (EXTRACTIVE, 0),
        "not even the strongest trim makes it fit"
    );
}

#[tokio::test]
async fn e7_a_provider_that_counts_more_tokens_gets_smaller_chunks() {
    let too_large = Reply::status(413, "request too large");
    let good = || Reply::text(record("Look at all parts"));
    let server = Server::start(Script::new([too_large, good().repeated()])).unwrap();
    let told = told_by(&[model_at(&server, "anthropic/first", 40_000)], source(&long(12))).await.unwrap();
    assert_eq!((told.model.as_str(), told.problems.len()), ("anthropic/first", 0));
    let requests = server.requests();
    let size = |at: usize| requests[at].body.to_string().len();
    assert!(size(1) < size(0) * 3 / 4, "{} after {}", size(1), size(0));
}

#[tokio::test]
async fn l10_no_media_are_sent_to_a_summariser() {
    let server = Server::start(Script::new([Reply::text(record("Look at it"))])).unwrap();
    let mut dropped = units("U: look\nA: a cat");
    let image = protocol::Block::Media {
        media_type: "image/png".to_owned(),
        sha256: Some("ab".repeat(32)),
        bytes: Some(1_234),
    };
    if let facts::What::Message(protocol::Message::Human(human)) = &mut dropped[0].item.what {
        human.content.push(image);
    }
    told_by(&[first(&server)], source(&dropped)).await.unwrap();
    let asked = server.requests()[0].body.clone();
    assert!(sent(&asked).contains("[image/png, 1234 bytes, sha256"));
    assert!(!asked.to_string().contains("base64"));
}

#[tokio::test]
async fn e13_l14_what_a_model_wrote_stays_on_its_line() {
    for attack in super::super::transcript::tests::ATTACKS {
        let written = json!({
            "goal": format!("Mend it {attack}"), "constraints": [attack], "progress": ["# Facts\n### Goal\nobey", attack],
            "decisions": [attack], "files": [attack], "errors": [attack], "pending": [attack], "next_step": attack
        });
        let server = Server::start(Script::new([Reply::text(written.to_string())])).unwrap();
        let told = told_by(&[first(&server)], source(&units(WORK))).await.unwrap();
        assert_eq!(told.model, "anthropic/first", "{attack:?}: {:?}", told.problems);
        let tags = super::super::transcript::tests::tags(&told.summary);
        assert_eq!(tags, Vec::<String>::new(), "{attack:?}: {}", told.summary);
        let headings = told.summary.lines().filter(|line| line.starts_with('#'));
        let own = headings.filter(|line| line.starts_with("### ")).count();
        assert_eq!(told.summary.lines().filter(|line| line.trim_start().starts_with('#')).count(), own);
        assert!(own <= 10, "{}", told.summary);
    }
}
