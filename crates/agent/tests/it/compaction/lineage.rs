//! Condensed threads among others: recall, handoffs, forks, rewinds, sub-agents.

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
async fn e11_what_is_condensed_is_recalled_from_the_journal() {
    let world = TestEnvironment::new();
    let recalls = ScriptedReply::call("r1", "recall", json!({"query": "code word"}));
    let replies =
        [record_reply(), without_usage(recalls), without_usage(ScriptedReply::text("Done.")).with_repeat()];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_of(&world, &server, (200_000, ""));
    let thread = filled_thread(&agent, 3_000).await;
    for first in [10, 20, 30] {
        compact_keeping(&agent, thread, 4).await;
        append(&agent, thread, &turns(first..first + 4, 3_000)).await;
    }
    let found = agent
        .memory()
        .recall(thread, &RecallQuery::new(MessageFilter::Words("code word".to_owned())))
        .await
        .unwrap();
    assert!(found.to_text().contains("walnut-17"), "{}", found.to_text());
    let marker = visible_markers(&agent, thread).await.remove(0).1;
    let range = MessageFilter::Range(marker.first_seq, marker.first_seq + 3);
    let originals = agent.memory().recall(thread, &RecallQuery::new(range)).await.unwrap();
    assert!(originals.to_text().contains("walnut-17"), "{}", originals.to_text());
    send_message(&agent, thread, "What was the code word?").await;
    let requests = split_requests(&server).1;
    assert!(!requests[0].body.to_string().contains("walnut-17"), "it is not in sight");
    assert!(requests[1].body.to_string().contains("walnut-17"), "the agent's own tool finds it");
}

#[tokio::test]
async fn g8_a_handoff_of_a_condensed_thread_covers_what_was_said_first() {
    for model in [true, false] {
        let world = TestEnvironment::new();
        let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat();
        let replies = [record_reply(), draft, without_usage(ScriptedReply::text("Done.")).with_repeat()];
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let agent = match model {
            true => agent_of(&world, &server, (200_000, "")),
            false => world.agent(),
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
        match model {
            true => assert!(
                newest_request(&server).contains(CODE_WORD_SENTENCE),
                "the draft is made from the originals"
            ),
            false => assert!(
                pending.proposal.summary_md.contains("billing table"),
                "{}",
                pending.proposal.summary_md
            ),
        }
    }
}

#[tokio::test]
async fn b12_m10_a_fork_of_a_condensed_thread_has_its_marker_its_originals_and_its_context() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
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
    assert_eq!(count as u64, marker.replaced_count, "the card opens to the originals");
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
        "the source is as it was"
    );
    // A fork of what was before the marker has none.
    let earlier = agent.threads().fork(thread, Some(seq - 1)).await.unwrap().thread_id;
    assert_eq!(visible_markers(&agent, earlier).await, []);
    assert_eq!(agent.threads().context_report(earlier).await.unwrap().condensed, None);
}

