//! Tests of conversations that do not fit into one drafting call: the model summarizes each part once, and every later
//! draft uses the stored summaries.

use agent::{
    Agent, ApprovalPolicy, CancellationToken, Error, Frame, FrameSender, HandoffError, HandoffRequestOptions,
    PendingHandoff,
};
use journal::{EventQuery, PAGE_ROWS_MAX};
use protocol::event::body::{ModelCallPurpose, ModelCalled};
use protocol::{Category, Event, EventType, ThreadId};
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::environment::{
    DRAFT, DRAFT_PROMPT, LONG_INPUT_CONFIG, PART_PROMPT, TestEnvironment, decisions, import_long_session,
    long_session, notes_of_parts, unwatched,
};

/// Returns the drafting reply.
fn draft_reply() -> ScriptedReply {
    ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT).with_repeat()
}

/// Returns a server that answers parts with notes and drafts with [`DRAFT`]; the replies in `first` come before them.
fn server_with(first: impl IntoIterator<Item = ScriptedReply>) -> ScriptedServer {
    let notes = ScriptedReply::text(notes_of_parts()).when_body_contains(PART_PROMPT).with_repeat();
    let replies = first.into_iter().chain([notes, draft_reply()]);
    ScriptedServer::start(Script::new(replies.collect::<Vec<_>>())).unwrap()
}

/// Returns the agent, with a small budget for the input of a draft, and its imported thread of 80 messages.
async fn long_thread(environment: &TestEnvironment, server: &ScriptedServer) -> (Agent, ThreadId) {
    let agent = environment.agent_with_policy(server, (LONG_INPUT_CONFIG, ApprovalPolicy::default()));
    let thread = import_long_session(environment, &agent, 80).await.unwrap();
    (agent, thread)
}

/// Requests a handoff.
async fn request(agent: &Agent, thread: ThreadId) -> PendingHandoff {
    let (frames, cancel) = unwatched();
    agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap()
}

/// Decides the handoff with one decision.
async fn decide(agent: &Agent, pending: &PendingHandoff, decision: Value) -> Option<PendingHandoff> {
    let (frames, cancel) = unwatched();
    let decision = decisions(&json!({"decisions": [decision]}).to_string());
    agent.handoffs().decide(pending.handoff.handoff_id, &decision, &frames, &cancel).await.unwrap().next
}

/// Returns the bodies of the requests for parts.
fn part_requests(server: &ScriptedServer) -> Vec<String> {
    let bodies = server.requests().into_iter().map(|request| request.body.to_string());
    bodies.filter(|body| body.contains(PART_PROMPT)).collect()
}

/// Returns the body of the newest request for a draft.
fn draft_request(server: &ScriptedServer) -> String {
    let bodies = server.requests().into_iter().rev().map(|request| request.body.to_string());
    bodies.into_iter().find(|body| body.contains(DRAFT_PROMPT)).unwrap()
}

/// Returns the thread's events about calls for parts.
async fn part_events(agent: &Agent, thread: ThreadId) -> Vec<Event> {
    let events = agent.threads().events(thread).await.unwrap();
    let is_part = |event: &Event| {
        event.kind() == Some(EventType::ModelCalled) && event.content_value()["purpose"] == "handoff_part"
    };
    events.into_iter().filter(is_part).collect()
}

#[tokio::test]
async fn each_part_of_a_long_conversation_is_summarized_once_before_the_draft() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let pending = request(&agent, thread).await;
    assert_eq!(
        (pending.problem.as_deref(), pending.proposal.summary_json.model.as_str()),
        (None, "anthropic/claude-test")
    );
    let parts = part_requests(&server);
    assert!((3..=6).contains(&parts.len()), "{}", parts.len());
    assert_eq!(server.call_count(), parts.len() + 1);
    // Every message is in exactly one part, or in the newest messages of the draft itself.
    let draft = draft_request(&server);
    for (seq, text) in long_session(80) {
        let Some(marker) = text.split_whitespace().find(|word| word.starts_with("topic-")) else { continue };
        let holders = parts.iter().filter(|part| part.contains(marker)).count();
        assert!(holders == 1 || holders == 0 && draft.contains(marker), "{seq} {marker}: {holders}");
    }
    // A call is in the same part as its result.
    for part in &parts {
        assert_eq!(part.matches("make target").count(), part.matches("built target").count(), "{part}");
    }
    assert!(draft.contains("<summarized_parts>\\nPart 1, [1] to ["), "{draft}");
    assert!(draft.contains("[1] note 1"), "{draft}");
    // References to messages of a part are true, and the messages count as read.
    let summary = &pending.proposal.summary_json;
    assert!(summary.body.iter().all(|item| item.false_refs.is_empty()), "{:?}", summary.body);
    assert!(summary.coverage.scanned.is_empty(), "{:?}", summary.coverage);
    let cost = agent.handoffs().cost(&pending).await.unwrap();
    assert_eq!(cost.draft_tokens, 15 * server.call_count() as u64);
    assert_eq!(summary.tokens_used, cost.draft_tokens);
    let events = part_events(&agent, thread).await;
    assert_eq!(events.len(), parts.len());
    assert!(
        events
            .iter()
            .all(|event| event.content_value()["trace"]["name"] == "generate_handoff_summary_iter_0")
    );
}

