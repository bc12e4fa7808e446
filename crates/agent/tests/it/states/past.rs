//! Tests of a thread's past checkpoints: stable message ids and positions, pending questions, and the model's context.

use std::collections::BTreeSet;

use agent::{
    ApprovalPolicy, CompactionParameters, GraphVertex, HandoffRequestOptions, HistoryItem, HistoryQuery,
    IfExists, StateMessage, StateOrigin,
};
use journal::SupersededVisibility;
use protocol::{
    CheckpointId, ContentBlock, EventType, Message, NewEvent, OwnerScope, RunRequest, RunStatus, ThreadId,
    ThreadStatus,
};
use serde_json::{Map, Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{all_states, message_ids_and_texts, message_request, message_texts, run_request};
use crate::environment::{
    TestEnvironment, answering_server, approval, decisions, drafting_server, import_session, messages,
    unwatched,
};

/// Returns a server whose model first calls `write_file`, which needs an approval, and then answers.
fn writing_server() -> ScriptedServer {
    let call = ScriptedReply::call("c1", "write_file", json!({"path": "a", "content": "x"}));
    ScriptedServer::start(Script::new([call, ScriptedReply::text("Done.").with_repeat()])).unwrap()
}

#[tokio::test]
async fn b3_every_message_has_the_same_id_and_seq_in_every_view() {
    let environment = TestEnvironment::new();
    environment.write_file("notes.txt", "one\n");
    let list = ScriptedReply::text("I look.").with_call("c1", "ls", json!({}));
    let server =
        ScriptedServer::start(Script::new([list, ScriptedReply::text("Nothing.").with_repeat()])).unwrap();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    run_request(&agent, thread, &message_request("h1", "Look around.")).await;
    let (frames, cancel) = unwatched();
    agent.runs().send_message(thread, "And again.", &frames, &cancel).await.unwrap();
    let state = agent.threads().state(thread).await.unwrap().unwrap();
    let shown: Vec<(String, u64)> =
        state.messages.iter().map(|message| (message.id.clone(), message.seq)).collect();
    assert_eq!(shown.len(), 6);
    assert_eq!(shown[0].0, "h1", "a client's id is kept");
    assert!(shown.is_sorted_by_key(|(_, seq)| *seq));
    assert_eq!(shown.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len(), shown.len());
    let history = agent.threads().history(thread).await.unwrap();
    let messages_of_history = history.iter().filter(|entry| matches!(entry.item, HistoryItem::Message(_)));
    assert_eq!(messages_of_history.map(|entry| (entry.id.clone(), entry.seq)).collect::<Vec<_>>(), shown);
    let page = HistoryQuery { limit: 100, ..HistoryQuery::default() };
    let page = agent.threads().history_page(thread, &page).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| (entry.id.clone(), entry.seq)).collect::<Vec<_>>(), shown);
    let events = agent.threads().events(thread).await.unwrap();
    let messages_of_events =
        events.iter().filter_map(StateMessage::from_event).map(|message| (message.id, message.seq));
    assert_eq!(messages_of_events.collect::<Vec<_>>(), shown);
    let after = agent.threads().messages_after(thread, shown[2].1).await.unwrap();
    assert_eq!(after, state.messages[3..]);
    for earlier in all_states(&agent, thread).await {
        assert_eq!(earlier.messages, state.messages[..earlier.messages.len()]);
    }
    drop(agent);
    let reopened = environment.agent_with(&server);
    assert_eq!(
        reopened.threads().state(thread).await.unwrap().unwrap(),
        state,
        "b4: a restart does not change them"
    );
}

