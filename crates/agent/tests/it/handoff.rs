//! Tests of handoffs through the agent's public interface: the proposal that is shown equals the stored text and the text
//! that the child thread's instructions contain.

mod agent_requested;
mod concurrency;
mod edited_drafts;
mod long_input;
mod merging;
mod pathological;
mod refine;
mod review;
mod sources;
mod stored_state;
mod transcript;
mod updates;

use agent::{Agent, Error, HandoffError, HandoffRequestOptions, PendingHandoff, RunError};
use journal::HandoffFilter;
use protocol::{HandoffStatus, ThreadId};
use runtime::{Frame, FrameSender, SubscriptionItem};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{
    CrashingStore, DRAFT, DRAFT_PROMPT, SESSION_JSON, TEST_MODEL, TestEnvironment, answering_server,
    approval, decisions, drafting_server, import_session, unwatched,
};

/// Imports the session and requests a handoff of its thread, which then waits for a decision.
async fn pending_handoff(agent: Agent, environment: &TestEnvironment) -> (Agent, PendingHandoff) {
    let (frames, cancel) = unwatched();
    let parent = import_session(environment, &agent).await.unwrap();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    (agent, pending)
}

/// Accepts the proposal unchanged and returns the child thread.
async fn accept_handoff(agent: &Agent, pending: &PendingHandoff) -> ThreadId {
    let (frames, cancel) = unwatched();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(pending), &frames, &cancel).await.unwrap();
    decided.child_thread_id.unwrap()
}

#[tokio::test]
async fn m1_the_shown_proposal_is_stored_and_injected_byte_for_byte() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let parent = import_session(&environment, &agent).await.unwrap();
    let shown =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    drop(agent);
    // A new agent decides, and drafts nothing again.
    let agent = environment.agent_with(&server);
    let again =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    assert_eq!(again.proposal, shown.proposal);
    assert!(!again.is_new);
    let decided =
        agent.handoffs().decide(shown.handoff.handoff_id, &approval(&shown), &frames, &cancel).await.unwrap();
    assert_eq!(server.call_count(), 1, "the model was called once for one iteration");
    assert_eq!(decided.handoff.accepted_sha256.as_deref(), Some(shown.proposal.summary_sha256.as_str()));
    let block = memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    assert_eq!(block.trim(), shown.proposal.package_md.trim());
    let child = decided.child_thread_id.unwrap();
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    let request = server.requests()[1].body["system"].to_string();
    let injected = serde_json::to_string(shown.proposal.package_md.trim()).unwrap();
    assert!(request.contains(injected.trim_matches('"')), "{request}\n{injected}");
}

/// Returns the text between the tags of the handed-over summary in a request, as the model reads it.
fn injected_summary(request: &serde_json::Value) -> String {
    let system = &request["system"];
    let blocks = system.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    let text = blocks.chain(system.as_str()).collect::<String>();
    let (_, after) = text.split_once("<current_thread_summary>\n").expect("the request has a summary");
    after.split_once("\n</current_thread_summary>").expect("the summary ends").0.to_owned()
}

#[tokio::test]
async fn m1_the_injected_text_with_its_facts_and_goal_has_the_accepted_hash_in_two_generations() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    let mut thread = import_session(&environment, &agent).await.unwrap();
    for (goal, request_state) in
        [(Some("Port the importer to streams"), "still open"), (None, "answered; not to be done again")]
    {
        let options =
            HandoffRequestOptions { goal: goal.map(str::to_owned), ..HandoffRequestOptions::default() };
        let pending = agent.handoffs().request(thread, options, &frames, &cancel).await.unwrap();
        let md = &pending.proposal.package_md;
        for part in ["### Goal of the new thread\n- Port the importer to streams", "- src/import.rs"] {
            assert!(md.contains(part), "{part}: {md}");
        }
        assert!(md.contains(&format!("### Last request ({request_state})")), "{md}");
        thread = accept_handoff(&agent, &pending).await;
        agent.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
        let sent = injected_summary(&server.requests().last().unwrap().body);
        let accepted = agent.handoffs().get(pending.handoff.handoff_id).await.unwrap().accepted_sha256;
        assert_eq!(Some(protocol::sha256_hex(&sent)), accepted, "{sent}");
    }
}