#[tokio::test]
async fn a19_calls_for_parts_and_drafts_are_trace_events_with_their_tokens_and_no_messages() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let message_rows = async || {
        let query = EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, PAGE_ROWS_MAX) };
        agent.store().events(thread, query).await.unwrap()
    };
    let before = message_rows().await;
    request(&agent, thread).await;
    let (mut purposes, mut tokens) = (Vec::new(), 0);
    for event in agent.threads().events(thread).await.unwrap() {
        let Ok(called) = event.body::<ModelCalled>() else { continue };
        assert_eq!(event.category, Category::Trace.as_str());
        assert!(event.run_id.is_some(), "the call belongs to the run that needed it");
        tokens += called.usage.unwrap().total_tokens();
        purposes.push(called.purpose);
    }
    let count = |purpose: ModelCallPurpose| purposes.iter().filter(|called| **called == purpose).count();
    let parts = part_requests(&server).len();
    assert_eq!(
        (count(ModelCallPurpose::HandoffPart), count(ModelCallPurpose::HandoffSummary), purposes.len()),
        (parts, 1, parts + 1)
    );
    assert_eq!(tokens, 15 * server.call_count() as u64);
    assert_eq!(message_rows().await, before, "no page of messages has another row");
}

#[tokio::test]
async fn a_refinement_a_later_handoff_and_another_process_pay_for_no_part_again() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let pending = request(&agent, thread).await;
    let parts = part_requests(&server).len();
    let refined = decide(
        &agent,
        &pending,
        json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": {"feedback": "Shorter."}}}),
    );
    let refined = refined.await.unwrap();
    assert_eq!((part_requests(&server).len(), server.call_count()), (parts, parts + 2));
    assert!(draft_request(&server).contains("[1] note 1"), "the refinement gets the stored summaries");
    assert!(decide(&agent, &refined, json!({"type": "reject"})).await.is_none());
    drop(agent);
    let agent = environment.agent_with_policy(&server, (LONG_INPUT_CONFIG, ApprovalPolicy::default()));
    let frames = FrameSender::default();
    let estimate = agent.handoffs().estimate_parts(thread, HandoffRequestOptions::default(), &frames);
    assert_eq!(estimate.await.unwrap().calls, 0);
    request(&agent, thread).await;
    assert_eq!((part_requests(&server).len(), server.call_count()), (parts, parts + 3));
}

#[tokio::test]
async fn the_number_of_calls_and_their_size_are_announced_before_the_first_one() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let options = HandoffRequestOptions::default;
    let estimate = agent.handoffs().estimate_parts(thread, options(), &FrameSender::default()).await.unwrap();
    assert_eq!(server.call_count(), 0);
    let (frames, mut subscription) = FrameSender::channel();
    agent.handoffs().request(thread, options(), &frames, &CancellationToken::new()).await.unwrap();
    drop(frames);
    let mut lines = Vec::new();
    while let Some(agent::SubscriptionItem::Frame(_, frame)) = subscription.next().await {
        match &*frame {
            Frame::Notice { text } => lines.push(text.clone()),
            Frame::Progress { what, done, total } if what.starts_with("summarize") => {
                lines.push(format!("{what}: {done} of {total:?}"));
            }
            _ => {}
        }
    }
    let calls = part_requests(&server).len();
    assert_eq!((estimate.calls, lines.len()), (calls as u64, calls + 1), "{lines:?}");
    assert_eq!(Some(&lines[0]), estimate.notice().as_ref());
    assert!(
        lines[0].starts_with(&format!("This conversation needs {calls} more calls of about ")),
        "{lines:?}"
    );
    assert_eq!(
        lines[1],
        format!("summarize part 1 of {calls} with anthropic/claude-test: 0 of Some({calls})")
    );
    assert!((3_000..5_500).contains(&estimate.tokens_per_call), "{estimate:?}");
}

