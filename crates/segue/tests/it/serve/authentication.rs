//! Authentication: API keys, isolation of users, and servers that refuse to start without authentication.

use serde_json::{Value, json};

use super::{client_with_key, create_thread, echo_server, import_session, owner_client, run_turn};
use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

/// Creates an API key for a user and returns the command's JSON.
fn create_key(sandbox: &TestSandbox, user: &str) -> Value {
    sandbox.json(&["keys", "create", user, "--label", "for a test", "--json"])
}

#[test]
fn k1_each_user_has_threads_and_memory_of_their_own() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let key = |user: &str| client_with_key(&serving, create_key(&sandbox, user)["key"].as_str().unwrap());
    let (owner, alice, bob) = (owner_client(&serving), key("alice"), key("bob"));
    let own = create_thread(&alice);
    let run = run_turn(&alice, &own, "Where is the blue teapot?");
    assert_eq!(alice.post("/api/memory/remember", &json!({"text": "Alice drinks oolong."})).status, 200);
    let handoff = alice.post(&format!("/api/threads/{own}/handoffs"), &json!({})).json();
    let handoff_id = handoff["handoff"]["handoff_id"].as_str().unwrap();
    for other in [&bob, &owner] {
        for path in [
            format!("/api/threads/{own}/history"),
            format!("/api/threads/{own}/history/markers/1/messages"),
            format!("/api/threads/{own}/runs/{run}/events"),
            format!("/api/threads/{own}/runs/{run}/feedback"),
            format!("/api/threads/{own}/context"),
            format!("/api/threads/{own}/export"),
            format!("/api/threads/{own}/artifacts/{}", "ab".repeat(32)),
            format!("/api/threads/{own}/lineage"),
            format!("/api/handoffs/{handoff_id}"),
            format!("/api/handoffs?thread_id={own}"),
            format!("/api/search?q=teapot&thread_id={own}"),
        ] {
            assert_eq!(other.get(&path).status, 404, "{path}");
        }
        let decision = json!({"decisions": [{"type": "reject"}]});
        assert_eq!(other.post(&format!("/api/handoffs/{handoff_id}/decision"), &decision).status, 404);
        for action in ["compact", "uncompact", "handoffs"] {
            assert_eq!(
                other.post(&format!("/api/threads/{own}/{action}"), &json!({})).status,
                404,
                "{action}"
            );
        }
        assert_eq!(other.post(&format!("/api/threads/{own}/rewind"), &json!({"keep_seq": 0})).status, 404);
        let rating = json!({"rating": 1});
        assert_eq!(other.put(&format!("/api/threads/{own}/runs/{run}/feedback"), &rating).status, 404);
        assert_eq!(other.get("/api/handoffs?status=all").json()["handoffs"], json!([]));
        assert_eq!(other.get("/api/search?q=teapot").json()["hits"], json!([]));
        assert!(!other.get("/api/memory/agent_md").text().contains("oolong"));
        assert_eq!(other.get("/api/memory").json()["turns"]["active"], 0);
    }
    assert_eq!(alice.get("/api/search?q=teapot").json()["hits"][0]["thread_id"], own.as_str());
    assert!(alice.get("/api/memory/agent_md").json()["text"].as_str().unwrap().contains("oolong"));
    assert_eq!(alice.get("/api/agent").json()["user_id"], "alice");
    // Responses do not contain the internal id under which an assistant is stored.
    for path in [
        format!("/api/handoffs/{handoff_id}"),
        "/api/agent".to_owned(),
        format!("/api/threads/{own}/export?format=json"),
    ] {
        assert!(!alice.get(&path).text().contains("agent@alice"), "{path}");
    }
    // The person at the machine does not see Alice's threads by default, but can list them by her assistant's id.
    assert!(sandbox.threads().is_empty());
    let seen = sandbox.json(&["threads", "list", "--assistant", "agent@alice", "--json"]);
    assert_eq!(seen[0]["thread_id"], own.as_str());
}

#[test]
fn k1_the_same_session_imported_by_two_users_is_two_threads() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let key = |user: &str| client_with_key(&serving, create_key(&sandbox, user)["key"].as_str().unwrap());
    let (alice, bob) = (key("alice"), key("bob"));
    let (hers, his) = (import_session(&alice), import_session(&bob));
    assert_ne!(hers, his);
    assert_eq!(import_session(&alice), hers);
    assert_eq!(alice.get(&format!("/api/threads/{his}/history")).status, 404);
}