#[tokio::test]
async fn a_setting_decides_how_long_a_child_is_sent_its_summary() {
    for (keep, turns_with_summary) in [("first_turn", 1), ("until_used", 5), ("thread", 6)] {
        let environment = TestEnvironment::new();
        let config = format!("[handoff]\nkeep = \"{keep}\"\n");
        let server = drafting_server();
        let (frames, cancel) = unwatched();
        let agent = environment.agent_with_policy(&server, (&config, agent::ApprovalPolicy::default()));
        let (agent, pending) = pending_handoff(agent, &environment).await;
        let child = accept_handoff(&agent, &pending).await;
        for turn in 1..=6 {
            agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
            let request = server.requests().last().unwrap().body.to_string();
            let has_summary = request.contains("Importer drops the last row");
            assert_eq!(has_summary, turn <= turns_with_summary, "{keep}, turn {turn}");
        }
    }
}

#[tokio::test]
async fn g12_the_block_is_cleared_after_the_first_turn_and_the_child_keeps_its_summary() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let id = pending.handoff.handoff_id;
    let child = accept_handoff(&agent, &pending).await;
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    agent.runs().send_message(child, "And now?", &frames, &cancel).await.unwrap();
    let requests = server.requests();
    let title = "Importer drops the last row";
    assert!(requests[1].body["system"].to_string().contains(title));
    assert!(requests[2].body["system"].to_string().contains(title), "the child keeps its summary");
    assert_eq!(
        memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap(),
        "None recorded yet."
    );
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Cleaned);
}

#[tokio::test]
async fn m7_the_facts_reach_the_child_although_the_model_drafts_garbage() {
    let environment = TestEnvironment::new();
    let garbage = ScriptedReply::text("}{ no").when_body_contains(DRAFT_PROMPT);
    let server =
        ScriptedServer::start(Script::new([garbage, ScriptedReply::text("Fine.").with_repeat()])).unwrap();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let child = accept_handoff(&agent, &pending).await;
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    agent.runs().send_message(child, "And now?", &frames, &cancel).await.unwrap();
    let systems: Vec<String> =
        server.requests()[1..].iter().map(|request| request.body["system"].to_string()).collect();
    for fact in [
        "### Last request (still open)\\n- Good. Now add a test for a file with one row only",
        "### Files changed\\n- src/import.rs",
    ] {
        assert!(pending.proposal.package_md.contains(&fact.replace("\\n", "\n")), "{fact}");
        assert!(systems.iter().all(|system| system.contains(fact)), "{fact}: {systems:?}");
    }
}

#[tokio::test]
async fn m7_a_draft_by_a_model_has_the_names_in_use_that_it_does_not_contain() {
    let session = SESSION_JSON.replace("The loop stops", "The loop in `row_reader` stops");
    let with_name = DRAFT.replace("The loop is mended", "The loop in `row_reader` is mended");
    for (draft, names) in [(DRAFT, &["row_reader"][..]), (&with_name, &[])] {
        let environment = TestEnvironment::new();
        let path = environment.folder().join("session.json");
        std::fs::write(&path, &session).unwrap();
        let server = answering_server(draft);
        let agent = environment.agent_with(&server);
        let (frames, cancel) = unwatched();
        let report = agent.threads().import(&[path], &frames, &cancel).await.unwrap();
        let (parent, options) = (report.threads[0].thread_id, HandoffRequestOptions::default());
        let pending = agent.handoffs().request(parent, options, &frames, &cancel).await.unwrap();
        let summary = &pending.proposal.summary_json;
        assert_ne!(summary.model, protocol::OFFLINE_SUMMARY_MODEL);
        assert_eq!(summary.carried.in_use, names, "the changed file is among the files");
        let md = &pending.proposal.package_md;
        assert_eq!(md.contains("\n### In use\n- row_reader\n"), !names.is_empty(), "{md}");
    }
}

