//! Tests of decisions on handoffs: an acceptance is for the proposal that its client was shown, one of several decisions
//! counts whatever their endpoints, and an answer that is queued fails if its handoff is decided meanwhile.

use futures::future::{join, join_all};
use serde_json::{Value, json};
use test_model::{GatePosition, ScriptedReply};

use super::{
    GATED_PROMPT, approve, assert_refused, pending_questions, reject, resume, resume_body, run_count,
    send_as, start_server,
};
use crate::fixture::{ServerFixture, TestCaller};

/// The `User-Agent` of a client that names no proposal, and of another client.
const CHAT: &str = "agent-chat-ui";
const OTHER: &str = "another program";

/// The beginning of the drafting prompt, which identifies the requests of drafts.
const DRAFT_PROMPT: &str = "You write the handoff summary";

/// A thread with a pending handoff.
struct PendingHandoff {
    server: ServerFixture,
    thread: String,
    handoff: String,
    question: String,
    sha256: String,
    /// The checkpoint at which the first proposal is pending.
    checkpoint: String,
}

impl PendingHandoff {
    /// Returns a thread whose handoff waits for a decision on its first proposal.
    async fn new() -> Self {
        let draft = |title: &str| {
            let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
            let body = [item("objective", "Do it."), item("progress", "Begun."), item("next_step", "Go on.")];
            ScriptedReply::text(json!({"title": title, "tldr": "Short.", "body": body}).to_string())
        };
        let turn = ScriptedReply::text("Late.")
            .when_body_contains(GATED_PROMPT)
            .with_gate("turn", GatePosition::Start);
        let server = start_server([
            draft("One").when_body_contains(DRAFT_PROMPT),
            draft("Two").when_body_contains(DRAFT_PROMPT),
            turn,
        ])
        .await;
        let thread = server.create_thread_with_message(TestCaller::Local, "Hello.").await;
        let (status, pending) = server.post(&format!("/api/threads/{thread}/handoffs"), &json!({})).await;
        assert_eq!(status, 200, "{pending}");
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{pending}")).to_owned();
        let checkpoint = head(&server, &thread).await;
        Self {
            handoff: text(&pending["handoff"]["handoff_id"]),
            question: text(&pending["interrupt"]["id"]),
            sha256: text(&pending["proposal"]["summary_sha256"]),
            checkpoint,
            thread,
            server,
        }
    }

    /// Refines the proposal as that program, over the endpoint of handoffs or of runs. Returns the hash of the next one.
    async fn refine(&self, program: &str, over_runs: bool) -> String {
        let action = json!({"name": "handoff_summary", "args": {"feedback": "shorter"}});
        let decisions = json!({"decisions": [{"type": "edit", "edited_action": action}]});
        let (path, body) = match over_runs {
            true => (self.runs_path(), resume_body(&decisions)),
            false => (self.decision_path(), decisions),
        };
        let (status, refined) = send_as(&self.server, program, &path, &body).await;
        assert_eq!(status, 200, "{refined}");
        let review = self.server.get(&format!("/api/handoffs/{}", self.handoff)).await.1;
        assert_eq!(review["handoff"]["iteration"], 1, "{review}");
        review["pending"]["proposal"]["summary_sha256"].as_str().unwrap().to_owned()
    }

    /// Sends an answer as that program and waits for the end of the run.
    async fn answer(&self, program: &str, body: &Value) -> (u16, Value) {
        send_as(&self.server, program, &self.runs_path(), body).await
    }

    /// Starts a turn that waits at the gate `turn`.
    async fn start_gated_turn(&self) {
        let message = json!({"role": "user", "content": GATED_PROMPT});
        let turn = json!({"assistant_id": "agent", "input": {"messages": [message]}});
        let calls = self.server.model.call_count();
        assert_eq!(self.server.post(&format!("/threads/{}/runs", self.thread), &turn).await.0, 200);
        self.server.model.wait_for_calls(calls + 1).await;
    }

    /// Waits until an entry is queued behind the turn.
    async fn wait_until_queued(&self) {
        loop {
            let metrics = self.server.get("/metrics").await.1;
            if metrics.as_str().unwrap().contains("segue_runs_waiting 1\n") {
                return;
            }
        }
    }

    fn runs_path(&self) -> String {
        format!("/threads/{}/runs/wait", self.thread)
    }

    fn decision_path(&self) -> String {
        format!("/api/handoffs/{}/decision", self.handoff)
    }

    /// Returns the outcome of the handoff.
    async fn outcome(&self) -> String {
        let review = self.server.get(&format!("/api/handoffs/{}", self.handoff)).await.1;
        review["handoff"]["outcome"].as_str().unwrap_or_else(|| panic!("{review}")).to_owned()
    }
}

