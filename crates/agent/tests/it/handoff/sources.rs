//! Tests of what a proposal says about its sources: what became of each message, which topics it does not mention, and which
//! calls wait for an approval.

use agent::{ApprovalPolicy, HandoffRequestOptions, count_message_uses};
use protocol::RunStatus;
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::pending_handoff;
use crate::environment::{
    DRAFT, DRAFT_PROMPT, TEST_MODEL, TestEnvironment, decisions, drafting_server, unwatched,
};

#[tokio::test]
async fn m5_the_uses_of_messages_are_disjoint_and_complete() {
    let environment = TestEnvironment::new();
    let (_, offline) = pending_handoff(environment.agent(), &environment).await;
    let environment = TestEnvironment::new();
    let (_, drafted) = pending_handoff(environment.agent_with(&drafting_server()), &environment).await;
    for pending in [&offline, &drafted] {
        let coverage = &pending.proposal.summary_json.coverage;
        let lists =
            [&coverage.quoted, &coverage.represented, &coverage.read, &coverage.scanned, &coverage.unread];
        let mut covered: Vec<u64> =
            lists.into_iter().flatten().flat_map(|(first, last)| *first..=*last).collect();
        covered.sort_unstable();
        assert_eq!(covered, (coverage.first_seq..=coverage.last_seq).collect::<Vec<_>>());
        let uses = count_message_uses(coverage).unwrap();
        assert_eq!(
            uses.quoted + uses.represented + uses.read + uses.scanned + uses.unread,
            coverage.messages
        );
    }
    assert!(offline.proposal.summary_json.coverage.read.is_empty(), "no model has read anything");
    // The rule and the last request are carried over in the user's words, and the next step refers to message 6. The model
    // received all texts and calls; of the results, it received facts only.
    let coverage = &drafted.proposal.summary_json.coverage;
    assert_eq!((&coverage.quoted, &coverage.represented), (&vec![(1, 1), (8, 8)], &vec![(6, 6)]));
    assert_eq!((&coverage.read, &coverage.scanned), (&vec![(2, 3), (5, 5)], &vec![(4, 4), (7, 7)]));
}

#[tokio::test]
async fn m4_the_largest_topics_without_a_reference_are_listed_and_can_be_added() {
    let environment = TestEnvironment::new();
    let long = "The palette has twelve colours, each with a name and a use. ".repeat(12);
    let replies = [
        ScriptedReply::text(DRAFT.replace("[1]", "[2]").replace("[6]", "[2]"))
            .when_body_contains(DRAFT_PROMPT)
            .with_repeat(),
        ScriptedReply::text(long).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = environment.agent_with(&server);
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for prompt in ["Fix the last row.", "Choose colours for the chart.", "Thanks, go on with the importer."] {
        agent.runs().send_message(thread, prompt, &frames, &cancel).await.unwrap();
    }
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let topics = &pending.proposal.summary_json.notes.topics;
    let requests: Vec<&str> = topics.iter().map(|topic| topic.request.as_str()).collect();
    assert_eq!(requests, ["Choose colours for the chart."], "{topics:?}");
    assert!(topics[0].messages == 2 && topics[0].tokens > 100, "{topics:?}");
    assert!(
        topics[0]
            .item_text
            .starts_with("Asked earlier: Choose colours for the chart.\nAnswered: The palette")
    );
    let action = json!({"name": "handoff_summary", "args": {"add": {"topics": [0]}}});
    let answer = json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &decisions(&answer), &frames, &cancel).await.unwrap();
    let added = decided.next.unwrap().proposal;
    assert!(
        added.package_md.contains(
            "- Asked earlier: Choose colours for the chart.\n- Answered: The palette has twelve colours, each with a name and \
             a use."
        ),
        "{}",
        added.package_md
    );
    let item = added.summary_json.body.iter().find(|item| item.refs == [topics[0].first_seq]).unwrap();
    assert_eq!(item.text, topics[0].item_text, "the text that was shown is added");
    assert!(added.summary_json.notes.topics.is_empty());
    let represented = &added.summary_json.coverage.represented;
    assert!(represented.iter().any(|(first, last)| (*first..=*last).contains(&topics[0].first_seq)));
}

