//! One session of fifty turns, played over each of the four wire formats: the journal is the same. A person edits,
//! declines and answers calls in it, stops a run, and takes the thread back.

mod script;

use agent::{CancellationToken, Frame, Frames, Item, Policy};
use journal::{EventQuery, PAGE_ROWS_MAX, Superseded};
use protocol::{Decisions, Event, RunStatus, ThreadId};
use test_model::{Script, Server};

use self::script::{CANCELLED, PartOfSession, REWOUND, TURNS, part};
use crate::world::{World, quiet, told};

/// What is left of the session.
#[derive(Debug, PartialEq)]
struct Played {
    /// Every event, those that were taken back included.
    journal: Vec<String>,
    /// What of them is in sight.
    in_sight: usize,
    files: Vec<(String, String)>,
    channels: serde_json::Value,
    usage: u64,
}

/// Without a rule, writing asks; what is below `out` and what prints is allowed.
const CONFIG: &str =
    "[permissions]\nallow = [\"write_file(out/**)\", \"edit_file(out/**)\", \"execute(printf *)\"]\n";

async fn play(model: &str) -> Played {
    let world = World::new();
    let parts: Vec<PartOfSession> = (1..=TURNS).map(part).collect();
    let replies = parts.iter().flat_map(|part| part.replies.clone());
    let server = Server::start(Script::new(replies)).unwrap();
    world.configure_with(&server, CONFIG);
    world.put("notes.txt", "alpha\nbeta\ngamma\n");
    let settings = agent::Settings { approve: Policy::Ask, ..world.settings(model) };
    let agent = agent::Agent::with_store(settings, world.store()).unwrap();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for (number, part) in (1..).zip(&parts) {
        if number == REWOUND {
            let prompts = agent.threads().prompts(thread, 2).await.unwrap();
            let rewound = agent.threads().rewind(thread, prompts[1].seq - 1).await.unwrap();
            assert!(rewound.superseded > 2, "{model}: {rewound:?}");
        }
        let status = take(&agent, thread, (number, part)).await;
        let expected = if number == CANCELLED { RunStatus::Cancelled } else { RunStatus::Success };
        assert_eq!(status, expected, "{model}, turn {number}");
    }
    assert_eq!(server.calls(), parts.iter().map(|part| part.replies.len()).sum::<usize>(), "{model}");
    look(&world, &agent, thread).await
}

/// Takes one turn to its end, answering what is asked on the way.
async fn take(agent: &agent::Agent, thread: ThreadId, (number, part): (usize, &PartOfSession)) -> RunStatus {
    if number == CANCELLED {
        return stopped_at_the_first_word(agent, thread, &part.says).await;
    }
    let (frames, cancel) = quiet();
    let mut end = agent.runs().send(thread, part.says.as_str(), &frames, &cancel).await.unwrap();
    for decisions in &part.decisions {
        assert_eq!(end.status, RunStatus::Interrupted, "turn {number}: {end:?}");
        let decisions: Decisions = serde_json::from_value(decisions.clone()).unwrap();
        let id = end.interrupts[0].interrupt_id;
        end = agent.runs().resume(id, &decisions, &frames, &cancel).await.unwrap().unwrap();
    }
    end.status
}

async fn stopped_at_the_first_word(agent: &agent::Agent, thread: ThreadId, says: &str) -> RunStatus {
    let cancel = CancellationToken::new();
    let (frames, mut watched) = Frames::channel();
    let stop = async {
        while let Some(Item::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return cancel.cancel();
            }
        }
    };
    let (end, ()) = tokio::join!(agent.runs().send(thread, says, &frames, &cancel), stop);
    end.unwrap().status
}

async fn look(world: &World, agent: &agent::Agent, thread: ThreadId) -> Played {
    let query = EventQuery { superseded: Superseded::Shown, ..EventQuery::after(0, PAGE_ROWS_MAX) };
    let mut events = agent.store().events(thread, query).await.unwrap();
    assert!(events.len() < PAGE_ROWS_MAX, "one page holds the whole session");
    in_order_of_calls(&mut events);
    let mut files = Vec::new();
    for name in ["out/a.txt", "out/b.txt", "src.txt", "notes.txt"] {
        files.push((name.to_owned(), world.read(name)));
    }
    let mut state = agent.store().checkpoint(thread).await.unwrap().unwrap();
    // Each play has a folder of its own, so only that it is named can be compared.
    if let Some(workspace) = state.channels.get_mut("_approval_workspace") {
        assert_eq!(workspace.as_str(), agent.workspace().to_str());
        *workspace = "the workspace".into();
    }
    let cost = agent.threads().cost_report(thread).await.unwrap();
    Played {
        journal: told(&events),
        in_sight: agent.threads().events(thread).await.unwrap().len(),
        files,
        channels: state.channels.into(),
        usage: cost.models.iter().map(|model| model.usage.total_tokens()).sum(),
    }
}

/// Calls of one answer run at the same time, and a result that could not be had again is stored as soon as it is there:
/// the order of results is the only thing in which two plays may differ.
fn in_order_of_calls(events: &mut [Event]) {
    let id = |event: &Event| event.content_value()["call_id"].as_str().map(str::to_owned);
    for batch in
        events.chunk_by_mut(|one, next| one.event_type == "tool_message" && next.event_type == "tool_message")
    {
        batch.sort_by_key(id);
    }
}

#[tokio::test]
async fn b1_a_session_of_fifty_turns_leaves_the_same_journal_over_every_wire_format() {
    let models = ["anthropic/claude-test", "openai/gpt-test", "openai-chat/llama-test", "gemini/gemini-test"];
    let mut played = futures::future::join_all(models.map(play)).await.into_iter();
    let expected = played.next().unwrap();
    assert!(expected.journal.len() > 300, "{} events", expected.journal.len());
    for (model, played) in models[1..].iter().zip(played) {
        for (at, (line, expected)) in played.journal.iter().zip(&expected.journal).enumerate() {
            assert_eq!(line, expected, "{model}, event {at}");
        }
        assert_eq!(played, expected, "{model}");
    }
}
