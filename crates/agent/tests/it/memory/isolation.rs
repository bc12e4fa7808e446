//! Tests of the isolation of summaries: which threads, assistants, sub-agents and children of handoffs receive them.

use agent::HandoffRequestOptions;
use serde_json::json;
use test_model::{Script, ScriptedReply};

use super::*;
use crate::environment::{DRAFT, DRAFT_PROMPT, approval};

/// A handoff draft about hives, whose texts occur nowhere else.
const HIVES_DRAFT: &str = r#"{"title":"Hives in the orchard","tldr":"Seven colonies are to be moved before the frost.",
"body":[{"kind":"objective","text":"Move seven colonies to the lower orchard before the frost comes.","refs":[1]},
{"kind":"decision","text":"Only smoke from dry sage is used on them.","refs":[1]},
{"kind":"next_step","text":"Order two pallets and one ramp for the cart.","refs":[1]}]}"#;

#[tokio::test]
async fn f10_other_threads_of_the_assistant_receive_summaries_and_other_assistants_do_not() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    talk_turns(&agent, 6).await;
    settle_memory(&agent).await;
    let other = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, other, "Hello.").await;
    let system = newest_request(&server).body["system"].to_string();
    assert!(system.contains(SUMMARY_TEXT), "{system}");
    assert!(!newest_request(&server).body["messages"].to_string().contains(FIRST_TURN_TEXT));

    let settings = agent::AgentSettings {
        assistant_id: "gardener".parse().unwrap(),
        ..environment.settings(TEST_MODEL)
    };
    let gardener = Agent::with_store(settings, environment.store()).unwrap();
    let gardener_thread = gardener.threads().create(None).await.unwrap().thread_id;
    send_message(&gardener, gardener_thread, "Hello.").await;
    let system = newest_request(&server).body["system"].to_string();
    assert!(!system.contains(SUMMARY_TEXT) && !system.contains("recent_memory"), "{system}");
    assert_eq!(gardener.memory().recent_summaries(agent::ProjectScope::Any, 10).await.unwrap(), []);
    assert_eq!(
        (gardener.memory().stats().await.unwrap().summaries, agent.memory().stats().await.unwrap().summaries),
        (0, 1)
    );
}

#[tokio::test]
async fn f10_a_summary_belongs_to_the_assistant_of_its_thread_whichever_process_writes_it() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    talk_turns(&agent, 6).await;
    let settings = agent::AgentSettings {
        assistant_id: "gardener".parse().unwrap(),
        ..environment.settings(TEST_MODEL)
    };
    let gardener = Agent::with_store(settings, environment.store()).unwrap();
    let due = (
        agent.memory().due_thread_count().await.unwrap(),
        gardener.memory().due_thread_count().await.unwrap(),
    );
    assert_eq!(due, (1, 0), "each agent counts the queued threads of its own assistant");
    assert_eq!(settle_memory(&gardener).await.len(), 1, "any process summarizes queued threads");
    assert_eq!(gardener.memory().recent_summaries(agent::ProjectScope::Any, 10).await.unwrap(), []);
    assert_eq!(agent.memory().recent_summaries(agent::ProjectScope::Any, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn g18_a_subagent_receives_no_summary() {
    let environment = TestEnvironment::new();
    let task = json!({"description": "look", "prompt": "Look at the hens."});
    let replies = summarizer_replies().into_iter().chain([
        without_usage(ScriptedReply::text("Seven hens."))
            .when_body_contains("Look at the hens.")
            .when_turn_is(1, 1),
        without_usage(ScriptedReply::call("t1", "task", task)).when_body_contains("Plum."),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    talk_turns(&agent, 6).await;
    settle_memory(&agent).await;
    let other = agent.threads().create(None).await.unwrap().thread_id;
    let before = server.call_count();
    send_message(&agent, other, "Plum.").await;
    let requests = &server.requests()[before..];
    let (subagent_requests, parent_requests): (Vec<&RecordedRequest>, Vec<&RecordedRequest>) = requests
        .iter()
        .partition(|request| request.body["system"].to_string().contains("You are a sub-agent"));
    assert!(!subagent_requests.is_empty() && !parent_requests.is_empty());
    assert!(parent_requests.iter().all(|request| request.body.to_string().contains(SUMMARY_TEXT)));
    assert!(subagent_requests.iter().all(|request| !request.body.to_string().contains(SUMMARY_TEXT)));
}

#[tokio::test]
async fn g8_a_handoff_covers_turns_that_memory_archived() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
    let replies = summarizer_replies()
        .into_iter()
        .chain([draft, without_usage(ScriptedReply::text("Done.")).with_repeat()]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    let thread = talk_turns(&agent, 6).await;
    settle_memory(&agent).await;
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let draft_request = newest_request(&server).body.to_string();
    assert!(
        draft_request.contains(DRAFT_PROMPT) && draft_request.contains(FIRST_TURN_TEXT),
        "the draft is made from the original messages"
    );
    assert_eq!(pending.proposal.summary_json.coverage.first_seq, 1);
}

#[tokio::test]
async fn m3_no_text_of_a_handoff_summary_reaches_the_memory_of_other_threads() {
    let environment = TestEnvironment::new();
    let replies = summarizer_replies().into_iter().chain([
        ScriptedReply::text(HIVES_DRAFT).when_body_contains(DRAFT_PROMPT),
        ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    let (frames, cancel) = unwatched();
    let hand_off = async |about: &str| {
        let parent = agent.threads().create(None).await.unwrap().thread_id;
        send_message(&agent, parent, about).await;
        let pending = agent
            .handoffs()
            .request(parent, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap();
        let id = pending.handoff.handoff_id;
        let outcome = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
        (outcome.child_thread_id.unwrap(), pending.proposal)
    };
    let (child, hives) = hand_off("It is about the orchard.").await;
    for number in 1..=6 {
        send_message(&agent, child, &turn_text(number)).await;
    }
    assert_eq!(settle_memory(&agent).await.len(), 1, "turns of the child became a summary");
    let (other, _) = hand_off("It is about the importer.").await;
    send_message(&agent, other, "Go on.").await;
    let request_body = newest_request(&server).body.to_string();
    assert!(
        request_body.contains("Never change the file format."),
        "the thread's own handoff summary is in its first turn"
    );
    assert!(request_body.contains(SUMMARY_TEXT), "the request has the summaries of the assistant's memory");
    let summary_texts = hives.summary_json.body.iter().map(|item| item.text.clone());
    for text in summary_texts.chain([hives.summary_json.tldr.clone(), hives.summary_json.title.clone()]) {
        assert!(!request_body.contains(&text), "{text}");
        for request in summarizer_requests(&server) {
            assert!(!request.body.to_string().contains(&text), "{text}");
        }
    }
}
