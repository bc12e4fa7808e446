//! Tests of compacted threads together with recall, handoffs, forks, rewinds and sub-agents.

use agent::{HandoffRequestOptions, HistoryItem, HistoryQuery, MessageFilter, RecallQuery};
use journal::{SubagentVisibility, ThreadFilter};
use protocol::{CompactionTrigger, Message, RunStatus};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{
    CODE_WORD_SENTENCE, SUMMARY_OPENING, agent_of, agent_with_large_tool, append, compact_keeping,
    compact_thread, filled_thread, good_server, large_call, newest_request, record_reply, send_message,
    split_requests, turns, visible_markers, without_usage,
};
use crate::environment::{DRAFT, DRAFT_PROMPT, TestEnvironment, assert_paired, messages, unwatched};

#[tokio::test]
async fn e11_compacted_messages_are_recalled_from_the_journal() {
    let environment = TestEnvironment::new();
    let recall_call = ScriptedReply::call("r1", "recall", json!({"query": "code word"}));
    let replies = [
        record_reply(),
        without_usage(recall_call),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    for first in [10, 20, 30] {
        compact_keeping(&agent, thread, 4).await;
        append(&agent, thread, &turns(first..first + 4, 3_000)).await;
    }
    let recalled = agent
        .memory()
        .recall(thread, &RecallQuery::new(MessageFilter::Words("code word".to_owned())))
        .await
        .unwrap();
    assert!(recalled.to_text().contains("walnut-17"), "{}", recalled.to_text());
    let marker = visible_markers(&agent, thread).await.remove(0).1;
    let range = MessageFilter::Range(marker.first_seq, marker.first_seq + 3);
    let originals = agent.memory().recall(thread, &RecallQuery::new(range)).await.unwrap();
    assert!(originals.to_text().contains("walnut-17"), "{}", originals.to_text());
    send_message(&agent, thread, "What was the code word?").await;
    let requests = split_requests(&server).1;
    assert!(
        !requests[0].body.to_string().contains("walnut-17"),
        "the context does not contain the code word"
    );
    assert!(requests[1].body.to_string().contains("walnut-17"), "the tool `recall` finds the code word");
}

#[tokio::test]
async fn g8_a_handoff_of_a_compacted_thread_covers_its_first_messages() {
    for has_model in [true, false] {
        let environment = TestEnvironment::new();
        let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
        let replies = [record_reply(), draft, without_usage(ScriptedReply::text("Done.")).with_repeat()];
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = match has_model {
            true => agent_of(&environment, &server, (200_000, "")),
            false => environment.agent(),
        };
        let thread = filled_thread(&agent, 3_000).await;
        compact_thread(&agent, thread).await.unwrap();
        append(&agent, thread, &turns(10..14, 3_000)).await;
        compact_keeping(&agent, thread, 4).await;
        let (frames, cancel) = unwatched();
        let pending = agent
            .handoffs()
            .request(thread, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap();
        let coverage = &pending.proposal.summary_json.coverage;
        assert_eq!(coverage.first_seq, 1, "{coverage:?}");
        match has_model {
            true => assert!(
                newest_request(&server).contains(CODE_WORD_SENTENCE),
                "the draft is made from the originals"
            ),
            false => assert!(
                pending.proposal.package_md.contains("billing table"),
                "{}",
                pending.proposal.package_md
            ),
        }
    }
}

#[tokio::test]
async fn b12_m10_a_fork_of_a_compacted_thread_has_its_marker_its_originals_and_its_context() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let (seq, marker) = {
        compact_thread(&agent, thread).await.unwrap();
        visible_markers(&agent, thread).await.remove(0)
    };
    append(&agent, thread, &turns(10..12, 3_000)).await;
    let fork = agent.threads().fork(thread, None).await.unwrap().thread_id;
    assert_eq!(visible_markers(&agent, fork).await, [(seq, marker.clone())]);
    let originals = HistoryQuery {
        after_seq: Some(marker.first_seq - 1),
        before_seq: Some(marker.last_seq + 1),
        limit: 200,
        ..HistoryQuery::default()
    };
    let page = agent.threads().history_page(fork, &originals).await.unwrap();
    let count = page.entries.iter().filter(|entry| matches!(entry.item, HistoryItem::Message(_))).count();
    assert_eq!(count as u64, marker.replaced_count, "the history of the fork has the replaced messages");
    for thread in [thread, fork] {
        send_message(&agent, thread, "And now?").await;
    }
    let requests = split_requests(&server).1;
    assert!(requests[0].body["messages"].to_string().contains(SUMMARY_OPENING));
    assert_eq!(requests[0].body["messages"], requests[1].body["messages"]);
    agent.threads().undo_compaction(fork).await.unwrap();
    assert_eq!(agent.threads().context_report(fork).await.unwrap().condensed, None);
    assert!(
        agent.threads().context_report(thread).await.unwrap().condensed.is_some(),
        "the source thread is unchanged"
    );
    // A fork from a point before the marker has no marker.
    let earlier = agent.threads().fork(thread, Some(seq - 1)).await.unwrap().thread_id;
    assert_eq!(visible_markers(&agent, earlier).await, []);
    assert_eq!(agent.threads().context_report(earlier).await.unwrap().condensed, None);
}

#[tokio::test]
async fn b9_a_rewind_to_a_point_after_a_marker_keeps_it_and_to_a_point_before_it_removes_it() {
    let (environment, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&environment, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    let control = agent.threads().fork(thread, None).await.unwrap().thread_id;
    compact_thread(&agent, thread).await.unwrap();
    let (seq, _) = visible_markers(&agent, thread).await.remove(0);
    send_message(&agent, thread, "One.").await;
    send_message(&agent, thread, "Two.").await;
    let prompts = agent.threads().prompts(thread, 2).await.unwrap();
    agent.threads().rewind(thread, prompts[0].seq - 1).await.unwrap();
    send_message(&agent, thread, "Two.").await;
    let requests = split_requests(&server).1;
    assert_eq!(requests[2].body, requests[1].body, "after the marker: the same request is sent again");
    agent.threads().rewind(thread, seq - 1).await.unwrap();
    assert_eq!(visible_markers(&agent, thread).await, []);
    for thread in [control, thread] {
        send_message(&agent, thread, "Three.").await;
    }
    let requests = split_requests(&server).1;
    assert_eq!(
        requests[3].body["messages"], requests[4].body["messages"],
        "before the marker: the request equals that of a thread that was never compacted"
    );
    // A rewind into the compacted range: the remaining messages are sent verbatim.
    compact_thread(&agent, thread).await.unwrap();
    let (_, marker) = visible_markers(&agent, thread).await.remove(0);
    agent.threads().rewind(thread, marker.last_seq - 4).await.unwrap();
    send_message(&agent, thread, "Four.").await;
    assert!(
        newest_request(&server).contains(CODE_WORD_SENTENCE)
            && !newest_request(&server).contains(SUMMARY_OPENING)
    );
}

#[tokio::test]
async fn the_conversation_of_a_subagent_is_compacted_without_its_parents() {
    let environment = TestEnvironment::new();
    let mut replies = vec![record_reply()];
    let task = json!({"description": "look", "prompt": "Look at everything large."});
    let main_agent_reply =
        |reply: ScriptedReply, step| without_usage(reply).when_body_contains("Plum.").when_turn_is(1, step);
    replies.push(main_agent_reply(ScriptedReply::call("t1", "task", task), 1));
    replies.push(main_agent_reply(ScriptedReply::text("Reported."), 2));
    replies.extend((0..8).map(|number| large_call(&format!("s{number}"), 16_000)));
    replies.push(without_usage(ScriptedReply::text("All of it is well.")).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (30_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(visible_markers(&agent, thread).await, [], "the parent's thread is not compacted");
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let threads = agent.threads().list(filter).await.unwrap();
    let subagent = threads.iter().find(|other| other.parent_id == Some(thread)).unwrap().thread_id;
    let markers = visible_markers(&agent, subagent).await;
    assert!(!markers.is_empty());
    assert!(markers.iter().all(|(_, marker)| marker.trigger == CompactionTrigger::Auto));
    let (summarized, answered) = split_requests(&server);
    assert_eq!(summarized.len(), markers.len());
    answered.iter().for_each(|request| assert_paired(&request.body));
    assert!(answered.iter().all(|request| request.body.to_string().len() < 160_000));
    let reports: Vec<String> = messages(&agent, thread)
        .await
        .iter()
        .filter(|message| matches!(message, Message::Tool(_)))
        .map(Message::text)
        .collect();
    assert_eq!(reports, ["All of it is well."]);
    let ended = super::events_of(&agent, thread, protocol::EventType::SubagentEnded).await;
    let spent = ended[0]["usage"]["input_tokens"].as_u64().unwrap();
    assert_eq!(spent, 700 * markers.len() as u64, "a24: its usage includes its summaries");
}

/// A linear congruential generator, so that each seed always gives the same numbers.
struct SeededRandom(u64);

impl SeededRandom {
    /// Returns the next number, which is less than `bound`.
    fn next_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

#[tokio::test]
async fn b1_after_any_sequence_of_compactions_undos_rewinds_and_forks_the_history_is_the_original() {
    for seed in 1..=4 {
        let (environment, mut random) = (TestEnvironment::new(), SeededRandom(seed));
        let agent = environment.agent();
        let mut thread = agent.threads().create(None).await.unwrap().thread_id;
        let (mut expected, mut number): (Vec<(u64, String)>, usize) = (Vec::new(), 1);
        // The number of successful compactions, undos, rewinds and forks.
        let mut counts = [0; 4];
        for _ in 0..40 {
            match random.next_below(9) {
                0..=3 => {
                    let count = 1 + random.next_below(3);
                    append(&agent, thread, &turns(number..number + count, 600)).await;
                    number += count;
                    let events = agent.threads().events(thread).await.unwrap();
                    let texts = events.iter().filter_map(|event| Some((event.seq, event.message()?.text())));
                    let last_seq = expected.last().map_or(0, |(seq, _)| *seq);
                    expected.extend(texts.filter(|(seq, _)| *seq > last_seq));
                }
                4 | 5 => counts[0] += usize::from(compact_thread(&agent, thread).await.is_ok()),
                6 => counts[1] += usize::from(agent.threads().undo_compaction(thread).await.is_ok()),
                7 if !expected.is_empty() => {
                    let keep = expected[expected.len() - 1 - random.next_below(expected.len().min(12))].0;
                    agent.threads().rewind(thread, keep).await.unwrap();
                    expected.retain(|(seq, _)| *seq <= keep);
                    counts[2] += 1;
                }
                _ => {
                    thread = agent.threads().fork(thread, None).await.unwrap().thread_id;
                    counts[3] += 1;
                }
            }
            let events = agent.threads().events(thread).await.unwrap();
            let texts = events.iter().filter_map(|event| Some((event.seq, event.message()?.text())));
            assert_eq!(texts.collect::<Vec<_>>(), expected, "seed {seed}");
            let context =
                runtime::ContextCache::default().read_context(&**agent.store(), thread).await.unwrap();
            let projected = journal::view::context::context(&events);
            let seqs: Vec<u64> = projected.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(
                *context.seqs, seqs,
                "seed {seed}: the stored context equals the projection of all events"
            );
            let history = agent.threads().history(thread).await.unwrap();
            let shown = history.iter().filter(|entry| matches!(entry.item, HistoryItem::Marker(_))).count();
            assert_eq!(shown, visible_markers(&agent, thread).await.len(), "c4: each marker is shown");
        }
        assert!(counts[0] > 2 && counts[2] > 0 && counts[3] > 0, "seed {seed}: {counts:?}");
    }
}