#[tokio::test]
async fn a_part_that_the_model_cannot_summarize_is_represented_by_facts_and_tried_again_later() {
    let refusal = ScriptedReply::text("I cannot help with that.").when_body_contains(PART_PROMPT);
    let (environment, server) = (TestEnvironment::new(), server_with([refusal]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let pending = request(&agent, thread).await;
    let parts = &pending.proposal.summary_json.notes.unsummarized_parts;
    assert_eq!((pending.problem.as_deref(), parts.len(), parts[0].first_seq), (None, 1, 1), "{parts:?}");
    assert!(parts[0].reason.contains("no line of it refers to a message"), "{parts:?}");
    assert_eq!(pending.proposal.summary_json.title, "Importer drops the last row", "the draft goes on");
    assert!(!pending.proposal.summary_json.coverage.scanned.is_empty(), "the part was not read");
    let draft = draft_request(&server);
    assert!(draft.contains("Part 1, [1] to [") && !draft.contains("[1] note 1"), "{draft}");
    let parts = part_requests(&server).len();
    decide(&agent, &pending, json!({"type": "reject"})).await;
    let second = request(&agent, thread).await;
    assert_eq!((second.problem, second.proposal.summary_json.notes.unsummarized_parts.len()), (None, 0));
    assert_eq!(part_requests(&server).len(), parts + 1, "only the failed part is read again");
}

#[tokio::test]
async fn two_failed_calls_in_a_row_end_the_calls_for_parts() {
    let error = r#"{"type":"error","error":{"type":"invalid_request_error","message":"too large"}}"#;
    let failing = ScriptedReply::status(400, error).when_body_contains(PART_PROMPT).with_repeat();
    let (environment, server) = (TestEnvironment::new(), server_with([failing]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let pending = request(&agent, thread).await;
    assert_eq!((part_requests(&server).len(), server.call_count()), (2, 3));
    let parts = &pending.proposal.summary_json.notes.unsummarized_parts;
    assert!(parts.len() > 2 && parts[0].reason.contains("too large"), "{parts:?}");
    assert_eq!(parts[2].reason, "the calls before it failed");
    let action = json!({"name": "handoff_summary", "args": {"title": "Importer", "save_draft": true}});
    let edited = decide(&agent, &pending, json!({"type": "edit", "edited_action": action})).await.unwrap();
    assert_eq!(&edited.proposal.summary_json.notes.unsummarized_parts, parts, "an edit keeps the note");
}

#[tokio::test]
async fn a_draft_that_is_stopped_between_two_parts_keeps_the_summaries_it_paid_for() {
    let gate = Some(Gate { name: "never".to_owned(), at: GatePosition::Start });
    let notes = || ScriptedReply::text(notes_of_parts()).when_body_contains(PART_PROMPT);
    let waiting = ScriptedReply { gate, ..notes() };
    let (environment, server) = (TestEnvironment::new(), server_with([notes(), waiting]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let (frames, cancel) = unwatched();
    let options = HandoffRequestOptions::default();
    let (stopped, ()) = tokio::join!(agent.handoffs().request(thread, options, &frames, &cancel), async {
        server.wait_for_calls(2).await;
        cancel.cancel();
    });
    assert!(matches!(stopped, Err(Error::Handoff(HandoffError::Stopped(_)) | Error::Run(_))), "{stopped:?}");
    let parts = agent
        .handoffs()
        .estimate_parts(thread, HandoffRequestOptions::default(), &frames)
        .await
        .unwrap()
        .calls;
    request(&agent, thread).await;
    assert_eq!(part_requests(&server).len() as u64, 2 + parts, "the first part is not read again");
    assert_eq!(part_events(&agent, thread).await.len() as u64, 1 + parts);
}

#[tokio::test]
async fn a_preview_of_a_long_conversation_stores_nothing() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let (agent, thread) = long_thread(&environment, &server).await;
    let before = agent.threads().events(thread).await.unwrap().len();
    let (frames, cancel) = unwatched();
    let options = HandoffRequestOptions { preview_only: true, ..HandoffRequestOptions::default() };
    let preview = agent.handoffs().preview(thread, options, &frames, &cancel).await.unwrap();
    assert!(part_requests(&server).len() >= 3);
    assert_eq!(preview.draft_usage.unwrap().total_tokens(), 15 * server.call_count() as u64);
    assert_eq!(agent.threads().events(thread).await.unwrap().len(), before);
}

#[tokio::test]
async fn a_setting_turns_the_calls_for_parts_off() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let config = format!("{LONG_INPUT_CONFIG}max_part_calls = 0\n");
    let agent = environment.agent_with_policy(&server, (&config, ApprovalPolicy::default()));
    let thread = import_long_session(&environment, &agent, 80).await.unwrap();
    let pending = request(&agent, thread).await;
    assert_eq!(server.call_count(), 1);
    assert!(!draft_request(&server).contains("summarized_parts"));
    assert!(!pending.proposal.summary_json.coverage.scanned.is_empty());
}

#[tokio::test]
async fn a_conversation_beyond_the_limit_of_calls_is_read_from_its_newest_part_back() {
    let (environment, server) = (TestEnvironment::new(), server_with([]));
    let config = format!("{LONG_INPUT_CONFIG}max_part_calls = 2\n");
    let agent = environment.agent_with_policy(&server, (&config, ApprovalPolicy::default()));
    let thread = import_long_session(&environment, &agent, 80).await.unwrap();
    let pending = request(&agent, thread).await;
    assert_eq!((part_requests(&server).len(), server.call_count()), (2, 3));
    let draft = draft_request(&server);
    assert!(draft.contains(" oldest messages were not read.") && !draft.contains("[1] note 1"), "{draft}");
    let coverage = &pending.proposal.summary_json.coverage;
    assert!(coverage.scanned.first().is_some_and(|(first, _)| *first < 10), "{coverage:?}");
}
