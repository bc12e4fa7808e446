//! The crash matrix: the whole road, with a crash before and after every commit, then reopened and walked again.

use std::sync::Arc;

use agent::{Agent, Error};
use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, HandoffMark, HandoffStatus, Message, ThreadId};

use crate::world::{Crashing, DRAFT_PROMPT, World, approve, drafting_then_answering, import, quiet};

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
    let handoffs = store.handoffs(HandoffFilter { parent_thread_id: Some(parent), ..HandoffFilter::default() }).await.unwrap();
    let filter = journal::ThreadFilter { parent_id: Some(parent), limit: 10, ..journal::ThreadFilter::default() };
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

async fn after_crash_at(boundary: usize) -> (Seen, usize, usize) {
    let world = World::new();
    let server = drafting_then_answering();
    world.configure(&server);
    let store = world.store();
    let crashing = Crashing::at(Arc::clone(&store), boundary);
    let first = world.agent_over(crashing.clone(), "anthropic/claude-test");
    let road = walk(&world, &first).await;
    assert_eq!(road.is_err(), crashing.crashed(), "boundary {boundary}: {road:?}");
    drop(first);
    let again = world.agent_over(Arc::clone(&store), "anthropic/claude-test");
    let parent = walk(&world, &again).await.unwrap();
    let calls = server.calls();
    (look(&world, &store, parent, &server).await, crashing.commits(), calls)
}

#[tokio::test]
async fn m2_a_crash_at_any_commit_leaves_before_or_after_and_never_between() {
    let (expected, commits, calls) = after_crash_at(usize::MAX).await;
    assert!(commits >= 15, "the road has {commits} commits, so the matrix has {} points", commits * 2);
    assert_eq!(expected.handoffs, [HandoffStatus::Cleaned]);
    assert_eq!(expected.block, "None recorded yet.");
    assert_eq!(expected.mark, (false, false, true));
    for boundary in 0..commits * 2 {
        let (seen, _, calls_again) = after_crash_at(boundary).await;
        assert_eq!(seen, expected, "crash at boundary {boundary}");
        assert!(calls_again <= calls + 1, "boundary {boundary}: at most the call whose answer was lost is repeated");
    }
}