#[tokio::test]
async fn b9_a_rewind_behind_a_marker_keeps_it_and_one_before_it_takes_it_back() {
    let (world, server) = (TestEnvironment::new(), good_server());
    let agent = agent_of(&world, &server, (200_000, ""));
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
    assert_eq!(requests[2].body, requests[1].body, "behind the marker: what was sent then");
    agent.threads().rewind(thread, seq - 1).await.unwrap();
    assert_eq!(visible_markers(&agent, thread).await, []);
    for thread in [control, thread] {
        send_message(&agent, thread, "Three.").await;
    }
    let requests = split_requests(&server).1;
    assert_eq!(
        requests[3].body["messages"], requests[4].body["messages"],
        "before it: as if it had not been"
    );
    // Rewinding into what is condensed: it is sent as it is up to there.
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
async fn a_subagent_has_its_own_conversation_condensed() {
    let world = TestEnvironment::new();
    let mut replies = vec![record_reply()];
    let task = json!({"description": "look", "prompt": "Look at everything large."});
    let own =
        |reply: ScriptedReply, step| without_usage(reply).when_body_contains("Plum.").when_turn_is(1, step);
    replies.push(own(ScriptedReply::call("t1", "task", task), 1));
    replies.push(own(ScriptedReply::text("Reported."), 2));
    replies.extend((0..8).map(|number| large_call(&format!("s{number}"), 16_000)));
    replies.push(without_usage(ScriptedReply::text("All of it is well.")).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&world, &server, (30_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let end = agent.runs().send_message(thread, "Plum.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(visible_markers(&agent, thread).await, [], "its parent's is as it was");
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let threads = agent.threads().list(filter).await.unwrap();
    let subagent = threads.iter().find(|found| found.parent_id == Some(thread)).unwrap().thread_id;
    let condensed = visible_markers(&agent, subagent).await;
    assert!(!condensed.is_empty());
    assert!(condensed.iter().all(|(_, marker)| marker.trigger == CompactionTrigger::Auto));
    let (asked, answered) = split_requests(&server);
    assert_eq!(asked.len(), condensed.len());
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
    assert_eq!(spent, 700 * condensed.len() as u64, "a24: its summaries are counted with it");
}

/// Numbers that look like chance and are the same every time.
struct SeededRandom(u64);

impl SeededRandom {
    fn next_below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

#[tokio::test]
async fn b1_after_any_sequence_of_compactions_undos_rewinds_and_forks_the_history_is_the_original() {
    for seed in 1..=4 {
        let (world, mut dice) = (TestEnvironment::new(), SeededRandom(seed));
        let agent = world.agent();
        let mut thread = agent.threads().create(None).await.unwrap().thread_id;
        let (mut expected, mut number): (Vec<(u64, String)>, usize) = (Vec::new(), 1);
        let mut done = [0; 5];
        for _ in 0..40 {
            let act = dice.next_below(9);
            match act {
                0..=3 => {
                    let count = 1 + dice.next_below(3);
                    append(&agent, thread, &turns(number..number + count, 600)).await;
                    number += count;
                    let said = agent.threads().events(thread).await.unwrap();
                    let said = said.iter().filter_map(|event| Some((event.seq, event.message()?.text())));
                    let known = expected.last().map_or(0, |(seq, _)| *seq);
                    expected.extend(said.filter(|(seq, _)| *seq > known));
                }
                4 | 5 => done[1] += usize::from(compact_thread(&agent, thread).await.is_ok()),
                6 => done[2] += usize::from(agent.threads().undo_compaction(thread).await.is_ok()),
                7 if !expected.is_empty() => {
                    let keep = expected[expected.len() - 1 - dice.next_below(expected.len().min(12))].0;
                    agent.threads().rewind(thread, keep).await.unwrap();
                    expected.retain(|(seq, _)| *seq <= keep);
                    done[3] += 1;
                }
                _ => {
                    thread = agent.threads().fork(thread, None).await.unwrap().thread_id;
                    done[4] += 1;
                }
            }
            let events = agent.threads().events(thread).await.unwrap();
            let found = events.iter().filter_map(|event| Some((event.seq, event.message()?.text())));
            assert_eq!(found.collect::<Vec<_>>(), expected, "seed {seed}");
            let context =
                runtime::ContextCache::default().read_context(&**agent.store(), thread).await.unwrap();
            let projected = journal::view::context::context(&events);
            let seqs: Vec<u64> = projected.iter().map(|(seq, _)| *seq).collect();
            assert_eq!(*context.seqs, seqs, "seed {seed}: what is read back is the view of all events");
            let warm = agent.threads().history(thread).await.unwrap();
            let shown = warm.iter().filter(|entry| matches!(entry.item, HistoryItem::Marker(_))).count();
            assert_eq!(shown, visible_markers(&agent, thread).await.len(), "c4: each marker is shown");
        }
        assert!(done[1] > 2 && done[3] > 0 && done[4] > 0, "seed {seed}: {done:?}");
    }
}
