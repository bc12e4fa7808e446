//! What the views over the mirror say, beside what is counted from the journal.

use jiff::SignedDuration;
use protocol::{HandoffStatus, HandoffSummary};
use serde_json::{Value, json};

use super::scene::{Scene, handoff, mirror, summary};
use crate::{Counted, Figures, Statistics};

/// Summaries that differ in everything that is counted: iteration, tokens, coverage, items.
fn varied(number: u64, summary: HandoffSummary) -> HandoffSummary {
    let mut value = serde_json::to_value(summary).unwrap();
    let item = |at: u64| json!({"kind": "progress", "text": "x", "refs": [], "verified": !(number + at).is_multiple_of(3)});
    value["body"] = (0..3 + number % 4).map(item).collect();
    value["iteration"] = (number % 3).into();
    value["tokens_used"] = (number * 17).into();
    value["coverage"] = json!({
        "first_seq": 1, "last_seq": 100, "verbatim": [[90, 90 + number % 10]], "summarized": [[1, 10], [12, 30]],
        "truncated": if number.is_multiple_of(2) { json!([[40, 41]]) } else { json!([]) },
        "excluded": [[42, 89]], "messages": 30 + number,
    });
    serde_json::from_value(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_and_the_command_count_the_same() {
    let scene = Scene::new();
    let mut statistics = Statistics::default();
    for number in 0..23_u64 {
        let handoff = handoff("agent".parse().unwrap());
        let summary = varied(number, summary(&handoff, &format!("{number}")));
        let took = SignedDuration::from_micros(i64::try_from(number * number * 1_234_567 + 600).unwrap());
        scene.accepted(&handoff, summary.clone(), took).await;
        let counted = Counted {
            handoff: &handoff,
            summary: Some(&summary),
            tokens_drafting: 0,
            decided_at: Some(handoff.created_at + took),
        };
        statistics.count(HandoffStatus::Cleaned, counted);
    }
    let deleted = scene.accept("gone").await;
    mirror(&scene).flush(&mut |_| {}).await.unwrap();
    scene.delete(deleted.parent_thread_id).await;
    scene.delete(deleted.child_thread_id).await;
    mirror(&scene).flush(&mut |_| {}).await.unwrap();
    let seen = scene.asked("SELECT to_jsonb(s)::text FROM thread_summary_stats AS s").remove(0);
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let figures: &Figures = &statistics.finish().outcomes["accepted"];
    let mut expected = serde_json::to_value(figures).unwrap();
    // The mirror has the summaries that were accepted, and no other draft.
    expected.as_object_mut().unwrap().shift_remove("tokens_drafting");
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[name], value, "{name}: {seen}");
    }
    assert_eq!(seen["assistant_id"], "agent");
    assert_eq!(seen.as_object().unwrap().len(), expected.as_object().unwrap().len() + 1);
    assert!(figures.unverified_items > 0 && figures.truncated > 0 && figures.excluded > 0);
}
