//! Tests of isolation between two users of one journal: neither user can read or change the other's data.

use agent::{
    Agent, ApprovalPolicy, Error, HandoffError, HandoffRequestOptions, IfExists, ItemSearch, MessageFilter,
    RecallQuery, RunError, SearchRequest, ThreadError, ThreadFilter,
};
use jiff::Timestamp;
use protocol::{OwnerScope, Rating, RunId, RunStatus, ThreadId, UserId};
use serde_json::{Map, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{blank_thread, run, transcript_lines, try_run, user_request};
use crate::environment::{TestEnvironment, unwatched};

struct TwoUsers {
    environment: TestEnvironment,
    _server: ScriptedServer,
    /// The local operator, who is no user of a server.
    operator: Agent,
    alice: Agent,
    bob: Agent,
}

fn two_users() -> TwoUsers {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("Noted.").with_repeat()])).unwrap();
    let own = environment.agent_with(&server);
    let scoped = |name: &str| own.scoped(OwnerScope::Owner(Some(name.parse::<UserId>().unwrap())));
    let (alice, bob) = (scoped("alice"), scoped("bob"));
    TwoUsers { environment, _server: server, operator: own, alice, bob }
}

/// Starts a thread with a word that no other thread contains, and returns the thread and its run.
async fn start_conversation(agent: &Agent, word: &str) -> (ThreadId, RunId) {
    let thread = blank_thread(agent).await;
    let end = run(agent, thread, user_request(&format!("Remember the {word}."))).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    (thread, end.run_id)
}

#[tokio::test]
async fn k1_a_thread_of_another_user_is_unknown() {
    let TwoUsers { operator, alice, bob, .. } = &two_users();
    let (thread, run_id) = start_conversation(alice, "quince").await;
    assert_eq!(alice.user().unwrap().as_str(), "alice");
    assert_eq!(alice.assistant_id().as_str(), "agent@alice");
    let metadata = alice.store().thread(thread).await.unwrap().unwrap().metadata;
    assert_eq!(
        (&metadata["graph_id"], &metadata["assistant_id"]),
        (&json!("agent"), &json!("fe096781-5601-53d2-b2f6-0d3403f7e9ca"))
    );
    let (frames, cancel) = unwatched();
    for other in [operator, bob] {
        let unknown = |error: &Error| {
            matches!(error, Error::Thread(ThreadError::Unknown(_)) | Error::Run(RunError::Unknown(_)))
        };
        let errors = [
            try_run(other, thread, RunId::generate(), user_request("x")).await.map(drop).unwrap_err(),
            other
                .runs()
                .enqueue(RunId::generate(), thread, &super::request(user_request("x")))
                .await
                .map(drop)
                .unwrap_err(),
            other.threads().patch_metadata(thread, Map::new()).await.map(drop).unwrap_err(),
            other.runs().roll_back_run(run_id).await.unwrap_err(),
            other.runs().forget_run(run_id).await.unwrap_err(),
            other.runs().cancel_queued_run(run_id).await.map(drop).unwrap_err(),
            other.runs().stop_thread(thread).await.map(drop).unwrap_err(),
            other.threads().delete(thread).await.unwrap_err(),
            other.runs().run_events(run_id, 0, 10).await.map(drop).unwrap_err(),
            other.runs().set_feedback(run_id, Some(Rating::Up), None).await.map(drop).unwrap_err(),
            other
                .handoffs()
                .request(thread, HandoffRequestOptions::default(), &frames, &cancel)
                .await
                .map(drop)
                .unwrap_err(),
        ];
        for (index, error) in errors.iter().enumerate() {
            assert!(unknown(error), "{index}: {error}");
        }
        assert_eq!(other.threads().events(thread).await.unwrap().len(), 0);
        assert_eq!(other.runs().pending_interrupts(thread).await.unwrap(), []);
        let listed =
            other.threads().list(ThreadFilter { limit: 100, ..ThreadFilter::default() }).await.unwrap();
        assert_eq!(listed, []);
        assert!(other.threads().find(&thread.to_string()).await.is_err());
        assert!(other.runs().find(&run_id.to_string()).await.is_err());
        let conflict = other.threads().ensure_thread(Some(thread), Map::new(), IfExists::DoNothing).await;
        assert!(matches!(conflict, Err(Error::Thread(ThreadError::Exists(_)))), "{conflict:?}");
    }
    assert_eq!(transcript_lines(alice, thread).await, ["U: Remember the quince.", "A: Noted."]);
}

