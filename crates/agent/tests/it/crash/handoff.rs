//! The crash matrix of a handoff: the whole road, in a process that dies before or after each commit, then walked again by another.

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
    CrashingStore, DRAFT, DRAFT_PROMPT, TEST_MODEL, TestEnvironment, approval, decisions, import_session,
    unwatched,
};

/// The final state as far as a person can see it.
#[derive(Debug, PartialEq)]
struct HandoffObservation {
    parent_messages: Vec<String>,
    proposals: Vec<(u32, Option<String>, String)>,
    pending: usize,
    handoffs: Vec<HandoffStatus>,
    children: usize,
    child_messages: Vec<String>,
    first_request_had_summary: bool,
    mark: (bool, bool, bool),
    block: String,
}

/// A way from a conversation to a child's first turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandoffScenario {
    pub(super) name: &'static str,
    /// How the conversation comes about.
    origin: HandoffOrigin,
    /// The person's decision about each iteration.
    answers: fn(&PendingHandoff) -> Decisions,
}

/// How the parent comes about, and who asks for the handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandoffOrigin {
    /// It is imported, and the person asks.
    Imported,
    /// It is talked in, and the agent asks.
    Requested,
}

/// Every road.
pub(super) const SCENARIOS: [HandoffScenario; 3] = [
    HandoffScenario { name: "handoff", origin: HandoffOrigin::Imported, answers: approval },
    HandoffScenario {
        name: "refined",
        origin: HandoffOrigin::Imported,
        answers: refine_twice_revert_and_edit,
    },
    HandoffScenario { name: "asked", origin: HandoffOrigin::Requested, answers: refine_once_and_accept },
];

/// The person's message in the thread in which the agent asks.
const REQUEST: &str =
    "The importer drops the last row of every file. Fix src/import.rs. Then do the test elsewhere.";
/// A summary in the person's own words.
const PERSONS_SUMMARY: &str =
    "**Importer drops the last row**\nMine.\n\n### Objective\n- Fix it.\n- Test it.\n- Tell them.";

fn refine_twice_revert_and_edit(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        1 => edit(&json!({"feedback": "Shorter."})),
        2 => edit(&json!({"revert_to": 1})),
        _ => edit(&json!({"summary_md": PERSONS_SUMMARY})),
    }
}

fn refine_once_and_accept(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        _ => approval(pending),
    }
}

