//! The crash matrix of a handoff: the whole road, in a process that dies before or after each commit, then walked again by another.

use std::sync::Arc;

use agent::{Agent, Error};
use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, HandoffMark, HandoffStatus, Message, ThreadId};

use super::{Death, dies};
use crate::world::{DRAFT_PROMPT, Dying, MODEL, World, approve, drafting_then_answering, import, quiet};

/// What is left at the end of the road, as far as a person can see it.
#[derive(Debug, PartialEq)]
struct Seen {
    parent_messages: usize,
    handoffs: Vec<HandoffStatus>,
    children: usize,
    child_messages: Vec<String>,
    first_request_had_summary: bool,
    mark: (bool, bool, bool),
    block: String,
}

/// Returns the bodies of the requests that were turns and not drafts.
fn turns(server: &scripted::Server) -> Vec<String> {
    let bodies = server.requests().into_iter().map(|request| request.body.to_string());
    bodies.filter(|body| !body.contains(DRAFT_PROMPT)).collect()
}

/// Walks the road from wherever it stands, the way a person would who opens Segue again.
async fn walk(world: &World, agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = quiet();
    let parent = import(world, agent).await?;
    let child = match accepted(agent, parent).await? {
        Some(child) => {
            agent.recover(parent, &frames, &cancel).await?;
            child
        }
        None => match agent.request_handoff(parent, Default::default(), &frames, &cancel).await {
            Ok(pending) => {
                let decided = agent
                    .decide_handoff(pending.handoff.handoff_id, &approve(&pending), &frames, &cancel)
                    .await?;
                decided.child_thread_id.unwrap()
            }
            Err(Error::Decided { .. }) => accepted(agent, parent).await?.unwrap(),
            Err(error) => return Err(error),
        },
    };
    agent.recover(child, &frames, &cancel).await?;
    if agent.store().thread(child).await?.unwrap().message_count == 0 {
        agent.send(child, "Go on with the test.", &frames, &cancel).await?;
    }
    Ok(parent)
}

async fn accepted(agent: &Agent, parent: ThreadId) -> agent::Result<Option<ThreadId>> {
    let statuses = vec![HandoffStatus::Accepted, HandoffStatus::Seeded, HandoffStatus::Cleaned];
    let filter = HandoffFilter { parent_thread_id: Some(parent), statuses, ..HandoffFilter::default() };
    Ok(agent.store().handoffs(filter).await?.first().map(|handoff| handoff.child_thread_id))
}

async fn look(world: &World, store: &Arc<dyn Store>, parent: ThreadId, server: &scripted::Server) -> Seen {
    let messages = |thread_id| {
        let query = EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, 1_000) };
        store.events(thread_id, query)
    };
    let handoffs = store
        .handoffs(HandoffFilter { parent_thread_id: Some(parent), ..HandoffFilter::default() })
        .await
        .unwrap();
    let filter =
        journal::ThreadFilter { parent_id: Some(parent), limit: 10, ..journal::ThreadFilter::default() };
    let children = store.threads(filter).await.unwrap();
    let child = &children[0];
    let mark: HandoffMark = child.handoff().unwrap();
    let summary = store.proposals(handoffs[0].handoff_id).await.unwrap().pop().unwrap().summary_json.title;
    Seen {
        parent_messages: messages(parent).await.unwrap().len(),
        handoffs: handoffs.iter().map(|handoff| handoff.status).collect(),
        children: children.len(),
        child_messages: messages(child.thread_id)
            .await
            .unwrap()
            .iter()
            .filter_map(|event| event.message())
            .map(|message| match message {
                Message::Human(_) => format!("human: {}", message.text()),
                Message::Ai(_) => format!("ai: {}", message.text()),
                Message::Tool(_) => format!("tool: {}", message.text()),
            })
            .collect(),
        first_request_had_summary: turns(server).iter().all(|body| body.contains(&summary)),
        mark: (mark.pending, mark.cleanup_required, mark.last_cleanup_at.is_some()),
        block: memory::block::current(world.read_agent_md().as_bytes()).unwrap_or_default(),
    }
}

/// Walks the road in a process that dies at `boundary`.
pub(super) async fn walk_to_death(world: &World, boundary: usize) {
    let dying = Dying::at(world.store(), boundary);
    walk(world, &world.agent_over(dying, MODEL)).await.unwrap();
}

/// Walks the road in a process that dies at `boundary`, and again in this one; returns what is left and how often
/// the model was called.
async fn after_death_at(boundary: usize) -> (Seen, usize) {
    let world = World::new();
    let server = drafting_then_answering();
    world.configure(&server);
    assert!(dies(&world, "handoff", &Death::Boundary(boundary)), "boundary {boundary} was not reached");
    let store = world.store();
    let parent = walk(&world, &world.agent_over(Arc::clone(&store), MODEL)).await.unwrap();
    let seen = look(&world, &store, parent, &server).await;
    (seen, server.calls())
}

#[tokio::test]
async fn m2_a_process_that_dies_at_any_commit_leaves_before_or_after_and_never_between() {
    let world = World::new();
    let server = drafting_then_answering();
    world.configure(&server);
    let store = world.store();
    let counting = Dying::at(Arc::clone(&store), usize::MAX);
    let parent = walk(&world, &world.agent_over(counting.clone(), MODEL)).await.unwrap();
    let expected = look(&world, &store, parent, &server).await;
    assert_eq!(expected.handoffs, [HandoffStatus::Cleaned]);
    assert_eq!(expected.block, "None recorded yet.");
    assert_eq!(expected.mark, (false, false, true));
    let boundaries = counting.commits() * 2;
    assert!(boundaries >= 30, "the matrix has {boundaries} points");
    for boundary in 0..boundaries {
        let (seen, calls) = after_death_at(boundary).await;
        assert_eq!(seen, expected, "death at boundary {boundary}");
        assert!(
            calls <= server.calls() + 1,
            "boundary {boundary}: only a call whose answer was lost is repeated"
        );
    }
}
