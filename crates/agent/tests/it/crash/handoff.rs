//! Crash matrices of handoffs, from the request to the child's first turn: after a crash at any commit, the next process
//! reaches the same final state.

use std::sync::Arc;

use agent::{
    Agent, CancellationToken, Error, Frame, FrameSender, HandoffError, PendingHandoff, SubscriptionItem,
};
use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, Decisions, HandoffMark, HandoffStatus, Message, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{CrashPoint, crashes_in_scenario};
use crate::environment::{
    CrashingStore, DRAFT, DRAFT_PROMPT, LONG_INPUT_CONFIG, PART_PROMPT, TEST_MODEL, TestEnvironment,
    approval, decisions, import_long_session, import_session, notes_of_parts, unwatched,
};

/// The final state as the user can see it.
#[derive(Debug, PartialEq)]
struct HandoffObservation {
    parent_messages: Vec<String>,
    /// The iteration, the feedback and the Markdown text of each proposal.
    proposals: Vec<(u32, Option<String>, String)>,
    /// The number of pending interrupts of the parent.
    pending: usize,
    handoffs: Vec<HandoffStatus>,
    /// The number of child threads.
    children: usize,
    child_messages: Vec<String>,
    first_request_had_summary: bool,
    /// The child's handoff mark: `pending`, `cleanup_required`, and whether `last_cleanup_at` is set.
    mark: (bool, bool, bool),
    /// The content of the managed block in `agent.md`.
    block: String,
}

/// A scenario from a conversation to the first turn of a child thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandoffScenario {
    pub(super) name: &'static str,
    /// The origin of the parent thread and of the request.
    origin: HandoffOrigin,
    /// Returns the user's decision about a proposal.
    decide: fn(&PendingHandoff) -> Decisions,
}

/// The origin of the parent thread, and the requester of the handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandoffOrigin {
    /// The thread is imported, and the user requests the handoff.
    Imported,
    /// The thread is imported and too long for one drafting call, and the user requests the handoff.
    ImportedLong,
    /// The thread has one turn, in which the agent requests the handoff.
    Requested,
    /// The thread has one turn, which waits for the approval of a call, and the user requests the handoff.
    Waiting,
}

/// All scenarios.
pub(super) const SCENARIOS: [HandoffScenario; 5] = [
    HandoffScenario { name: "handoff", origin: HandoffOrigin::Imported, decide: approval },
    HandoffScenario {
        name: "refined",
        origin: HandoffOrigin::Imported,
        decide: refine_twice_revert_and_edit,
    },
    HandoffScenario { name: "requested", origin: HandoffOrigin::Requested, decide: refine_once_and_accept },
    HandoffScenario { name: "transferred", origin: HandoffOrigin::Waiting, decide: transfer_calls },
    HandoffScenario { name: "long", origin: HandoffOrigin::ImportedLong, decide: approval },
];

/// The user's message in the thread in which the agent requests the handoff.
const REQUEST: &str =
    "The importer drops the last row of every file. Fix src/import.rs. Then do the test elsewhere.";
/// The user's message in the thread whose call waits for an approval.
const WRITE_REQUEST: &str = "Write new.txt.";
/// A summary that the user writes.
const USER_SUMMARY: &str =
    "**Importer drops the last row**\nMine.\n\n### Objective\n- Fix it.\n- Test it.\n- Tell them.";

impl HandoffScenario {
    /// Writes the configuration of the scenario.
    fn configure(self, environment: &TestEnvironment, server: &ScriptedServer) {
        let is_long = self.origin == HandoffOrigin::ImportedLong;
        environment.configure_with_extra(server, if is_long { LONG_INPUT_CONFIG } else { "" });
    }
}

/// Refines the draft twice, reverts to the second proposal, and then accepts the user's text.
fn refine_twice_revert_and_edit(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        1 => edit(&json!({"feedback": "Shorter."})),
        2 => edit(&json!({"revert_to": 1})),
        _ => edit(&json!({"summary_md": USER_SUMMARY})),
    }
}

/// Refines the draft once and accepts the second proposal.
fn refine_once_and_accept(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        _ => approval(pending),
    }
}

/// Accepts the draft, and moves the calls that wait for approval to the child thread.
fn transfer_calls(pending: &PendingHandoff) -> Decisions {
    let args = json!({"pending_approvals": "transfer"});
    let hash = &pending.proposal.summary_sha256;
    decisions(&json!({"decisions": [{"type": "approve", "args": args, "summary_sha256": hash}]}).to_string())
}