#[tokio::test]
async fn k1_memory_and_search_return_only_the_users_own_data() {
    let TwoUsers { operator, alice, bob, .. } = &two_users();
    let (thread, _) = start_conversation(alice, "quince").await;
    start_conversation(bob, "mulberry").await;
    start_conversation(operator, "medlar").await;
    for (agent, own_word) in [(alice, "quince"), (bob, "mulberry"), (operator, "medlar")] {
        for word in ["quince", "mulberry", "medlar"] {
            let request = SearchRequest::new(word);
            let hits = agent.memory().search(&request).await.unwrap().hits.len();
            assert_eq!(hits > 0, word == own_word, "{:?} searches for {word}", agent.user());
        }
    }
    assert_eq!(alice.memory().stats().await.unwrap().turns.active, 2);
    assert_eq!(alice.memory().task_trace(thread, None, 10).await.unwrap().len(), 2);
    assert!(bob.memory().task_trace(thread, None, 10).await.is_err());
    let query = RecallQuery::new(MessageFilter::Words("quince".to_owned()));
    assert!(bob.memory().recall(thread, &query).await.is_err());
    assert!(!alice.memory().recall(thread, &query).await.unwrap().excerpts.is_empty());
}

fn agent_md_text(agent: &Agent) -> String {
    String::from_utf8(agent.memory().agent_md().unwrap().bytes.clone()).unwrap()
}

#[tokio::test]
async fn f10_each_user_has_separate_notes_and_items() {
    let TwoUsers { environment, operator, alice, bob, .. } = &two_users();
    alice.memory().remember(alice.notes_scope(), "The quince is ripe.").await.unwrap();
    assert!(alice.memory().agent_md_path().ends_with("agents/agent@alice/agent.md"));
    for other in [operator, bob] {
        assert!(!agent_md_text(other).contains("quince"));
    }
    assert!(agent_md_text(alice).contains("quince"));
    assert_eq!(environment.read_agent_md(), "");
    let namespace = vec!["notes".to_owned()];
    for (agent, value) in [(operator, "own"), (alice, "alice"), (bob, "bob")] {
        agent.memory().items().put(&namespace, "k", json!({"v": value}), Timestamp::now()).await.unwrap();
    }
    for (agent, value) in [(operator, "own"), (alice, "alice"), (bob, "bob")] {
        let item = agent.memory().items().get(&namespace, "k").await.unwrap().unwrap();
        assert_eq!((item.value["v"].as_str(), &item.namespace), (Some(value), &namespace));
        let hits =
            agent.memory().items().search(&ItemSearch { limit: 100, ..ItemSearch::default() }).await.unwrap();
        assert_eq!(hits.len(), 1, "{value}: {hits:?}");
    }
    bob.memory().items().delete(&namespace, "k").await.unwrap();
    assert!(alice.memory().items().get(&namespace, "k").await.unwrap().is_some());
}