/// Returns the id of the thread's newest checkpoint.
async fn head(server: &ServerFixture, thread: &str) -> String {
    let state = server.get(&format!("/threads/{thread}/state")).await.1;
    state["checkpoint"]["checkpoint_id"].as_str().unwrap_or_else(|| panic!("{state}")).to_owned()
}

/// Returns the answer that accepts the proposal with that hash.
fn accept(sha256: &str) -> Value {
    json!({"decisions": [{"type": "approve", "summary_sha256": sha256}]})
}

/// Returns the body of a run that answers at a checkpoint.
fn resume_body_at(answer: &Value, checkpoint: &str) -> Value {
    let mut body = resume_body(answer);
    body["checkpoint"] = json!({"checkpoint_id": checkpoint, "checkpoint_ns": ""});
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_acceptance_that_names_nothing_is_for_the_first_proposal_or_for_that_of_its_client() {
    let first = PendingHandoff::new().await;
    assert_eq!(first.answer(CHAT, &resume_body(&approve())).await.0, 200);
    assert_eq!(first.outcome().await, "accepted");
    first.server.stop().await;
    for over_runs in [true, false] {
        let own = PendingHandoff::new().await;
        own.refine(CHAT, over_runs).await;
        let (path, body) = match over_runs {
            true => (own.runs_path(), resume_body(&approve())),
            false => (own.decision_path(), approve()),
        };
        let (status, accepted) = send_as(&own.server, CHAT, &path, &body).await;
        assert_eq!((status, own.outcome().await.as_str()), (200, "accepted"), "{accepted}");
        own.server.stop().await;
        let foreign = PendingHandoff::new().await;
        let current = foreign.refine(OTHER, over_runs).await;
        let runs = run_count(&foreign.server, &foreign.thread).await;
        let with_title = json!({"decisions": [{"type": "approve", "args": {"title": "Mine"}}]});
        let without_hash = json!({"decisions": [{"type": "approve", "args": {"summary_sha256": null}}]});
        let edited_title = json!({"decisions": [{"type": "edit", "edited_action":
            {"name": "handoff_summary", "args": {"title": "Mine"}}}]});
        for decision in [approve(), with_title, without_hash, edited_title] {
            let refused = foreign.answer(CHAT, &resume_body(&decision)).await;
            assert_refused(&refused, 409, &["draft 2", "Two", &current]);
            let refused = send_as(&foreign.server, CHAT, &foreign.decision_path(), &decision).await;
            assert_refused(&refused, 409, &["draft 2", "Two", &current]);
        }
        assert_eq!(
            (foreign.outcome().await.as_str(), run_count(&foreign.server, &foreign.thread).await),
            ("pending", runs)
        );
        assert_eq!(foreign.answer(CHAT, &resume_body(&accept(&current))).await.0, 200);
        assert_eq!(foreign.outcome().await, "accepted");
        foreign.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_acceptance_of_a_proposal_that_was_replaced_is_refused() {
    let it = PendingHandoff::new().await;
    let current = it.refine(CHAT, true).await;
    let stale_hash = resume_body(&accept(&it.sha256));
    let stale_question = resume_body(&json!({&it.question: approve()}));
    let stale_checkpoint = resume_body_at(&approve(), &it.checkpoint);
    for (body, part) in [
        (stale_hash, "draft 2 has replaced it"),
        (stale_question, "was answered"),
        (stale_checkpoint, "was decided"),
    ] {
        assert_refused(&it.answer(CHAT, &body).await, 409, &[part]);
    }
    let refused = send_as(&it.server, CHAT, &it.decision_path(), &accept(&it.sha256)).await;
    assert_refused(&refused, 409, &["draft 2 has replaced it"]);
    assert_refused(&it.answer(CHAT, &resume_body(&accept("00"))).await, 422, &["answer"]);
    assert_eq!(it.outcome().await, "pending");
    // Another client names the current proposal by its checkpoint.
    let at_head = resume_body_at(&approve(), &head(&it.server, &it.thread).await);
    let (status, accepted) = it.answer(OTHER, &at_head).await;
    assert_eq!((status, it.outcome().await.as_str()), (200, "accepted"), "{accepted}");
    assert_refused(&it.answer(CHAT, &resume_body(&accept(&current))).await, 409, &["accepted"]);
    it.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_the_name_of_the_pending_question_names_the_proposal() {
    let it = PendingHandoff::new().await;
    it.refine(OTHER, true).await;
    let question = pending_questions(&it.server, &it.thread).await.remove(0);
    assert_eq!(it.answer(CHAT, &resume_body(&json!({question: approve()}))).await.0, 200);
    assert_eq!(it.outcome().await, "accepted");
    it.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_one_of_several_concurrent_deciders_of_both_endpoints_counts() {
    for endpoint in ["runs", "runs/wait"] {
        let it = PendingHandoff::new().await;
        let runs = format!("/threads/{}/{endpoint}", it.thread);
        let requests: Vec<(&str, String, Value)> = (0..8)
            .map(|index| {
                let (outcome, answer) = match index / 2 % 2 {
                    0 => ("accepted", accept(&it.sha256)),
                    _ => ("declined", reject()),
                };
                match index % 2 {
                    0 => (outcome, it.decision_path(), answer),
                    _ => (outcome, runs.clone(), resume_body(&answer)),
                }
            })
            .collect();
        let responses = join_all(requests.iter().map(|(_, path, body)| it.server.post(path, body))).await;
        let accepted: Vec<usize> = (0..8).filter(|index| responses[*index].0 == 200).collect();
        assert_eq!(accepted.len(), 1, "{endpoint}: {responses:?}");
        let is_known = |status: u16| [200, 409].contains(&status);
        assert!(responses.iter().all(|(status, _)| is_known(status.as_u16())), "{responses:?}");
        let winner = accepted[0];
        if let Some(run) = responses[winner].1["run_id"].as_str() {
            it.server.get(&format!("/threads/{}/runs/{run}/join", it.thread)).await;
        }
        assert_eq!(it.outcome().await, requests[winner].0, "{endpoint}: {responses:?}");
        it.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_an_answer_behind_a_decision_of_the_handoff_endpoint_is_refused_with_its_outcome() {
    for endpoint in ["runs", "runs/wait", "runs/stream"] {
        let it = PendingHandoff::new().await;
        it.start_gated_turn().await;
        let runs = format!("/threads/{}/{endpoint}", it.thread);
        let (decision_path, decline) = (it.decision_path(), reject());
        let bodies = [accept(&it.sha256), approve(), reject(), json!({&it.question: approve()})]
            .map(|answer| resume_body(&answer));
        let answering = async {
            it.wait_until_queued().await;
            let answers = join_all(bodies.iter().map(|body| it.server.post(&runs, body)));
            let opening = async {
                // The answers are sent before these requests have their responses.
                for _ in 0..3 {
                    it.server.get("/metrics").await;
                }
                it.server.model.open_gate("turn");
            };
            join(answers, opening).await.0
        };
        let (declined, answers) = join(it.server.post(&decision_path, &decline), answering).await;
        assert_eq!(declined.0, 200, "{endpoint}: {}", declined.1);
        for (status, body) in answers {
            assert_refused(&(status.as_u16(), body), 409, &[&it.question, "was answered", ": reject"]);
        }
        assert_eq!(it.outcome().await, "declined", "{endpoint}");
        let row = it.server.get(&format!("/threads/{}", it.thread)).await.1;
        assert_eq!(row["status"], "idle", "{endpoint}: {row}");
        it.server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_a_decision_that_is_refused_leaves_the_handoff_to_the_next_answer() {
    let it = PendingHandoff::new().await;
    it.start_gated_turn().await;
    let (decision_path, unknown_action) =
        (it.decision_path(), json!({"decisions": [{"type": "respond", "message": "x"}]}));
    let answering = async {
        it.wait_until_queued().await;
        let (runs, body) = (it.runs_path(), resume_body(&reject()));
        let opening = async { it.server.model.open_gate("turn") };
        join(it.server.post(&runs, &body), opening).await.0
    };
    let (refused, answered) = join(it.server.post(&decision_path, &unknown_action), answering).await;
    assert_eq!(refused.0, 422, "{}", refused.1);
    assert_eq!((answered.0.as_u16(), it.outcome().await.as_str()), (200, "declined"), "{}", answered.1);
    it.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m1_a_queued_answer_fails_if_its_handoff_was_decided_meanwhile() {
    let it = PendingHandoff::new().await;
    let runs = format!("/threads/{}/runs", it.thread);
    it.start_gated_turn().await;
    let resolve = json!({"assistant_id": "agent", "input": {}, "command": {"goto": "__end__"}});
    assert_eq!(it.server.post(&runs, &resolve).await.0, 200);
    let named = json!({&it.question: approve()});
    let (status, queued) = it.server.post(&runs, &resume_body(&named)).await;
    assert_eq!(status, 200, "{queued}");
    let run = queued["run_id"].as_str().unwrap();
    for later in [named.clone(), accept(&it.sha256)] {
        let refused = resume(&it.server, &it.thread, &later).await;
        assert_refused(&refused, 409, &[&it.question, run, "queued: approve"]);
    }
    it.server.model.open_gate("turn");
    let (_, end) = it.server.get(&format!("{runs}/{run}/join")).await;
    assert_eq!(end["__error__"]["error"], "UnknownInterruptError", "{end}");
    let message = end["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("was withdrawn") && message.contains("is declined"), "{message}");
    assert_eq!(it.outcome().await, "declined");
    let row = it.server.get(&format!("/threads/{}", it.thread)).await.1;
    assert_eq!(row["status"], "idle", "the thread is not broken: {row}");
    it.server.stop().await;
}
