//! When old turns leave a conversation, and what is left of them: in the next request, in the history, in a trace, in a
//! search; and that no turn waits for it.

use agent::{Found, SearchRequest};
use protocol::{ArchiveReason, RunStatus, TurnRole};
use test_model::Place;

use super::*;
use crate::world::{assert_paired, texts};

#[tokio::test]
async fn f7_what_is_over_the_budget_leaves_the_next_request_and_stays_findable() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (BUDGET, ""));
    let thread = talked(&agent, 6).await;
    let whole = texts(&agent, thread).await;
    assert_eq!(due(&agent).await, [thread.to_string()]);
    assert_eq!(transfers(&server).len(), 0, "no turn waits for a summary");
    let before = newest(&server).body;
    assert!(
        before["messages"].to_string().contains(FIRST)
            && !before["system"].to_string().contains("recent_memory")
    );

    let settled = settled(&agent).await;
    assert_eq!(
        (settled.len(), settled[0].reason, settled[0].model.as_str()),
        (1, ArchiveReason::Budget, MODEL)
    );
    assert_eq!((due(&agent).await.len(), transfers(&server).len()), (0, 1));
    sent(&agent, thread, "And now?").await;
    let after = newest(&server).body;
    assert_paired(&after);
    let (messages, system) = (after["messages"].to_string(), after["system"].to_string());
    assert!(!messages.contains(FIRST) && !messages.contains("Request 2."), "{messages}");
    assert!(messages.contains("Request 6.") && messages.contains("And now?"), "{messages}");
    assert!(system.contains(SUMMARY) && system.contains("<recent_memory>"), "{system}");
    assert!(!after["messages"].to_string().contains(SUMMARY), "it is reference data and no message");

    let texts = texts(&agent, thread).await;
    assert_eq!(texts[..whole.len()], whole[..], "people see everything");
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    assert_eq!((trace.len(), trace[0].role, trace[0].is_archived), (14, TurnRole::User, true));
    assert!(trace[0].content.contains(FIRST) && !trace[13].is_archived);
    assert_eq!(trace[0].summary_id, Some(settled[0].summary_id));
    assert_eq!(trace.iter().filter(|turn| turn.is_archived).count() as u64, settled[0].turns);
    let found = agent.memory().search(&SearchRequest::of("code word walnut-17")).await.unwrap().hits;
    let first = found.iter().find(|hit| matches!(hit.found, Found::Message { thread_id, seq, .. } if thread_id == thread && seq == trace[0].seq));
    assert!(first.is_some(), "{found:?}");
    let recent = agent.memory().recent_summaries(10).await.unwrap();
    assert_eq!((recent.len(), recent[0].summary.id), (1, settled[0].summary_id));
    assert_eq!((recent[0].thread_id, recent[0].turns), (Some(thread), settled[0].turns));
    assert!(recent[0].summary.summary_text.contains(SUMMARY));
}

#[tokio::test]
async fn f7_what_a_model_is_told_stays_the_same_for_a_whole_run() {
    let world = World::new();
    let replies = summarisers().into_iter().chain([
        unreported(Reply::call("c1", "ls", serde_json::json!({})))
            .when_body_contains("Look around.")
            .when_turn_is(2, 1),
        unreported(Reply::text("Done.")).repeated(),
    ]);
    let server = Server::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (400, ""));
    let thread = talked(&agent, 2).await;
    settled(&agent).await;
    // Another thread has a summary by now; this run has begun with what there was.
    let before = server.calls();
    sent(&agent, thread, "Look around.").await;
    let requests = &server.requests()[before..];
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body["system"], requests[1].body["system"]);
    assert!(requests[0].body["system"].to_string().contains(SUMMARY));
}

#[tokio::test]
async fn f8_nothing_is_transferred_while_a_run_is_active() {
    let world = World::new();
    let gated =
        unreported(Reply::text("Done.")).when_body_contains("Take your time.").gated("held", Place::Start);
    let done = unreported(Reply::text("Done.")).repeated();
    let server = Server::start(Script::new(summarisers().into_iter().chain([gated, done]))).unwrap();
    let agent = agent_of(&world, &server, (BUDGET, ""));
    let thread = talked(&agent, 6).await;
    let calls = server.calls();
    let (frames, cancel) = quiet();
    let turn = agent.runs().send(thread, "Take your time.", &frames, &cancel);
    let meanwhile = async {
        server.called(calls + 1).await;
        assert_eq!(settled(&agent).await, []);
        assert_eq!((transfers(&server).len(), due(&agent).await.len()), (0, 1));
        server.open("held");
    };
    let (end, ()) = futures::join!(turn, meanwhile);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    assert_eq!(settled(&agent).await.len(), 1);
}

#[tokio::test]
async fn f8_a_turn_that_begins_during_a_transfer_is_not_hindered_and_goes_first() {
    let world = World::new();
    let slow = Reply::text(SUMMARY).when_body_contains(TRANSFER).gated("held", Place::Start);
    let server = Server::start(Script::new(
        [slow].into_iter().chain(summarisers()).chain([unreported(Reply::text("Done.")).repeated()]),
    ))
    .unwrap();
    let agent = agent_of(&world, &server, (BUDGET, ""));
    let thread = talked(&agent, 6).await;
    let calls = server.calls();
    let meanwhile = async {
        server.called(calls + 1).await;
        sent(&agent, thread, "A turn in between.").await;
        let request = newest(&server).body["messages"].to_string();
        assert!(request.contains(FIRST) && request.contains("A turn in between."), "nothing has left yet");
        server.open("held");
    };
    let (_, ()) = futures::join!(settled(&agent), meanwhile);
    settled(&agent).await;
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let archived = trace.iter().filter(|turn| turn.is_archived).count();
    assert!(archived > 0 && trace.len() == 14, "{archived} of {}", trace.len());
    sent(&agent, thread, "And now?").await;
    let request = newest(&server).body["messages"].to_string();
    assert!(!request.contains(FIRST) && request.contains("A turn in between."), "{request}");
    let told: u64 = archives(&agent, thread).await.iter().map(|archived| archived.turn_count).sum();
    assert_eq!(told, archived as u64, "each turn is in one summary");
}

