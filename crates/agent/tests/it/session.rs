//! One session of fifty turns, played over each of the four wire formats: the journal is the same. A person edits,
//! declines and answers calls in it, stops a run, and takes the thread back.

mod script;

use agent::{ApprovalPolicy, CancellationToken, Frame, FrameSender, SubscriptionItem};
use journal::{EventQuery, PAGE_ROWS_MAX, SupersededVisibility};
use protocol::{Decisions, Event, RunStatus, ThreadId};
use test_model::{Script, ScriptedServer};

use self::script::{CANCELLED_TURN, REWOUND_TURN, SessionTurn, TURNS, session_turn};
use crate::environment::{TestEnvironment, event_lines, unwatched};

/// The final state of the session.
#[derive(Debug, PartialEq)]
struct SessionRecord {
    /// Every event, those that were taken back included.
    journal: Vec<String>,
    /// The number of visible messages.
    in_sight: usize,
    files: Vec<(String, String)>,
    channels: serde_json::Value,
    usage: u64,
}

/// Without a rule, writing asks; what is below `out` and what prints is allowed.
const CONFIG: &str =
    "[permissions]\nallow = [\"write_file(out/**)\", \"edit_file(out/**)\", \"execute(printf *)\"]\n";

async fn play_session(model: &str) -> SessionRecord {
    let world = TestEnvironment::new();
    let parts: Vec<SessionTurn> = (1..=TURNS).map(session_turn).collect();
    let replies = parts.iter().flat_map(|part| part.replies.clone());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    world.configure_with_extra(&server, CONFIG);
    world.write_file("notes.txt", "alpha\nbeta\ngamma\n");
    let settings = agent::AgentSettings { approval_policy: ApprovalPolicy::Ask, ..world.settings(model) };
    let agent = agent::Agent::with_store(settings, world.store()).unwrap();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for (number, part) in (1..).zip(&parts) {
        if number == REWOUND_TURN {
            let prompts = agent.threads().prompts(thread, 2).await.unwrap();
            let rewound = agent.threads().rewind(thread, prompts[1].seq - 1).await.unwrap();
            assert!(rewound.superseded > 2, "{model}: {rewound:?}");
        }
        let status = run_turn(&agent, thread, (number, part)).await;
        let expected = if number == CANCELLED_TURN { RunStatus::Cancelled } else { RunStatus::Success };
        assert_eq!(status, expected, "{model}, turn {number}");
    }
    assert_eq!(server.call_count(), parts.iter().map(|part| part.replies.len()).sum::<usize>(), "{model}");
    read_session_record(&world, &agent, thread).await
}

/// Takes one turn to its end, answering what is asked on the way.
async fn run_turn(
    agent: &agent::Agent,
    thread: ThreadId,
    (number, part): (usize, &SessionTurn),
) -> RunStatus {
    if number == CANCELLED_TURN {
        return stop_at_first_word(agent, thread, &part.prompt).await;
    }
    let (frames, cancel) = unwatched();
    let mut end = agent.runs().send_message(thread, part.prompt.as_str(), &frames, &cancel).await.unwrap();
    for decisions in &part.decisions {
        assert_eq!(end.status, RunStatus::Interrupted, "turn {number}: {end:?}");
        let decisions: Decisions = serde_json::from_value(decisions.clone()).unwrap();
        let id = end.interrupts[0].interrupt_id;
        end = agent.runs().resume(id, &decisions, &frames, &cancel).await.unwrap().unwrap();
    }
    end.status
}

async fn stop_at_first_word(agent: &agent::Agent, thread: ThreadId, says: &str) -> RunStatus {
    let cancel = CancellationToken::new();
    let (frames, mut watched) = FrameSender::channel();
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return cancel.cancel();
            }
        }
    };
    let (end, ()) = tokio::join!(agent.runs().send_message(thread, says, &frames, &cancel), stop);
    end.unwrap().status
}

async fn read_session_record(
    world: &TestEnvironment,
    agent: &agent::Agent,
    thread: ThreadId,
) -> SessionRecord {
    let query = EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(0, PAGE_ROWS_MAX) };
    let mut events = agent.store().events(thread, query).await.unwrap();
    assert!(events.len() < PAGE_ROWS_MAX, "one page holds the whole session");
    sort_by_call_order(&mut events);
    let mut files = Vec::new();
    for name in ["out/a.txt", "out/b.txt", "src.txt", "notes.txt"] {
        files.push((name.to_owned(), world.read_file(name)));
    }
    let mut state = agent.store().checkpoint(thread).await.unwrap().unwrap();
    // Each play has a folder of its own, so only that it is named can be compared.
    if let Some(workspace) = state.channels.get_mut("_approval_workspace") {
        assert_eq!(workspace.as_str(), agent.workspace().to_str());
        *workspace = "the workspace".into();
    }
    let cost = agent.threads().cost_report(thread).await.unwrap();
    SessionRecord {
        journal: event_lines(&events),
        in_sight: agent.threads().events(thread).await.unwrap().len(),
        files,
        channels: state.channels.into(),
        usage: cost.models.iter().map(|model| model.usage.total_tokens()).sum(),
    }
}

/// Calls of one answer run at the same time, and a result that could not be had again is stored as soon as it is there:
/// the order of results is the only thing in which two plays may differ.
fn sort_by_call_order(events: &mut [Event]) {
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
    let mut played = futures::future::join_all(models.map(play_session)).await.into_iter();
    let expected = played.next().unwrap();
    assert!(expected.journal.len() > 300, "{} events", expected.journal.len());
    for (model, played) in models[1..].iter().zip(played) {
        for (at, (line, expected)) in played.journal.iter().zip(&expected.journal).enumerate() {
            assert_eq!(line, expected, "{model}, event {at}");
        }
        assert_eq!(played, expected, "{model}");
    }
}
