//! Tests that secrets of any source reach no tier of memory, and that the number of redacted secrets is reported (M16).

use agent::{IndexHitKind, SearchRequest};
use serde_json::json;
use test_model::{Script, ScriptedReply};

use super::*;

/// Keys in real formats, one for each source: the user, a tool, the model, and the summarizer.
const SECRET_KEYS: [&str; 4] = [
    "sk-ant-api03-Q29tZXRXYWxudXRIaXZlQmVlc0luVHJlbnRvMDE",
    "ghp_q8Zr2LmT5vXc9BnK1wEy4UiO7pAs3DfGh6Jk",
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-x9Yt3KcLq7Wz2VbN5mRp",
];

/// Tables in which memory stores texts, with a condition where needed, and their text columns.
const MEMORY_COLUMNS: [(&str, &str); 4] = [
    ("medium_term_memory", "summary_text"),
    ("items", "key || value || namespace"),
    ("outbox", "key || payload"),
    ("events WHERE event_type IN ('turns_archived', 'model_called')", "content || coalesce(metadata, '')"),
];

/// Returns all texts that memory stores: its tables, the queued work with its drafts, the events about it in threads, and
/// agent.md.
fn stored_memory_text(environment: &TestEnvironment) -> String {
    let read_columns =
        |(table, columns)| environment.query_texts(&format!("SELECT {columns} FROM {table}")).concat();
    MEMORY_COLUMNS.map(read_columns).concat() + &environment.read_agent_md()
}

/// Returns the summaries and items that a search for the text around a secret finds.
async fn search_result_text(agent: &Agent) -> String {
    let kinds = vec![IndexHitKind::Summary, IndexHitKind::Item];
    let request = SearchRequest { kinds, ..SearchRequest::new("the key of the server is") };
    let hits = agent.memory().search(&request).await.unwrap().hits;
    assert!(!hits.is_empty());
    format!("{hits:?}")
}

#[tokio::test]
async fn m16_a_secret_in_a_conversation_reaches_no_tier_of_memory() {
    let [user_key, tool_key, model_key, summarizer_key] = SECRET_KEYS;
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", &format!("The key of the server is {tool_key}\n"));
    // The summarizer's input has no secret, but its answer contains one.
    let summary =
        ScriptedReply::text(format!("{SUMMARY_TEXT} The key is {summarizer_key} and the file says so."));
    let put_item = json!({"action": "put", "namespace": ["keys"], "key": "server", "value": {"note": format!("it is {tool_key}")}});
    let replies = [
        summary.when_body_contains(MEMORY_SUMMARIZER_PROMPT).with_repeat(),
        without_usage(ScriptedReply::call("c1", "read_file", json!({"path": "notes.txt"})))
            .when_turn_is(2, 1),
        without_usage(ScriptedReply::call("c2", "store", put_item)).when_turn_is(2, 2),
        without_usage(ScriptedReply::text(format!("It is {model_key}, and the other one is {tool_key}.")))
            .when_turn_is(2, 3),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let more = "[permissions]\nallow = [\"read_file\"]";
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, more));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, thread, &format!("{FIRST_TURN_TEXT} My own key is {user_key}, keep it.")).await;
    send_message(&agent, thread, "What is the key of the server?").await;
    for number in 3..=8 {
        send_message(&agent, thread, &turn_text(number)).await;
    }
    let queued = stored_memory_text(&environment);
    assert!(queued.contains("thread_id"), "the queued work is part of the stored text: {queued}");
    let settled = settle_memory(&agent).await;
    assert!(settled[0].withheld >= 3, "{settled:?}");
    assert_eq!(
        turns_archived(&agent, thread).await[0].withheld,
        settled[0].withheld,
        "the thread's event reports the number"
    );
    let remembered =
        agent.memory().remember(agent.notes_scope(), &format!("My key is {user_key}")).await.unwrap();
    assert_eq!(remembered.redacted_secrets, 1);
    let other = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, other, "Hello.").await;
    let system = newest_request(&server).body["system"].to_string();
    assert!(system.contains(SUMMARY_TEXT));
    let summarizer_input: String =
        summarizer_requests(&server).iter().map(|request| request.body.to_string()).collect();
    let summaries =
        format!("{:?}", agent.memory().recent_summaries(agent::ProjectScope::Any, 10).await.unwrap());
    let search_text = search_result_text(&agent).await;
    for key in SECRET_KEYS {
        for (location, text) in [
            ("the queue", queued.clone()),
            ("a memory table", stored_memory_text(&environment)),
            ("search results", search_text.clone()),
            ("a summary", summaries.clone()),
            ("another thread's prompt", system.clone()),
            ("the summarizer's input", summarizer_input.clone()),
        ] {
            assert!(!text.contains(key), "{key} is in {location}: {text}");
        }
    }
    let items = agent.memory().items().search(&agent::ItemSearch::default()).await.unwrap();
    assert_eq!(
        (items.len(), items[0].item.key.as_str()),
        (1, "server"),
        "the item is stored without the secret"
    );
}
