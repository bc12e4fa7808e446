//! Tests of the doctor's check of the database: its progress, its end when it is cancelled, and the damage that it lists.

use agent::{Agent, CancellationToken, CheckStatus, Frame, FrameSender, SubscriptionItem};
use protocol::{Message, ThreadId};

use crate::compaction::append;
use crate::environment::TestEnvironment;

/// Number of messages, which are verified in three batches.
const MESSAGES: usize = 1_200;

async fn long_thread(agent: &Agent) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let messages: Vec<Message> =
        (0..MESSAGES).map(|number| Message::human(format!("message number {number}"))).collect();
    append(agent, thread, &messages).await;
    thread
}

#[tokio::test]
async fn a4_the_doctor_reports_its_progress_and_the_damaged_events() {
    const DAMAGED: &str = "content LIKE '%number 700\"%'";
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let thread = long_thread(&agent).await;
    environment.execute_sql(&format!(
        "UPDATE events SET content = replace(content, 'message', 'massage') WHERE {DAMAGED}"
    ));
    let seq = environment.query_texts(&format!("SELECT CAST(seq AS TEXT) FROM events WHERE {DAMAGED}"));
    let (frames, mut subscription) = FrameSender::channel();
    let checks = agent.admin().run_doctor(&frames, &CancellationToken::new()).await.unwrap();
    let check = checks.iter().find(|check| check.name == "database").unwrap();
    assert_eq!(check.verdict, CheckStatus::Fail);
    assert_eq!(check.detail, format!("damaged events of thread {thread}: {}", seq[0]));
    let mut positions = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = subscription.try_next() {
        if let Frame::Progress { done, total: Some(total), .. } = &*frame {
            positions.push((*done, *total >= MESSAGES as u64));
        }
    }
    assert_eq!(positions, [(0, true), (500, true), (1_000, true)]);
}

#[tokio::test]
async fn a_cancelled_doctor_ends_without_a_result() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert_eq!(agent.admin().run_doctor(&FrameSender::default(), &cancel).await, None);
}