#[tokio::test]
async fn f3_m3_another_thread_never_sees_the_summary_of_a_pending_child() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    agent.handoffs().decide(pending.handoff.handoff_id, &approval(&pending), &frames, &cancel).await.unwrap();
    let other = agent.threads().create(None).await.unwrap();
    agent.runs().send_message(other.thread_id, "Hello.", &frames, &cancel).await.unwrap();
    assert!(!server.requests()[1].body.to_string().contains("drops the last row"));
    assert!(
        environment.read_agent_md().contains("drops the last row"),
        "the block stays until the child's first turn"
    );
}

#[tokio::test]
async fn g13_a_failed_first_turn_does_not_clear_the_summary() {
    let environment = TestEnvironment::new();
    let draft = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let refused = ScriptedReply::status(400, r#"{"error":{"message":"bad"}}"#);
    let server = ScriptedServer::start(Script::new([draft, refused, ScriptedReply::text("Done.")])).unwrap();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let id = pending.handoff.handoff_id;
    let child = accept_handoff(&agent, &pending).await;
    let end = agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, protocol::RunStatus::Error);
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
    agent.runs().send_message(child, "Again.", &frames, &cancel).await.unwrap();
    assert!(server.requests()[2].body["system"].to_string().contains("drops the last row"));
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Cleaned);
}

#[tokio::test]
async fn g15_decline_and_preview_write_nothing_outside_the_journal() {
    for decision in [r#"{"type":"reject","message":"later"}"#, r#"{"type":"preview"}"#] {
        let environment = TestEnvironment::new();
        let (frames, cancel) = unwatched();
        let agent = environment.agent();
        std::fs::create_dir_all(environment.agent_md().parent().unwrap()).unwrap();
        std::fs::write(environment.agent_md(), "# Mine\n").unwrap();
        let parent = import_session(&environment, &agent).await.unwrap();
        let before = agent.store().thread(parent).await.unwrap().unwrap();
        let pending = agent
            .handoffs()
            .request(parent, HandoffRequestOptions::default(), &frames, &cancel)
            .await
            .unwrap();
        let decisions = decisions(&format!(r#"{{"decisions":[{decision}]}}"#));
        let decided =
            agent.handoffs().decide(pending.handoff.handoff_id, &decisions, &frames, &cancel).await.unwrap();
        assert!(!decided.handoff.status.is_pending());
        assert_eq!(decided.child_thread_id, None);
        assert_eq!(environment.read_agent_md(), "# Mine\n");
        let after = agent.store().thread(parent).await.unwrap().unwrap();
        assert_eq!((before.metadata, before.name), (after.metadata, after.name));
        let children = journal::ThreadFilter { parent_id: Some(parent), limit: 5, ..Default::default() };
        assert_eq!(agent.store().threads(children).await.unwrap(), []);
        // Another handoff can be requested afterwards.
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    }
}

#[tokio::test]
async fn g20_the_first_decision_wins_and_the_second_gets_an_error_with_the_outcome() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (first, second) = (environment.agent(), environment.agent());
    let parent = import_session(&environment, &first).await.unwrap();
    let pending =
        first.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let id = pending.handoff.handoff_id;
    first.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    let late = second
        .handoffs()
        .decide(id, &decisions(r#"{"decisions":[{"type":"reject"}]}"#), &frames, &cancel)
        .await;
    assert!(
        matches!(
            late,
            Err(Error::Handoff(HandoffError::AlreadyDecided { status: HandoffStatus::Seeded, .. }))
        ),
        "{late:?}"
    );
}

#[tokio::test]
async fn g3_an_invalid_decision_leaves_the_handoff_pending() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent(), &environment).await;
    let id = pending.handoff.handoff_id;
    for answer in [
        r#"{"decisions":[]}"#,
        r#"{"decisions":[{"type":"approve"},{"type":"approve"}]}"#,
        r#"{"decisions":[{"type":"approve","summary_sha256":"00"}]}"#,
        r#"{"decisions":[{"type":"approve","args":{"summary_md":"  "}}]}"#,
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"other","args":{}}}]}"#,
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"feedback":" "}}}]}"#,
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"summary_json":{"title":"T"}}}}]}"#,
    ] {
        let refused = agent.handoffs().decide(id, &decisions(answer), &frames, &cancel).await;
        assert!(
            matches!(refused, Err(Error::Run(RunError::Runtime(runtime::Error::Rejected { .. })))),
            "{answer}: {refused:?}"
        );
        assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::AwaitingDecision);
    }
}

