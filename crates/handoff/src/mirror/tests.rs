//! Tests of the mirror against a real PostgreSQL server, through its public functions: upserts, deletions, concurrent
//! senders and rejected rows. Connection failures are tested in `failures`.

mod failures;
mod fixture;
mod statistics;

use std::sync::Arc;

use fixture::{MirrorFixture, at, mirror, mirror_at};
use jiff::SignedDuration;
use journal::{PostgresStore, Transaction, Write};
use protocol::HandoffId;

use super::rows::{self, MirrorRow};
use super::table;
use super::{MirrorDelivery, MirrorSettings, MirrorStatus};

fn row(handoff_id: HandoffId, text: &str) -> MirrorRow {
    MirrorRow {
        assistant_id: "agent".to_owned(),
        handoff_id,
        summary_json: format!(r#"{{"title":"{text}"}}"#),
        summary_md: text.to_owned(),
        created_at: at(0),
        parent_thread_id: None,
        model_run_id: None,
        tokens_used: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_the_newer_row_wins_and_an_unchanged_row_is_not_rewritten_within_ten_seconds() {
    let (fixture, id) = (MirrorFixture::new(), HandoffId::generate());
    let pool = fixture.pool().await;
    let user = table::prepare_table(&pool).await.unwrap();
    let put = async |text: &str, millis: i64| {
        let now = at(100) + SignedDuration::from_millis(millis);
        table::upsert_rows(&pool, &user, &[row(id, text)], now).await.unwrap() == 1
    };
    assert!(put("one", 0).await, "there is no row yet");
    assert!(!put("one", 1).await && !put("one", 9_999).await, "unchanged, within ten seconds");
    assert!(put("one", 10_000).await, "unchanged, after ten seconds");
    assert!(!put("one", 10_001).await && !put("one", 19_999).await, "the ten seconds start again");
    assert!(put("two", 10_002).await, "changed");
    assert!(!put("one", 10_002).await && !put("one", 5_000).await, "an older row changes nothing");
    assert_eq!(fixture.mirrored_texts(), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_batch_may_contain_a_row_twice_and_each_assistant_has_a_row_of_its_own() {
    let (fixture, id) = (MirrorFixture::new(), HandoffId::generate());
    let pool = fixture.pool().await;
    let user = table::prepare_table(&pool).await.unwrap();
    let other = MirrorRow { assistant_id: "agent@ann".to_owned(), ..row(id, "ann's") };
    let rows = [row(id, "one"), row(id, "one"), other];
    assert_eq!(table::upsert_rows(&pool, &user, &rows, at(0)).await.unwrap(), 2);
    assert_eq!(fixture.mirrored_texts(), ["one", "ann's"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mirrored_text_of_a_handoff_equals_the_accepted_text() {
    let fixture = MirrorFixture::new();
    let accepted = fixture.accept("ship it").await;
    let mirror = mirror(&fixture);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 1, rejected: 0 });
    let sql = "SELECT assistant_id, handoff_id::text, summary_md, summary_json->>'child_thread_id',
        created_at = '2023-11-14T22:13:25.5Z'::timestamptz FROM thread_summaries";
    let expected = format!("agent|{}|ship it|{}|1", accepted.handoff_id, accepted.child_thread_id);
    assert_eq!(fixture.query_rows(sql), [expected]);
    let report = mirror.report().await.unwrap();
    assert_eq!((report.status, report.waiting, report.oldest), (MirrorStatus::Ok, 0, None));
    assert!(report.last_success.is_some() && report.last_error.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_a_deleted_handoff_leaves_only_its_ids_even_if_a_process_sends_the_old_row_later() {
    let fixture = MirrorFixture::new();
    let handoff = fixture.accept("a word that must go").await;
    let mirror = mirror(&fixture);
    mirror.flush(&mut |_| {}).await.unwrap();
    let stale = super::rows::build_row(&*fixture.store, &fixture.item(&handoff)).await.unwrap().unwrap();
    // When the first of its two threads is deleted, the handoff stays with the other.
    fixture.delete(handoff.parent_thread_id).await;
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(fixture.mirrored_texts(), ["a word that must go"]);
    fixture.delete(handoff.child_thread_id).await;
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(fixture.mirrored_texts(), [""]);
    // Another process read the handoff before it was deleted, and sends it only now.
    let pool = fixture.pool().await;
    let user = table::prepare_table(&pool).await.unwrap();
    let late = jiff::Timestamp::now() + SignedDuration::from_hours(1);
    assert_eq!(table::upsert_rows(&pool, &user, &[stale], late).await.unwrap(), 0);
    let json = fixture.query_rows("SELECT summary_json::text FROM thread_summaries").remove(0);
    assert!(
        !json.contains("word")
            && json.contains("deleted_at")
            && json.contains(&handoff.handoff_id.to_string())
    );
    assert!(fixture.query_rows("SELECT 1 FROM thread_summary_facts").is_empty());
    let rows = mirror.count_rows().await.unwrap().unwrap();
    assert_eq!((rows.summaries, rows.deleted), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_handoff_deleted_before_it_was_sent_is_never_exported() {
    let fixture = MirrorFixture::new();
    let handoff = fixture.accept("never sent").await;
    fixture.delete(handoff.parent_thread_id).await;
    fixture.delete(handoff.child_thread_id).await;
    let mirror = mirror(&fixture);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(fixture.mirrored_texts(), [""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_two_processes_that_send_the_same_backlog_leave_each_row_once() {
    let fixture = MirrorFixture::new();
    for number in 0..250 {
        fixture.accept(&format!("{number}")).await;
    }
    let (left, right) = (mirror(&fixture), mirror(&fixture));
    let (mut on_left, mut on_right) = (|_| {}, |_| {});
    let (by_left, by_right) = tokio::join!(left.flush(&mut on_left), right.flush(&mut on_right));
    assert!(by_left.unwrap().sent + by_right.unwrap().sent >= 250);
    let expected: Vec<String> = (0..250).map(|number| number.to_string()).collect();
    assert_eq!(fixture.mirrored_texts(), expected);
    assert_eq!(left.report().await.unwrap().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_an_item_that_replaced_the_one_being_sent_stays_in_the_outbox() {
    let fixture = MirrorFixture::new();
    let handoff = fixture.accept("first").await;
    let sent = fixture.item(&handoff);
    fixture.delete(handoff.parent_thread_id).await;
    let removal =
        Write::RemoveOutboxItem { kind: sent.kind, key: sent.key, created_at: Some(sent.created_at) };
    fixture.store.commit(Transaction { fence: None, writes: vec![removal] }).await.unwrap();
    assert_eq!(mirror(&fixture).report().await.unwrap().waiting, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_without_a_mirror_accepted_handoffs_wait_until_one_is_configured() {
    let fixture = MirrorFixture::new();
    fixture.accept("early").await;
    let off = mirror_at(&fixture, "off");
    off.send_pending();
    off.wait_until_idle(std::time::Duration::from_secs(60)).await;
    assert_eq!(off.flush(&mut |_| {}).await.unwrap(), MirrorDelivery::default());
    let report = off.report().await.unwrap();
    assert_eq!((report.status, report.waiting, report.location), (MirrorStatus::Off, 1, None));
    mirror(&fixture).flush(&mut |_| {}).await.unwrap();
    assert_eq!(fixture.mirrored_texts(), ["early"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_mirrors_the_handoffs_of_all_users() {
    let fixture = MirrorFixture::new();
    let ann = fixture.accept_as("agent@ann", "hers").await;
    fixture.accept("mine").await;
    let waiting = fixture.store.outbox(journal::OutboxQuery::for_kind(super::MIRROR_KIND, 10)).await.unwrap();
    assert!(waiting.iter().any(|item| item.key == format!("@ann/{}", ann.handoff_id)), "{waiting:?}");
    assert_eq!(mirror(&fixture).flush(&mut |_| {}).await.unwrap().sent, 2);
    let sql = "SELECT assistant_id, summary_md FROM thread_summaries ORDER BY 1";
    assert_eq!(fixture.query_rows(sql), ["agent|mine", "agent@ann|hers"]);
    let empty = fixture.store.outbox(journal::OutboxQuery::for_kind(super::MIRROR_KIND, 10)).await.unwrap();
    assert_eq!(empty, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_row_rejected_because_of_its_content_does_not_hold_up_others() {
    let fixture = MirrorFixture::new();
    let mirror = mirror(&fixture);
    mirror.flush(&mut |_| {}).await.unwrap();
    fixture.batch("ALTER TABLE thread_summaries ALTER COLUMN summary_md TYPE varchar(4)");
    for text in ["one", "much too long", "two"] {
        fixture.accept(text).await;
    }
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 2, rejected: 1 });
    assert_eq!(fixture.mirrored_texts(), ["one", "two"]);
    let waiting = fixture.store.outbox(journal::OutboxQuery::for_kind(super::MIRROR_KIND, 10)).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].attempts, 1);
    assert!(waiting[0].payload["error"].as_str().unwrap().contains("too long"), "{waiting:?}");
    fixture.batch("ALTER TABLE thread_summaries ALTER COLUMN summary_md TYPE text");
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 1, rejected: 0 });
    assert_eq!(fixture.mirrored_texts(), ["one", "much too long", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_row_rejected_by_an_operators_own_rule_does_not_hold_up_others() {
    let rules = [
        ("ALTER TABLE thread_summaries ADD CHECK (summary_md <> 'bad')", "check constraint"),
        ("CREATE UNIQUE INDEX once ON thread_summaries (summary_md)", "unique constraint"),
        (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
                 $$BEGIN IF NEW.summary_md = 'bad' THEN RAISE 'not that one'; END IF; RETURN NEW; END$$;
             CREATE TRIGGER no BEFORE INSERT ON thread_summaries FOR EACH ROW EXECUTE FUNCTION no()",
            "not that one",
        ),
    ];
    for (rule, reason) in rules {
        let fixture = MirrorFixture::new();
        let mirror = mirror(&fixture);
        let first = if reason.starts_with("unique") { "bad" } else { "one" };
        fixture.accept(first).await;
        mirror.flush(&mut |_| {}).await.unwrap();
        fixture.batch(rule);
        let bad = fixture.accept("bad").await;
        fixture.accept("two").await;
        assert_eq!(
            mirror.flush(&mut |_| {}).await.unwrap(),
            MirrorDelivery { sent: 1, rejected: 1 },
            "{reason}"
        );
        assert_eq!(fixture.mirrored_texts(), [first, "two"]);
        let report = mirror.report().await.unwrap();
        let rejected = report.rejected.unwrap();
        assert_eq!((report.status, rejected.key), (MirrorStatus::Ok, bad.handoff_id.to_string()));
        assert!(rejected.reason.contains(reason), "{}", rejected.reason);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_crash_between_the_row_and_the_outbox_leaves_the_row_once() {
    let fixture = MirrorFixture::new();
    let handoff = fixture.accept("once").await;
    // A process writes the row and is killed before it updates the outbox.
    let pool = fixture.pool().await;
    let user = table::prepare_table(&pool).await.unwrap();
    let row = rows::build_row(&*fixture.store, &fixture.item(&handoff)).await.unwrap().unwrap();
    assert_eq!(table::upsert_rows(&pool, &user, &[row], jiff::Timestamp::now()).await.unwrap(), 1);
    let mirror = mirror(&fixture);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 1, rejected: 0 });
    assert_eq!(
        (fixture.mirrored_texts(), mirror.report().await.unwrap().waiting),
        (vec!["once".to_owned()], 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_handoff_that_cannot_be_read_does_not_hold_up_others() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let pool = MirrorSettings::default().pool_settings();
    let store = PostgresStore::open(&database.socket_url(), pool).await.unwrap();
    let fixture = MirrorFixture { store: Arc::new(store), database };
    for text in ["one", "damaged", "two"] {
        fixture.accept(text).await;
    }
    fixture.batch("UPDATE proposals SET summary_json = '{' WHERE summary_md = 'damaged'");
    let mirror = mirror(&fixture);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 2, rejected: 1 });
    assert_eq!(fixture.mirrored_texts(), ["one", "two"]);
    assert!(mirror.report().await.unwrap().rejected.is_some());
    fixture.batch(
        "UPDATE proposals SET summary_json = (SELECT summary_json FROM proposals WHERE summary_md = 'one')",
    );
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), MirrorDelivery { sent: 1, rejected: 0 });
    assert_eq!(mirror.report().await.unwrap().rejected, None, "the row was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_first_uses_create_the_table_once() {
    let fixture = MirrorFixture::new();
    let mirrors: Vec<_> = (0..8).map(|_| Arc::new(mirror(&fixture))).collect();
    let counts: Vec<_> = mirrors
        .iter()
        .cloned()
        .map(|mirror| tokio::spawn(async move { mirror.count_rows().await }))
        .collect();
    for mirror in counts {
        assert_eq!(mirror.await.unwrap().unwrap().unwrap(), super::MirrorRowCounts::default());
    }
    let views = "SELECT count(*)::text FROM pg_views WHERE viewname LIKE 'thread_summary%'";
    assert_eq!(fixture.query_rows(views), ["2"]);
}