#[tokio::test]
async fn k1_a_users_agent_has_no_tools_of_the_machine_unless_the_settings_allow_them() {
    let machine_tools =
        ["ls", "read_file", "glob", "grep", "write_file", "edit_file", "execute", "load_skill"];
    for (settings, is_allowed) in [("", false), ("[serve]\nuser_tools = \"all\"\n", true)] {
        let environment = TestEnvironment::new();
        environment.write_file("AGENTS.md", "The vault is green.");
        environment.write_file(
            ".segue/skills/paint/SKILL.md",
            "---\nname: paint\ndescription: How to.\n---\nTwice.\n",
        );
        let reads = ScriptedReply::call("c1", "read_file", json!({"path": "AGENTS.md"}));
        let replies = [reads.clone(), ScriptedReply::text("Noted."), reads, ScriptedReply::text("Noted.")];
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let own = environment.agent_with_policy(&server, (settings, ApprovalPolicy::default()));
        let alice = own.scoped(OwnerScope::Owner(Some("alice".parse().unwrap())));
        for (agent, has) in [(&alice, is_allowed), (&own, true)] {
            let (thread, _) = start_conversation(agent, "quince").await;
            let requests = server.requests();
            let offered = requests[requests.len() - 2].body["tools"].to_string();
            let listed: Vec<String> =
                agent.admin().tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
            for tool in machine_tools {
                assert_eq!(offered.contains(&format!("\"name\":\"{tool}\"")), has, "{tool}");
                assert_eq!(listed.iter().any(|name| name == tool), has, "{tool}");
            }
            for tool in ["write_todos", "edit_memory", "recall", "store", "task", "request_handoff"] {
                assert!(offered.contains(&format!("\"name\":\"{tool}\"")), "{tool}");
            }
            let sent = requests[requests.len() - 1].body.to_string();
            assert_eq!(sent.contains("The vault is green."), has, "{sent}");
            assert_eq!(sent.contains(&environment.workspace().display().to_string()), has, "{sent}");
            assert_eq!(transcript_lines(agent, thread).await.join(" ").contains("vault"), has);
        }
    }
}

#[tokio::test]
async fn d2_feedback_is_stored_with_the_user_who_gave_it() {
    let TwoUsers { operator, alice, .. } = &two_users();
    let (_, run_id) = start_conversation(alice, "quince").await;
    let feedback = alice.runs().set_feedback(run_id, Some(Rating::Up), None).await.unwrap().unwrap();
    assert_eq!(feedback.user_id, "alice");
    let (_, run_id) = start_conversation(operator, "medlar").await;
    assert_eq!(
        operator.runs().set_feedback(run_id, Some(Rating::Down), None).await.unwrap().unwrap().user_id,
        "local"
    );
}

#[tokio::test]
async fn k1_the_child_of_a_handoff_belongs_to_the_owner_of_its_parent() {
    let TwoUsers { alice, bob, .. } = &two_users();
    let (thread, _) = start_conversation(alice, "quince").await;
    let (frames, cancel) = unwatched();
    let pending =
        alice.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert!(bob.handoffs().pending(None).await.unwrap().is_empty());
    let refused = bob
        .handoffs()
        .decide(pending.handoff.handoff_id, &crate::environment::approval(&pending), &frames, &cancel)
        .await;
    assert!(matches!(refused, Err(Error::Handoff(HandoffError::Unknown(_)))), "{refused:?}");
    let outcome = alice
        .handoffs()
        .decide(pending.handoff.handoff_id, &crate::environment::approval(&pending), &frames, &cancel)
        .await
        .unwrap();
    let child = outcome.child_thread_id.unwrap();
    assert!(alice.memory().agent_md().unwrap().block.is_some());
    assert!(bob.memory().agent_md().unwrap().block.is_none());
    assert!(bob.store().thread(child).await.unwrap().is_none());
    assert_eq!(run(alice, child, user_request("Go on.")).await.status, RunStatus::Success);
}

#[tokio::test]
async fn k1_recovery_lists_runs_of_all_owners_and_leaves_live_ones_alone() {
    let TwoUsers { operator, alice, .. } = &two_users();
    let thread = blank_thread(alice).await;
    let (frames, cancel) = unwatched();
    let started = alice
        .runs()
        .begin(RunId::generate(), thread, &super::request(user_request("Hello.")), &frames)
        .await
        .unwrap();
    drop(started);
    let everyone = operator.scoped(OwnerScope::Everyone);
    let active = everyone.store().active_runs(None).await.unwrap();
    assert_eq!(active.len(), 1, "{active:?}");
    // The process of the run is alive, so its run is not recovered.
    let refused = everyone.runs().recover(thread, &frames, &cancel).await;
    assert!(refused.is_err(), "{refused:?}");
}
