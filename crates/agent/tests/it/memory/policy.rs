//! Tests of the policy that archives old turns: when they leave the context, how they remain in the next request, the
//! history, the task trace and the search, and that no turn waits for the summarization.

use agent::{SearchHitSource, SearchRequest};
use protocol::{ArchiveReason, MessageRole, RunStatus};
use test_model::GatePosition;

use super::*;
use crate::environment::{assert_paired, message_texts};

#[tokio::test]
async fn f7_turns_over_the_budget_leave_the_next_request_and_stay_searchable() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    let thread = talk_turns(&agent, 6).await;
    let whole = message_texts(&agent, thread).await;
    assert_eq!(queued_threads(&agent).await, [thread.to_string()]);
    assert_eq!(summarizer_requests(&server).len(), 0, "no turn waits for a summary");
    let before = newest_request(&server).body;
    assert!(
        before["messages"].to_string().contains(FIRST_TURN_TEXT)
            && !before["system"].to_string().contains("recent_memory")
    );

    let settled = settle_memory(&agent).await;
    assert_eq!(
        (settled.len(), settled[0].reason, settled[0].model.as_str()),
        (1, ArchiveReason::Budget, TEST_MODEL)
    );
    assert_eq!((queued_threads(&agent).await.len(), summarizer_requests(&server).len()), (0, 1));
    send_message(&agent, thread, "And now?").await;
    let after = newest_request(&server).body;
    assert_paired(&after);
    let (messages, system) = (after["messages"].to_string(), after["system"].to_string());
    assert!(!messages.contains(FIRST_TURN_TEXT) && !messages.contains("Request 2."), "{messages}");
    assert!(messages.contains("Request 6.") && messages.contains("And now?"), "{messages}");
    assert!(system.contains(SUMMARY_TEXT) && system.contains("<recent_memory>"), "{system}");
    assert!(
        !after["messages"].to_string().contains(SUMMARY_TEXT),
        "a summary is reference data in the system prompt, not a message"
    );

    let texts = message_texts(&agent, thread).await;
    assert_eq!(texts[..whole.len()], whole[..], "the history is complete");
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    assert_eq!((trace.len(), trace[0].role, trace[0].is_archived), (14, MessageRole::User, true));
    assert!(trace[0].content.contains(FIRST_TURN_TEXT) && !trace[13].is_archived);
    assert_eq!(trace[0].summary_id, Some(settled[0].summary_id));
    assert_eq!(trace.iter().filter(|turn| turn.is_archived).count() as u64, settled[0].turns);
    let hits = agent.memory().search(&SearchRequest::new("code word walnut-17")).await.unwrap().hits;
    let first_turn_hit = hits.iter().find(|hit| matches!(hit.source, SearchHitSource::Message { thread_id, seq, .. } if thread_id == thread && seq == trace[0].seq));
    assert!(first_turn_hit.is_some(), "{hits:?}");
    let recent = agent.memory().recent_summaries(agent::ProjectScope::Any, 10).await.unwrap();
    assert_eq!((recent.len(), recent[0].summary.id), (1, settled[0].summary_id));
    assert_eq!((recent[0].thread_id, recent[0].turns), (Some(thread), settled[0].turns));
    assert!(recent[0].summary.summary_text.contains(SUMMARY_TEXT));
}

#[tokio::test]
async fn f7_the_summaries_in_the_system_prompt_stay_the_same_for_a_whole_run() {
    let environment = TestEnvironment::new();
    let replies = summarizer_replies().into_iter().chain([
        without_usage(ScriptedReply::call("c1", "ls", serde_json::json!({})))
            .when_body_contains("Look around.")
            .when_turn_is(2, 1),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]);
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (400, ""));
    let thread = talk_turns(&agent, 2).await;
    settle_memory(&agent).await;
    // The summary exists before the run starts, so both requests of the run contain it.
    let before = server.call_count();
    send_message(&agent, thread, "Look around.").await;
    let requests = &server.requests()[before..];
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body["system"], requests[1].body["system"]);
    assert!(requests[0].body["system"].to_string().contains(SUMMARY_TEXT));
}

