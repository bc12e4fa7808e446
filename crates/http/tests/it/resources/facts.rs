//! Tests of the endpoints for proposed facts and for the history of agent.md.

use agent::MemoryFact;
use jiff::Timestamp;
use journal::{FactKind, FactProposal, FactQuery, FactScope, FactSource, Transaction, Write};
use protocol::{AssistantId, FactId, MessageRole, OwnerScope, SummaryId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{ServerFixture, TestCaller};

/// Stores a proposed fact about the first message of a thread.
pub async fn propose_fact(server: &ServerFixture, owner: Option<&str>, thread: &str, text: &str) -> FactId {
    let summary_id = SummaryId::generate();
    let owner = owner.map(|owner| owner.parse().unwrap());
    let agent = server.agent.scoped(OwnerScope::Owner(owner.clone()));
    let fact_id = FactId::for_summary(summary_id, text);
    let fact = FactProposal {
        fact_id,
        agent_id: AssistantId::default().with_owner(owner.as_ref()),
        scope: FactScope::Personal,
        kind: FactKind::Preference,
        text: text.to_owned(),
        quote: "a quote".to_owned(),
        source: FactSource { thread_id: thread.parse().unwrap(), seq: 1, role: MessageRole::User },
        summary_id,
        replaces: Some("- uses Vim".to_owned()),
        created_at: Timestamp::now(),
    };
    let writes = vec![Write::ProposeFact(fact)];
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
    fact_id
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_are_listed_and_decided_once() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    server.post("/api/memory/remember", &json!({"text": "uses Vim", "scope": "everything"})).await;
    let mut paths = Vec::new();
    for text in ["Uses Emacs.", "Likes tea.", "Sleeps late."] {
        let fact_id = propose_fact(&server, None, &thread, text).await;
        paths.push(format!("/api/memory/facts/{fact_id}"));
    }
    let (_, page) = server.get("/api/memory/facts?limit=2").await;
    assert_eq!((page["facts"].as_array().unwrap().len(), &page["next_offset"]), (2, &json!(2)), "{page}");
    let (_, page) = server.get("/api/memory/facts?limit=2&offset=2&scope=everything").await;
    assert_eq!((page["facts"].as_array().unwrap().len(), &page["next_offset"]), (1, &Value::Null));
    let fact = &page["facts"][0];
    assert_eq!((&fact["state"], &fact["quote"]), (&json!("proposed"), &json!("a quote")), "{fact}");
    assert_eq!((&fact["thread_id"], &fact["role"]), (&json!(thread), &json!("user")));
    assert_eq!(server.get("/api/memory").await.1["facts_to_review"], 3);

    let (status, accepted) = server.post(&paths[0], &json!({"decision": "accept"})).await;
    assert_eq!((status.as_u16(), &accepted["replacement"]), (200, &json!("replaced")), "{accepted}");
    assert_eq!(accepted["fact"]["note"], "- Uses Emacs.");
    let (_, edited) = server.post(&paths[1], &json!({"decision": "edit", "text": "Likes green tea."})).await;
    assert_eq!((&edited["fact"]["state"], &edited["replacement"]), (&json!("edited"), &json!("not_found")));
    assert_eq!(server.post(&paths[2], &json!({"decision": "decline"})).await.0, 200);
    let (_, file) = server.get("/api/memory/agent_md").await;
    assert_eq!(file["text"], "- Uses Emacs.\n- Likes green tea.\n");
    for decision in [json!({"decision": "decline"}), json!({"decision": "edit", "text": "x"})] {
        let (status, refused) = server.post(&paths[0], &decision).await;
        assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("conflict")));
        assert!(refused["detail"].as_str().unwrap().ends_with("it is already accepted"), "{refused}");
    }
    assert_eq!(server.get("/api/memory/facts").await.1["facts"], json!([]));
    let (_, declined) = server.get("/api/memory/facts?state=declined").await;
    assert_eq!(declined["facts"][0]["text"], "Sleeps late.");
    assert_eq!(server.get("/api/memory/facts?state=all").await.1["facts"].as_array().unwrap().len(), 3);
    let stored: Vec<MemoryFact> =
        server.agent.store().facts(FactQuery::for_agent(AssistantId::default())).await.unwrap();
    assert_eq!(stored.len(), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_decision_on_a_fact_is_refused() {
    let server = ServerFixture::start_default().await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    let path = format!("/api/memory/facts/{}", propose_fact(&server, None, &thread, "Likes tea.").await);
    for body in [
        json!({}),
        json!({"decision": "maybe"}),
        json!({"decision": "edit"}),
        json!({"decision": "edit", "text": " \n"}),
        json!({"decision": "edit", "text": "x".repeat(4_001)}),
        json!({"decision": "edit", "text": "* * *"}),
        json!({"decision": "accept", "text": "x"}),
        json!({"decision": "accept", "force": true}),
    ] {
        let (status, refused) = server.post(&path, &body).await;
        assert_eq!(status, 422, "{body}: {refused}");
    }
    let accept = json!({"decision": "accept"});
    assert_eq!(server.post("/api/memory/facts/x", &accept).await.0, 422);
    assert_eq!(server.post(&format!("/api/memory/facts/{}", FactId::generate()), &accept).await.0, 404);
    for query in ["state=maybe", "limit=0", "limit=1001", "offset=-1", "scope=x"] {
        let (status, refused) = server.get(&format!("/api/memory/facts?{query}")).await;
        assert_eq!(status, 422, "{query}: {refused}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn earlier_states_of_agent_md_are_listed_shown_and_restored() {
    let server = ServerFixture::start_default().await;
    assert_eq!(server.get("/api/memory/history").await.1["revisions"], json!([]));
    for text in ["one", "two"] {
        let body = json!({"text": text, "scope": "everything"});
        assert_eq!(server.post("/api/memory/remember", &body).await.0, 200);
    }
    let file = server.get("/api/memory/agent_md").await.1;
    let edit = json!({"text": "- three\n", "sha256": file["sha256"]});
    let edited = server.send(TestCaller::Local, Method::PUT, "/api/memory/agent_md", &edit).await;
    assert_eq!(edited.0, 200, "{}", edited.1);
    let (_, history) = server.get("/api/memory/history").await;
    let causes: Vec<&Value> =
        history["revisions"].as_array().unwrap().iter().map(|entry| &entry["cause"]).collect();
    assert_eq!(causes, ["edit", "remember", "remember"]);
    let newest = &history["revisions"][0];
    assert_eq!(
        (&newest["revision"], &newest["added"], &newest["removed"]),
        (&json!(3), &json!(1), &json!(2))
    );
    let (_, page) = server.get("/api/memory/history?before=3&limit=1").await;
    assert_eq!(page["revisions"][0]["revision"], 2);

    let (_, second) = server.get("/api/memory/history/2").await;
    assert_eq!(second["text"], "- one\n- two\n");
    assert!(second["diff"].as_str().unwrap().ends_with(" - one\n+- two\n"), "{second}");
    let (status, restored) = server.post("/api/memory/history/2/restore", &json!({})).await;
    assert_eq!((status.as_u16(), &restored["changed"]), (200, &json!(true)), "{restored}");
    assert_eq!(server.get("/api/memory/agent_md").await.1["text"], "- one\n- two\n");
    assert_eq!(server.get("/api/memory/history").await.1["revisions"][0]["cause"], "restore");
    for (path, expected) in [("99", 404), ("0", 404), ("x", 422), ("-1", 422)] {
        assert_eq!(server.get(&format!("/api/memory/history/{path}")).await.0, expected, "{path}");
        let path = format!("/api/memory/history/{path}/restore");
        assert_eq!(server.post(&path, &json!({})).await.0, expected, "{path}");
    }
    for query in ["limit=0", "limit=101", "before=x"] {
        assert_eq!(server.get(&format!("/api/memory/history?{query}")).await.0, 422, "{query}");
    }
    server.stop().await;
}
