//! The crash matrix of a handoff: the whole road, in a process that dies before or after each commit, then walked again by another.

use std::sync::Arc;

use agent::{Agent, CancellationToken, Error, Frame, Frames, HandoffError, Item, PendingHandoff};
use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, Decisions, HandoffMark, HandoffStatus, Message, ThreadId};
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};

use super::{Death, dies};
use crate::world::{DRAFT, DRAFT_PROMPT, Dying, MODEL, World, approve, decisions, import, quiet};

/// What is left at the end of the road, as far as a person can see it.
#[derive(Debug, PartialEq)]
struct Seen {
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
pub(super) struct Road {
    pub(super) name: &'static str,
    /// How the conversation comes about.
    begins: Begin,
    /// What the person answers to each iteration.
    answers: fn(&PendingHandoff) -> Decisions,
}

/// How the parent comes about, and who asks for the handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// It is imported, and the person asks.
    Imported,
    /// It is talked in, and the agent asks.
    Talked,
}

/// Every road.
pub(super) const ROADS: [Road; 3] = [
    Road { name: "handoff", begins: Begin::Imported, answers: approve },
    Road { name: "refined", begins: Begin::Imported, answers: refine_twice_revert_and_edit },
    Road { name: "asked", begins: Begin::Talked, answers: refine_once_and_accept },
];

/// What the person says in the thread in which the agent asks.
const REQUEST: &str =
    "The importer drops the last row of every file. Fix src/import.rs. Then do the test elsewhere.";
/// What a person accepts in their own words.
const OWN: &str =
    "**Importer drops the last row**\nMine.\n\n### Objective\n- Fix it.\n- Test it.\n- Tell them.";

fn refine_twice_revert_and_edit(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        1 => edit(&json!({"feedback": "Shorter."})),
        2 => edit(&json!({"revert_to": 1})),
        _ => edit(&json!({"summary_md": OWN})),
    }
}

fn refine_once_and_accept(pending: &PendingHandoff) -> Decisions {
    match pending.proposal.iteration {
        0 => edit(&json!({"feedback": "Name the file."})),
        _ => approve(pending),
    }
}