#[tokio::test]
async fn the_first_checkpoint_of_a_turn_does_not_have_its_message() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    assert_eq!(agent.threads().state(thread).await.unwrap(), None);
    assert_eq!(all_states(&agent, thread).await, []);
    let metadata = Map::from_iter([("tag".to_owned(), json!("x")), ("step".to_owned(), json!("mine"))]);
    let end = run_request(&agent, thread, &RunRequest { metadata, ..message_request("h1", "Hi.") }).await;
    let states = all_states(&agent, thread).await;
    let shape = agent.admin().graph_shape();
    let is_node = |next: &String| {
        shape.vertices.iter().any(|vertex| matches!(vertex, GraphVertex::Node(name) if name == next))
    };
    assert!(states.len() <= 4, "{}", states.len());
    let (input, admission) = (&states[states.len() - 1], &states[states.len() - 2]);
    assert_eq!((input.origin, input.number, input.parent_id.as_ref()), (StateOrigin::Input, -1, None));
    assert_eq!((input.next.len(), input.messages.len()), (0, 0));
    assert_eq!((admission.origin, admission.number), (StateOrigin::Step, 0));
    assert_eq!(
        (admission.parent_id.as_ref(), message_texts(admission)),
        (Some(&input.checkpoint_id), vec!["Hi.".to_owned()])
    );
    for state in &states {
        assert_eq!(state.run_id, Some(end.run_id));
        assert_eq!(Value::Object(state.run_metadata.clone()), json!({"tag": "x", "step": "mine"}));
        assert!(state.next.iter().all(is_node), "{:?}", state.next);
    }
    assert_eq!((states[0].next.len(), states[0].interrupts.len()), (0, 0));
    assert_eq!(message_texts(&states[0]), ["Hi.", "Hello."]);
    let unknown = agent.threads().state_at(thread, CheckpointId::generate()).await;
    assert!(
        matches!(unknown, Err(agent::Error::Thread(agent::ThreadError::UnknownCheckpoint { .. }))),
        "{unknown:?}"
    );
    for limit in [0, journal::PAGE_ROWS_MAX + 1] {
        assert!(agent.threads().states(thread, None, limit).await.is_err(), "a9: {limit}");
    }
}

