//! Tests that one session of fifty turns leaves the same journal over each of the four provider wire formats. In the
//! session, the user edits, declines and answers tool calls, cancels a run, and rewinds the thread.

mod script;

use agent::{ApprovalPolicy, CancellationToken, Frame, FrameSender, SubscriptionItem};
use journal::{EventQuery, PAGE_ROWS_MAX, SupersededVisibility};
use protocol::{Decisions, Event, RunStatus, ThreadId};
use test_model::{Script, ScriptedServer};

use self::script::{CANCELLED_TURN, REWOUND_TURN, SessionTurn, TURNS, session_turn};
use crate::environment::{TestEnvironment, event_lines, unwatched};

/// The final state of a session.
#[derive(Debug, PartialEq)]
struct SessionRecord {
    /// All events as lines, including superseded events.
    journal: Vec<String>,
    /// The number of visible events.
    visible_events: usize,
    /// Names and texts of the workspace's files.
    files: Vec<(String, String)>,
    /// The channels of the newest checkpoint.
    channels: serde_json::Value,
    /// Tokens of all model calls.
    usage: u64,
}

/// The permission rules: writing below `out` and `printf` are allowed. All other writes and commands need an approval.
const CONFIG: &str =
    "[permissions]\nallow = [\"write_file(out/**)\", \"edit_file(out/**)\", \"execute(printf *)\"]\n";

/// Runs the whole session with `model` and returns its final state.
async fn play_session(model: &str) -> SessionRecord {
    let environment = TestEnvironment::new();
    let turns: Vec<SessionTurn> = (1..=TURNS).map(session_turn).collect();
    let replies = turns.iter().flat_map(|turn| turn.replies.clone());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    environment.configure_with_extra(&server, CONFIG);
    environment.write_file("notes.txt", "alpha\nbeta\ngamma\n");
    let settings =
        agent::AgentSettings { approval_policy: ApprovalPolicy::Ask, ..environment.settings(model) };
    let agent = agent::Agent::with_store(settings, environment.store()).unwrap();
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for (number, turn) in (1..).zip(&turns) {
        if number == REWOUND_TURN {
            let prompts = agent.threads().prompts(thread, 2).await.unwrap();
            let rewound = agent.threads().rewind(thread, prompts[1].seq - 1).await.unwrap();
            assert!(rewound.superseded > 2, "{model}: {rewound:?}");
        }
        let status = run_turn(&agent, thread, (number, turn)).await;
        let expected = if number == CANCELLED_TURN { RunStatus::Cancelled } else { RunStatus::Success };
        assert_eq!(status, expected, "{model}, turn {number}");
    }
    assert_eq!(server.call_count(), turns.iter().map(|turn| turn.replies.len()).sum::<usize>(), "{model}");
    read_session_record(&environment, &agent, thread).await
}

/// Runs one turn to its end and answers its interrupts as scripted.
async fn run_turn(
    agent: &agent::Agent,
    thread: ThreadId,
    (number, turn): (usize, &SessionTurn),
) -> RunStatus {
    if number == CANCELLED_TURN {
        return cancel_at_first_text(agent, thread, &turn.prompt).await;
    }
    let (frames, cancel) = unwatched();
    let mut end = agent.runs().send_message(thread, turn.prompt.as_str(), &frames, &cancel).await.unwrap();
    for decisions in &turn.decisions {
        assert_eq!(end.status, RunStatus::Interrupted, "turn {number}: {end:?}");
        let decisions: Decisions = serde_json::from_value(decisions.clone()).unwrap();
        let id = end.interrupts[0].interrupt_id;
        end = agent.runs().resume(id, &decisions, &frames, &cancel).await.unwrap().unwrap();
    }
    end.status
}

/// Sends `prompt` and cancels the run when the first text of the answer arrives.
async fn cancel_at_first_text(agent: &agent::Agent, thread: ThreadId, prompt: &str) -> RunStatus {
    let cancel = CancellationToken::new();
    let (frames, mut subscription) = FrameSender::channel();
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = subscription.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return cancel.cancel();
            }
        }
    };
    let (end, ()) = tokio::join!(agent.runs().send_message(thread, prompt, &frames, &cancel), stop);
    end.unwrap().status
}

async fn read_session_record(
    environment: &TestEnvironment,
    agent: &agent::Agent,
    thread: ThreadId,
) -> SessionRecord {
    let query = EventQuery { superseded: SupersededVisibility::Shown, ..EventQuery::after(0, PAGE_ROWS_MAX) };
    let mut events = agent.store().events(thread, query).await.unwrap();
    assert!(events.len() < PAGE_ROWS_MAX, "one page holds the whole session");
    for event in &events {
        let category = event.kind().map(|kind| kind.category().as_str());
        assert_eq!(category, Some(event.category.as_str()), "the catalog has {}", event.event_type);
    }
    sort_by_call_order(&mut events);
    let mut files = Vec::new();
    for name in ["out/a.txt", "out/b.txt", "src.txt", "notes.txt"] {
        files.push((name.to_owned(), environment.read_file(name)));
    }
    let mut state = agent.store().checkpoint(thread).await.unwrap().unwrap();
    // Each session has its own workspace, so the path is replaced after it is checked.
    if let Some(workspace) = state.channels.get_mut("_approval_workspace") {
        assert_eq!(workspace.as_str(), agent.workspace().to_str());
        *workspace = "the workspace".into();
    }
    let cost = agent.threads().cost_report(thread).await.unwrap();
    SessionRecord {
        journal: event_lines(&events),
        visible_events: agent.threads().events(thread).await.unwrap().len(),
        files,
        channels: state.channels.into(),
        usage: cost.models.iter().map(|model| model.usage.total_tokens()).sum(),
    }
}

/// Sorts adjacent tool results by call id. The calls of one answer run concurrently, and a result that cannot be computed
/// again is stored as soon as it exists, so the order of results is the only allowed difference between two sessions.
fn sort_by_call_order(events: &mut [Event]) {
    let id = |event: &Event| event.content_value()["call_id"].as_str().map(str::to_owned);
    for batch in events
        .chunk_by_mut(|event, next| event.event_type == "tool_message" && next.event_type == "tool_message")
    {
        batch.sort_by_key(id);
    }
}

#[tokio::test]
async fn a22_b1_a_session_of_fifty_turns_leaves_the_same_journal_over_every_wire_format() {
    let models = ["anthropic/claude-test", "openai/gpt-test", "openai-chat/llama-test", "gemini/gemini-test"];
    let mut records = futures::future::join_all(models.map(play_session)).await.into_iter();
    let expected = records.next().unwrap();
    assert!(expected.journal.len() > 300, "{} events", expected.journal.len());
    for (model, record) in models[1..].iter().zip(records) {
        for (index, (line, expected)) in record.journal.iter().zip(&expected.journal).enumerate() {
            assert_eq!(line, expected, "{model}, event {index}");
        }
        assert_eq!(record, expected, "{model}");
    }
}
