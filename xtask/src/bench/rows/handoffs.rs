//! A handoff over HTTP: draft, refinement and acceptance, the first of a new server and later ones.

use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};

use super::super::harness::BenchContext;
use super::super::harness::client::HttpClient;
use super::super::harness::home::BenchHome;
use super::super::harness::model::ModelServer;
use super::super::harness::server::ServeProcess;
use super::super::harness::statistics::median;
use super::super::report::Measurement;

/// Lengths of the threads in messages, and the goals in milliseconds of the first draft.
const LENGTHS: [(usize, f64); 2] = [(120, 10.0), (5_000, 10.0)];
/// Goal of each part of a later handoff, in milliseconds.
const PART_GOAL_MS: f64 = 2.0;
/// Number of measured handoffs after the first one.
const HANDOFFS: usize = 20;
/// The draft of the model.
pub const DRAFT: &str = r#"{"title":"The parser fails","tldr":"The parser is mended; a test is still to be written.",
"body":[{"kind":"objective","text":"Find out why the parser fails.","refs":[1]},
{"kind":"decision","text":"Keep the public names.","refs":[1]},
{"kind":"next_step","text":"Run the tests of the parser.","refs":[4]}]}"#;

/// A text of the prompt for a part of a long conversation (`crates/handoff/src/draft/prompts/part.md`).
const PART_PROMPT: &str = "You read one part of a conversation";

/// Starts a model that drafts handoffs, and whose notes about a part of a conversation of `messages` messages refer to
/// messages of that part, so that they are usable.
fn start_model(context: &BenchContext, messages: usize) -> anyhow::Result<ModelServer> {
    let seqs: Vec<String> = (1..=2 * messages).step_by(40).map(|seq| seq.to_string()).collect();
    let notes = format!("- [{}] The parser failed, and its names are kept.", seqs.join(", "));
    let part = json!({"always": true, "when": {"contains": PART_PROMPT}, "text": [notes]});
    ModelServer::start(context, &[part, json!({"always": true, "text": [DRAFT]})])
}

/// Measures the parts of handoffs of threads of each length.
///
/// # Errors
/// If a request fails.
pub fn measure_handoffs(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (messages, cold_goal) in LENGTHS {
        let model = start_model(context, messages)?;
        let home = BenchHome::create(context, &format!("handoff-{messages}"))?;
        home.configure(&model.config("[handoff]\nmax_refinements = 1000\n"))?;
        let thread = home.import_session(messages)?;
        let server = ServeProcess::start(&home)?;
        let mut client = server.connect()?;
        let [cold, ..] = measure_handoff(&mut client, &thread)?;
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..HANDOFFS {
            for (times, time) in times.iter_mut().zip(measure_handoff(&mut client, &thread)?) {
                times.push(time);
            }
        }
        let name = |part: &str| format!("handoff over HTTP, {messages} messages: {part}");
        measurements
            .push(Measurement::cost(name("first draft of a server"), cold, "ms").with_goal(cold_goal));
        for (part, times) in ["draft", "refinement", "acceptance"].into_iter().zip(times) {
            measurements.push(Measurement::cost(name(part), median(times), "ms").with_goal(PART_GOAL_MS));
        }
    }
    Ok(measurements)
}

/// Drafts, refines and accepts a handoff, and returns the milliseconds of each.
fn measure_handoff(client: &mut HttpClient, thread: &str) -> anyhow::Result<[f64; 3]> {
    let mut start = Instant::now();
    let mut lap = || {
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        start = Instant::now();
        milliseconds
    };
    let handoff = draft_handoff(client, thread)?;
    let draft = lap();
    let action = json!({"name": "handoff_summary", "args": {"feedback": "Name the open tasks."}});
    decide_handoff(client, &handoff, &json!({"type": "edit", "edited_action": action}))?;
    let refinement = lap();
    let outcome = decide_handoff(client, &handoff, &json!({"type": "approve"}))?;
    outcome["child_thread_id"].as_str().context("the handoff has no child thread")?;
    Ok([draft, refinement, lap()])
}

/// Drafts a handoff and returns its id.
///
/// # Errors
/// If the request fails or no draft results.
pub fn draft_handoff(client: &mut HttpClient, thread: &str) -> anyhow::Result<String> {
    let path = format!("/api/threads/{thread}/handoffs");
    let asked = client.request_json("POST", &path, &json!({}))?;
    let id = asked["handoff"]["handoff_id"].as_str().with_context(|| format!("no handoff in {asked}"))?;
    Ok(id.to_owned())
}

/// Decides a handoff and returns the response.
///
/// # Errors
/// If the request fails.
pub fn decide_handoff(client: &mut HttpClient, handoff: &str, decision: &Value) -> anyhow::Result<Value> {
    let path = format!("/api/handoffs/{handoff}/decision");
    client.request_json("POST", &path, &json!({"decisions": [decision]}))
}