#[tokio::test]
async fn a_question_is_shown_while_pending_and_later_at_its_checkpoint() {
    let (environment, server) = (TestEnvironment::new(), writing_server());
    let agent = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = run_request(&agent, thread, &message_request("h1", "Write it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted);
    let asked = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(asked.interrupts, end.interrupts);
    assert_eq!(asked.next, [end.interrupts[0].node.clone()]);
    let approve = json!({"decisions": [{"type": "approve"}]});
    let resume = protocol::RunCommand { resume: Some(approve), ..protocol::RunCommand::default() };
    let end =
        run_request(&agent, thread, &RunRequest { command: Some(resume), ..RunRequest::default() }).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let head = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!((head.next.len(), head.interrupts.len()), (0, 0));
    let past = agent.threads().state_at(thread, asked.checkpoint_id).await.unwrap();
    assert_eq!(past.interrupts[0].interrupt_id, asked.interrupts[0].interrupt_id);
    assert_eq!((&past.next, &past.messages), (&asked.next, &asked.messages));
    let listed = all_states(&agent, thread).await;
    let asking = listed.iter().filter(|state| !state.interrupts.is_empty());
    assert_eq!(asking.map(|state| &state.checkpoint_id).collect::<Vec<_>>(), [&asked.checkpoint_id]);
}

#[tokio::test]
async fn the_newest_checkpoint_has_the_failure_of_its_run() {
    let environment = TestEnvironment::new();
    let server =
        ScriptedServer::start(Script::new([ScriptedReply::status(400, "no such model").with_repeat()]))
            .unwrap();
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = run_request(&agent, thread, &message_request("h1", "Hi.")).await;
    assert_eq!(end.status, RunStatus::Error);
    let head = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(head.error, end.failure.map(|failure| failure.message));
    assert!(!head.next.is_empty(), "the thread can resume there: {head:?}");
    assert_eq!(message_texts(&head), ["Hi."]);
    assert!(all_states(&agent, thread).await[1..].iter().all(|state| state.error.is_none()));
}

#[tokio::test]
async fn b11_the_models_context_is_separate_from_the_transcript() {
    let (environment, server) = (
        TestEnvironment::new(),
        answering_server(&"An answer that is not short, for there is much to say. ".repeat(60)),
    );
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for turn in 0..6 {
        run_request(
            &agent,
            thread,
            &message_request(&format!("h{turn}"), &format!("Question {turn}, with some words.")),
        )
        .await;
    }
    let before = agent.threads().model_window(thread).await.unwrap();
    assert_eq!((before.summary.as_ref(), before.marker_seq, before.transcript_messages), (None, None, 12));
    assert_eq!(before.kept_seqs.len(), 12);
    let (frames, cancel) = unwatched();
    let original = agent.threads().state(thread).await.unwrap().unwrap().messages;
    let request = CompactionParameters {
        keep: Some(agent::KeepPolicy::Messages(2)),
        ..CompactionParameters::default()
    };
    agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap();
    let after = agent.threads().model_window(thread).await.unwrap();
    let (summary, until) = (after.summary.unwrap(), after.condensed_until.unwrap());
    assert!(!summary.is_empty() && after.marker_seq.is_some());
    assert_eq!(after.transcript_messages, 12);
    assert!(after.kept_seqs.len() < 12 && after.kept_seqs.iter().any(|seq| *seq > until));
    let state = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(state.messages, original, "b1: the transcript is whole");
    let written = serde_json::to_value(agent.threads().model_window(thread).await.unwrap()).unwrap();
    assert_eq!(written["summary"], json!(summary));
}

#[tokio::test]
async fn b13_an_imported_thread_has_a_state_before_its_first_run() {
    let (environment, server) = (TestEnvironment::new(), answering_server("It passes."));
    let agent = environment.agent_with(&server);
    let thread = import_session(&environment, &agent).await.unwrap();
    let imported = agent.threads().state(thread).await.unwrap().unwrap();
    let original_count = imported.messages.len();
    assert_eq!(
        (message_ids_and_texts(&imported).len(), imported.next.len()),
        (messages(&agent, thread).await.len(), 0)
    );
    assert_eq!(
        (imported.origin, imported.parent_id.as_ref(), imported.run_id),
        (StateOrigin::Change, None, None)
    );
    assert_eq!(all_states(&agent, thread).await, std::slice::from_ref(&imported));
    assert_eq!(agent.threads().state_at(thread, imported.checkpoint_id).await.unwrap(), imported);
    assert_eq!(agent.threads().states(thread, Some(imported.checkpoint_id), 10).await.unwrap(), []);
    // The client's next message names the checkpoint that was the newest one when the client read the state.
    let named =
        RunRequest { checkpoint_id: Some(imported.checkpoint_id), ..message_request("h1", "Does it?") };
    let end = run_request(&agent, thread, &named).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let states = all_states(&agent, thread).await;
    assert_eq!(states.last(), Some(&imported), "the import stays the first checkpoint");
    let input = &states[states.len() - 2];
    assert_eq!((input.origin, input.number), (StateOrigin::Input, -1));
    assert_eq!(input.parent_id.as_ref(), Some(&imported.checkpoint_id));
    assert_eq!(states[0].messages.len(), original_count + 2);
    // Another message at the same checkpoint starts another branch.
    let other =
        RunRequest { checkpoint_id: Some(imported.checkpoint_id), ..message_request("h2", "Really?") };
    run_request(&agent, thread, &other).await;
    let states = all_states(&agent, thread).await;
    assert_eq!(states[0].messages.len(), original_count + 2);
    assert_eq!(message_texts(&states[0])[original_count..], ["Really?", "It passes."]);
    let children = states.iter().filter(|state| state.parent_id.as_ref() == Some(&imported.checkpoint_id));
    assert_eq!(children.count(), 2);
}

#[tokio::test]
async fn a_pending_handoff_is_a_message_and_stays_one_after_its_decision() {
    let (environment, server) = (TestEnvironment::new(), drafting_server());
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let asked = agent.threads().state(parent).await.unwrap().unwrap();
    let original_count = messages(&agent, parent).await.len();
    assert_eq!((asked.messages.len(), asked.interrupts.len()), (original_count + 1, 1));
    assert_eq!(asked.next, ["handoff_approval"]);
    let Message::Ai(question) = &asked.messages[original_count].message else {
        panic!("{:?}", asked.messages[original_count])
    };
    let [ContentBlock::ToolCall { id, name, args }] = question.content.as_slice() else {
        panic!("{question:?}")
    };
    assert_eq!((name.as_str(), &args["feedback"]), ("handoff_summary", &json!("")));
    agent.handoffs().decide(pending.handoff.handoff_id, &approval(&pending), &frames, &cancel).await.unwrap();
    let decided = agent.threads().state(parent).await.unwrap().unwrap();
    assert_eq!(decided.messages[..=original_count], asked.messages);
    let Message::Tool(outcome) = &decided.messages[original_count + 1].message else {
        panic!("{:?}", decided.messages)
    };
    assert_eq!((&outcome.call_id, decided.next.len()), (id, 0));
    assert_eq!(decided.channels["child_thread_id"], json!(pending.handoff.child_thread_id));
    let contextual = agent.threads().model_window(parent).await.unwrap();
    assert!(
        contextual.kept_seqs.iter().all(|seq| *seq < asked.messages[original_count].seq),
        "the handoff is not part of the model's context"
    );
    drop(agent);
    let reopened = environment.agent_with(&server);
    assert_eq!(reopened.threads().state(parent).await.unwrap().unwrap(), decided);
    assert_eq!(all_states(&reopened, parent).await[0], decided);
}

#[tokio::test]
async fn a_refined_handoff_shows_each_draft_as_a_message() {
    let (environment, server) = (TestEnvironment::new(), drafting_server());
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
    let (frames, cancel) = unwatched();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let refine = decisions(
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"feedback":"Shorter."}}}]}"#,
    );
    let first = agent.threads().state(parent).await.unwrap().unwrap();
    agent.handoffs().decide(pending.handoff.handoff_id, &refine, &frames, &cancel).await.unwrap();
    let second = agent.threads().state(parent).await.unwrap().unwrap();
    let kinds = |from: usize| -> Vec<&str> {
        let kind = |message: &std::sync::Arc<StateMessage>| match message.message {
            Message::Human(_) => "human",
            Message::Ai(_) => "ai",
            Message::Tool(_) => "tool",
        };
        second.messages[from..].iter().map(kind).collect()
    };
    assert_eq!(kinds(first.messages.len() - 1), ["ai", "tool", "ai"]);
    assert_eq!(second.messages[..first.messages.len()], first.messages);
}