/// Returns the answer that edits with `args`.
fn edit(args: &Value) -> Decisions {
    let action = json!({"name": "handoff_summary", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// A model whose drafts follow the newest feedback, and which asks for a handoff when a person says so.
fn drafting_server() -> ScriptedServer {
    let draft = |title: &str| ScriptedReply::text(DRAFT.replace("last row\"", &format!("last row{title}\"")));
    let asks = ScriptedReply::call("h1", "request_handoff", json!({}))
        .when_body_contains("Then do the test elsewhere");
    ScriptedServer::start(Script::new([
        draft(", short").when_body_contains("Shorter.").with_repeat(),
        draft(" of a file").when_body_contains("Name the file.").with_repeat(),
        draft("").when_body_contains(DRAFT_PROMPT).with_repeat(),
        // The child reads the parent's last request too, among the facts.
        ScriptedReply::text("The test passes.").when_body_contains(CONTINUE_PROMPT).with_repeat(),
        asks.with_repeat(),
    ]))
    .unwrap()
}

/// Returns the bodies of the requests that the child's turn made.
fn child_requests(server: &ScriptedServer) -> Vec<String> {
    let bodies = server.requests().into_iter().map(|request| request.body.to_string());
    bodies.filter(|body| body.contains(CONTINUE_PROMPT)).collect()
}

const CONTINUE_PROMPT: &str = "Go on with the test.";

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn run_scenario(
    world: &TestEnvironment,
    agent: &Agent,
    road: HandoffScenario,
) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    let parent = parent_thread(world, agent, road).await?;
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
        let answer = (road.answers)(&shown);
        let decided = agent.handoffs().decide(shown.handoff.handoff_id, &answer, &frames, &cancel).await?;
        pending = decided.next;
    }
    let child = accepted_child(agent, parent).await?.expect("the handoff is accepted");
    agent.runs().recover(child, &frames, &cancel).await?;
    if agent.store().thread(child).await?.unwrap().message_count == 0 {
        agent.runs().send_message(child, CONTINUE_PROMPT, &frames, &cancel).await?;
    }
    Ok(parent)
}

/// Returns the parent, in which the handoff was asked for if the agent does that.
async fn parent_thread(
    world: &TestEnvironment,
    agent: &Agent,
    road: HandoffScenario,
) -> agent::Result<ThreadId> {
    let (frames, cancel) = unwatched();
    if road.origin == HandoffOrigin::Imported {
        return import_session(world, agent).await;
    }
    let threads = agent.threads().list(journal::ThreadFilter { limit: 10, ..Default::default() }).await?;
    let thread = match threads.into_iter().find(|thread| thread.parent_id.is_none()) {
        Some(thread) => thread,
        None => agent.threads().create(None).await?,
    };
    agent.runs().recover(thread.thread_id, &frames, &cancel).await?;
    if agent.store().thread(thread.thread_id).await?.unwrap().message_count == 0 {
        agent.runs().send_message(thread.thread_id, REQUEST, &frames, &cancel).await?;
    }
    Ok(thread.thread_id)
}

async fn accepted_child(agent: &Agent, parent: ThreadId) -> agent::Result<Option<ThreadId>> {
    let statuses = vec![HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];
    let filter = HandoffFilter { parent_thread_id: Some(parent), statuses, ..HandoffFilter::default() };
    Ok(agent.store().handoffs(filter).await?.first().map(|handoff| handoff.child_thread_id))
}

async fn observe(
    world: &TestEnvironment,
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
    let told = |events: Vec<protocol::Event>| -> Vec<String> {
        let messages = events.iter().filter_map(protocol::Event::message);
        let said = messages.map(|message| match message {
            Message::Human(_) => format!("human: {}", message.text()),
            Message::Ai(_) => format!("ai: {}", message.text()),
            Message::Tool(_) => "tool".to_owned(),
        });
        said.collect()
    };
    HandoffObservation {
        parent_messages: told(messages(parent).await.unwrap()),
        proposals: proposals
            .into_iter()
            .map(|proposal| (proposal.iteration, proposal.feedback, proposal.summary_md))
            .collect(),
        pending: store.pending_interrupts(parent).await.unwrap().len(),
        handoffs: handoffs.iter().map(|handoff| handoff.status).collect(),
        children: children.len(),
        child_messages: told(messages(child.thread_id).await.unwrap()),
        first_request_had_summary: child_requests(server).iter().all(|body| body.contains(&title)),
        mark: (mark.pending, mark.cleanup_required, mark.last_cleanup_at.is_some()),
        block: memory::managed_block::block_content(world.read_agent_md().as_bytes()).unwrap_or_default(),
    }
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn run_until_crash(world: &TestEnvironment, road: HandoffScenario, boundary: usize) {
    let dying = CrashingStore::crash_at(world.store(), boundary);
    run_scenario(world, &world.agent_over(dying, TEST_MODEL), road).await.unwrap();
}

/// Walks the road in a process that dies at `boundary`, and again in this one; returns what is left and how often
/// the model was called.
async fn observe_after_crash(road: HandoffScenario, boundary: usize) -> (HandoffObservation, usize) {
    let world = TestEnvironment::new();
    let server = drafting_server();
    world.configure(&server);
    assert!(
        crashes_in_scenario(&world, road.name, &CrashPoint::Boundary(boundary)),
        "boundary {boundary} was not reached"
    );
    let store = world.store();
    let parent = run_scenario(&world, &world.agent_over(Arc::clone(&store), TEST_MODEL), road).await.unwrap();
    let seen = observe(&world, &store, parent, &server).await;
    (seen, server.call_count())
}

/// Walks `road` with a death at every boundary; returns what an undisturbed walk leaves, and how often it calls the
/// model.
async fn check_scenario(road: HandoffScenario) -> (HandoffObservation, usize, usize) {
    let world = TestEnvironment::new();
    let server = drafting_server();
    world.configure(&server);
    let store = world.store();
    let counting = CrashingStore::crash_at(Arc::clone(&store), usize::MAX);
    let parent = run_scenario(&world, &world.agent_over(counting.clone(), TEST_MODEL), road).await.unwrap();
    let expected = observe(&world, &store, parent, &server).await;
    assert_eq!((expected.handoffs.as_slice(), expected.pending), ([HandoffStatus::Cleaned].as_slice(), 0));
    assert_eq!(expected.block, "None recorded yet.");
    assert_eq!(expected.mark, (false, false, true));
    let boundaries = counting.commit_count() * 2;
    for boundary in 0..boundaries {
        let (seen, calls) = observe_after_crash(road, boundary).await;
        assert_eq!(seen, expected, "{}: death at boundary {boundary}", road.name);
        let calls_max = server.call_count() + 1;
        assert!(calls <= calls_max, "boundary {boundary}: only a call whose answer was lost is repeated");
    }
    (expected, server.call_count(), boundaries)
}

#[tokio::test]
async fn m2_a_process_that_dies_at_any_commit_leaves_before_or_after_and_never_between() {
    let (_, calls, boundaries) = check_scenario(SCENARIOS[0]).await;
    assert_eq!(calls, 2, "a draft and the child's turn");
    assert!(boundaries >= 18, "the matrix has {boundaries} points");
}

#[tokio::test]
async fn m2_a_death_between_any_two_effects_of_the_loop_changes_neither_its_end_nor_its_calls() {
    let (seen, calls, boundaries) = check_scenario(SCENARIOS[1]).await;
    assert!(boundaries >= 26, "the matrix has {boundaries} points");
    let feedback: Vec<Option<&str>> =
        seen.proposals.iter().map(|(_, feedback, _)| feedback.as_deref()).collect();
    assert_eq!(feedback, [None, Some("Name the file."), Some("Shorter."), None, None]);
    assert_eq!(
        (seen.proposals[3].2.as_str(), seen.proposals[4].2.as_str()),
        (seen.proposals[1].2.as_str(), PERSONS_SUMMARY)
    );
    assert_eq!(calls, 3 + 1, "two refinements are three drafts; the child's turn is one call");
}

#[tokio::test]
async fn m2_a_death_anywhere_in_a_handoff_the_agent_asked_for_leaves_its_call_one_result() {
    let (seen, calls, boundaries) = check_scenario(SCENARIOS[2]).await;
    assert!(boundaries >= 22, "the matrix has {boundaries} points");
    assert_eq!(seen.parent_messages.len(), 3, "{:?}", seen.parent_messages);
    assert_eq!(calls, 1 + 2 + 1, "the asking, two drafts, the child's turn");
}

#[tokio::test]
async fn g2_a_recovered_run_that_is_stopped_before_its_draft_leaves_no_draft_behind() {
    let road = SCENARIOS[2];
    let mut is_stopped = false;
    let mut boundary = 0;
    while !is_stopped {
        let (world, server) = (TestEnvironment::new(), drafting_server());
        world.configure(&server);
        assert!(
            crashes_in_scenario(&world, road.name, &CrashPoint::Boundary(boundary)),
            "it is never cut off before the request"
        );
        boundary += 1;
        let agent = world.agent_over(world.store(), TEST_MODEL);
        let Some(run) = agent.store().active_runs(None).await.unwrap().pop() else { continue };
        let (frames, mut watched) = FrameSender::channel();
        let cancel = CancellationToken::new();
        let recovering = async {
            let recovered = agent.runs().recover(run.thread_id, &frames, &cancel).await;
            drop(frames);
            recovered
        };
        let stopping = async {
            while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
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
        let left = agent.store().handoffs(HandoffFilter::default()).await.unwrap();
        let drafting = left.iter().filter(|handoff| handoff.status == HandoffStatus::Drafting);
        assert_eq!(drafting.count(), 0, "boundary {boundary}");
    }
}