/// Returns the answer that edits with `args`.
fn edit(args: &Value) -> Decisions {
    let action = json!({"name": "handoff_summary", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// A model whose drafts follow the newest feedback, and which asks for a handoff when a person says so.
fn server() -> Server {
    let draft = |title: &str| Reply::text(DRAFT.replace("last row\"", &format!("last row{title}\"")));
    let asks =
        Reply::call("h1", "request_handoff", json!({})).when_body_contains("Then do the test elsewhere");
    Server::start(Script::new([
        draft(", short").when_body_contains("Shorter.").repeated(),
        draft(" of a file").when_body_contains("Name the file.").repeated(),
        draft("").when_body_contains(DRAFT_PROMPT).repeated(),
        // The child reads the parent's last request too, among the facts.
        Reply::text("The test passes.").when_body_contains(GO_ON).repeated(),
        asks.repeated(),
    ]))
    .unwrap()
}

/// Returns the bodies of the requests that the child's turn made.
fn turns(server: &Server) -> Vec<String> {
    let bodies = server.requests().into_iter().map(|request| request.body.to_string());
    bodies.filter(|body| body.contains(GO_ON)).collect()
}

const GO_ON: &str = "Go on with the test.";

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn walk(world: &World, agent: &Agent, road: Road) -> agent::Result<ThreadId> {
    let (frames, cancel) = quiet();
    let parent = parent(world, agent, road).await?;
    let mut pending = match accepted(agent, parent).await? {
        Some(_) => {
            agent.runs().recover(parent, &frames, &cancel).await?;
            None
        }
        None => match agent.handoffs().request(parent, Default::default(), &frames, &cancel).await {
            Ok(pending) => Some(pending),
            Err(Error::Handoff(HandoffError::Decided { .. })) => None,
            Err(error) => return Err(error),
        },
    };
    while let Some(shown) = pending {
        let answer = (road.answers)(&shown);
        let decided = agent.handoffs().decide(shown.handoff.handoff_id, &answer, &frames, &cancel).await?;
        pending = decided.next;
    }
    let child = accepted(agent, parent).await?.expect("the handoff is accepted");
    agent.runs().recover(child, &frames, &cancel).await?;
    if agent.store().thread(child).await?.unwrap().message_count == 0 {
        agent.runs().send(child, GO_ON, &frames, &cancel).await?;
    }
    Ok(parent)
}

/// Returns the parent, in which the handoff was asked for if the agent does that.
async fn parent(world: &World, agent: &Agent, road: Road) -> agent::Result<ThreadId> {
    let (frames, cancel) = quiet();
    if road.begins == Begin::Imported {
        return import(world, agent).await;
    }
    let threads = agent.threads().list(journal::ThreadFilter { limit: 10, ..Default::default() }).await?;
    let thread = match threads.into_iter().find(|thread| thread.parent_id.is_none()) {
        Some(thread) => thread,
        None => agent.threads().create(None).await?,
    };
    agent.runs().recover(thread.thread_id, &frames, &cancel).await?;
    if agent.store().thread(thread.thread_id).await?.unwrap().message_count == 0 {
        agent.runs().send(thread.thread_id, REQUEST, &frames, &cancel).await?;
    }
    Ok(thread.thread_id)
}

async fn accepted(agent: &Agent, parent: ThreadId) -> agent::Result<Option<ThreadId>> {
    let statuses = vec![HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];
    let filter = HandoffFilter { parent_thread_id: Some(parent), statuses, ..HandoffFilter::default() };
    Ok(agent.store().handoffs(filter).await?.first().map(|handoff| handoff.child_thread_id))
}

async fn look(world: &World, store: &Arc<dyn Store>, parent: ThreadId, server: &test_model::Server) -> Seen {
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
        ..journal::ThreadFilter::of(protocol::Scope::Everyone, 10)
    };
    let children = store.threads(filter).await.unwrap();
    let child = &children[0];
    let mark: HandoffMark = child.handoff().unwrap();
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
    Seen {
        parent_messages: told(messages(parent).await.unwrap()),
        proposals: proposals
            .into_iter()
            .map(|proposal| (proposal.iteration, proposal.feedback, proposal.summary_md))
            .collect(),
        pending: store.pending_interrupts(parent).await.unwrap().len(),
        handoffs: handoffs.iter().map(|handoff| handoff.status).collect(),
        children: children.len(),
        child_messages: told(messages(child.thread_id).await.unwrap()),
        first_request_had_summary: turns(server).iter().all(|body| body.contains(&title)),
        mark: (mark.pending, mark.cleanup_required, mark.last_cleanup_at.is_some()),
        block: memory::block::current(world.read_agent_md().as_bytes()).unwrap_or_default(),
    }
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn walk_to_death(world: &World, road: Road, boundary: usize) {
    let dying = Dying::at(world.store(), boundary);
    walk(world, &world.agent_over(dying, MODEL), road).await.unwrap();
}

/// Walks the road in a process that dies at `boundary`, and again in this one; returns what is left and how often
/// the model was called.
async fn after_death_at(road: Road, boundary: usize) -> (Seen, usize) {
    let world = World::new();
    let server = server();
    world.configure(&server);
    assert!(dies(&world, road.name, &Death::Boundary(boundary)), "boundary {boundary} was not reached");
    let store = world.store();
    let parent = walk(&world, &world.agent_over(Arc::clone(&store), MODEL), road).await.unwrap();
    let seen = look(&world, &store, parent, &server).await;
    (seen, server.calls())
}

/// Walks `road` with a death at every boundary; returns what an undisturbed walk leaves, and how often it calls the
/// model.
async fn check(road: Road) -> (Seen, usize, usize) {
    let world = World::new();
    let server = server();
    world.configure(&server);
    let store = world.store();
    let counting = Dying::at(Arc::clone(&store), usize::MAX);
    let parent = walk(&world, &world.agent_over(counting.clone(), MODEL), road).await.unwrap();
    let expected = look(&world, &store, parent, &server).await;
    assert_eq!((expected.handoffs.as_slice(), expected.pending), ([HandoffStatus::Cleaned].as_slice(), 0));
    assert_eq!(expected.block, "None recorded yet.");
    assert_eq!(expected.mark, (false, false, true));
    let boundaries = counting.commits() * 2;
    for boundary in 0..boundaries {
        let (seen, calls) = after_death_at(road, boundary).await;
        assert_eq!(seen, expected, "{}: death at boundary {boundary}", road.name);
        let calls_max = server.calls() + 1;
        assert!(calls <= calls_max, "boundary {boundary}: only a call whose answer was lost is repeated");
    }
    (expected, server.calls(), boundaries)
}

#[tokio::test]
async fn m2_a_process_that_dies_at_any_commit_leaves_before_or_after_and_never_between() {
    let (_, calls, boundaries) = check(ROADS[0]).await;
    assert_eq!(calls, 2, "a draft and the child's turn");
    assert!(boundaries >= 18, "the matrix has {boundaries} points");
}

#[tokio::test]
async fn m2_a_death_between_any_two_effects_of_the_loop_changes_neither_its_end_nor_its_calls() {
    let (seen, calls, boundaries) = check(ROADS[1]).await;
    assert!(boundaries >= 26, "the matrix has {boundaries} points");
    let feedback: Vec<Option<&str>> =
        seen.proposals.iter().map(|(_, feedback, _)| feedback.as_deref()).collect();
    assert_eq!(feedback, [None, Some("Name the file."), Some("Shorter."), None, None]);
    assert_eq!(
        (seen.proposals[3].2.as_str(), seen.proposals[4].2.as_str()),
        (seen.proposals[1].2.as_str(), OWN)
    );
    assert_eq!(calls, 3 + 1, "two refinements are three drafts; the child's turn is one call");
}

#[tokio::test]
async fn m2_a_death_anywhere_in_a_handoff_the_agent_asked_for_leaves_its_call_one_result() {
    let (seen, calls, boundaries) = check(ROADS[2]).await;
    assert!(boundaries >= 22, "the matrix has {boundaries} points");
    assert_eq!(seen.parent_messages.len(), 3, "{:?}", seen.parent_messages);
    assert_eq!(calls, 1 + 2 + 1, "the asking, two drafts, the child's turn");
}

#[tokio::test]
async fn g2_a_recovered_run_that_is_stopped_before_its_draft_leaves_no_draft_behind() {
    let road = ROADS[2];
    let mut is_stopped = false;
    let mut boundary = 0;
    while !is_stopped {
        let (world, server) = (World::new(), server());
        world.configure(&server);
        assert!(
            dies(&world, road.name, &Death::Boundary(boundary)),
            "it is never cut off before the request"
        );
        boundary += 1;
        let agent = world.agent_over(world.store(), MODEL);
        let Some(run) = agent.store().active_runs(None).await.unwrap().pop() else { continue };
        let (frames, mut watched) = Frames::channel();
        let cancel = CancellationToken::new();
        let recovering = async {
            let recovered = agent.runs().recover(run.thread_id, &frames, &cancel).await;
            drop(frames);
            recovered
        };
        let stopping = async {
            while let Some(Item::Frame(_, frame)) = watched.next().await {
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