#[tokio::test]
async fn k1_only_the_owner_can_read_or_change_a_state() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let local = environment.agent_with(&server);
    let [alice, bob] =
        ["alice", "bob"].map(|name| local.scoped(OwnerScope::Owner(Some(name.parse().unwrap()))));
    let thread = alice.threads().create(None).await.unwrap().thread_id;
    run_request(&alice, thread, &message_request("h1", "Mine.")).await;
    let head = alice.threads().state(thread).await.unwrap().unwrap();
    for other in [&bob, &local] {
        assert!(other.threads().state(thread).await.is_err());
        assert!(other.threads().states(thread, None, 10).await.is_err());
        assert!(other.threads().state_at(thread, head.checkpoint_id).await.is_err());
        assert!(other.threads().messages_after(thread, 0).await.is_err());
        assert!(other.threads().model_window(thread).await.is_err());
        assert!(other.threads().copy_thread(thread).await.is_err());
        assert!(other.threads().update_state(thread, agent::StateChange::default()).await.is_err());
        assert_eq!(alice.threads().state(thread).await.unwrap().as_ref(), Some(&head));
    }
    // The transcripts are shared between the agents, and none of them contains deleted messages.
    alice.threads().delete(thread).await.unwrap();
    assert!(alice.threads().state(thread).await.is_err());
    let (again, _) = alice.threads().ensure_thread(Some(thread), Map::new(), IfExists::Raise).await.unwrap();
    assert_eq!(alice.threads().state(again.thread_id).await.unwrap(), None);
    assert_eq!(alice.threads().messages_after(thread, 0).await.unwrap(), []);
}

