//! What is there after the way to the database, or the database, was not as it should be.

use std::time::{Duration, Instant};

use test_postgres::Cut;

use super::scene::{Scene, end, mirror, mirror_behind};
use crate::mirror::{Delivered, Error, MirrorStatus};

/// Longer than anything here may take.
const LONG: Duration = Duration::from_secs(120);

/// Makes the mirror degraded by trying as often as it takes.
async fn degrade(scene: &Scene, mirror: &crate::mirror::Mirror) {
    mirror.begin();
    scene.until(mirror, |report| report.status == MirrorStatus::Degraded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_after_three_attempts_it_is_degraded_and_one_probe_shows_that_it_is_back() {
    let scene = Scene::new();
    let proxy = scene.proxy();
    let mirror = mirror_behind(&scene, &proxy);
    proxy.refuse();
    scene.accept("one").await;
    let begun = Instant::now();
    degrade(&scene, &mirror).await;
    assert!(begun.elapsed() >= Duration::from_secs(3), "one and two seconds are waited for");
    let report = mirror.report().await.unwrap();
    assert_eq!(report.waiting, 1);
    assert!(report.last_error.unwrap().contains("refused"));
    mirror.rest(LONG).await;
    // While it is degraded, an attempt is one probe, and nothing is waited for.
    let begun = Instant::now();
    assert!(mirror.flush(&mut |_| {}).await.is_err());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    proxy.pass();
    for number in 0..150 {
        scene.accept(&format!("{number}")).await;
    }
    mirror.begin();
    scene.until(&mirror, |report| report.waiting == 0 && report.status == MirrorStatus::Ok).await;
    assert_eq!(scene.texts().len(), 151);
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_every_process_knows_that_it_is_degraded() {
    let scene = Scene::new();
    let proxy = scene.proxy();
    proxy.refuse();
    scene.accept("one").await;
    for failed in 1..=3 {
        // Each is a program that ends after its first attempt.
        let mirror = mirror_behind(&scene, &proxy);
        mirror.begin();
        mirror.rest(LONG).await;
        let expected = if failed < 3 { MirrorStatus::Ok } else { MirrorStatus::Degraded };
        assert_eq!(mirror.status().await.unwrap(), expected, "{failed}");
        end(&mirror);
    }
    assert_eq!(super::mirror_at(&scene, "off").status().await.unwrap(), MirrorStatus::Off);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_thousand_handoffs_while_the_database_is_down_are_there_once_it_is_up() {
    let scene = Scene::new();
    let proxy = scene.proxy();
    proxy.refuse();
    let mirror = mirror_behind(&scene, &proxy);
    for number in 0..1_000 {
        scene.accept(&format!("{number}")).await;
        mirror.begin();
    }
    scene.until(&mirror, |report| report.status == MirrorStatus::Degraded && report.waiting == 1_000).await;
    // What was begun meanwhile comes to its end, or it would send some of them too.
    mirror.rest(LONG).await;
    proxy.pass();
    let mut told = Vec::new();
    let delivered = mirror.flush(&mut |sent| told.push(sent)).await.unwrap();
    assert_eq!(delivered, Delivered { sent: 1_000, rejected: 0 });
    assert_eq!((told.first(), told.last()), (Some(&1), Some(&1_000)), "one probe, then the others");
    let expected: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    assert_eq!(scene.texts(), expected);
    // In order: none was written before one that was accepted before it.
    let order =
        "SELECT count(*)::text FROM (SELECT updated_at < lag(updated_at) OVER (ORDER BY handoff_id) AS early
        FROM thread_summaries) AS rows WHERE early";
    assert_eq!(scene.asked(order), ["0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_connection_cut_before_during_and_after_the_statement_loses_and_repeats_nothing() {
    let places = [
        Cut::ToServer(40),
        Cut::ToServer(2_000),
        Cut::ToServer(4_000),
        Cut::ToServer(6_000),
        Cut::ToClient(10),
        Cut::ToClient(1_500),
        Cut::Request("a cut text"),
        Cut::Answer("a cut text"),
    ];
    for place in places {
        let scene = Scene::new();
        let proxy = scene.proxy();
        let mirror = mirror_behind(&scene, &proxy);
        scene.accept("a cut text").await;
        scene.accept("another").await;
        proxy.cut_at(place);
        mirror.begin();
        scene.until(&mirror, |report| report.waiting == 0).await;
        assert_eq!(scene.texts(), ["a cut text", "another"], "{place:?}");
        assert_eq!(mirror.status().await.unwrap(), MirrorStatus::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_database_half_a_second_away_is_written() {
    let scene = Scene::new();
    let proxy = scene.proxy();
    // Half a second there, and half a second back.
    let half = Duration::from_millis(500);
    proxy.delay(half, half);
    for number in 0..120 {
        scene.accept(&format!("{number}")).await;
    }
    let delivered = mirror_behind(&scene, &proxy).flush(&mut |_| {}).await.unwrap();
    assert_eq!(delivered.sent, 120);
    assert_eq!(scene.texts().len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_database_that_says_nothing_holds_up_nobody_and_is_left_behind_when_it_answers_again() {
    let scene = Scene::new();
    let proxy = scene.proxy();
    let mirror = mirror_behind(&scene, &proxy);
    mirror.flush(&mut |_| {}).await.unwrap();
    proxy.silence();
    let begun = Instant::now();
    scene.accept("one").await;
    mirror.begin();
    mirror.rest(Duration::from_millis(100)).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    scene.until(&mirror, |report| report.last_error.is_some()).await;
    proxy.cut();
    proxy.pass();
    scene.until(&mirror, |report| report.waiting == 0).await;
    assert_eq!(scene.texts(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_write_is_told_the_statement_that_helps() {
    let scene = Scene::new();
    let mirror = mirror(&scene);
    mirror.flush(&mut |_| {}).await.unwrap();
    scene.batch("REVOKE INSERT ON thread_summaries FROM segue");
    scene.accept("one").await;
    degrade(&scene, &mirror).await;
    let hint = mirror.report().await.unwrap().hint.unwrap();
    let statement = hint.split('`').nth(1).unwrap().to_owned();
    assert_eq!(statement, "GRANT SELECT, INSERT, UPDATE ON thread_summaries TO segue");
    scene.batch("GRANT SELECT, INSERT, UPDATE ON thread_summaries TO segue");
    mirror.rest(LONG).await;
    mirror.flush(&mut |_| {}).await.unwrap();
    assert_eq!(scene.texts(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_make_no_table_is_told_the_statement_that_helps() {
    let scene = Scene::new();
    scene.batch("REVOKE CREATE ON SCHEMA public FROM pg_database_owner");
    let Err(error @ Error::Denied { .. }) = mirror(&scene).rows().await else { panic!("it is denied") };
    assert!(error.hint().contains("`GRANT CREATE ON SCHEMA public TO segue`"), "{}", error.hint());
    scene.batch("GRANT CREATE ON SCHEMA public TO segue");
    assert!(mirror(&scene).rows().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_that_name_with_other_columns_is_not_touched_and_told_of() {
    for (table, told) in [
        ("CREATE TABLE thread_summaries (id bigint PRIMARY KEY, note text)", "it has id bigint, note text"),
        (
            "CREATE TABLE thread_summaries (assistant_id text, handoff_id uuid, summary_json jsonb, summary_md text,
                created_at timestamptz, updated_at timestamptz)",
            "no unique or exclusion constraint",
        ),
    ] {
        let scene = Scene::new();
        scene.batch(table);
        scene.accept("one").await;
        let mirror = mirror(&scene);
        degrade(&scene, &mirror).await;
        let error = mirror.report().await.unwrap().last_error.unwrap();
        assert!(error.starts_with("use the table thread_summaries: ") && error.contains(told), "{error}");
        assert!(scene.asked("SELECT 1 FROM thread_summaries").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_removed_meanwhile_is_made_again() {
    let scene = Scene::new();
    let mirror = mirror(&scene);
    mirror.flush(&mut |_| {}).await.unwrap();
    scene.batch("DROP TABLE thread_summaries CASCADE");
    scene.accept("one").await;
    mirror.flush(&mut |_| {}).await.unwrap();
    assert_eq!(scene.texts(), ["one"]);
    assert_eq!(scene.asked("SELECT handoffs FROM thread_summary_stats"), ["1"]);
}