/// Returns a decision of type `edit` with these arguments.
fn edit(args: &Value) -> Decisions {
    let action = json!({"name": "handoff_summary", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// Returns a server whose drafts follow the newest feedback, and which requests a handoff after [`REQUEST`].
fn drafting_server() -> ScriptedServer {
    let draft = |title: &str| ScriptedReply::text(DRAFT.replace("last row\"", &format!("last row{title}\"")));
    let handoff_call = ScriptedReply::call("h1", "request_handoff", json!({}))
        .when_body_contains("Then do the test elsewhere");
    ScriptedServer::start(Script::new([
        draft(", short").when_body_contains("Shorter.").with_repeat(),
        draft(" of a file").when_body_contains("Name the file.").with_repeat(),
        draft("").when_body_contains(DRAFT_PROMPT).with_repeat(),
        ScriptedReply::text(notes_of_parts()).when_body_contains(PART_PROMPT).with_repeat(),
        // This reply comes before the next, because the child's request contains the parent's last request too.
        ScriptedReply::text("The test passes.").when_body_contains(CONTINUE_PROMPT).with_repeat(),
        ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}))
            .when_body_contains(WRITE_REQUEST)
            .with_repeat(),
        handoff_call.with_repeat(),
    ]))
    .unwrap()
}

/// Returns the bodies of the requests that belong to the child's turn.
fn child_requests(server: &ScriptedServer) -> Vec<String> {
    let bodies = server.requests().into_iter().map(|request| request.body.to_string());
    bodies.filter(|body| body.contains(CONTINUE_PROMPT)).collect()
}

/// The user's first message in the child thread.
const CONTINUE_PROMPT: &str = "Go on with the test.";

/// Continues the scenario from its current state, as a user would who starts Segue again after a crash. Returns the parent
/// thread.
async fn run_scenario(
    environment: &TestEnvironment,
    agent: &Agent,
    scenario: HandoffScenario,
) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let parent = parent_thread(environment, agent, scenario).await?;
    let mut pending = match accepted_child(agent, parent).await? {
        Some(_) => {
            agent.runs().recover(parent, &frames, &cancel).await?;
            None
        }
        None => match agent.handoffs().request(parent, Default::default(), &frames, &cancel).await {
            Ok(pending) => Some(pending),
            Err(Error::Handoff(HandoffError::AlreadyDecided { .. })) => None,
            Err(error) => return Err(error),
        },
    };
    while let Some(shown) = pending {
        let decision = (scenario.decide)(&shown);
        let outcome = agent.handoffs().decide(shown.handoff.handoff_id, &decision, &frames, &cancel).await?;
        pending = outcome.next;
    }
    let child = accepted_child(agent, parent).await?.expect("the handoff is accepted");
    agent.runs().recover(child, &frames, &cancel).await?;
    if agent.store().thread(child).await?.unwrap().message_count == 0 {
        agent.runs().send_message(child, CONTINUE_PROMPT, &frames, &cancel).await?;
    }
    Ok(parent)
}

/// Returns the parent thread, and creates it if it does not exist. If the agent requests the handoff, it has done so.
async fn parent_thread(
    environment: &TestEnvironment,
    agent: &Agent,
    scenario: HandoffScenario,
) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    match scenario.origin {
        HandoffOrigin::Imported => return import_session(environment, agent).await,
        HandoffOrigin::ImportedLong => return import_long_session(environment, agent, 50).await,
        HandoffOrigin::Requested | HandoffOrigin::Waiting => {}
    }
    let threads = agent.threads().list(journal::ThreadFilter { limit: 10, ..Default::default() }).await?;
    let thread = match threads.into_iter().find(|thread| thread.parent_id.is_none()) {
        Some(thread) => thread,
        None => agent.threads().create(None).await?,
    };
    agent.runs().recover(thread.thread_id, &frames, &cancel).await?;
    if agent.store().thread(thread.thread_id).await?.unwrap().message_count == 0 {
        let request = if scenario.origin == HandoffOrigin::Waiting { WRITE_REQUEST } else { REQUEST };
        agent.runs().send_message(thread.thread_id, request, &frames, &cancel).await?;
    }
    Ok(thread.thread_id)
}

/// Returns the child thread of the parent's accepted handoff, if there is one.
async fn accepted_child(agent: &Agent, parent: ThreadId) -> agent::Result<Option<ThreadId>> {
    let statuses = vec![HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];
    let filter = HandoffFilter { parent_thread_id: Some(parent), statuses, ..HandoffFilter::default() };
    Ok(agent.store().handoffs(filter).await?.first().map(|handoff| handoff.child_thread_id))
}

