//! Tests of undoing a compaction: the next request equals the request of a thread that was never compacted.

use agent::Agent;
use protocol::ThreadId;
use serde_json::Value;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    SUMMARY_OPENING, agent_of, agent_with_large_tool, append, compact_keeping, compact_thread, filled_thread,
    good_server, large_call, record_reply, send_message, split_requests, turns, visible_markers,
    without_usage,
};
use crate::environment::{TestEnvironment, message_texts, messages};

/// Sends the same message in both threads and asserts that both requests are equal, byte for byte.
async fn assert_same_request(
    agent: &Agent,
    server: &ScriptedServer,
    (thread, control): (ThreadId, ThreadId),
    text: &str,
) {
    for thread in [control, thread] {
        send_message(agent, thread, text).await;
    }
    let requests = split_requests(server).1;
    let [.., expected, actual] = requests.as_slice() else { panic!("two requests") };
    let parts = |body: &Value| ["messages", "system", "tools"].map(|part| body[part].to_string());
    assert_eq!(parts(&actual.body), parts(&expected.body), "{text}");
}

#[tokio::test]
async fn m9_after_an_undo_the_next_request_has_the_original_messages_and_the_later_turns() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    let compacted = compact_thread(&agent, thread).await.unwrap();
    for thread in [thread, control] {
        send_message(&agent, thread, "While it is compacted.").await;
    }
    let bodies: Vec<String> =
        split_requests(&server).1.iter().map(|request| request.body["messages"].to_string()).collect();
    assert!(bodies[0].contains(SUMMARY_OPENING) && !bodies[1].contains(SUMMARY_OPENING));
    let undone = agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(undone.marker_seq, compacted.marker.unwrap().seq);
    assert_eq!(undone.replaced_count, compacted.compaction.replaced_count);
    assert!(undone.tokens_after > undone.tokens_before, "{undone:?}");
    assert_same_request(&agent, &server, (thread, control), "And now?").await;
    // A new agent, which has nothing cached, sends the same request.
    drop(agent);
    let agent = agent_of(&environment, &server, (200_000, ""));
    assert_same_request(&agent, &server, (thread, control), "And then?").await;
    assert_eq!(message_texts(&agent, thread).await, message_texts(&agent, control).await);
}

#[tokio::test]
async fn m9_ten_compactions_are_undone_one_after_the_other() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (1_000_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let mut controls = Vec::new();
    for round in 0..10 {
        controls.push(agent.threads().fork(thread, None).await.unwrap().thread_id);
        compact_keeping(&agent, thread, 4).await;
        let first = 10 + round * 3;
        append(&agent, thread, &turns(first..first + 3, 3_000)).await;
    }
    let markers = visible_markers(&agent, thread).await;
    assert_eq!(markers.len(), 10);
    for pair in markers.windows(2) {
        assert_eq!(pair[1].1.previous_seq, Some(pair[0].0));
        assert_eq!(pair[1].1.first_seq, pair[0].1.last_seq + 1);
    }
    for (seq, marker) in markers.iter().rev() {
        let undone = agent.threads().undo_compaction(thread).await.unwrap();
        assert_eq!((undone.marker_seq, undone.replaced_count), (*seq, marker.replaced_count));
    }
    assert!(matches!(
        agent.threads().undo_compaction(thread).await,
        Err(agent::Error::Thread(agent::ThreadError::NothingToUndo(_)))
    ));
    let control = agent.threads().fork(thread, Some(0)).await.unwrap().thread_id;
    append(&agent, control, &messages(&agent, thread).await).await;
    assert_same_request(&agent, &server, (thread, control), "And now?").await;
}

#[tokio::test]
async fn m9_a_compaction_after_an_undo_starts_after_the_last_remaining_compaction() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (1_000_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let first = compact_keeping(&agent, thread, 4).await.compaction;
    append(&agent, thread, &turns(10..14, 3_000)).await;
    compact_keeping(&agent, thread, 4).await;
    agent.threads().undo_compaction(thread).await.unwrap();
    let again = compact_keeping(&agent, thread, 4).await.compaction;
    assert_eq!(again.first_seq, first.last_seq + 1);
    assert_eq!(again.previous_seq, Some(visible_markers(&agent, thread).await[0].0));
    agent.threads().undo_compaction(thread).await.unwrap();
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_eq!(agent.threads().context_report(thread).await.unwrap().condensed, None);
    let whole = compact_keeping(&agent, thread, 4).await.compaction;
    assert_eq!((whole.first_seq, whole.previous_seq), (first.first_seq, None));
}

#[tokio::test]
async fn m9_an_undo_restores_the_results_that_the_compaction_clipped() {
    let environment = TestEnvironment::new();
    let replies = [
        record_reply(),
        large_call("c1", 120_000),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (40_000, ""));
    let thread = filled_thread(&agent, 400).await;
    send_message(&agent, thread, "Look at the large one.").await;
    let clipped = agent.threads().context_report(thread).await.unwrap().tokens;
    agent.threads().undo_compaction(thread).await.unwrap();
    let whole = agent.threads().context_report(thread).await.unwrap();
    assert_eq!(whole.condensed, None);
    assert!(whole.tokens > clipped + 20_000, "{whole:?} after {clipped}");
    send_message(&agent, thread, "And now?").await;
    assert_eq!(
        visible_markers(&agent, thread).await.len(),
        2,
        "the restored thread does not fit, so it is compacted again"
    );
}

#[tokio::test]
async fn m9_an_undo_does_not_restore_results_that_were_clipped_before_the_compaction() {
    let environment = TestEnvironment::new();
    let replies = [
        record_reply(),
        large_call("c1", 120_000),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (40_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    send_message(&agent, thread, "Look at the large one.").await;
    let clipped = super::events_of(&agent, thread, protocol::EventType::ResultClipped).await;
    assert_eq!(
        (clipped.len(), visible_markers(&agent, thread).await.len()),
        (1, 0),
        "the result is clipped and the thread is not compacted"
    );
    append(&agent, thread, &turns(2..6, 4_000)).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    compact_thread(&agent, thread).await.unwrap();
    agent.threads().undo_compaction(thread).await.unwrap();
    assert_same_request(&agent, &server, (thread, control), "And now?").await;
}

#[tokio::test]
async fn m9_an_undone_compaction_is_not_repeated_by_the_next_message() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, "trigger = [{ tokens = 20000 }]"));
    let thread = filled_thread(&agent, 10_000).await;
    send_message(&agent, thread, "It is due with this one.").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 1, "the thread was compacted automatically");
    // Messages since the compaction count too: the undo accepts the size that the thread has now.
    append(&agent, thread, &turns(10..12, 10_000)).await;
    let undone = agent.threads().undo_compaction(thread).await.unwrap();
    assert!(undone.tokens_after > 24_000 && !undone.is_too_large, "{undone:?}");
    send_message(&agent, thread, "And this is answered with all of it.").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 1);
    assert!(
        !split_requests(&server).1.last().unwrap().body["messages"].to_string().contains(SUMMARY_OPENING)
    );
    // After enough growth, the thread is compacted again.
    append(&agent, thread, &turns(20..24, 10_000)).await;
    send_message(&agent, thread, "And this is too much.").await;
    assert_eq!(visible_markers(&agent, thread).await.len(), 2);
}
