//! Tests of webhooks: exactly one delivery for every run status, also after a crash, and only to allowed targets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use protocol::{RunRequest, RunStatus, ThreadId};
use scheduler::{
    CancelAction, EndedRun, Error, IfNotExists, NewRun, Scheduler, SchedulerLimits, WebhookTargetError,
    WebhookTargetPolicy,
};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, alice, answering_model, drop_scheduler, gated_model, join, new_run_on,
    user_request, wait_for_first_step,
};

pub const GRACE: std::time::Duration = std::time::Duration::from_secs(60);

/// An HTTP server that receives webhooks.
pub struct WebhookServer {
    url: String,
    pub requests: UnboundedReceiver<Value>,
    statuses: Arc<AtomicU16>,
}

impl WebhookServer {
    /// Starts the receiver on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let ((sender, receiver), statuses) = (unbounded_channel(), Arc::new(AtomicU16::new(204)));
        let status = Arc::clone(&statuses);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body = read_request(&mut stream).await;
                let status = status.load(Ordering::SeqCst);
                let response =
                    format!("HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(response.as_bytes()).await.unwrap();
                sender.send(serde_json::from_slice(&body).unwrap()).unwrap();
            }
        });
        Self { url, requests: receiver, statuses }
    }

    /// Returns a request with a user message whose webhook is this receiver.
    pub fn request_with_webhook(&self, text: &str) -> RunRequest {
        RunRequest { webhook: Some(self.url.clone()), ..user_request(text) }
    }
}

/// Reads one HTTP request and returns its body.
async fn read_request(stream: &mut tokio::net::TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length =
            text.split("content-length: ").nth(1).and_then(|length| length.lines().next()?.parse().ok());
        let length: usize = length.unwrap();
        if bytes.len() >= head + 4 + length {
            return bytes.split_off(head + 4);
        }
    }
}

/// Enables the delivery of webhooks to any target.
pub fn enable_webhooks(scheduler: &Arc<Scheduler>) {
    scheduler.enable_webhooks(Arc::new(|EndedRun { run, request, .. }| {
        let body = json!({"run_id": run.run_id, "status": run.status, "asked": request.webhook.is_some()});
        Box::pin(async move { Ok(serde_json::to_vec(&body)?) })
    }));
}

/// Returns a scheduler that uses `server` as its model and delivers webhooks to any target.
pub fn open_scheduler(fixture: &SchedulerFixture, server: &ScriptedServer) -> Arc<Scheduler> {
    fixture.configure(server);
    reopen_scheduler(fixture)
}

/// Returns another scheduler on the fixture's folder, with the model that was configured before.
pub fn reopen_scheduler(fixture: &SchedulerFixture) -> Arc<Scheduler> {
    let scheduler = fixture.new_scheduler(SchedulerLimits {
        webhook_targets: WebhookTargetPolicy::Any,
        ..SchedulerLimits::default()
    });
    enable_webhooks(&scheduler);
    scheduler
}

#[tokio::test]
async fn the_webhook_of_a_run_is_delivered_once_whatever_its_status() {
    let failing = ScriptedReply::status(400, "{}").when_body_contains("fail");
    let script = Script::new([failing, ScriptedReply::text("done").with_repeat()]);
    let server = ScriptedServer::start(script).unwrap();
    let (fixture, mut receiver) = (SchedulerFixture::new(), WebhookServer::start().await);
    let scheduler = open_scheduler(&fixture, &server);
    for (text, status) in [("good", "success"), ("fail", "error"), ("again", "success")] {
        let created = scheduler
            .create_run(&LOCAL, new_run_on(ThreadId::generate(), receiver.request_with_webhook(text)))
            .await
            .unwrap();
        let request = receiver.requests.recv().await.unwrap();
        assert_eq!(request, json!({"run_id": created.run.run_id, "status": status, "asked": true}), "{text}");
    }
    scheduler.shutdown(GRACE).await;
    assert!(receiver.requests.try_recv().is_err(), "no webhook is delivered twice");
    drop_scheduler(scheduler).await;
    let scheduler = reopen_scheduler(&fixture);
    scheduler.recover().await.unwrap();
    scheduler.shutdown(GRACE).await;
    assert!(receiver.requests.try_recv().is_err(), "a delivered webhook is removed");
}

#[tokio::test]
async fn the_webhook_of_a_cancelled_run_is_delivered_whether_the_run_had_started_or_not() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), gated_model("slow"), WebhookServer::start().await);
    let (scheduler, thread) = (open_scheduler(&fixture, &server), ThreadId::generate());
    let mut active = scheduler
        .create_run(&LOCAL, new_run_on(thread, receiver.request_with_webhook("slow")))
        .await
        .unwrap();
    wait_for_first_step(&mut active.reader).await;
    let queued = scheduler
        .create_run(&LOCAL, new_run_on(thread, receiver.request_with_webhook("second")))
        .await
        .unwrap();
    for created in [&queued, &active] {
        scheduler.cancel_run(&LOCAL, thread, created.run.run_id, CancelAction::Interrupt).await.unwrap();
        let request = receiver.requests.recv().await.unwrap();
        assert_eq!(request["run_id"], json!(created.run.run_id));
        assert_eq!(request["status"], "cancelled");
    }
    server.open_gate(GATE);
    scheduler.shutdown(GRACE).await;
}