#[tokio::test]
async fn m4_the_topics_are_listed_anew_when_one_is_added() {
    let environment = TestEnvironment::new();
    let long = "The palette has twelve colours, each with a name and a use. ".repeat(12);
    let replies = [
        ScriptedReply::text(DRAFT.replace("[1]", "[2]").replace("[6]", "[2]"))
            .when_body_contains(DRAFT_PROMPT)
            .with_repeat(),
        ScriptedReply::text(long).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = environment.agent_with(&server);
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let charts = ["red", "green", "blue", "grey", "pink", "brown", "black"];
    let prompts = charts.map(|colour| format!("Draw the {colour} chart."));
    for prompt in
        ["Fix the last row."].into_iter().chain(prompts.iter().map(String::as_str)).chain(["Thanks, go on."])
    {
        agent.runs().send_message(thread, prompt, &frames, &cancel).await.unwrap();
    }
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let listed = |proposal: &protocol::Proposal| -> Vec<String> {
        proposal.summary_json.notes.topics.iter().map(|topic| topic.request.clone()).collect()
    };
    let shown = listed(&pending.proposal);
    assert_eq!(shown.len(), 5, "{shown:?}");
    let action = json!({"name": "handoff_summary", "args": {"add": {"topics": [0, 1, 2, 3, 4]}}});
    let answer = json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &decisions(&answer), &frames, &cancel).await.unwrap();
    let added = decided.next.unwrap().proposal;
    let left: Vec<String> = prompts.iter().filter(|prompt| !shown.contains(prompt)).cloned().collect();
    let mut remaining = listed(&added);
    remaining.sort_by_key(|request| prompts.iter().position(|prompt| prompt == request));
    assert_eq!(remaining, left, "the next topics are listed, and the added ones are not");
}

#[tokio::test]
async fn m7_calls_that_wait_for_an_approval_are_carried_over() {
    let environment = TestEnvironment::new();
    let call = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([draft, call])).unwrap();
    environment.configure(&server);
    let settings =
        agent::AgentSettings { approval_policy: ApprovalPolicy::Ask, ..environment.settings(TEST_MODEL) };
    let agent = agent::Agent::with_store(settings, environment.store()).unwrap();
    let (frames, cancel) = unwatched();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = agent.runs().send_message(thread, "Write it.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let pending =
        agent.handoffs().request(thread, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let carry = &pending.proposal.summary_json.carried;
    assert_eq!(carry.pending_approvals, [r#"write_file: {"path":"new.txt","content":"words"}"#]);
    let section = "### Calls that wait for approval\n- write_file: {";
    assert!(pending.proposal.package_md.contains(section), "{}", pending.proposal.package_md);
    let waiting = agent.runs().pending_interrupts(thread).await.unwrap();
    assert_eq!(waiting.len(), 2, "the call still waits in the parent");
}

#[tokio::test]
async fn the_response_id_of_the_provider_is_the_model_run_id_beside_the_run() {
    let environment = TestEnvironment::new();
    let (_, pending) = pending_handoff(environment.agent_with(&drafting_server()), &environment).await;
    let summary = &pending.proposal.summary_json;
    assert!(summary.model_run_id.as_deref().is_some_and(|id| id.starts_with("msg_")), "{summary:?}");
    assert_eq!(summary.run_id, pending.handoff.run_id);
    let environment = TestEnvironment::new();
    let (_, offline) = pending_handoff(environment.agent(), &environment).await;
    let summary = &offline.proposal.summary_json;
    assert!(summary.model_run_id.is_none() && summary.run_id.is_some());
}
