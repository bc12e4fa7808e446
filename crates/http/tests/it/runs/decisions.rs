//! Tests of decisions over the endpoints of runs: the first one counts, one that comes too late or names a question that
//! is not pending is refused with the outcome, and an invalid one uses nothing up.

mod deferred;
mod handoff;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use reqwest::Method;
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply};

use crate::fixture::{ServerFixture, TestCaller, read_response};

/// The prompt of the turns whose replies wait at the gate `turn`.
const GATED_PROMPT: &str = "Take your time.";

/// Returns a reply that calls `write_file` to write a file whose content is its path.
fn write_call(call: &str, path: &str) -> ScriptedReply {
    ScriptedReply::call(call, "write_file", json!({"path": path, "content": path}))
}

/// Starts a server whose model gives these replies in order, and then always `Done.`.
async fn start_server(replies: impl IntoIterator<Item = ScriptedReply>) -> ServerFixture {
    let done = ScriptedReply::text("Done.").with_repeat();
    let script = Script::new(replies.into_iter().chain([done]).collect::<Vec<_>>());
    ServerFixture::with_script(script, |settings| settings).await
}

/// Returns the decision that approves one action.
fn approve() -> Value {
    json!({"decisions": [{"type": "approve"}]})
}

/// Returns the decision that declines one action.
fn reject() -> Value {
    json!({"decisions": [{"type": "reject", "message": "no"}]})
}

/// Returns the body of a run that answers with `resume`.
fn resume_body(resume: &Value) -> Value {
    json!({"assistant_id": "agent", "command": {"resume": resume}})
}

/// Answers and waits for the end of the run; returns the status and the body of the response.
async fn resume(server: &ServerFixture, thread: &str, answer: &Value) -> (u16, Value) {
    let (status, body) = server.post(&format!("/threads/{thread}/runs/wait"), &resume_body(answer)).await;
    (status.as_u16(), body)
}

/// Creates a thread with a message that makes the agent ask; returns the thread and the ids of the questions.
async fn ask(server: &ServerFixture, text: &str) -> (String, Vec<String>) {
    let thread = server.create_thread_with_message(TestCaller::Local, text).await;
    let questions = pending_questions(server, &thread).await;
    assert!(!questions.is_empty());
    (thread, questions)
}