#[test]
fn k1_creating_a_key_prints_what_the_key_allows() {
    let sandbox = TestSandbox::new();
    let created = sandbox.run(&["keys", "create", "alice"]);
    assert!(created.stderr.contains("no access to the tools on this machine"), "{created:?}");
    assert_eq!(created.stdout.lines().count(), 1, "{created:?}");
    let tools = |sandbox: &TestSandbox| {
        let key = create_key(sandbox, "bob")["key"].as_str().unwrap().to_owned();
        let serving = ServeProcess::start(sandbox);
        client_with_key(&serving, &key).get("/api/agent").json()["tools"].to_string()
    };
    assert!(!tools(&sandbox).contains("execute") && tools(&sandbox).contains("recall"));
    let config = sandbox.home().join("config.toml");
    let settings = std::fs::read_to_string(&config).unwrap_or_default() + "\n[serve]\nuser_tools = \"all\"\n";
    std::fs::write(&config, settings).unwrap();
    assert!(sandbox.run(&["keys", "create", "alice"]).stderr.contains("as you"));
    assert!(tools(&sandbox).contains("execute"));
}

#[test]
fn k1_metrics_are_for_the_token_and_for_operators() {
    let sandbox = TestSandbox::new();
    let arguments = ["serve", "--addr", "127.0.0.1:0", "--json", "--operator", "ops"];
    let serving = ServeProcess::spawn(sandbox.command(&arguments));
    let key = |user: &str| client_with_key(&serving, create_key(&sandbox, user)["key"].as_str().unwrap());
    assert_eq!(owner_client(&serving).get("/metrics").status, 200);
    assert_eq!(key("ops").get("/metrics").status, 200);
    assert_eq!(key("alice").get("/metrics").status, 403);
}

#[test]
fn keys_are_shown_once_listed_and_revoked() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let created = create_key(&sandbox, "alice");
    let key = created["key"].as_str().unwrap();
    assert_eq!(client_with_key(&serving, key).get("/api/agent").status, 200);
    let listed = sandbox.json(&["keys", "list", "--json"]);
    assert_eq!((&listed[0]["user_id"], &listed[0]["label"]), (&json!("alice"), &json!("for a test")));
    let shown = sandbox.run(&["keys", "list"]);
    assert!(shown.stdout.contains("alice") && shown.stdout.contains("valid"), "{shown:?}");
    for text in [listed.to_string(), shown.stdout] {
        assert!(!text.contains(key) && !text.contains("sha256"), "{text}");
    }
    let id = created["key_id"].as_str().unwrap();
    assert_eq!(sandbox.run(&["keys", "revoke", id]).code, 0);
    assert_eq!(client_with_key(&serving, key).get("/api/agent").status, 401);
    assert!(sandbox.run(&["keys", "list"]).stdout.contains("revoked"));
    sandbox.run(&["keys", "revoke", "nothing-like-it"]).assert_error(2, "find a key");
    assert_eq!(sandbox.run(&["keys", "create", "a/b"]).code, 2);
}

#[test]
fn j6_an_exposed_server_without_authentication_is_refused_with_a_hint() {
    let sandbox = TestSandbox::new();
    let output = sandbox.run(&["serve", "--addr", "0.0.0.0:0", "--no-auth"]);
    output.assert_error(1, "without authentication: other people could connect");
    assert!(output.stderr.contains("segue keys create") && output.stderr.contains("127.0.0.1"), "{output:?}");
    let output = sandbox.run(&["serve", "--addr", "0.0.0.0:0"]);
    output.assert_error(1, "there is no API key, so no client could authenticate");
    assert!(output.stderr.contains("segue keys create") && output.stderr.contains("127.0.0.1"), "{output:?}");
    let output = sandbox.run(&["serve", "--no-auth", "--allow-origin", "*"]);
    assert_eq!(output.code, 1, "{output:?}");
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let sandbox = TestSandbox::new();
    let url = "postgres://me:hunter2@127.0.0.1:1/segue";
    let output = sandbox.run(&["serve", "--database-url", url]);
    output.assert_error(1, "reach postgres://me@127.0.0.1:1/segue");
    assert!(!output.stderr.contains("hunter2"), "{output:?}");
    sandbox.run(&["serve", "--addr", "2024"]).assert_error(2, "it is not an address");
    for origin in ["not an origin", "https://x.org/path"] {
        sandbox.run(&["serve", "--allow-origin", origin]).assert_error(2, "it is not an origin");
    }
    for model in ["foo", "nobody/foo"] {
        let output = sandbox.run(&["serve", "--model", model]);
        assert!(output.code == 1 && output.stderr.contains("--model"), "{output:?}");
    }
    let other_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = other_listener.local_addr().unwrap().to_string();
    sandbox.run(&["serve", "--addr", &addr]).assert_error(1, "listen at");
}