#[tokio::test]
async fn a_webhook_that_could_not_be_delivered_is_delivered_by_the_next_process() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), answering_model("yes"), WebhookServer::start().await);
    let scheduler = open_scheduler(&fixture, &server);
    receiver.statuses.store(500, Ordering::SeqCst);
    let new = new_run_on(ThreadId::generate(), receiver.request_with_webhook("hello"));
    let created = scheduler.create_run(&LOCAL, new).await.unwrap();
    join(&scheduler, &created).await;
    receiver.requests.recv().await.unwrap();
    scheduler.shutdown(GRACE).await;
    drop(created);
    drop_scheduler(scheduler).await;

    receiver.statuses.store(200, Ordering::SeqCst);
    let scheduler = reopen_scheduler(&fixture);
    scheduler.recover().await.unwrap();
    assert_eq!(receiver.requests.recv().await.unwrap()["status"], "success");
    scheduler.shutdown(GRACE).await;
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test]
async fn webhooks_of_runs_that_ended_before_webhooks_were_enabled_are_delivered() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), answering_model("yes"), WebhookServer::start().await);
    fixture.configure(&server);
    let scheduler = fixture.new_scheduler(SchedulerLimits {
        webhook_targets: WebhookTargetPolicy::Any,
        ..SchedulerLimits::default()
    });
    let new = new_run_on(ThreadId::generate(), receiver.request_with_webhook("hello"));
    let created = scheduler.create_run(&LOCAL, new).await.unwrap();
    join(&scheduler, &created).await;
    enable_webhooks(&scheduler);
    assert_eq!(receiver.requests.recv().await.unwrap()["run_id"], json!(created.run.run_id));
    scheduler.shutdown(GRACE).await;
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test]
async fn targets_that_never_respond_do_not_delay_other_owners() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), answering_model("yes"), WebhookServer::start().await);
    let scheduler = open_scheduler(&fixture, &server);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    for _ in 0..40 {
        let request = RunRequest { webhook: Some(url.clone()), ..user_request("hello") };
        let created =
            scheduler.create_run(&alice(), new_run_on(ThreadId::generate(), request)).await.unwrap();
        let run = scheduler.join_run(&alice(), created.run.thread_id, created.run.run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success);
    }
    let new = new_run_on(ThreadId::generate(), receiver.request_with_webhook("hello"));
    scheduler.create_run(&LOCAL, new).await.unwrap();
    let request = tokio::time::timeout(std::time::Duration::from_secs(5), receiver.requests.recv()).await;
    assert_eq!(request.unwrap().unwrap()["status"], "success");
    scheduler.shutdown(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn a_temporary_thread_is_kept_until_its_webhook_is_delivered() {
    let (fixture, server, mut receiver) =
        (SchedulerFixture::new(), answering_model("yes"), WebhookServer::start().await);
    fixture.configure(&server);
    let scheduler = fixture.new_scheduler(SchedulerLimits {
        webhook_targets: WebhookTargetPolicy::Any,
        ..SchedulerLimits::default()
    });
    let request = RunRequest { temporary: true, ..receiver.request_with_webhook("hello") };
    let new = NewRun { thread_id: None, request, if_not_exists: IfNotExists::Reject };
    let created = scheduler.create_run(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    join(&scheduler, &created).await;
    drop(created);
    let store = Arc::clone(scheduler.agent(&LOCAL).store());
    for _ in 0..2_000 {
        assert!(store.thread(thread).await.unwrap().is_some(), "the webhook is not delivered yet");
    }
    enable_webhooks(&scheduler);
    receiver.requests.recv().await.unwrap();
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    scheduler.shutdown(GRACE).await;
}

#[tokio::test]
async fn k6_a_run_with_a_webhook_that_is_not_allowed_is_refused() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let scheduler = fixture.scheduler_with_model(&server);
    let thread = ThreadId::generate();
    let request_with_url = |url: &str| RunRequest { webhook: Some(url.to_owned()), ..user_request("hello") };
    for (url, refusal) in [
        ("http://example.com/", WebhookTargetError::NotEncrypted),
        ("https://127.0.0.1/", WebhookTargetError::NotPublic),
        ("https://169.254.169.254/", WebhookTargetError::NotPublic),
        ("https://localhost/", WebhookTargetError::NotPublic),
        ("nonsense", WebhookTargetError::InvalidUrl),
    ] {
        let refused = scheduler.create_run(&LOCAL, new_run_on(thread, request_with_url(url))).await;
        assert!(matches!(&refused, Err(Error::Webhook(error)) if *error == refusal), "{url}: {refused:?}");
        let both = vec![new_run_on(thread, user_request("hello")), new_run_on(thread, request_with_url(url))];
        assert!(matches!(scheduler.create_runs(&LOCAL, both).await, Err(Error::Webhook(_))), "{url}");
    }
    assert!(scheduler.agent(&LOCAL).store().thread(thread).await.unwrap().is_none(), "no thread was created");
}