/// Returns the ids of the thread's pending questions.
async fn pending_questions(server: &ServerFixture, thread: &str) -> Vec<String> {
    let state = server.get(&format!("/threads/{thread}/state")).await.1;
    let questions = state["interrupts"].as_array().unwrap_or_else(|| panic!("{state}"));
    questions.iter().map(|question| question["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the number of runs of the thread.
async fn run_count(server: &ServerFixture, thread: &str) -> usize {
    server.get(&format!("/threads/{thread}/runs")).await.1.as_array().unwrap().len()
}

/// Fails unless the response is a refusal with that status, whose text contains each of `parts`.
#[track_caller]
fn assert_refused((status, body): &(u16, Value), expected: u16, parts: &[&str]) {
    assert_eq!(*status, expected, "{body}");
    let detail = body["detail"].as_str().unwrap_or_else(|| panic!("{body}"));
    assert!(parts.iter().all(|part| detail.contains(part)), "{parts:?}: {body}");
}

/// Returns whether the server has made that file in its workspace.
fn has_file(server: &ServerFixture, name: &str) -> bool {
    server.folder.path().join("workspace").join(name).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_one_of_several_concurrent_answers_counts_and_the_others_are_refused_with_its_outcome() {
    for endpoint in ["runs", "runs/wait", "runs/stream"] {
        let second = write_call("c2", "b").with_gate("second", GatePosition::Start);
        let server = start_server([write_call("c1", "a"), second]).await;
        let (thread, questions) = ask(&server, "Write both.").await;
        let path = format!("/threads/{thread}/{endpoint}");
        let bodies =
            [approve(), reject(), approve(), reject(), reject(), approve()].map(|it| resume_body(&it));
        let mut requests: FuturesUnordered<_> =
            bodies.iter().map(|body| send_text(&server, &path, body)).collect();
        let mut responses = Vec::new();
        while let Some(response) = requests.next().await {
            responses.push(response);
            // The accepted run asks again only after the other answers were received.
            if responses.len() == bodies.len() - 1 {
                server.model.open_gate("second");
            }
        }
        drop(requests);
        let (accepted, refused): (Vec<_>, Vec<_>) =
            responses.into_iter().partition(|(_, status, _)| *status == 200);
        assert_eq!(accepted.len(), 1, "{endpoint}: {accepted:?} {refused:?}");
        let decision = accepted[0].0["command"]["resume"]["decisions"][0]["type"].as_str().unwrap();
        for (_, status, text) in refused {
            let refusal = (status, serde_json::from_str(&text).unwrap());
            assert_refused(&refusal, 409, &[&questions[0], &format!(": {decision}")]);
            let hint = refusal.1["hint"].as_str().unwrap();
            assert!(hint.contains("the first decision holds"), "{text}");
        }
        let runs = server.get(&format!("/threads/{thread}/runs")).await.1;
        assert_eq!(runs.as_array().unwrap().len(), 2, "{endpoint}: {runs}");
        let run = runs[0]["run_id"].as_str().unwrap();
        server.get(&format!("/threads/{thread}/runs/{run}/join")).await;
        assert_eq!(has_file(&server, "a"), decision == "approve", "{endpoint}");
        let next = pending_questions(&server, &thread).await;
        assert!(next.len() == 1 && next != questions, "{endpoint}: {next:?}");
        assert!(!has_file(&server, "b"), "{endpoint}: nobody has decided the second question");
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_answer_that_comes_too_late_or_names_an_unknown_question_is_refused() {
    let server = start_server([write_call("c1", "a"), write_call("c2", "b")]).await;
    let (thread, first) = ask(&server, "Write a.").await;
    let unknown = "0123456789abcdef0123456789abcdef";
    let runs = run_count(&server, &thread).await;
    for strict in [false, true] {
        let named = json!({unknown: approve(), first[0].as_str(): approve()});
        let mut body = resume_body(&named);
        body["strict_resume"] = json!(strict);
        let (status, body) = server.post(&format!("/threads/{thread}/runs/wait"), &body).await;
        assert_refused(&(status.as_u16(), body), 409, &[unknown, "unknown"]);
    }
    let (other, _) = ask(&server, "Write b.").await;
    assert_refused(
        &resume(&server, &other, &json!({&first[0]: approve()})).await,
        409,
        &[&first[0], "unknown"],
    );
    assert_eq!(
        (run_count(&server, &thread).await, pending_questions(&server, &thread).await),
        (runs, first.clone())
    );
    assert_eq!(resume(&server, &thread, &json!({&first[0]: reject()})).await.0, 200);
    assert!(!has_file(&server, "a"));
    let runs = run_count(&server, &thread).await;
    for late in [json!({&first[0]: approve()}), approve(), json!("yes"), json!({})] {
        assert_refused(&resume(&server, &thread, &late).await, 409, &[&first[0], "was answered", "reject"]);
    }
    assert_eq!(run_count(&server, &thread).await, runs, "nothing is stored");
    // A message withdraws the question of the other thread.
    let withdrawn = pending_questions(&server, &other).await;
    server.send_message(TestCaller::Local, &other, "Never mind.").await;
    for late in [json!({&withdrawn[0]: approve()}), approve()] {
        assert_refused(&resume(&server, &other, &late).await, 409, &[&withdrawn[0], "was withdrawn"]);
    }
    assert!(!has_file(&server, "b"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_a_thread_that_never_asked_has_no_effect() {
    let server = start_server([]).await;
    let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
    let calls = server.model.call_count();
    for answer in [approve(), json!("yes"), json!({})] {
        let (status, values) = resume(&server, &thread, &answer).await;
        assert_eq!((status, values.get("__error__")), (200, None), "{values}");
    }
    assert_eq!(server.model.call_count(), calls);
    let unknown = json!({"0123456789abcdef0123456789abcdef": approve()});
    assert_refused(&resume(&server, &thread, &unknown).await, 409, &["unknown"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_answer_on_a_new_thread_is_refused() {
    let server = start_server([]).await;
    let named = json!({"0123456789abcdef0123456789abcdef": approve()});
    for answer in [approve(), reject(), json!("yes"), json!({}), named.clone()] {
        let run = resume_body(&answer);
        for (path, body) in [
            ("/runs", run.clone()),
            ("/runs/wait", run.clone()),
            ("/runs/stream", run.clone()),
            ("/runs/batch", json!([run])),
        ] {
            let (status, body) = server.post(path, &body).await;
            assert_eq!(body["code"], "conflict", "{path}: {body}");
            assert_refused(&(status.as_u16(), body), 409, &["no question is pending"]);
        }
    }
    let thread = "0198f0c0-0000-7000-8000-000000000001";
    let mut body = resume_body(&named);
    body["if_not_exists"] = json!("create");
    let (status, refused) = server.post(&format!("/threads/{thread}/runs/wait"), &body).await;
    assert_refused(&(status.as_u16(), refused), 409, &["unknown"]);
    assert_eq!(server.get(&format!("/threads/{thread}")).await.0, 404, "the thread is not created");
    let threads = server.post("/threads/search", &json!({})).await.1;
    assert_eq!((threads, server.model.call_count()), (json!([]), 0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g3_an_invalid_answer_is_refused_and_uses_nothing_up() {
    let server = start_server([write_call("c1", "a")]).await;
    let (thread, questions) = ask(&server, "Write a.").await;
    let runs = run_count(&server, &thread).await;
    let edit = |action: Value| json!({"decisions": [{"type": "edit", "edited_action": action}]});
    let invalid = [
        json!({"type": "maybe"}),
        json!({"decisions": [{"type": "maybe"}]}),
        json!({"decisions": [{"type": "approve", "args": 5}]}),
        json!({"decisions": [{"type": "approve"}, {"type": "approve"}]}),
        json!({"decisions": []}),
        json!({}),
        json!({"decisions": [{"type": "preview"}]}),
        edit(json!({"name": "write_file", "args": 5})),
        edit(json!({"name": 5, "args": {}})),
        json!("yes"),
    ];
    for answer in &invalid {
        for answer in [answer.clone(), json!({&questions[0]: answer})] {
            for endpoint in ["runs", "runs/wait", "runs/stream"] {
                let path = format!("/threads/{thread}/{endpoint}");
                let (status, body) = server.post(&path, &resume_body(&answer)).await;
                assert_refused(&(status.as_u16(), body), 422, &["answer"]);
            }
        }
    }
    assert_eq!(
        (run_count(&server, &thread).await, pending_questions(&server, &thread).await),
        (runs, questions)
    );
    let row = server.get(&format!("/threads/{thread}")).await.1;
    assert_eq!(row["status"], "interrupted");
    assert_eq!(resume(&server, &thread, &approve()).await.0, 200);
    assert!(has_file(&server, "a"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_two_questions_of_one_turn_are_decided_one_after_the_other() {
    let task = |prompt: &str| json!({"description": "a task", "prompt": prompt});
    let server = start_server([
        ScriptedReply::call("c1", "task", task("Hens."))
            .with_call("c2", "task", task("Ducks."))
            .when_body_contains("Plum.")
            .when_turn_is(1, 1),
        write_call("s1", "hens").when_body_contains("Hens.").when_turn_is(1, 1),
        write_call("s2", "ducks").when_body_contains("Ducks.").when_turn_is(1, 1),
    ])
    .await;
    let (thread, questions) = ask(&server, "Plum.").await;
    assert_eq!(questions.len(), 2);
    let ambiguous = resume(&server, &thread, &approve()).await;
    assert_eq!((ambiguous.0, &ambiguous.1["__error__"]["error"]), (200, &json!("AmbiguousResumeError")));
    let named = |index: usize, answer: Value| json!({&questions[index]: answer});
    let first = [named(0, approve()), named(0, reject()), named(0, approve())];
    let answers = join_all(first.iter().map(|answer| resume(&server, &thread, answer))).await;
    let accepted = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(accepted, 1, "{answers:?}");
    assert!(answers.iter().all(|(status, _)| [200, 409].contains(status)), "{answers:?}");
    assert_eq!(pending_questions(&server, &thread).await, questions[1..]);
    for repeated in [named(0, approve()), json!({&questions[0]: approve(), &questions[1]: approve()})] {
        assert_refused(&resume(&server, &thread, &repeated).await, 409, &[&questions[0], "was answered"]);
    }
    assert_eq!(pending_questions(&server, &thread).await, questions[1..], "the second is not used up");
    // The only question that is left needs no name.
    assert_eq!(resume(&server, &thread, &approve()).await.0, 200);
    assert!(has_file(&server, "ducks"));
    assert_refused(&resume(&server, &thread, &named(1, reject())).await, 409, &[&questions[1], "approve"]);
    assert_refused(&resume(&server, &thread, &reject()).await, 409, &["was answered"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_a_queued_answer_never_decides_a_question_that_was_raised_after_it() {
    let gated = write_call("c1", "a").when_body_contains(GATED_PROMPT).with_gate("turn", GatePosition::Start);
    let server = start_server([gated]).await;
    let thread = server.create_thread(TestCaller::Local).await;
    let body =
        json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": GATED_PROMPT}]}});
    assert_eq!(server.post(&format!("/threads/{thread}/runs"), &body).await.0, 200);
    server.model.wait_for_calls(1).await;
    let (status, queued) = server.post(&format!("/threads/{thread}/runs"), &resume_body(&approve())).await;
    assert_eq!(status, 200, "{queued}");
    server.model.open_gate("turn");
    let run = queued["run_id"].as_str().unwrap();
    let (_, end) = server.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(end["__error__"]["error"], "UnknownInterruptError", "{end}");
    assert_eq!(pending_questions(&server, &thread).await.len(), 1);
    assert!(!has_file(&server, "a"));
    assert_eq!(resume(&server, &thread, &approve()).await.0, 200);
    assert!(has_file(&server, "a"));
    server.stop().await;
}

/// Sends a request; returns its body, and the status and the text of the response.
async fn send_text<'a>(server: &ServerFixture, path: &str, body: &'a Value) -> (&'a Value, u16, String) {
    let response = server.request(TestCaller::Local, Method::POST, path).json(body).send().await.unwrap();
    (body, response.status().as_u16(), response.text().await.unwrap())
}

/// Sends a request as that program and returns the status and the body of the response.
async fn send_as(server: &ServerFixture, program: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = server.request(TestCaller::Local, Method::POST, path).header("user-agent", program);
    let (status, body) = read_response(request.json(body).send().await.unwrap()).await;
    (status.as_u16(), body)
}