#[tokio::test]
async fn g1_an_edited_text_is_stored_and_injected() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent(), &environment).await;
    let text = "**My title**\nWhere it stands.\n\n### Objective\n- Fix the importer.\n\n### Next steps\n- Write the test.\n";
    let args = serde_json::json!({"decisions": [{"type": "approve", "args": {"summary_md": text}}]});
    let decided = agent
        .handoffs()
        .decide(pending.handoff.handoff_id, &decisions(&args.to_string()), &frames, &cancel)
        .await
        .unwrap();
    assert_eq!(decided.proposal.summary_json.title, "My title");
    assert_eq!(decided.proposal.summary_json.body.len(), 2);
    assert_eq!(decided.proposal.package_md, text.trim());
    assert_eq!(
        memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap(),
        text.trim()
    );
    let child = agent.store().thread(decided.child_thread_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(child.name.as_deref(), Some("My title"));
}

#[tokio::test]
async fn g4_feedback_leads_to_another_draft_with_the_previous_one_in_its_prompt() {
    let environment = TestEnvironment::new();
    let first = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let better = DRAFT.replace("Importer drops the last row", "Importer: last row and a test");
    let second = ScriptedReply::text(better).when_body_contains("<feedback>");
    let server = ScriptedServer::start(Script::new([first, second])).unwrap();
    let (frames, cancel) = unwatched();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let feedback = decisions(
        r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"feedback":"Name the test </feedback>."}}}]}"#,
    );
    let decided =
        agent.handoffs().decide(pending.handoff.handoff_id, &feedback, &frames, &cancel).await.unwrap();
    let next = decided.next.unwrap();
    assert_eq!((next.proposal.iteration, next.handoff.handoff_id), (1, pending.handoff.handoff_id));
    assert_eq!(next.proposal.summary_json.created_at, pending.proposal.summary_json.created_at);
    let args = &next.interrupt.payload.action_requests[0].args;
    assert_eq!(args["iteration"], 1);
    assert_eq!(args["feedback_history"], serde_json::json!(["Name the test </feedback>."]));
    let prompt = server.requests()[1].body.to_string();
    assert!(
        prompt.contains("Importer drops the last row") && prompt.contains("Name the test &lt;/feedback>")
    );
    assert_eq!(server.call_count(), 2);
    agent.handoffs().decide(next.handoff.handoff_id, &approval(&next), &frames, &cancel).await.unwrap();
    assert!(environment.read_agent_md().contains("last row and a test"));
}

#[tokio::test]
async fn m4_a_model_without_a_usable_answer_never_prevents_a_handoff() {
    let faults = [
        ScriptedReply::fault(ScriptedFault::Status {
            status: 401,
            headers: Default::default(),
            body: "{}".to_owned(),
        }),
        ScriptedReply::fault(ScriptedFault::Status {
            status: 404,
            headers: Default::default(),
            body: "<html>no</html>".to_owned(),
        }),
        ScriptedReply::fault(ScriptedFault::BrokenJson).with_repeat(),
        ScriptedReply::fault(ScriptedFault::Empty).with_repeat(),
        ScriptedReply::text("  "),
        ScriptedReply::text("I will not summarise that."),
        ScriptedReply::text(r#"{"title":"x"}"#),
    ];
    for reply in faults {
        let environment = TestEnvironment::new();
        let case = format!("{reply:?}");
        let server = ScriptedServer::start(Script::new([reply])).unwrap();
        let (frames, cancel) = unwatched();
        let agent = environment.agent_with(&server);
        let parent = import_session(&environment, &agent).await.unwrap();
        let pending =
            agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await;
        let pending = pending.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(pending.proposal.summary_json.model, "extractive", "{case}");
        assert!(pending.proposal.package_md.contains("importer drops the last row"), "{case}");
    }
}

#[tokio::test]
async fn m6_a_name_that_the_thread_does_not_contain_is_flagged() {
    let environment = TestEnvironment::new();
    let draft = DRAFT.replace("one row only.", "one row only in src/invented_file.rs.");
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(draft)])).unwrap();
    let (_, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let flags: Vec<bool> = pending.proposal.summary_json.body.iter().map(|item| item.verified).collect();
    assert_eq!(flags, [true, true, false]);
    assert!(pending.proposal.package_md.contains("unverified"));
}

