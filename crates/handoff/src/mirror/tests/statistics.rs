//! A test that the views of the mirror and the statistics from the journal agree.

use jiff::SignedDuration;
use protocol::{HandoffStatus, HandoffSummary};
use serde_json::{Value, json};

use super::fixture::{MirrorFixture, handoff, mirror, summary};
use crate::{HandoffSample, HandoffStatistics, OutcomeStatistics};

/// Returns the summary with values that differ for each `number`: iteration, tokens, coverage and items.
fn varied_summary(number: u64, summary: HandoffSummary) -> HandoffSummary {
    let mut value = serde_json::to_value(summary).unwrap();
    let item = |index: u64| json!({"kind": "progress", "text": "x", "refs": [], "verified": !(number + index).is_multiple_of(3)});
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
async fn the_views_and_the_statistics_agree() {
    let fixture = MirrorFixture::new();
    let mut statistics = HandoffStatistics::default();
    for number in 0..23_u64 {
        let handoff = handoff("agent".parse().unwrap());
        let summary = varied_summary(number, summary(&handoff, &format!("{number}")));
        let duration = SignedDuration::from_micros(i64::try_from(number * number * 1_234_567 + 600).unwrap());
        fixture.insert_accepted(&handoff, summary.clone(), duration).await;
        let sample = HandoffSample {
            handoff: &handoff,
            summary: Some(&summary),
            tokens_drafting: 0,
            decided_at: Some(handoff.created_at + duration),
        };
        statistics.add_handoff(HandoffStatus::Cleaned, sample);
    }
    let deleted = fixture.accept("gone").await;
    mirror(&fixture).flush(&mut |_| {}).await.unwrap();
    fixture.delete(deleted.parent_thread_id).await;
    fixture.delete(deleted.child_thread_id).await;
    mirror(&fixture).flush(&mut |_| {}).await.unwrap();
    let row = fixture.query_rows("SELECT to_jsonb(s)::text FROM thread_summary_stats AS s").remove(0);
    let row: Value = serde_json::from_str(&row).unwrap();
    let accepted: &OutcomeStatistics = &statistics.with_percentiles().outcomes["accepted"];
    let mut expected = serde_json::to_value(accepted).unwrap();
    // The mirror has only the accepted summaries, so it does not know the tokens of other drafts.
    expected.as_object_mut().unwrap().shift_remove("tokens_drafting");
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name}: {row}");
    }
    assert_eq!(row["assistant_id"], "agent");
    assert_eq!(row.as_object().unwrap().len(), expected.as_object().unwrap().len() + 1);
    assert!(accepted.unverified_items > 0 && accepted.truncated > 0 && accepted.excluded > 0);
}