#[tokio::test]
async fn the_search_index_catches_up_behind_a_turn() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (BUDGET, ""));
    talked(&agent, 2).await;
    let behind = || world.asked("SELECT thread_id FROM thread_heads WHERE indexed_seq < last_seq");
    assert_eq!(behind().len(), 1, "no turn waits for it");
    settled(&agent).await;
    assert_eq!(behind(), Vec::<String>::new());
}

#[tokio::test]
async fn f8_a_thread_within_its_budget_is_left_alone() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (100_000, ""));
    let thread = talked(&agent, 4).await;
    assert_eq!(due(&agent).await, Vec::<String>::new());
    assert_eq!(settled(&agent).await, []);
    assert_eq!(archives(&agent, thread).await, []);
}

#[tokio::test]
async fn f8_memory_that_is_off_keeps_nothing_and_shows_nothing() {
    let (world, server) = (World::new(), keeping_server());
    let agent = agent_of(&world, &server, (BUDGET, "enabled = false"));
    let thread = talked(&agent, 6).await;
    crate::compaction::compacted(&agent, thread).await.unwrap();
    assert_eq!(due(&agent).await, Vec::<String>::new());
    assert_eq!(settled(&agent).await, []);
    assert!(!newest(&server).body["system"].to_string().contains("recent_memory"));
}

#[tokio::test]
async fn f8_without_a_model_the_extract_is_kept() {
    let world = World::new();
    let agent = world.agent();
    let thread = crate::compaction::filled(&agent, 3_000).await;
    crate::compaction::compacted(&agent, thread).await.unwrap();
    let settled = settled(&agent).await;
    assert_eq!(
        (settled.len(), settled[0].model.as_str(), settled[0].reason),
        (1, "extractive", ArchiveReason::Compaction)
    );
}

#[tokio::test]
async fn the_doctor_tells_which_model_of_the_settings_cannot_be_used() {
    let (world, server) = (World::new(), keeping_server());
    world.configure_with(&server, "[compaction]\nmodel = \"nobody/knows\"\n[memory]\nmodel = \"gemini\"\n");
    let agent = world.agent_over(world.store(), MODEL);
    let checks = agent.admin().doctor().await;
    for (name, given) in [("compaction.model", "nobody/knows"), ("memory.model", "gemini")] {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.verdict, agent::Verdict::Warn);
        assert!(check.detail.contains(given) && check.hint.is_some(), "{check:?}");
    }
    let thread = talked(&agent, 1).await;
    crate::compaction::append(&agent, thread, &crate::compaction::turns(1..9, 3_000)).await;
    crate::compaction::compacted(&agent, thread).await.unwrap();
    assert_eq!(settled(&agent).await[0].model, "extractive", "no other provider is shown what was said");
    assert_eq!(transfers(&server).len(), 0);
    assert!(agent.memory().summariser_problem().unwrap().contains("`gemini`"));
    for (setting, is_told) in [("none", false), ("anthropic/claude-haiku-4-5", true)] {
        world.configure_with(&server, &format!("[memory]\nmodel = \"{setting}\"\n"));
        let checks = world.agent_over(world.store(), MODEL).admin().doctor().await;
        let check = checks.iter().find(|check| check.name == "memory.model");
        assert_eq!(check.map(|check| check.verdict), is_told.then_some(agent::Verdict::Ok), "{setting}");
    }
}

#[tokio::test]
async fn f4_notes_that_cannot_be_read_are_told_of_and_not_taken_for_none() {
    let world = World::new();
    let agent = world.agent();
    let notes = || async { agent.memory().stats().await.unwrap().agent_md };
    let none = notes().await;
    assert_eq!((none.exists, none.bytes, none.bytes_max, none.problem), (false, 0, 64 * 1024, None));
    let kept = agent.memory().remember("The hives are in Trento.").await.unwrap();
    let some = notes().await;
    assert_eq!((some.exists, some.bytes, some.bytes_max), (true, kept.bytes, kept.bytes_max));
    std::fs::remove_file(world.agent_md()).unwrap();
    std::fs::create_dir(world.agent_md()).unwrap();
    let problem = notes().await.problem.unwrap();
    assert!(problem.contains("agent.md: it is not a regular file"), "{problem}");
}

#[test]
fn a_mistake_in_the_settings_is_told_when_they_are_read() {
    for (section, told) in [
        ("short_term_tokens = 0", "`memory.short_term_tokens` is 0"),
        ("tokens = 1", "unknown field `tokens`"),
        ("summary_tokens = 1", "`memory.summary_tokens` is 1"),
    ] {
        let world = World::new();
        world.home().create().unwrap();
        std::fs::write(world.home().config(), format!("[memory]\n{section}\n")).unwrap();
        let error = agent::Config::read(&world.home().config()).unwrap_err().to_string();
        assert!(error.contains(told), "{section}: {error}");
    }
}
