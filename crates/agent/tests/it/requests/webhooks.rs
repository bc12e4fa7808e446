//! Tests that exactly one of several processes delivers a run's webhook.

use agent::ApprovalPolicy;
use protocol::RunId;
use serde_json::json;

use super::{RequestFixture, blank_thread, request};

#[tokio::test]
async fn j2_one_remaining_process_delivers_the_webhook_of_an_exited_process() {
    let fixture = RequestFixture::new([]).await;
    let process = || fixture.environment.agent_with_policy(&fixture.server, ("", ApprovalPolicy::Ask));
    let (exited, first, second) = (process(), process(), process());
    // With a server database, a process counts as alive while it sends heartbeats, as every serving process does.
    exited.runs().start_heartbeat().await.unwrap();
    let thread = blank_thread(&exited).await;
    let (run_id, webhook) = (RunId::generate(), "https://example.com/told?key=x");
    exited.runs().enqueue(run_id, thread, &request(json!({"input": {}, "webhook": webhook}))).await.unwrap();
    assert_eq!(
        first.runs().due_webhooks(None, 10).await.unwrap().due.len(),
        0,
        "the owning process is alive"
    );
    drop(exited);
    let due =
        async |agent: &agent::Agent| agent.runs().due_webhooks(None, 10).await.unwrap().due.pop().unwrap();
    let (mut first_delivery, mut second_delivery) = (due(&first).await, due(&second).await);
    assert_eq!((first_delivery.url.as_str(), first_delivery.run_id), (webhook, run_id));
    assert!(first.runs().claim_webhook(&mut first_delivery).await.unwrap());
    assert!(
        !second.runs().claim_webhook(&mut second_delivery).await.unwrap(),
        "another process has claimed it"
    );
    assert!(
        !second.runs().record_webhook_failure(&mut second_delivery).await.unwrap(),
        "a process without the claim records no failure"
    );
    assert_eq!(second.runs().due_webhooks(None, 10).await.unwrap().due.len(), 0);
    assert!(first.runs().record_webhook_failure(&mut first_delivery).await.unwrap());
    assert_eq!(due(&first).await.attempts, 1);
    first.runs().finish_webhook(&first_delivery).await.unwrap();
    assert!(
        !first.runs().record_webhook_failure(&mut first_delivery).await.unwrap(),
        "the delivery is finished"
    );
    assert!(first.runs().pending_webhook(run_id).await.unwrap().is_none());
    assert!(first.runs().due_webhooks(None, 10).await.unwrap().due.is_empty());
}
