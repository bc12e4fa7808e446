//! Who tells of a run's end, where several processes could.

use agent::Policy;
use protocol::RunId;
use serde_json::json;

use super::{Desk, blank, request};

#[tokio::test]
async fn j2_of_the_processes_that_are_left_one_tells_what_another_owed() {
    let desk = Desk::new([]).await;
    let process = || desk.world.agent_under(&desk.server, ("", Policy::Ask));
    let (gone, one, two) = (process(), process(), process());
    // On a server's database a process lives as long as it says so; whoever serves does.
    gone.runs().announce().await.unwrap();
    let thread = blank(&gone).await;
    let (run_id, webhook) = (RunId::generate(), "https://example.com/told?key=x");
    gone.runs().queue(run_id, thread, &request(json!({"input": {}, "webhook": webhook}))).await.unwrap();
    assert_eq!(one.runs().webhooks_due(None, 10).await.unwrap().due.len(), 0, "it lives");
    drop(gone);
    let due =
        async |agent: &agent::Agent| agent.runs().webhooks_due(None, 10).await.unwrap().due.pop().unwrap();
    let (mut ones, mut twos) = (due(&one).await, due(&two).await);
    assert_eq!((ones.url.as_str(), ones.run_id), (webhook, run_id));
    assert!(one.runs().claim_webhook(&mut ones).await.unwrap());
    assert!(!two.runs().claim_webhook(&mut twos).await.unwrap(), "it is taken");
    assert!(!two.runs().webhook_failed(&mut twos).await.unwrap(), "and nothing is brought back");
    assert_eq!(two.runs().webhooks_due(None, 10).await.unwrap().due.len(), 0);
    assert!(one.runs().webhook_failed(&mut ones).await.unwrap());
    assert_eq!(due(&one).await.attempts, 1);
    one.runs().webhook_done(&ones).await.unwrap();
    assert!(!one.runs().webhook_failed(&mut ones).await.unwrap(), "it was told");
    assert!(one.runs().webhook(run_id).await.unwrap().is_none());
    assert!(one.runs().webhooks_due(None, 10).await.unwrap().due.is_empty());
}
