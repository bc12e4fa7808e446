//! Secrets, wherever they were said: they reach no tier of memory, and how many were withheld is told (M16).

use agent::{IndexHitKind, SearchRequest};
use serde_json::json;
use test_model::{Script, ScriptedReply};

use super::*;

/// Keys as they look, one for each place a secret can be said in.
const SECRET_KEYS: [&str; 4] = [
    "sk-ant-api03-Q29tZXRXYWxudXRIaXZlQmVlc0luVHJlbnRvMDE",
    "ghp_q8Zr2LmT5vXc9BnK1wEy4UiO7pAs3DfGh6Jk",
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-x9Yt3KcLq7Wz2VbN5mRp",
];

/// Where memory keeps texts: the tables, and which of their rows and columns.
const MEMORY_COLUMNS: [(&str, &str); 4] = [
    ("medium_term_memory", "summary_text"),
    ("items", "key || value || namespace"),
    ("outbox", "key || payload"),
    ("events WHERE event_type IN ('turns_archived', 'model_called')", "content || coalesce(metadata, '')"),
];

/// Returns everything that memory keeps: its tables, what waits to be done with the drafts it has, what is told and traced of
/// it in threads, and agent.md.
fn stored_memory_text(world: &TestEnvironment) -> String {
    let told = |(table, columns)| world.query_texts(&format!("SELECT {columns} FROM {table}")).concat();
    MEMORY_COLUMNS.map(told).concat() + &world.read_agent_md()
}

/// Returns what a search for a secret's neighbours shows of summaries and items.
async fn search_result_text(agent: &Agent) -> String {
    let kinds = vec![IndexHitKind::Summary, IndexHitKind::Item];
    let request = SearchRequest { kinds, ..SearchRequest::new("the key of the server is") };
    let found = agent.memory().search(&request).await.unwrap().hits;
    assert!(!found.is_empty());
    format!("{found:?}")
}

#[tokio::test]
async fn m16_a_secret_that_was_said_reaches_no_tier() {
    let [by_person, by_tool, by_model, by_summariser] = SECRET_KEYS;
    let world = TestEnvironment::new();
    world.write_file("notes.txt", &format!("The key of the server is {by_tool}\n"));
    // A summariser that was told nothing of it, and says one all the same.
    let summary =
        ScriptedReply::text(format!("{SUMMARY_TEXT} The key is {by_summariser} and the file says so."));
    let put = json!({"action": "put", "namespace": ["keys"], "key": "server", "value": {"note": format!("it is {by_tool}")}});
    let replies = [
        summary.when_body_contains(MEMORY_SUMMARIZER_PROMPT).with_repeat(),
        without_usage(ScriptedReply::call("c1", "read_file", json!({"path": "notes.txt"})))
            .when_turn_is(2, 1),
        without_usage(ScriptedReply::call("c2", "store", put)).when_turn_is(2, 2),
        without_usage(ScriptedReply::text(format!("It is {by_model}, and the other one is {by_tool}.")))
            .when_turn_is(2, 3),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let more = "[permissions]\nallow = [\"read_file\"]";
    let agent = agent_of(&world, &server, (BUDGET_TOKENS, more));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, thread, &format!("{FIRST_TURN_TEXT} My own key is {by_person}, keep it.")).await;
    send_message(&agent, thread, "What is the key of the server?").await;
    for number in 3..=8 {
        send_message(&agent, thread, &turn_text(number)).await;
    }
    let queued = stored_memory_text(&world);
    assert!(queued.contains("thread_id"), "it is seen while it waits: {queued}");
    let settled = settle_memory(&agent).await;
    assert!(settled[0].withheld >= 3, "{settled:?}");
    assert_eq!(
        turns_archived(&agent, thread).await[0].withheld,
        settled[0].withheld,
        "it is told in the thread"
    );
    let remembered = agent.memory().remember(&format!("My key is {by_person}")).await.unwrap();
    assert_eq!(remembered.redacted_secrets, 1);
    let other = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, other, "Hello.").await;
    let system = newest_request(&server).body["system"].to_string();
    assert!(system.contains(SUMMARY_TEXT));
    let asked: String = summarizer_requests(&server).iter().map(|request| request.body.to_string()).collect();
    let summaries = format!("{:?}", agent.memory().recent_summaries(10).await.unwrap());
    let shown = search_result_text(&agent).await;
    for key in SECRET_KEYS {
        for (place, text) in [
            ("what waits", queued.clone()),
            ("a tier", stored_memory_text(&world)),
            ("what a search shows", shown.clone()),
            ("a summary", summaries.clone()),
            ("what another thread is told", system.clone()),
            ("what the summariser is shown", asked.clone()),
        ] {
            assert!(!text.contains(key), "{key} is in {place}: {text}");
        }
    }
    let items = agent.memory().items().search(&agent::ItemSearch::default()).await.unwrap();
    assert_eq!((items.len(), items[0].item.key.as_str()), (1, "server"), "the item is kept without it");
}