#[tokio::test]
async fn f8_nothing_is_summarized_while_a_run_is_active() {
    let environment = TestEnvironment::new();
    let gated = without_usage(ScriptedReply::text("Done."))
        .when_body_contains("Take your time.")
        .with_gate("held", GatePosition::Start);
    let done = without_usage(ScriptedReply::text("Done.")).with_repeat();
    let server =
        ScriptedServer::start(Script::new(summarizer_replies().into_iter().chain([gated, done]))).unwrap();
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    let thread = talk_turns(&agent, 6).await;
    let calls = server.call_count();
    let (frames, cancel) = unwatched();
    let turn = agent.runs().send_message(thread, "Take your time.", &frames, &cancel);
    let meanwhile = async {
        server.wait_for_calls(calls + 1).await;
        assert_eq!(settle_memory(&agent).await, []);
        assert_eq!((summarizer_requests(&server).len(), queued_threads(&agent).await.len()), (0, 1));
        server.open_gate("held");
    };
    let (end, ()) = futures::join!(turn, meanwhile);
    assert_eq!(end.unwrap().status, RunStatus::Success);
    assert_eq!(settle_memory(&agent).await.len(), 1);
}

#[tokio::test]
async fn f8_a_turn_that_starts_during_a_summarization_is_not_delayed() {
    let environment = TestEnvironment::new();
    let slow = ScriptedReply::text(SUMMARY_TEXT)
        .when_body_contains(MEMORY_SUMMARIZER_PROMPT)
        .with_gate("held", GatePosition::Start);
    let server = ScriptedServer::start(Script::new(
        [slow]
            .into_iter()
            .chain(summarizer_replies())
            .chain([without_usage(ScriptedReply::text("Done.")).with_repeat()]),
    ))
    .unwrap();
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    let thread = talk_turns(&agent, 6).await;
    let calls = server.call_count();
    let meanwhile = async {
        server.wait_for_calls(calls + 1).await;
        send_message(&agent, thread, "A turn in between.").await;
        let request = newest_request(&server).body["messages"].to_string();
        assert!(
            request.contains(FIRST_TURN_TEXT) && request.contains("A turn in between."),
            "no turn is archived yet"
        );
        server.open_gate("held");
    };
    let (_, ()) = futures::join!(settle_memory(&agent), meanwhile);
    settle_memory(&agent).await;
    let trace = agent.memory().task_trace(thread, None, 100).await.unwrap();
    let archived = trace.iter().filter(|turn| turn.is_archived).count();
    assert!(archived > 0 && trace.len() == 14, "{archived} of {}", trace.len());
    send_message(&agent, thread, "And now?").await;
    let request = newest_request(&server).body["messages"].to_string();
    assert!(!request.contains(FIRST_TURN_TEXT) && request.contains("A turn in between."), "{request}");
    let archived_total: u64 =
        turns_archived(&agent, thread).await.iter().map(|archived| archived.turn_count).sum();
    assert_eq!(archived_total, archived as u64, "each turn is in one summary");
}

#[tokio::test]
async fn the_search_index_is_updated_after_a_turn() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, ""));
    talk_turns(&agent, 2).await;
    let threads_with_index_lag =
        || environment.query_texts("SELECT thread_id FROM thread_heads WHERE indexed_seq < last_seq");
    assert_eq!(threads_with_index_lag().len(), 1, "no turn waits for the search index");
    settle_memory(&agent).await;
    // The update goes on in the background.
    while !threads_with_index_lag().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn f8_a_thread_within_its_budget_is_not_summarized() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (100_000, ""));
    let thread = talk_turns(&agent, 4).await;
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    assert_eq!(settle_memory(&agent).await, []);
    assert_eq!(turns_archived(&agent, thread).await, []);
}

#[tokio::test]
async fn f8_disabled_memory_stores_nothing_and_adds_nothing_to_requests() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    let agent = agent_of(&environment, &server, (BUDGET_TOKENS, "enabled = false"));
    let thread = talk_turns(&agent, 6).await;
    crate::compaction::compact_thread(&agent, thread).await.unwrap();
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    assert_eq!(settle_memory(&agent).await, []);
    assert!(!newest_request(&server).body["system"].to_string().contains("recent_memory"));
}

