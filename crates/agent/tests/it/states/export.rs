//! The export of a long thread: its parts are small, and together they are the whole history.

use agent::{Agent, TranscriptFormat};
use journal::{RunPatch, Transaction, Write};
use protocol::{
    AssistantId, Message, NewEvent, Rating, Run, RunFeedback, RunId, RunStatus, Thread, ThreadId, Usage,
};
use serde_json::json;

use crate::environment::{TestEnvironment, answering_server};

/// Number of answers of a run. It exceeds a page of the export several times.
const ANSWERS: usize = 1_700;
/// Maximum number of entries of a part.
const PART_ENTRIES_MAX: usize = 500;

async fn commit(agent: &Agent, writes: Vec<Write>) {
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
}

/// Stores a run with many answers, and a thumb for it.
async fn store_run(agent: &Agent, thread_id: ThreadId, comment: &str) {
    let (run_id, now) = (RunId::generate(), jiff::Timestamp::UNIX_EPOCH);
    let run = Run {
        run_id,
        thread_id,
        assistant_id: AssistantId::default(),
        status: RunStatus::Running,
        model: None,
        failure: None,
        lease_owner: None,
        lease_until: None,
        usage: Usage::default(),
        created_at: now,
        updated_at: now,
    };
    let answers = (0..ANSWERS).map(|number| Message::ai(format!("{comment} {number}\nÄ \"quoted\" line.")));
    let events =
        answers.map(|answer| NewEvent::from_message(&answer, now).unwrap().with_run(run_id)).collect();
    let feedback = RunFeedback {
        thread_id,
        run_id,
        user_id: RunFeedback::LOCAL_USER.to_owned(),
        rating: Rating::Up,
        comment: Some(comment.to_owned()),
        created_at: now,
        updated_at: now,
    };
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    let writes = vec![
        Write::AdmitRun(run),
        Write::Append { thread_id, events },
        Write::UpdateRun { run_id, patch },
        Write::PutFeedback(feedback),
    ];
    commit(agent, writes).await;
}

async fn export_parts(agent: &Agent, thread: &Thread, format: TranscriptFormat) -> Vec<String> {
    let mut export = agent.threads().export(thread, format).await.unwrap();
    let mut parts = Vec::new();
    while let Some(part) = export.next_part().await.unwrap() {
        parts.push(part);
    }
    parts
}

#[tokio::test]
async fn a_long_export_consists_of_small_parts_with_feedback_at_the_last_answer_of_each_run() {
    let environment = TestEnvironment::new();
    let agent = environment.agent_with(&answering_server("unused"));
    let new = Thread::blank(ThreadId::generate(), AssistantId::default(), jiff::Timestamp::UNIX_EPOCH);
    let thread_id = new.thread_id;
    commit(&agent, vec![Write::CreateThread(new.clone())]).await;
    let empty = export_parts(&agent, &new, TranscriptFormat::Json).await.concat();
    let expected = json!({"thread": new, "history": []});
    assert_eq!(empty, serde_json::to_string_pretty(&expected).unwrap() + "\n");

    store_run(&agent, thread_id, "first").await;
    store_run(&agent, thread_id, "second").await;
    let thread = agent.threads().find(&thread_id.to_string()).await.unwrap();
    let history = agent.threads().history(thread_id).await.unwrap();
    let parts = export_parts(&agent, &thread, TranscriptFormat::Json).await;
    assert!(parts.iter().all(|part| part.matches("\"seq\"").count() <= PART_ENTRIES_MAX));
    let expected = json!({"thread": thread, "history": history});
    let exported = parts.concat();
    assert!(exported == serde_json::to_string_pretty(&expected).unwrap() + "\n");

    let parts = export_parts(&agent, &thread, TranscriptFormat::Markdown).await;
    assert!(parts.iter().all(|part| part.matches("## AI").count() <= PART_ENTRIES_MAX));
    let markdown = parts.concat();
    let thumbs: Vec<_> = markdown.match_indices("_Feedback: thumb up: ").map(|(index, _)| index).collect();
    let last_answer = |text: &str| markdown.find(&format!("{text} {}", ANSWERS - 1)).unwrap();
    assert!(
        matches!(thumbs[..], [first, second] if last_answer("first") < first && first < last_answer("second")
        && last_answer("second") < second)
    );
}

#[tokio::test]
async fn an_export_of_a_thread_that_is_deleted_meanwhile_fails() {
    let environment = TestEnvironment::new();
    let agent = environment.agent_with(&answering_server("unused"));
    let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), jiff::Timestamp::UNIX_EPOCH);
    let thread_id = thread.thread_id;
    commit(&agent, vec![Write::CreateThread(thread.clone())]).await;
    store_run(&agent, thread_id, "first").await;
    let mut export = agent.threads().export(&thread, TranscriptFormat::Json).await.unwrap();
    export.next_part().await.unwrap().unwrap();
    commit(&agent, vec![Write::DeleteThread { thread_id }]).await;
    let outcome = loop {
        match export.next_part().await {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    assert_eq!(outcome.unwrap_err().class(), agent::ErrorClass::User);
}