#[tokio::test]
async fn m5_the_coverage_ranges_are_disjoint_and_complete() {
    let environment = TestEnvironment::new();
    let (_, pending) = pending_handoff(environment.agent(), &environment).await;
    let coverage = &pending.proposal.summary_json.coverage;
    let mut covered: Vec<u64> =
        [&coverage.verbatim, &coverage.summarized, &coverage.truncated, &coverage.excluded]
            .into_iter()
            .flatten()
            .flat_map(|(first, last)| *first..=*last)
            .collect();
    covered.sort_unstable();
    assert_eq!(covered, (coverage.first_seq..=coverage.last_seq).collect::<Vec<_>>());
}

#[tokio::test]
async fn g9_deleting_a_child_before_its_first_turn_clears_its_block() {
    let environment = TestEnvironment::new();
    let (agent, pending) = pending_handoff(environment.agent(), &environment).await;
    let parent = pending.handoff.parent_thread_id;
    let child = accept_handoff(&agent, &pending).await;
    agent.threads().delete(child).await.unwrap();
    assert_eq!(
        memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap(),
        "None recorded yet."
    );
    let filter = HandoffFilter { parent_thread_id: Some(parent), ..HandoffFilter::default() };
    assert_eq!(agent.store().handoffs(filter).await.unwrap().len(), 1, "the parent keeps the record");
}

#[tokio::test]
async fn the_child_gets_its_summary_although_agent_md_cannot_be_written() {
    let environment = TestEnvironment::new();
    let server = answering_server("Fine.");
    let (frames, cancel) = unwatched();
    let agent = environment.agent_with(&server);
    std::fs::create_dir_all(environment.agent_md()).unwrap();
    let parent = import_session(&environment, &agent).await.unwrap();
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.handoff.note.is_some(), "the handoff's note reports the failure");
    agent.runs().send_message(decided.child_thread_id.unwrap(), "Go on.", &frames, &cancel).await.unwrap();
    assert!(server.requests()[1].body["system"].to_string().contains("last row"));
}

#[tokio::test]
async fn g9_an_acceptance_that_fills_the_disk_is_reported_as_accepted_and_completed_later() {
    let environment = TestEnvironment::new();
    let store = CrashingStore::never_crash(environment.store());
    let server = drafting_server();
    environment.configure(&server);
    let agent = environment.agent_over(store.clone(), TEST_MODEL);
    let (agent, pending) = pending_handoff(agent, &environment).await;
    store.fill_with_next_thread();
    let (_, cancel) = unwatched();
    let (frames, mut subscription) = FrameSender::channel();
    let id = pending.handoff.handoff_id;
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert_eq!(decided.child_thread_id, Some(pending.handoff.child_thread_id));
    let notice = |item| match item {
        SubscriptionItem::Frame(_, frame) => match &*frame {
            Frame::Notice { text } => Some(text.clone()),
            _ => None,
        },
        SubscriptionItem::Gap { .. } => None,
    };
    let texts: Vec<String> = std::iter::from_fn(|| subscription.try_next()).filter_map(notice).collect();
    let child = pending.handoff.child_thread_id.to_string();
    for part in ["is accepted", &child, "agent.md", "the disk is full", "completes it"] {
        assert!(texts.last().is_some_and(|text| text.contains(part)), "{part}: {texts:?}");
    }
    store.free_disk();
    // The run could not be ended, so another process takes it over when its lease has expired.
    store.advance_clock(jiff::SignedDuration::from_hours(1));
    drop(agent);
    let agent = environment.agent_over(store.clone(), TEST_MODEL);
    let (frames, cancel) = unwatched();
    agent.runs().complete_decisions(&frames, &cancel).await.unwrap();
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Seeded);
    assert!(environment.read_agent_md().contains("drops the last row"));
}