#[tokio::test]
async fn f8_without_a_model_the_offline_summary_is_stored() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = crate::compaction::filled_thread(&agent, 3_000).await;
    crate::compaction::compact_thread(&agent, thread).await.unwrap();
    let settled = settle_memory(&agent).await;
    assert_eq!(
        (settled.len(), settled[0].model.as_str(), settled[0].reason),
        (1, "extractive", ArchiveReason::Compaction)
    );
}

async fn run_doctor(agent: &Agent) -> Vec<agent::DoctorCheck> {
    let (frames, cancel) = unwatched();
    agent.admin().run_doctor(&frames, &cancel).await.unwrap()
}

#[tokio::test]
async fn the_doctor_reports_configured_models_that_cannot_be_used() {
    let (environment, server) = (TestEnvironment::new(), summarizing_server());
    environment.configure_with_extra(
        &server,
        "[handoff]\nmodel = \"nobody/drafts\"\n[compaction]\nmodel = \"nobody/knows\"\n[memory]\nmodel = \"gemini\"\n",
    );
    let agent = environment.agent_over(environment.store(), TEST_MODEL);
    let checks = run_doctor(&agent).await;
    let models = [
        ("handoff.model", "nobody/drafts"),
        ("compaction.model", "nobody/knows"),
        ("memory.model", "gemini"),
    ];
    for (name, model_name) in models {
        let check = checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.verdict, agent::CheckStatus::Warn);
        assert!(check.detail.contains(model_name) && check.hint.is_some(), "{check:?}");
    }
    let thread = talk_turns(&agent, 1).await;
    crate::compaction::append(&agent, thread, &crate::compaction::turns(1..9, 3_000)).await;
    crate::compaction::compact_thread(&agent, thread).await.unwrap();
    assert_eq!(
        settle_memory(&agent).await[0].model,
        "extractive",
        "the conversation is sent to no other provider"
    );
    assert_eq!(summarizer_requests(&server).len(), 0);
    assert!(agent.memory().summarizer_problem().unwrap().contains("`gemini`"));
    for (setting, is_reported) in [("none", false), ("anthropic/claude-haiku-4-5", true)] {
        environment.configure_with_extra(&server, &format!("[memory]\nmodel = \"{setting}\"\n"));
        let checks = run_doctor(&environment.agent_over(environment.store(), TEST_MODEL)).await;
        let check = checks.iter().find(|check| check.name == "memory.model");
        assert_eq!(
            check.map(|check| check.verdict),
            is_reported.then_some(agent::CheckStatus::Ok),
            "{setting}"
        );
    }
}

#[tokio::test]
async fn f4_an_unreadable_agent_md_is_reported_as_a_problem_and_not_as_missing() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let agent_md_stats = || async { agent.memory().stats().await.unwrap().agent_md };
    let missing = agent_md_stats().await;
    assert_eq!(
        (missing.exists, missing.bytes, missing.bytes_max, missing.problem),
        (false, 0, 64 * 1024, None)
    );
    let receipt = agent.memory().remember(agent.notes_scope(), "The hives are in Trento.").await.unwrap();
    let present = agent_md_stats().await;
    assert_eq!((present.exists, present.bytes, present.bytes_max), (true, receipt.bytes, receipt.bytes_max));
    std::fs::remove_file(environment.agent_md()).unwrap();
    std::fs::create_dir(environment.agent_md()).unwrap();
    let problem = agent_md_stats().await.problem.unwrap();
    assert!(problem.contains("agent.md: it is not a regular file"), "{problem}");
}

#[test]
fn an_invalid_memory_setting_is_reported_when_the_settings_are_read() {
    for (section, expected) in [
        ("short_term_tokens = 0", "`memory.short_term_tokens` is 0"),
        ("tokens = 1", "unknown field `tokens`"),
        ("summary_tokens = 1", "`memory.summary_tokens` is 1"),
    ] {
        let environment = TestEnvironment::new();
        environment.home().create().unwrap();
        std::fs::write(environment.home().config_path(), format!("[memory]\n{section}\n")).unwrap();
        let error = agent::ConfigFile::read(&environment.home().config_path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{section}: {error}");
    }
}