#[tokio::test]
async fn b3_concurrent_readers_see_every_message_once_and_in_order() {
    const MESSAGES: usize = 300;
    const READERS: usize = 8;
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let writer = agent.clone();
    let writing = tokio::spawn(async move {
        for number in 0..MESSAGES {
            let messages_of_history = Message::human(format!("{number}"));
            let event = NewEvent::from_message(&messages_of_history, jiff::Timestamp::now()).unwrap();
            let writes = vec![journal::Write::Append { thread_id: thread, events: vec![event] }];
            writer.store().commit(journal::Transaction { fence: None, writes }).await.unwrap();
        }
    });
    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move {
                loop {
                    let messages = agent.threads().messages_after(thread, 0).await.unwrap();
                    for (number, message) in messages.iter().enumerate() {
                        assert_eq!(message.message.text(), number.to_string());
                    }
                    if messages.len() == MESSAGES {
                        return;
                    }
                }
            })
        })
        .collect();
    writing.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn b12_a_copy_has_the_whole_transcript_and_is_independent() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let agent = environment.agent_with(&server);
    let metadata = Map::from_iter([("note".to_owned(), json!("mine"))]);
    let (source, _) = agent.threads().ensure_thread(None, metadata, IfExists::Raise).await.unwrap();
    let thread = source.thread_id;
    run_request(&agent, thread, &message_request("h1", "One.")).await;
    run_request(&agent, thread, &message_request("h2", "Two.")).await;
    let copy = agent.threads().copy_thread(thread).await.unwrap();
    assert_eq!((copy.status, &copy.metadata["note"]), (ThreadStatus::Idle, &json!("mine")));
    let (original, copied) = (
        agent.threads().state(thread).await.unwrap().unwrap(),
        agent.threads().state(copy.thread_id).await.unwrap().unwrap(),
    );
    assert_eq!(message_ids_and_texts(&copied), message_ids_and_texts(&original));
    let runs = |state: &agent::ThreadSnapshot| {
        state.messages.iter().map(|message| message.run_id).collect::<Vec<_>>()
    };
    assert_eq!(runs(&copied), runs(&original), "each message keeps its run id");
    assert_eq!((copied.origin, copied.next.len(), copied.parent_id.as_ref()), (StateOrigin::Change, 0, None));
    assert_eq!(all_states(&agent, copy.thread_id).await, std::slice::from_ref(&copied));
    run_request(&agent, copy.thread_id, &message_request("h3", "Three.")).await;
    assert_eq!(agent.threads().state(copy.thread_id).await.unwrap().unwrap().messages.len(), 6);
    assert_eq!(agent.threads().state(thread).await.unwrap().unwrap(), original);
    let created = agent.threads().events(copy.thread_id).await.unwrap();
    let created = created.iter().find(|event| event.kind() == Some(EventType::ThreadCreated)).unwrap();
    assert_eq!(created.content_value()["parent_thread_id"], json!(thread));
    let empty = agent.threads().create(None).await.unwrap().thread_id;
    let copy = agent.threads().copy_thread(empty).await.unwrap();
    assert_eq!(agent.threads().state(copy.thread_id).await.unwrap(), None);
    assert!(agent.threads().copy_thread(ThreadId::generate()).await.is_err());
}

#[tokio::test]
async fn messages_hidden_by_a_rewind_stay_in_past_checkpoints() {
    let (environment, server) = (TestEnvironment::new(), answering_server("Hello."));
    let agent = environment.agent_with(&server);
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    run_request(&agent, thread, &message_request("h1", "One.")).await;
    let first = agent.threads().state(thread).await.unwrap().unwrap();
    run_request(&agent, thread, &message_request("h2", "Two.")).await;
    let second = agent.threads().state(thread).await.unwrap().unwrap();
    agent.threads().rewind(thread, first.messages[1].seq).await.unwrap();
    let head = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!((head.origin, &head.messages, head.next.len()), (StateOrigin::Rewind, &first.messages, 0));
    assert_eq!(
        agent.threads().state_at(thread, second.checkpoint_id).await.unwrap().messages,
        second.messages
    );
    // A client that still shows the hidden messages continues from their checkpoint.
    let continuation =
        RunRequest { checkpoint_id: Some(second.checkpoint_id), ..message_request("h3", "Three.") };
    let end = run_request(&agent, thread, &continuation).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let restored = agent.threads().state(thread).await.unwrap().unwrap();
    assert_eq!(message_texts(&restored), ["One.", "Hello.", "Two.", "Hello.", "Three.", "Hello."]);
    assert_eq!(
        message_ids_and_texts(&restored)[..4],
        message_ids_and_texts(&second),
        "the messages keep their ids"
    );
    let runs: Vec<_> = restored.messages[..4].iter().map(|message| message.run_id).collect();
    assert_eq!(runs, second.messages.iter().map(|message| message.run_id).collect::<Vec<_>>());
    assert_eq!(
        agent.threads().cost_report(thread).await.unwrap().models[0].calls,
        3,
        "copied messages add no cost"
    );
    let sent = server.requests().last().unwrap().body["messages"].clone();
    assert_eq!(sent.as_array().unwrap().len(), 5, "the model sees the whole branch: {sent}");
    let stored = agent.store().checkpoints(thread, None, 100, SupersededVisibility::Shown).await.unwrap();
    assert!(stored.len() > 6);
}