/// A decision that requests a shorter draft.
const REFINE_DECISION: &str = r#"{"decisions":[{"type":"edit","edited_action":{"name":"handoff_summary","args":{"feedback":"Shorter."}}}]}"#;

#[tokio::test]
async fn g5_a_cancelled_refinement_keeps_the_last_good_proposal() {
    let environment = TestEnvironment::new();
    let first = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([
        first,
        ScriptedReply::text("{").with_fault(ScriptedFault::Stall),
    ]))
    .unwrap();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let id = pending.handoff.handoff_id;
    let (frames, cancel) = unwatched();
    let stop = async {
        server.wait_for_calls(2).await;
        cancel.cancel();
    };
    let feedback = decisions(REFINE_DECISION);
    let refined = agent.handoffs().decide(id, &feedback, &frames, &cancel);
    let (refined, ()) = tokio::join!(refined, stop);
    let next = refined.unwrap().next.expect("the proposal waits for a decision again");
    assert_eq!(next.proposal, pending.proposal);
    let (frames, cancel) = unwatched();
    let decided = agent.handoffs().decide(id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(decided.child_thread_id.is_some());
}

#[tokio::test]
async fn g5_a_refinement_whose_model_fails_keeps_the_last_good_proposal() {
    let environment = TestEnvironment::new();
    let first = ScriptedReply::text(DRAFT).when_body_contains(DRAFT_PROMPT);
    let server = ScriptedServer::start(Script::new([first, ScriptedReply::text("no")])).unwrap();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let id = pending.handoff.handoff_id;
    let refined = agent.handoffs().decide(id, &decisions(REFINE_DECISION), &frames, &cancel).await.unwrap();
    assert_eq!(refined.next.unwrap().proposal, pending.proposal);
    agent
        .handoffs()
        .decide(id, &decisions(r#"{"decisions":[{"type":"reject"}]}"#), &frames, &cancel)
        .await
        .unwrap();
    assert_eq!(agent.handoffs().get(id).await.unwrap().status, HandoffStatus::Declined);
}

#[tokio::test]
async fn h3_a_child_keeps_its_summary_when_its_parent_is_deleted() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let child = accept_handoff(&agent, &pending).await;
    agent.threads().delete(pending.handoff.parent_thread_id).await.unwrap();
    let end = agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, protocol::RunStatus::Success, "{end:?}");
    assert!(server.requests()[1].body["system"].to_string().contains("drops the last row"));
    assert_eq!(
        memory::managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap(),
        "None recorded yet."
    );
}

#[tokio::test]
async fn the_draft_of_a_used_child_is_based_on_the_summary_that_it_began_with() {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let child = accept_handoff(&agent, &pending).await;
    agent.runs().send_message(child, "Go on.", &frames, &cancel).await.unwrap();
    assert!(server.requests()[1].body["system"].to_string().contains("drops the last row"));
    let next =
        agent.handoffs().request(child, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    let prompt = server.requests()[2].body.to_string();
    assert!(prompt.contains("Importer drops the last row"), "{prompt}");
    assert_eq!(next.handoff.parent_thread_id, child);
}

#[tokio::test]
async fn a_handoff_is_written_to_the_agent_md_of_its_threads_assistant() {
    let environment = TestEnvironment::new();
    let (frames, cancel) = unwatched();
    let mut settings = agent::AgentSettings {
        assistant_id: "alpha".parse().unwrap(),
        model: Some("none".to_owned()),
        ..agent::AgentSettings::new(environment.home(), environment.folder())
    };
    let alpha = agent::Agent::with_store(settings.clone(), environment.store()).unwrap();
    let parent = import_session(&environment, &alpha).await.unwrap();
    settings.assistant_id = "agent".parse().unwrap();
    let other = agent::Agent::with_store(settings, environment.store()).unwrap();
    let pending =
        other.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    other.handoffs().decide(pending.handoff.handoff_id, &approval(&pending), &frames, &cancel).await.unwrap();
    assert!(environment.home().agent_md_path(&"alpha".parse().unwrap()).exists());
    assert!(!environment.agent_md().exists());
}
