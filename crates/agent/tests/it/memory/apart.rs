//! Who is told of a summary and who is not: other threads, other assistants, sub-agents, children of handoffs.

use agent::HandoffRequest;
use serde_json::json;
use test_model::{Reply, Script};

use super::*;
use crate::world::{DRAFT, DRAFT_PROMPT, approve};

/// What a draft about the hives says, and nothing else does.
const HIVES: &str = r#"{"title":"Hives in the orchard","tldr":"Seven colonies are to be moved before the frost.",
"body":[{"kind":"objective","text":"Move seven colonies to the lower orchard before the frost comes.","refs":[1]},
{"kind":"decision","text":"Only smoke from dry sage is used on them.","refs":[1]},
{"kind":"next_step","text":"Order two pallets and one ramp for the cart.","refs":[1]}]}"#;

#[tokio::test]
async fn f10_other_threads_of_the_assistant_are_told_and_other_assistants_are_not() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (BUDGET, ""));
    talked(&agent, 6).await;
    settled(&agent).await;
    let other = agent.threads().create(None).await.unwrap().thread_id;
    sent(&agent, other, "Hello.").await;
    let system = newest(&server).body["system"].to_string();
    assert!(system.contains(SUMMARY), "{system}");
    assert!(!newest(&server).body["messages"].to_string().contains(FIRST));

    let settings = agent::Settings { assistant_id: "gardener".parse().unwrap(), ..world.settings(MODEL) };
    let gardener = Agent::with_store(settings, world.store()).unwrap();
    let own = gardener.threads().create(None).await.unwrap().thread_id;
    sent(&gardener, own, "Hello.").await;
    let system = newest(&server).body["system"].to_string();
    assert!(!system.contains(SUMMARY) && !system.contains("recent_memory"), "{system}");
    assert_eq!(gardener.memory().recent_summaries(10).await.unwrap(), []);
    assert_eq!(
        (gardener.memory().stats().await.unwrap().summaries, agent.memory().stats().await.unwrap().summaries),
        (0, 1)
    );
}

#[tokio::test]
async fn f10_whose_turns_they_are_is_known_to_whoever_works_through_the_queue() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (BUDGET, ""));
    talked(&agent, 6).await;
    let settings = agent::Settings { assistant_id: "gardener".parse().unwrap(), ..world.settings(MODEL) };
    let gardener = Agent::with_store(settings, world.store()).unwrap();
    let due = (agent.memory().memory_due().await.unwrap(), gardener.memory().memory_due().await.unwrap());
    assert_eq!(due, (1, 0), "each is told of its own");
    assert_eq!(settled(&gardener).await.len(), 1, "what is due is done by any process");
    assert_eq!(gardener.memory().recent_summaries(10).await.unwrap(), []);
    assert_eq!(agent.memory().recent_summaries(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn g18_a_subagent_is_told_no_summary() {
    let world = World::new();
    let task = json!({"description": "look", "prompt": "Look at the hens."});
    let replies = summarisers().into_iter().chain([
        unreported(Reply::text("Seven hens.")).when_body_contains("Look at the hens.").when_turn_is(1, 1),
        unreported(Reply::call("t1", "task", task)).when_body_contains("Plum."),
        unreported(Reply::text("Done.")).repeated(),
    ]);
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (BUDGET, ""));
    talked(&agent, 6).await;
    settled(&agent).await;
    let other = agent.threads().create(None).await.unwrap().thread_id;
    let before = server.calls();
    sent(&agent, other, "Plum.").await;
    let requests = &server.requests()[before..];
    let (subagents, own): (Vec<&Recorded>, Vec<&Recorded>) = requests
        .iter()
        .partition(|request| request.body["system"].to_string().contains("You are a sub-agent"));
    assert!(!subagents.is_empty() && !own.is_empty());
    assert!(own.iter().all(|request| request.body.to_string().contains(SUMMARY)));
    assert!(subagents.iter().all(|request| !request.body.to_string().contains(SUMMARY)));
}

#[tokio::test]
async fn g8_a_handoff_covers_what_memory_took_out_of_sight() {
    let world = World::new();
    let draft = Reply::text(DRAFT).when_body_contains(DRAFT_PROMPT).repeated();
    let replies = summarisers().into_iter().chain([draft, unreported(Reply::text("Done.")).repeated()]);
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (BUDGET, ""));
    let thread = talked(&agent, 6).await;
    settled(&agent).await;
    let (frames, cancel) = quiet();
    let pending =
        agent.handoffs().request(thread, HandoffRequest::default(), &frames, &cancel).await.unwrap();
    let asked = newest(&server).body.to_string();
    assert!(asked.contains(DRAFT_PROMPT) && asked.contains(FIRST), "the draft is made from the originals");
    assert_eq!(pending.proposal.summary_json.coverage.first_seq, 1);
}

#[tokio::test]
async fn m3_no_byte_of_a_handed_over_summary_gets_into_the_memory_of_others() {
    let world = World::new();
    let replies = summarisers().into_iter().chain([
        Reply::text(HIVES).when_body_contains(DRAFT_PROMPT),
        Reply::text(DRAFT).when_body_contains(DRAFT_PROMPT),
        unreported(Reply::text("Done.")).repeated(),
    ]);
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (BUDGET, ""));
    let (frames, cancel) = quiet();
    let handed = async |about: &str| {
        let parent = agent.threads().create(None).await.unwrap().thread_id;
        sent(&agent, parent, about).await;
        let pending =
            agent.handoffs().request(parent, HandoffRequest::default(), &frames, &cancel).await.unwrap();
        let id = pending.handoff.handoff_id;
        let decided = agent.handoffs().decide(id, &approve(&pending), &frames, &cancel).await.unwrap();
        (decided.child_thread_id.unwrap(), pending.proposal)
    };
    let (child, hives) = handed("It is about the orchard.").await;
    for number in 1..=6 {
        sent(&agent, child, &said(number)).await;
    }
    assert_eq!(settled(&agent).await.len(), 1, "turns of the child became a summary");
    let (other, _) = handed("It is about the importer.").await;
    sent(&agent, other, "Go on.").await;
    let own = newest(&server).body.to_string();
    assert!(own.contains("Never change the file format."), "its own summary is in its first turn");
    assert!(own.contains(SUMMARY), "and what the assistant remembers");
    let parts = hives.summary_json.body.iter().map(|item| item.text.clone());
    for part in parts.chain([hives.summary_json.tldr.clone(), hives.summary_json.title.clone()]) {
        assert!(!own.contains(&part), "{part}");
        for asked in transfers(&server) {
            assert!(!asked.body.to_string().contains(&part), "{part}");
        }
    }
}
