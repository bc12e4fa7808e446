//! Delivery of a run's webhook by exactly one of several processes.

use agent::ApprovalPolicy;
use protocol::RunId;
use serde_json::json;

use super::{RequestFixture, blank_thread, request};

#[tokio::test]
async fn j2_of_the_processes_that_are_left_one_tells_what_another_owed() {
    let desk = RequestFixture::new([]).await;
    let process = || desk.world.agent_with_policy(&desk.server, ("", ApprovalPolicy::Ask));
    let (gone, one, two) = (process(), process(), process());
    // On a server's database a process lives as long as it says so; whoever serves does.
    gone.runs().start_heartbeat().await.unwrap();
    let thread = blank_thread(&gone).await;
    let (run_id, webhook) = (RunId::generate(), "https://example.com/told?key=x");
    gone.runs().enqueue(run_id, thread, &request(json!({"input": {}, "webhook": webhook}))).await.unwrap();
    assert_eq!(one.runs().due_webhooks(None, 10).await.unwrap().due.len(), 0, "it lives");
    drop(gone);
    let due =
        async |agent: &agent::Agent| agent.runs().due_webhooks(None, 10).await.unwrap().due.pop().unwrap();
    let (mut ones, mut twos) = (due(&one).await, due(&two).await);
    assert_eq!((ones.url.as_str(), ones.run_id), (webhook, run_id));
    assert!(one.runs().claim_webhook(&mut ones).await.unwrap());
    assert!(!two.runs().claim_webhook(&mut twos).await.unwrap(), "it is taken");
    assert!(!two.runs().record_webhook_failure(&mut twos).await.unwrap(), "and nothing is brought back");
    assert_eq!(two.runs().due_webhooks(None, 10).await.unwrap().due.len(), 0);
    assert!(one.runs().record_webhook_failure(&mut ones).await.unwrap());
    assert_eq!(due(&one).await.attempts, 1);
    one.runs().finish_webhook(&ones).await.unwrap();
    assert!(!one.runs().record_webhook_failure(&mut ones).await.unwrap(), "it was told");
    assert!(one.runs().pending_webhook(run_id).await.unwrap().is_none());
    assert!(one.runs().due_webhooks(None, 10).await.unwrap().due.is_empty());
}
