//! The fixture of the mirror's tests: a journal with accepted handoffs, and a PostgreSQL database with queries to it.
//! It makes no assertions about results.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use journal::{HandoffPatch, OutboxItem, ScopedStore, SqliteStore, Store, Transaction, Write};
use postgres::{Connection, Pool, SqlValue};
use protocol::{
    AssistantId, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary, NewEvent, OwnerScope,
    Proposal, Thread, ThreadId,
};
use serde_json::json;
use test_postgres::{Proxy, TestDatabase};

use crate::mirror::{MirrorSettings, SummaryMirror, rows};

/// Returns a time, `second` seconds after a fixed one.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Returns a mirror in the fixture's database. Each call represents another process.
pub(super) fn mirror(fixture: &MirrorFixture) -> SummaryMirror {
    mirror_at(fixture, &fixture.database.socket_url())
}

/// Returns a mirror in the fixture's database, connected through a proxy.
pub(super) fn mirror_behind(fixture: &MirrorFixture, proxy: &Proxy) -> SummaryMirror {
    mirror_at(fixture, &fixture.database.url_through(proxy.address()))
}

/// Returns a mirror at `url`, fed from the fixture's journal.
pub(super) fn mirror_at(fixture: &MirrorFixture, url: &str) -> SummaryMirror {
    let settings = MirrorSettings { url: Some(url.into()), ..MirrorSettings::default() };
    SummaryMirror::new(&settings, None, Arc::clone(&fixture.store)).unwrap()
}

/// A journal and an empty database for the mirror.
pub(super) struct MirrorFixture {
    /// The journal.
    pub(super) store: Arc<dyn Store>,
    /// The mirror's database.
    pub(super) database: TestDatabase,
}

impl MirrorFixture {
    pub(super) fn new() -> Self {
        Self { store: Arc::new(SqliteStore::in_memory().unwrap()), database: TestDatabase::create().unwrap() }
    }

    pub(super) fn proxy(&self) -> Proxy {
        Proxy::start(self.database.address()).unwrap()
    }

    pub(super) async fn pool(&self) -> Pool {
        let settings = MirrorSettings::default().pool_settings();
        Pool::open(self.database.socket_url().parse().unwrap(), settings).await
    }

    /// Stores a handoff that was accepted five and a half seconds after its request, and returns it.
    pub(super) async fn accept(&self, text: &str) -> Handoff {
        self.accept_as("agent", text).await
    }

    pub(super) async fn accept_as(&self, assistant_id: &str, text: &str) -> Handoff {
        let handoff = handoff(assistant_id.parse().unwrap());
        self.insert_accepted(&handoff, summary(&handoff, text), SignedDuration::from_millis(5_500)).await;
        handoff
    }

    /// Stores a handoff that was accepted with `summary`, `after` that time from its request.
    pub(super) async fn insert_accepted(
        &self,
        handoff: &Handoff,
        summary: HandoffSummary,
        after: SignedDuration,
    ) {
        let now = handoff.created_at + after;
        let proposal = proposal(handoff, summary);
        let thread =
            |thread_id, created_at| Thread::blank(thread_id, handoff.assistant_id.clone(), created_at);
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
            Write::TransitionHandoff {
                handoff_id: handoff.handoff_id,
                from: HandoffStatus::AwaitingDecision,
                to: HandoffStatus::Accepted,
                patch,
                at: now,
            },
            Write::CreateThread(thread(handoff.child_thread_id, now)),
            Write::Append { thread_id: handoff.parent_thread_id, events: vec![event] },
            rows::enqueue_write(handoff, now, now),
        ];
        let owner = OwnerScope::Owner(handoff.assistant_id.owner());
        let store = ScopedStore::new(Arc::clone(&self.store), owner);
        store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    /// Returns the outbox item that was enqueued for a handoff.
    pub(super) fn item(&self, handoff: &Handoff) -> OutboxItem {
        match rows::enqueue_write(handoff, at(5), at(5)) {
            Write::PutOutboxItem(item) => item,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes a thread, with the same writes as the agent.
    pub(super) async fn delete(&self, thread_id: ThreadId) {
        let mut writes = vec![Write::DeleteThread { thread_id }];
        writes.extend(rows::deletion_writes(&*self.store, thread_id, Timestamp::now()).await.unwrap());
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    /// Returns the texts in the mirror's table, in the order of acceptance.
    pub(super) fn mirrored_texts(&self) -> Vec<String> {
        self.query_rows("SELECT summary_md FROM thread_summaries ORDER BY handoff_id, assistant_id")
    }

    /// Returns the rows of a query, each as its columns joined by bars.
    pub(super) fn query_rows(&self, sql: &str) -> Vec<String> {
        let sql = sql.to_owned();
        self.with(move |connection| {
            let rows = connection.query(&sql, &[])?;
            let cell = |value: SqlValue<'_>| match value {
                SqlValue::Integer(number) => number.to_string(),
                SqlValue::Text(text) => text.into_owned(),
                other => format!("{other:?}"),
            };
            let line = |row: &postgres::Row| {
                let cells = (0..).map_while(|column| row.get(column).ok());
                cells.map(cell).collect::<Vec<_>>().join("|")
            };
            Ok(rows.iter().map(line).collect())
        })
    }

    /// Executes statements in the mirror's database.
    pub(super) fn batch(&self, sql: &'static str) {
        self.with(move |connection| connection.batch_execute(sql));
    }

    /// Runs `work` with a connection to the mirror's database.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> postgres::Result<T> + Send + 'static,
    ) -> T {
        let handle = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            handle.block_on(async { self.pool().await.with_connection(work).await.unwrap() })
        })
    }

    /// Waits until the mirror's report satisfies `holds`.
    pub(super) async fn wait_until(
        &self,
        mirror: &SummaryMirror,
        holds: impl Fn(&crate::mirror::MirrorReport) -> bool,
    ) {
        let mut phase = mirror.worker.as_ref().unwrap().phase.subscribe();
        let condition = async {
            while !holds(&mirror.report().await.unwrap()) {
                phase.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(120), condition).await.expect("the condition holds in time");
    }
}

/// Aborts the background task, as the end of the process does.
pub(super) fn shut_down(mirror: &SummaryMirror) {
    if let Some(task) = mirror.worker.as_ref().unwrap().task.lock().handle.take() {
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
        "carried": {},
    }))
    .unwrap()
}

fn proposal(handoff: &Handoff, summary_json: HandoffSummary) -> Proposal {
    let package_md = summary_json.title.clone();
    Proposal {
        handoff_id: handoff.handoff_id,
        iteration: 0,
        summary_sha256: protocol::sha256_hex(&package_md),
        summary_json,
        package_md,
        feedback: None,
        created_at: handoff.created_at,
    }
}