/// Reads the final state.
async fn observe(
    environment: &TestEnvironment,
    store: &Arc<dyn Store>,
    parent: ThreadId,
    server: &test_model::ScriptedServer,
) -> HandoffObservation {
    let messages = |thread_id| {
        let query = EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, 1_000) };
        store.events(thread_id, query)
    };
    let handoffs = store
        .handoffs(HandoffFilter { parent_thread_id: Some(parent), ..HandoffFilter::default() })
        .await
        .unwrap();
    let filter = journal::ThreadFilter {
        parent_id: Some(parent),
        ..journal::ThreadFilter::for_scope(protocol::OwnerScope::Everyone, 10)
    };
    let children = store.threads(filter).await.unwrap();
    let child = &children[0];
    let mark: HandoffMark = child.handoff_mark().unwrap();
    let proposals = store.proposals(handoffs[0].handoff_id).await.unwrap();
    let accepted = handoffs[0].accepted_sha256.clone().unwrap();
    let summary = proposals.iter().rfind(|proposal| proposal.summary_sha256 == accepted).unwrap();
    let title = summary.summary_json.title.clone();
    let message_lines = |events: Vec<protocol::Event>| -> Vec<String> {
        let messages = events.iter().filter_map(protocol::Event::message);
        let lines = messages.map(|message| match message {
            Message::Human(_) => format!("human: {}", message.text()),
            Message::Ai(_) => format!("ai: {}", message.text()),
            Message::Tool(_) => "tool".to_owned(),
        });
        lines.collect()
    };
    HandoffObservation {
        parent_messages: message_lines(messages(parent).await.unwrap()),
        proposals: proposals
            .into_iter()
            .map(|proposal| (proposal.iteration, proposal.feedback, proposal.package_md))
            .collect(),
        pending: store.pending_interrupts(parent).await.unwrap().len(),
        handoffs: handoffs.iter().map(|handoff| handoff.status).collect(),
        children: children.len(),
        child_messages: message_lines(messages(child.thread_id).await.unwrap()),
        first_request_had_summary: child_requests(server).iter().all(|body| body.contains(&title)),
        mark: (mark.pending, mark.cleanup_required, mark.last_cleanup_at.is_some()),
        block: memory::managed_block::block_content(environment.read_agent_md().as_bytes())
            .unwrap_or_default(),
    }
}

/// Runs the scenario in this process, which aborts at `boundary`.
pub(super) async fn run_until_crash(
    environment: &TestEnvironment,
    scenario: HandoffScenario,
    boundary: usize,
) {
    let store = CrashingStore::crash_at(environment.store(), boundary);
    run_scenario(environment, &environment.agent_over(store, TEST_MODEL), scenario).await.unwrap();
}

/// Runs the scenario in a child process that aborts at `boundary`, and continues it in this process. Returns the final
/// state and the number of model calls.
async fn observe_after_crash(scenario: HandoffScenario, boundary: usize) -> (HandoffObservation, usize) {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    scenario.configure(&environment, &server);
    assert!(
        crashes_in_scenario(&environment, scenario.name, &CrashPoint::Boundary(boundary)),
        "boundary {boundary} was not reached"
    );
    let store = environment.store();
    let agent = environment.agent_over(Arc::clone(&store), TEST_MODEL);
    let parent = run_scenario(&environment, &agent, scenario).await.unwrap();
    let observed = observe(&environment, &store, parent, &server).await;
    (observed, server.call_count())
}

/// Runs the scenario without a crash, and then with a crash at every commit boundary. Asserts that all final states are
/// equal. Returns the final state and the number of model calls without a crash, and the number of boundaries.
async fn check_scenario(scenario: HandoffScenario) -> (HandoffObservation, usize, usize) {
    let environment = TestEnvironment::new();
    let server = drafting_server();
    scenario.configure(&environment, &server);
    let store = environment.store();
    let counting = CrashingStore::crash_at(Arc::clone(&store), usize::MAX);
    let agent = environment.agent_over(counting.clone(), TEST_MODEL);
    let parent = run_scenario(&environment, &agent, scenario).await.unwrap();
    let expected = observe(&environment, &store, parent, &server).await;
    assert_eq!((expected.handoffs.as_slice(), expected.pending), ([HandoffStatus::Cleaned].as_slice(), 0));
    assert_eq!(expected.block, "None recorded yet.");
    assert_eq!(expected.mark, (false, false, true));
    let boundaries = counting.commit_count() * 2;
    for boundary in 0..boundaries {
        let (observed, calls) = observe_after_crash(scenario, boundary).await;
        assert_eq!(observed, expected, "{}: crash at boundary {boundary}", scenario.name);
        let calls_max = server.call_count() + 1;
        assert!(
            calls <= calls_max,
            "boundary {boundary}: only a model call whose answer was lost is repeated"
        );
    }
    (expected, server.call_count(), boundaries)
}

