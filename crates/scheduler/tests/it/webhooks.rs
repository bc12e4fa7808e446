//! Telling of the end of runs: once, at whatever end, also after a crash, and only where it may be told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use protocol::{RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, Dispatch, Ended, Error, IfNotExists, Limits, NewRun, Refusal, WebhookTargets};
use serde_json::{Value, json};
use test_model::{Reply, Script, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::world::{GATE, LOCAL, World, alice, answering, begun, gated, gone, join, on, saying};

pub const GRACE: std::time::Duration = std::time::Duration::from_secs(60);

/// Somebody who wants to be told.
pub struct Receiver {
    url: String,
    pub told: UnboundedReceiver<Value>,
    answers: Arc<AtomicU16>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let ((tell, told), answers) = (unbounded_channel(), Arc::new(AtomicU16::new(204)));
        let status = Arc::clone(&answers);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body = read(&mut stream).await;
                let status = status.load(Ordering::SeqCst);
                let answer = format!("HTTP/1.1 {status} -\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                tell.send(serde_json::from_slice(&body).unwrap()).unwrap();
            }
        });
        Self { url, told, answers }
    }

    pub fn asked(&self, text: &str) -> RunRequest {
        RunRequest { webhook: Some(self.url.clone()), ..saying(text) }
    }
}

async fn read(stream: &mut tokio::net::TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        let Some(head) = text.find("\r\n\r\n") else { continue };
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let length: usize = length.unwrap();
        if bytes.len() >= head + 4 + length {
            return bytes.split_off(head + 4);
        }
    }
}

pub fn telling(dispatch: &Arc<Dispatch>) {
    dispatch.tell_webhooks(Arc::new(|Ended { run, request, .. }| {
        let told = json!({"run_id": run.run_id, "status": run.status, "asked": request.webhook.is_some()});
        Box::pin(async move { Ok(serde_json::to_vec(&told)?) })
    }));
}

pub fn open(world: &World, server: &Server) -> Arc<Dispatch> {
    world.configure(server);
    again(world)
}

pub fn again(world: &World) -> Arc<Dispatch> {
    let dispatch = world.dispatch(Limits { webhook_targets: WebhookTargets::Any, ..Limits::default() });
    telling(&dispatch);
    dispatch
}

#[tokio::test]
async fn j10_the_end_of_a_run_is_told_once_whatever_it_is() {
    let failing = Reply::status(400, "{}").when_body_contains("fail");
    let script = Script::new([failing, Reply::text("done").repeated()]);
    let server = Server::start(script).unwrap();
    let (world, mut receiver) = (World::new(), Receiver::start().await);
    let dispatch = open(&world, &server);
    for (text, status) in [("good", "success"), ("fail", "error"), ("again", "success")] {
        let created = dispatch.create(&LOCAL, on(ThreadId::generate(), receiver.asked(text))).await.unwrap();
        let told = receiver.told.recv().await.unwrap();
        assert_eq!(told, json!({"run_id": created.run.run_id, "status": status, "asked": true}), "{text}");
    }
    dispatch.shutdown(GRACE).await;
    assert!(receiver.told.try_recv().is_err(), "nobody was told twice");
    gone(dispatch).await;
    let dispatch = again(&world);
    dispatch.recover().await.unwrap();
    dispatch.shutdown(GRACE).await;
    assert!(receiver.told.try_recv().is_err(), "what was told is not kept");
}

#[tokio::test]
async fn j10_a_run_that_is_stopped_is_told_of_whether_it_had_begun_or_not() {
    let (world, server, mut receiver) = (World::new(), gated("slow"), Receiver::start().await);
    let (dispatch, thread) = (open(&world, &server), ThreadId::generate());
    let mut works = dispatch.create(&LOCAL, on(thread, receiver.asked("slow"))).await.unwrap();
    begun(&mut works.live).await;
    let waits = dispatch.create(&LOCAL, on(thread, receiver.asked("second"))).await.unwrap();
    for created in [&waits, &works] {
        dispatch.cancel(&LOCAL, thread, created.run.run_id, CancelAction::Interrupt).await.unwrap();
        let told = receiver.told.recv().await.unwrap();
        assert_eq!(told["run_id"], json!(created.run.run_id));
        assert_eq!(told["status"], "cancelled");
    }
    server.open(GATE);
    dispatch.shutdown(GRACE).await;
}

