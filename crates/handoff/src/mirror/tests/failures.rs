//! Tests of the mirror when the connection or the database fails: nothing is lost, nothing is duplicated.

use std::time::{Duration, Instant};

use test_postgres::CutPoint;

use super::fixture::{MirrorFixture, mirror, mirror_behind, shut_down};
use crate::mirror::{Error, MirrorDelivery, MirrorStatus};

/// A timeout longer than any of these tests needs.
const LONG: Duration = Duration::from_secs(120);

/// Makes the mirror degraded: starts sending and waits until all attempts have failed.
async fn degrade(fixture: &MirrorFixture, mirror: &crate::mirror::SummaryMirror) {
    mirror.send_pending();
    fixture.wait_until(mirror, |report| report.status == MirrorStatus::Degraded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_three_failed_attempts_degrade_the_mirror_and_one_probe_detects_its_recovery() {
    let fixture = MirrorFixture::new();
    let proxy = fixture.proxy();
    let mirror = mirror_behind(&fixture, &proxy);
    proxy.refuse();
    fixture.accept("one").await;
    let started = Instant::now();
    degrade(&fixture, &mirror).await;
    assert!(started.elapsed() >= Duration::from_secs(3), "the delays are one and two seconds");
    let report = mirror.report().await.unwrap();
    assert_eq!(report.waiting, 1);
    assert!(report.last_error.unwrap().contains("refused"));
    mirror.wait_until_idle(LONG).await;
    // While the mirror is degraded, an attempt is one probe without retries.
    let started = Instant::now();
    assert!(mirror.flush(&mut |_| {}).await.is_err());
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    proxy.restore();
    for number in 0..150 {
        fixture.accept(&format!("{number}")).await;
    }
    mirror.send_pending();
    fixture.wait_until(&mirror, |report| report.waiting == 0 && report.status == MirrorStatus::Ok).await;
    assert_eq!(fixture.mirrored_texts().len(), 151);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_all_processes_share_the_degraded_status() {
    let fixture = MirrorFixture::new();
    let proxy = fixture.proxy();
    proxy.refuse();
    fixture.accept("one").await;
    for failed in 1..=3 {
        // Each iteration represents a process that ends after its first attempt.
        let mirror = mirror_behind(&fixture, &proxy);
        mirror.send_pending();
        mirror.wait_until_idle(LONG).await;
        let expected = if failed < 3 { MirrorStatus::Ok } else { MirrorStatus::Degraded };
        assert_eq!(mirror.status().await.unwrap(), expected, "{failed}");
        shut_down(&mirror);
    }
    assert_eq!(super::mirror_at(&fixture, "off").status().await.unwrap(), MirrorStatus::Off);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_handoffs_accepted_while_the_database_is_down_are_sent_when_it_is_back() {
    let count: u64 = test_counts::count(100, 1_000);
    let fixture = MirrorFixture::new();
    let proxy = fixture.proxy();
    proxy.refuse();
    let mirror = mirror_behind(&fixture, &proxy);
    for number in 0..count {
        fixture.accept(&format!("{number}")).await;
        mirror.send_pending();
    }
    fixture
        .wait_until(&mirror, |report| report.status == MirrorStatus::Degraded && report.waiting == count)
        .await;
    // A task that is still running has to end first, because it would send some of the items too.
    mirror.wait_until_idle(LONG).await;
    proxy.restore();
    let mut progress = Vec::new();
    let delivery = mirror.flush(&mut |sent| progress.push(sent)).await.unwrap();
    assert_eq!(delivery, MirrorDelivery { sent: count, rejected: 0 });
    assert_eq!((progress.first(), progress.last()), (Some(&1), Some(&count)), "one probe, then the others");
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    assert_eq!(fixture.mirrored_texts(), expected);
    // The rows were written in the order of acceptance.
    let order =
        "SELECT count(*)::text FROM (SELECT updated_at < lag(updated_at) OVER (ORDER BY handoff_id) AS early
        FROM thread_summaries) AS rows WHERE early";
    assert_eq!(fixture.query_rows(order), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_connection_cut_before_during_and_after_the_statement_loses_and_repeats_nothing() {
    let cut_points = [
        CutPoint::ToServer(40),
        CutPoint::ToServer(2_000),
        CutPoint::ToServer(4_000),
        CutPoint::ToServer(6_000),
        CutPoint::ToClient(10),
        CutPoint::ToClient(1_500),
        CutPoint::Request("a cut text"),
        CutPoint::Answer("a cut text"),
    ];
    for cut_point in cut_points {
        let fixture = MirrorFixture::new();
        let proxy = fixture.proxy();
        let mirror = mirror_behind(&fixture, &proxy);
        fixture.accept("a cut text").await;
        fixture.accept("another").await;
        proxy.cut_at(cut_point);
        mirror.send_pending();
        fixture.wait_until(&mirror, |report| report.waiting == 0).await;
        assert_eq!(fixture.mirrored_texts(), ["a cut text", "another"], "{cut_point:?}");
        assert_eq!(mirror.status().await.unwrap(), MirrorStatus::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_rows_reach_a_database_with_a_round_trip_time_of_a_second() {
    let fixture = MirrorFixture::new();
    let proxy = fixture.proxy();
    // Half a second in each direction.
    let half = Duration::from_millis(500);
    proxy.delay(half, half);
    for number in 0..120 {
        fixture.accept(&format!("{number}")).await;
    }
    let delivery = mirror_behind(&fixture, &proxy).flush(&mut |_| {}).await.unwrap();
    assert_eq!(delivery.sent, 120);
    assert_eq!(fixture.mirrored_texts().len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_an_unresponsive_database_delays_no_caller_and_its_connections_are_replaced() {
    let fixture = MirrorFixture::new();
    let proxy = fixture.proxy();
    let mirror = mirror_behind(&fixture, &proxy);
    mirror.flush(&mut |_| {}).await.unwrap();
    proxy.silence();
    let started = Instant::now();
    fixture.accept("one").await;
    mirror.send_pending();
    mirror.wait_until_idle(Duration::from_millis(100)).await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    fixture.wait_until(&mirror, |report| report.last_error.is_some()).await;
    proxy.cut();
    proxy.restore();
    fixture.wait_until(&mirror, |report| report.waiting == 0).await;
    assert_eq!(fixture.mirrored_texts(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_write_privilege_is_reported_with_the_statement_that_grants_it() {
    let fixture = MirrorFixture::new();
    let mirror = mirror(&fixture);
    mirror.flush(&mut |_| {}).await.unwrap();
    fixture.batch("REVOKE INSERT ON thread_summaries FROM segue");
    fixture.accept("one").await;
    degrade(&fixture, &mirror).await;
    let hint = mirror.report().await.unwrap().hint.unwrap();
    let statement = hint.split('`').nth(1).unwrap().to_owned();
    assert_eq!(statement, "GRANT SELECT, INSERT, UPDATE ON thread_summaries TO segue");
    fixture.batch("GRANT SELECT, INSERT, UPDATE ON thread_summaries TO segue");
    mirror.wait_until_idle(LONG).await;
    mirror.flush(&mut |_| {}).await.unwrap();
    assert_eq!(fixture.mirrored_texts(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_create_privilege_is_reported_with_the_statement_that_grants_it() {
    let fixture = MirrorFixture::new();
    fixture.batch("REVOKE CREATE ON SCHEMA public FROM pg_database_owner");
    let Err(error @ Error::Denied { .. }) = mirror(&fixture).count_rows().await else {
        panic!("creating the table must be denied")
    };
    assert!(error.hint().contains("`GRANT CREATE ON SCHEMA public TO segue`"), "{}", error.hint());
    fixture.batch("GRANT CREATE ON SCHEMA public TO segue");
    assert!(mirror(&fixture).count_rows().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_other_columns_is_reported_and_not_changed() {
    for (table, message) in [
        ("CREATE TABLE thread_summaries (id bigint PRIMARY KEY, note text)", "it has id bigint, note text"),
        (
            "CREATE TABLE thread_summaries (assistant_id text, handoff_id uuid, summary_json jsonb, summary_md text,
                created_at timestamptz, updated_at timestamptz)",
            "no unique or exclusion constraint",
        ),
    ] {
        let fixture = MirrorFixture::new();
        fixture.batch(table);
        fixture.accept("one").await;
        let mirror = mirror(&fixture);
        degrade(&fixture, &mirror).await;
        let error = mirror.report().await.unwrap().last_error.unwrap();
        assert!(error.starts_with("use the table thread_summaries: ") && error.contains(message), "{error}");
        assert!(fixture.query_rows("SELECT 1 FROM thread_summaries").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_dropped_meanwhile_is_created_again() {
    let fixture = MirrorFixture::new();
    let mirror = mirror(&fixture);
    mirror.flush(&mut |_| {}).await.unwrap();
    fixture.batch("DROP TABLE thread_summaries CASCADE");
    fixture.accept("one").await;
    mirror.flush(&mut |_| {}).await.unwrap();
    assert_eq!(fixture.mirrored_texts(), ["one"]);
    assert_eq!(fixture.query_rows("SELECT handoffs FROM thread_summary_stats"), ["1"]);
}
