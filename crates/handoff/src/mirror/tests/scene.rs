//! A journal with accepted handoffs, a database of its own, and questions to it. It holds no expectation.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{HandoffPatch, OutboxItem, Scoped, Sqlite, Store, Transaction, Write};
use postgres::{Connection, Pool, Value};
use protocol::{
    AssistantId, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary, NewEvent, Proposal, Scope,
    Thread, ThreadId,
};
use serde_json::json;
use test_postgres::{Database, Proxy};

use crate::mirror::{Mirror, Settings, rows};

/// A time; later with every second.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Returns a mirror in the scene's database, as a process of its own has it.
pub(super) fn mirror(scene: &Scene) -> Mirror {
    mirror_at(scene, &scene.database.socket_url())
}

/// Returns a mirror in the scene's database, behind a proxy.
pub(super) fn mirror_behind(scene: &Scene, proxy: &Proxy) -> Mirror {
    mirror_at(scene, &scene.database.url_through(proxy.address()))
}

pub(super) fn mirror_at(scene: &Scene, url: &str) -> Mirror {
    let settings = Settings { url: Some(url.into()), ..Settings::default() };
    Mirror::new(&settings, None, Arc::clone(&scene.store)).unwrap()
}

pub(super) struct Scene {
    pub(super) store: Arc<dyn Store>,
    pub(super) database: Database,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self { store: Arc::new(Sqlite::in_memory().unwrap()), database: Database::create().unwrap() }
    }

    pub(super) fn proxy(&self) -> Proxy {
        Proxy::start(self.database.address()).unwrap()
    }

    pub(super) async fn pool(&self) -> Pool {
        let settings = Settings::default().pool();
        Pool::open(self.database.socket_url().parse().unwrap(), settings).await
    }

    /// Has a handoff asked for and accepted five and a half seconds later, and returns it.
    pub(super) async fn accept(&self, text: &str) -> Handoff {
        self.accept_as("agent", text).await
    }

    pub(super) async fn accept_as(&self, assistant_id: &str, text: &str) -> Handoff {
        let handoff = handoff(assistant_id.parse().unwrap());
        self.accepted(&handoff, summary(&handoff, text), SignedDuration::from_millis(5_500)).await;
        handoff
    }

    /// Stores a handoff that was accepted with that summary, so long after it was asked for.
    pub(super) async fn accepted(&self, handoff: &Handoff, summary: HandoffSummary, after: SignedDuration) {
        let now = handoff.created_at + after;
        let proposal = proposal(handoff, summary);
        let thread = |thread_id, at| Thread::blank(thread_id, handoff.assistant_id.clone(), at);
        let content = json!({"handoff_id": handoff.handoff_id});
        let event = NewEvent::new(EventType::HandoffAccepted, &content, now).unwrap();
        let patch = HandoffPatch {
            accepted_sha256: Some(proposal.summary_sha256.clone()),
            ..HandoffPatch::default()
        };
        let writes = vec![
            Write::CreateThread(thread(handoff.parent_thread_id, handoff.created_at)),
            Write::CreateHandoff(handoff.clone()),
            Write::PutProposal(proposal),
            Write::MoveHandoff {
                handoff_id: handoff.handoff_id,
                from: HandoffStatus::AwaitingDecision,
                to: HandoffStatus::Accepted,
                patch,
                at: now,
            },
            Write::CreateThread(thread(handoff.child_thread_id, now)),
            Write::Append { thread_id: handoff.parent_thread_id, events: vec![event] },
            rows::enqueue(handoff, now, now),
        ];
        let owner = Scope::Owner(handoff.assistant_id.owner());
        let own = Scoped::new(Arc::clone(&self.store), owner);
        own.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    /// Returns the item of a handoff that was sent, as it was.
    pub(super) fn item(&self, handoff: &Handoff) -> OutboxItem {
        match rows::enqueue(handoff, at(5), at(5)) {
            Write::Enqueue(item) => item,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes a thread as the agent does.
    pub(super) async fn delete(&self, thread_id: ThreadId) {
        let mut writes = vec![Write::DeleteThread { thread_id }];
        writes.extend(rows::follow_deletion(&*self.store, thread_id, Timestamp::now()).await.unwrap());
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    /// Returns the texts of the mirror, in the order in which they were accepted.
    pub(super) fn texts(&self) -> Vec<String> {
        self.asked("SELECT summary_md FROM thread_summaries ORDER BY handoff_id, assistant_id")
    }

    /// Returns the rows that the database answers with, their columns with bars between them.
    pub(super) fn asked(&self, sql: &str) -> Vec<String> {
        let sql = sql.to_owned();
        self.with(move |connection| {
            let rows = connection.query(&sql, &[])?;
            let cell = |value: Value<'_>| match value {
                Value::Integer(number) => number.to_string(),
                Value::Text(text) => text.into_owned(),
                other => format!("{other:?}"),
            };
            let line = |row: &postgres::Row| {
                let cells = (0..).map_while(|place| row.at(place).ok());
                cells.map(cell).collect::<Vec<_>>().join("|")
            };
            Ok(rows.iter().map(line).collect())
        })
    }

    pub(super) fn batch(&self, sql: &'static str) {
        self.with(move |connection| connection.batch(sql));
    }

    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> postgres::Result<T> + Send + 'static,
    ) -> T {
        let handle = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| handle.block_on(async { self.pool().await.with(work).await.unwrap() }))
    }

    /// Waits until the mirror says what `holds` wants.
    pub(super) async fn until(&self, mirror: &Mirror, holds: impl Fn(&crate::mirror::MirrorReport) -> bool) {
        let mut phase = mirror.worker.as_ref().unwrap().phase.subscribe();
        let met = async {
            while !holds(&mirror.report().await.unwrap()) {
                phase.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(120), met).await.expect("it comes to that");
    }
}

/// Ends the work behind as the end of the program does.
pub(super) fn end(mirror: &Mirror) {
    if let Some(task) = mirror.worker.as_ref().unwrap().work.lock().task.take() {
        task.abort();
    }
}

pub(super) fn handoff(assistant_id: AssistantId) -> Handoff {
    Handoff {
        handoff_id: HandoffId::generate(),
        assistant_id,
        parent_thread_id: ThreadId::generate(),
        child_thread_id: ThreadId::generate(),
        status: HandoffStatus::AwaitingDecision,
        iteration: 0,
        goal: None,
        run_id: None,
        options: json!({}),
        accepted_sha256: None,
        note: None,
        created_at: at(0),
        updated_at: at(0),
    }
}

pub(super) fn summary(handoff: &Handoff, text: &str) -> HandoffSummary {
    serde_json::from_value(json!({
        "schema_version": 1, "handoff_id": handoff.handoff_id, "assistant_id": handoff.assistant_id,
        "parent_thread_id": handoff.parent_thread_id, "child_thread_id": null, "title": text, "tldr": "t",
        "body": [{"kind": "objective", "text": text, "refs": [1], "verified": true}],
        "model": "extractive", "model_run_id": null, "tokens_used": 0, "iteration": 0,
        "created_at": handoff.created_at,
        "coverage": {"first_seq": 1, "last_seq": 2, "verbatim": [[1, 2]], "summarized": [], "truncated": [],
            "excluded": [], "messages": 2},
        "carry_over": {},
    }))
    .unwrap()
}

fn proposal(handoff: &Handoff, summary_json: HandoffSummary) -> Proposal {
    let summary_md = summary_json.title.clone();
    Proposal {
        handoff_id: handoff.handoff_id,
        iteration: 0,
        summary_sha256: protocol::sha256_hex(&summary_md),
        summary_json,
        summary_md,
        feedback: None,
        created_at: handoff.created_at,
    }
}