#[tokio::test]
async fn j10_what_could_not_be_told_is_told_by_the_next_process() {
    let (world, server, mut receiver) = (World::new(), answering("yes"), Receiver::start().await);
    let dispatch = open(&world, &server);
    receiver.answers.store(500, Ordering::SeqCst);
    let new = on(ThreadId::generate(), receiver.asked("hello"));
    let created = dispatch.create(&LOCAL, new).await.unwrap();
    join(&dispatch, &created).await;
    receiver.told.recv().await.unwrap();
    dispatch.shutdown(GRACE).await;
    drop(created);
    gone(dispatch).await;

    receiver.answers.store(200, Ordering::SeqCst);
    let dispatch = again(&world);
    dispatch.recover().await.unwrap();
    assert_eq!(receiver.told.recv().await.unwrap()["status"], "success");
    dispatch.shutdown(GRACE).await;
    assert!(receiver.told.try_recv().is_err());
}

#[tokio::test]
async fn j10_what_ended_before_anybody_knew_how_to_tell_is_told_then() {
    let (world, server, mut receiver) = (World::new(), answering("yes"), Receiver::start().await);
    world.configure(&server);
    let dispatch = world.dispatch(Limits { webhook_targets: WebhookTargets::Any, ..Limits::default() });
    let new = on(ThreadId::generate(), receiver.asked("hello"));
    let created = dispatch.create(&LOCAL, new).await.unwrap();
    join(&dispatch, &created).await;
    telling(&dispatch);
    assert_eq!(receiver.told.recv().await.unwrap()["run_id"], json!(created.run.run_id));
    dispatch.shutdown(GRACE).await;
    assert!(receiver.told.try_recv().is_err());
}

#[tokio::test]
async fn j10_addresses_that_never_answer_hold_up_nobody_else() {
    let (world, server, mut receiver) = (World::new(), answering("yes"), Receiver::start().await);
    let dispatch = open(&world, &server);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    for _ in 0..40 {
        let request = RunRequest { webhook: Some(url.clone()), ..saying("hello") };
        let created = dispatch.create(&alice(), on(ThreadId::generate(), request)).await.unwrap();
        let run = dispatch.join(&alice(), created.run.thread_id, created.run.run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success);
    }
    let new = on(ThreadId::generate(), receiver.asked("hello"));
    dispatch.create(&LOCAL, new).await.unwrap();
    let told = tokio::time::timeout(std::time::Duration::from_secs(5), receiver.told.recv()).await;
    assert_eq!(told.unwrap().unwrap()["status"], "success");
    dispatch.shutdown(std::time::Duration::ZERO).await;
}

#[tokio::test]
async fn j10_a_thread_that_is_to_last_one_run_stays_until_somebody_was_told() {
    let (world, server, mut receiver) = (World::new(), answering("yes"), Receiver::start().await);
    world.configure(&server);
    let dispatch = world.dispatch(Limits { webhook_targets: WebhookTargets::Any, ..Limits::default() });
    let request = RunRequest { temporary: true, ..receiver.asked("hello") };
    let new = NewRun { thread_id: None, request, if_not_exists: IfNotExists::Reject };
    let created = dispatch.create(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    join(&dispatch, &created).await;
    drop(created);
    let store = Arc::clone(dispatch.agent(&LOCAL).store());
    for _ in 0..2_000 {
        assert!(store.thread(thread).await.unwrap().is_some(), "nobody was told yet");
    }
    telling(&dispatch);
    receiver.told.recv().await.unwrap();
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    dispatch.shutdown(GRACE).await;
}

#[tokio::test]
async fn k6_where_nobody_is_to_be_told_no_run_is_taken() {
    let (world, server) = (World::new(), answering("yes"));
    let dispatch = world.over(&server);
    let thread = ThreadId::generate();
    let asking = |url: &str| RunRequest { webhook: Some(url.to_owned()), ..saying("hello") };
    for (url, refusal) in [
        ("http://example.com/", Refusal::NotEncrypted),
        ("https://127.0.0.1/", Refusal::NotPublic),
        ("https://169.254.169.254/", Refusal::NotPublic),
        ("https://localhost/", Refusal::NotPublic),
        ("nonsense", Refusal::NoUrl),
    ] {
        let refused = dispatch.create(&LOCAL, on(thread, asking(url))).await;
        assert!(matches!(&refused, Err(Error::Webhook(why)) if *why == refusal), "{url}: {refused:?}");
        let both = vec![on(thread, saying("hello")), on(thread, asking(url))];
        assert!(matches!(dispatch.create_all(&LOCAL, both).await, Err(Error::Webhook(_))), "{url}");
    }
    assert!(dispatch.agent(&LOCAL).store().thread(thread).await.unwrap().is_none(), "nothing was made");
}