#[tokio::test]
async fn m2_an_accepted_handoff_survives_a_crash_at_every_commit() {
    let (_, calls, boundaries) = check_scenario(SCENARIOS[0]).await;
    assert_eq!(calls, 2, "a draft and the child's turn");
    assert!(boundaries >= 18, "the matrix has {boundaries} points");
}

#[tokio::test]
async fn m2_a_handoff_of_a_long_thread_survives_a_crash_and_pays_for_no_part_twice() {
    let (_, calls, boundaries) = check_scenario(SCENARIOS[4]).await;
    assert_eq!(calls, 4, "two parts, a draft and the child's turn");
    assert!(boundaries >= 22, "the matrix has {boundaries} points");
}

#[tokio::test]
async fn m2_a_refined_handoff_survives_a_crash_at_every_commit() {
    let (observed, calls, boundaries) = check_scenario(SCENARIOS[1]).await;
    assert!(boundaries >= 26, "the matrix has {boundaries} points");
    let feedback: Vec<Option<&str>> =
        observed.proposals.iter().map(|(_, feedback, _)| feedback.as_deref()).collect();
    assert_eq!(feedback, [None, Some("Name the file."), Some("Shorter."), None, None]);
    assert_eq!(
        (observed.proposals[3].2.as_str(), observed.proposals[4].2.as_str()),
        (observed.proposals[1].2.as_str(), USER_SUMMARY)
    );
    assert_eq!(calls, 3 + 1, "two refinements are three drafts; the child's turn is one call");
}

#[tokio::test]
async fn m2_a_handoff_that_the_agent_requested_survives_a_crash_and_its_call_has_one_result() {
    let (observed, calls, boundaries) = check_scenario(SCENARIOS[2]).await;
    assert!(boundaries >= 22, "the matrix has {boundaries} points");
    assert_eq!(observed.parent_messages.len(), 3, "{:?}", observed.parent_messages);
    assert_eq!(calls, 1 + 2 + 1, "the agent's request, two drafts, and the child's turn");
}

#[tokio::test]
async fn m2_calls_that_move_to_the_child_are_closed_once_whatever_commit_crashes() {
    let (observed, calls, boundaries) = check_scenario(SCENARIOS[3]).await;
    assert!(boundaries >= 20, "the matrix has {boundaries} points");
    let results = observed.parent_messages.iter().filter(|line| *line == "tool").count();
    assert_eq!((results, observed.pending), (1, 0), "{:?}", observed.parent_messages);
    assert!(observed.proposals[0].2.contains("### Calls that wait for approval\n- write_file: {"));
    assert_eq!(calls, 1 + 1 + 1, "the call, the draft, and the child's turn");
}

#[tokio::test]
async fn g2_a_recovered_run_that_is_cancelled_before_its_draft_leaves_no_drafting_handoff() {
    let scenario = SCENARIOS[2];
    let mut is_stopped = false;
    let mut boundary = 0;
    while !is_stopped {
        let (environment, server) = (TestEnvironment::new(), drafting_server());
        environment.configure(&server);
        assert!(
            crashes_in_scenario(&environment, scenario.name, &CrashPoint::Boundary(boundary)),
            "no crash left a run that can be cancelled before its draft"
        );
        boundary += 1;
        let agent = environment.agent_over(environment.store(), TEST_MODEL);
        let Some(run) = agent.store().active_runs(None).await.unwrap().pop() else { continue };
        let (frames, mut subscription) = FrameSender::channel();
        let cancel = CancellationToken::new();
        let recovering = async {
            let recovered = agent.runs().recover(run.thread_id, &frames, &cancel).await;
            drop(frames);
            recovered
        };
        let stopping = async {
            while let Some(SubscriptionItem::Frame(_, frame)) = subscription.next().await {
                if matches!(&*frame, Frame::ToolStarted { name, .. } if name == "request_handoff") {
                    cancel.cancel();
                    return true;
                }
            }
            false
        };
        let (recovered, stopped) = tokio::join!(recovering, stopping);
        recovered.unwrap();
        is_stopped = stopped;
        let handoffs = agent.store().handoffs(HandoffFilter::default()).await.unwrap();
        let drafting = handoffs.iter().filter(|handoff| handoff.status == HandoffStatus::Drafting);
        assert_eq!(drafting.count(), 0, "boundary {boundary}");
    }
}
