//! The mirror over a real PostgreSQL, as its callers see it: what is there after a dead, slow or broken way, after two at
//! once, and after a deletion.

mod broken;
mod figures;
mod scene;

use std::sync::Arc;

use jiff::SignedDuration;
use journal::{Postgres, Transaction, Write};
use protocol::HandoffId;
use scene::{Scene, at, mirror, mirror_at};

use super::rows::{self, Row};
use super::table;
use super::{Delivered, MirrorStatus, Settings};

fn row(handoff_id: HandoffId, text: &str) -> Row {
    Row {
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
async fn g16_the_newer_wins_and_an_unchanged_row_is_not_rewritten_within_ten_seconds() {
    let (scene, id) = (Scene::new(), HandoffId::generate());
    let pool = scene.pool().await;
    let user = table::prepare(&pool).await.unwrap();
    let put = async |text: &str, millis: i64| {
        let now = at(100) + SignedDuration::from_millis(millis);
        table::upsert(&pool, &user, &[row(id, text)], now).await.unwrap() == 1
    };
    assert!(put("one", 0).await, "there is none yet");
    assert!(!put("one", 1).await && !put("one", 9_999).await, "unchanged, within ten seconds");
    assert!(put("one", 10_000).await, "unchanged, after ten seconds");
    assert!(!put("one", 10_001).await && !put("one", 19_999).await, "they begin anew");
    assert!(put("two", 10_002).await, "changed");
    assert!(!put("one", 10_002).await && !put("one", 5_000).await, "older ones change nothing");
    assert_eq!(scene.texts(), ["two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_batch_may_name_a_row_twice_and_one_handoff_of_two_assistants_is_two_rows() {
    let (scene, id) = (Scene::new(), HandoffId::generate());
    let pool = scene.pool().await;
    let user = table::prepare(&pool).await.unwrap();
    let other = Row { assistant_id: "agent@ann".to_owned(), ..row(id, "ann's") };
    let rows = [row(id, "one"), row(id, "one"), other];
    assert_eq!(table::upsert(&pool, &user, &rows, at(0)).await.unwrap(), 2);
    assert_eq!(scene.texts(), ["one", "ann's"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_handoff_is_mirrored_with_the_bytes_that_were_accepted() {
    let scene = Scene::new();
    let accepted = scene.accept("ship it").await;
    let mirror = mirror(&scene);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 1, rejected: 0 });
    let sql = "SELECT assistant_id, handoff_id::text, summary_md, summary_json->>'child_thread_id',
        created_at = '2023-11-14T22:13:25.5Z'::timestamptz FROM thread_summaries";
    let expected = format!("agent|{}|ship it|{}|1", accepted.handoff_id, accepted.child_thread_id);
    assert_eq!(scene.asked(sql), [expected]);
    let report = mirror.report().await.unwrap();
    assert_eq!((report.status, report.waiting, report.oldest), (MirrorStatus::Ok, 0, None));
    assert!(report.last_success.is_some() && report.last_error.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn h3_a_deleted_handoff_leaves_its_ids_and_none_of_its_words_whoever_comes_late() {
    let scene = Scene::new();
    let handoff = scene.accept("a word that must go").await;
    let mirror = mirror(&scene);
    mirror.flush(&mut |_| {}).await.unwrap();
    let stale = super::rows::row(&*scene.store, &scene.item(&handoff)).await.unwrap().unwrap();
    // Of two threads the first one deleted leaves the handoff with the other.
    scene.delete(handoff.parent_thread_id).await;
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(scene.texts(), ["a word that must go"]);
    scene.delete(handoff.child_thread_id).await;
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(scene.texts(), [""]);
    // Another process read the handoff before it was deleted, and sends it only now.
    let pool = scene.pool().await;
    let user = table::prepare(&pool).await.unwrap();
    let late = jiff::Timestamp::now() + SignedDuration::from_hours(1);
    assert_eq!(table::upsert(&pool, &user, &[stale], late).await.unwrap(), 0);
    let left = scene.asked("SELECT summary_json::text FROM thread_summaries").remove(0);
    assert!(
        !left.contains("word")
            && left.contains("deleted_at")
            && left.contains(&handoff.handoff_id.to_string())
    );
    assert!(scene.asked("SELECT 1 FROM thread_summary_facts").is_empty());
    let rows = mirror.rows().await.unwrap().unwrap();
    assert_eq!((rows.summaries, rows.deleted), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_what_was_deleted_before_it_was_sent_never_leaves() {
    let scene = Scene::new();
    let handoff = scene.accept("never sent").await;
    scene.delete(handoff.parent_thread_id).await;
    scene.delete(handoff.child_thread_id).await;
    let mirror = mirror(&scene);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap().sent, 1);
    assert_eq!(scene.texts(), [""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_two_that_send_the_same_backlog_at_once_leave_each_row_once() {
    let scene = Scene::new();
    for number in 0..250 {
        scene.accept(&format!("{number}")).await;
    }
    let (one, two) = (mirror(&scene), mirror(&scene));
    let (mut quiet, mut silent) = (|_| {}, |_| {});
    let (first, second) = tokio::join!(one.flush(&mut quiet), two.flush(&mut silent));
    assert!(first.unwrap().sent + second.unwrap().sent >= 250);
    let expected: Vec<String> = (0..250).map(|number| number.to_string()).collect();
    assert_eq!(scene.texts(), expected);
    assert_eq!(one.report().await.unwrap().waiting, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_an_item_that_took_the_place_of_one_that_is_being_sent_stays() {
    let scene = Scene::new();
    let handoff = scene.accept("first").await;
    let sent = scene.item(&handoff);
    scene.delete(handoff.parent_thread_id).await;
    let taken = Write::Dequeue { kind: sent.kind, key: sent.key, created_at: Some(sent.created_at) };
    scene.store.commit(Transaction { fence: None, writes: vec![taken] }).await.unwrap();
    assert_eq!(mirror(&scene).report().await.unwrap().waiting, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_without_a_mirror_what_is_accepted_waits_until_there_is_one() {
    let scene = Scene::new();
    scene.accept("early").await;
    let off = mirror_at(&scene, "off");
    off.begin();
    off.rest(std::time::Duration::from_secs(60)).await;
    assert_eq!(off.flush(&mut |_| {}).await.unwrap(), Delivered::default());
    let report = off.report().await.unwrap();
    assert_eq!((report.status, report.waiting, report.location), (MirrorStatus::Off, 1, None));
    mirror(&scene).flush(&mut |_| {}).await.unwrap();
    assert_eq!(scene.texts(), ["early"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn everybodys_handoffs_are_mirrored_by_one_worker() {
    let scene = Scene::new();
    let ann = scene.accept_as("agent@ann", "hers").await;
    scene.accept("mine").await;
    let waiting = scene.store.outbox(journal::OutboxQuery::of(super::MIRROR_KIND, 10)).await.unwrap();
    assert!(waiting.iter().any(|item| item.key == format!("@ann/{}", ann.handoff_id)), "{waiting:?}");
    assert_eq!(mirror(&scene).flush(&mut |_| {}).await.unwrap().sent, 2);
    let sql = "SELECT assistant_id, summary_md FROM thread_summaries ORDER BY 1";
    assert_eq!(scene.asked(sql), ["agent|mine", "agent@ann|hers"]);
    let empty = scene.store.outbox(journal::OutboxQuery::of(super::MIRROR_KIND, 10)).await.unwrap();
    assert_eq!(empty, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_row_that_is_refused_for_what_is_in_it_holds_up_no_other() {
    let scene = Scene::new();
    let mirror = mirror(&scene);
    mirror.flush(&mut |_| {}).await.unwrap();
    scene.batch("ALTER TABLE thread_summaries ALTER COLUMN summary_md TYPE varchar(4)");
    for text in ["one", "much too long", "two"] {
        scene.accept(text).await;
    }
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 2, rejected: 1 });
    assert_eq!(scene.texts(), ["one", "two"]);
    let waiting = scene.store.outbox(journal::OutboxQuery::of(super::MIRROR_KIND, 10)).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].attempts, 1);
    assert!(waiting[0].payload["error"].as_str().unwrap().contains("too long"), "{waiting:?}");
    scene.batch("ALTER TABLE thread_summaries ALTER COLUMN summary_md TYPE text");
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 1, rejected: 0 });
    assert_eq!(scene.texts(), ["one", "much too long", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_row_that_an_operators_own_rule_refuses_holds_up_no_other() {
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
    for (rule, told) in rules {
        let scene = Scene::new();
        let mirror = mirror(&scene);
        let first = if told.starts_with("unique") { "bad" } else { "one" };
        scene.accept(first).await;
        mirror.flush(&mut |_| {}).await.unwrap();
        scene.batch(rule);
        let bad = scene.accept("bad").await;
        scene.accept("two").await;
        assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 1, rejected: 1 }, "{told}");
        assert_eq!(scene.texts(), [first, "two"]);
        let report = mirror.report().await.unwrap();
        let rejected = report.rejected.unwrap();
        assert_eq!((report.status, rejected.key), (MirrorStatus::Ok, bad.handoff_id.to_string()));
        assert!(rejected.reason.contains(told), "{}", rejected.reason);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_who_is_killed_between_the_row_and_the_outbox_leaves_the_row_once() {
    let scene = Scene::new();
    let handoff = scene.accept("once").await;
    // What a process did that was killed then.
    let pool = scene.pool().await;
    let user = table::prepare(&pool).await.unwrap();
    let row = rows::row(&*scene.store, &scene.item(&handoff)).await.unwrap().unwrap();
    assert_eq!(table::upsert(&pool, &user, &[row], jiff::Timestamp::now()).await.unwrap(), 1);
    let mirror = mirror(&scene);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 1, rejected: 0 });
    assert_eq!((scene.texts(), mirror.report().await.unwrap().waiting), (vec!["once".to_owned()], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_row_that_cannot_be_read_holds_up_no_other() {
    let database = test_postgres::Database::create().unwrap();
    let pool = Settings::default().pool();
    let store = Postgres::open(&database.socket_url(), pool).await.unwrap();
    let scene = Scene { store: Arc::new(store), database };
    for text in ["one", "damaged", "two"] {
        scene.accept(text).await;
    }
    scene.batch("UPDATE proposals SET summary_json = '{' WHERE summary_md = 'damaged'");
    let mirror = mirror(&scene);
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 2, rejected: 1 });
    assert_eq!(scene.texts(), ["one", "two"]);
    assert!(mirror.report().await.unwrap().rejected.is_some());
    scene.batch(
        "UPDATE proposals SET summary_json = (SELECT summary_json FROM proposals WHERE summary_md = 'one')",
    );
    assert_eq!(mirror.flush(&mut |_| {}).await.unwrap(), Delivered { sent: 1, rejected: 0 });
    assert_eq!(mirror.report().await.unwrap().rejected, None, "it was taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mirror_makes_its_table_once_though_many_begin_at_the_same_time() {
    let scene = Scene::new();
    let many: Vec<_> = (0..8).map(|_| Arc::new(mirror(&scene))).collect();
    let began: Vec<_> =
        many.iter().cloned().map(|one| tokio::spawn(async move { one.rows().await })).collect();
    for one in began {
        assert_eq!(one.await.unwrap().unwrap().unwrap(), super::Rows::default());
    }
    let views = "SELECT count(*)::text FROM pg_views WHERE viewname LIKE 'thread_summary%'";
    assert_eq!(scene.asked(views), ["2"]);
}
