//! Many handoffs of a real server while the mirror's database is down, and their export after it is up again. With
//! full counts, these are a thousand handoffs.

use std::time::{Duration, Instant};

use serde_json::json;
use test_counts::count;

use super::MirroredMachine;
use crate::sandbox::TestSandbox;
use crate::serve::client::ApiClient;
use crate::serve::{import_session, owner_client};
use crate::server::ServeProcess;

/// Number of handoffs while the mirror is down, small and full.
const HANDOFF_COUNTS: (usize, usize) = (60, 1_000);
/// Number of those handoffs that alternate with handoffs of a server without a mirror, so that both timings
/// come from databases of the same size.
const COMPARED_COUNTS: (usize, usize) = (40, 150);

/// Hands the thread off. Returns the hash of the summary and the duration of the acceptance.
fn hand_off(api: &ApiClient, thread: &str) -> (String, Duration) {
    let pending = api.post(&format!("/api/threads/{thread}/handoffs"), &json!({})).json();
    let id = pending["handoff"]["handoff_id"].as_str().unwrap_or_else(|| panic!("{pending}"));
    let decision = json!({"decisions": [{"type": "approve"}]});
    let started_at = Instant::now();
    let decided = api.post(&format!("/api/handoffs/{id}/decision"), &decision).json();
    let took = started_at.elapsed();
    assert_eq!(decided["outcome"], "accepted", "{decided}");
    (id.to_owned(), took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn m12_handoffs_without_the_mirror_are_not_delayed_and_are_all_exported_later() {
    let handoff_count = count(HANDOFF_COUNTS.0, HANDOFF_COUNTS.1);
    let compared_count = count(COMPARED_COUNTS.0, COMPARED_COUNTS.1);
    // Both servers store their journal in a file. Only the mirror's database is down.
    let mirrored = MirroredMachine::new();
    let mirrored = MirroredMachine { sandbox: mirrored.sandbox.with_file_database(), ..mirrored };
    mirrored.proxy.refuse();
    let plain = TestSandbox::new().with_file_database();
    let (with, without) = (ServeProcess::start(&mirrored.sandbox), ServeProcess::start(&plain));
    let (with, without) = ((owner_client(&with), with), (owner_client(&without), without));
    let (thread, other) = (import_session(&with.0), import_session(&without.0));
    let (mut ids, mut dead, mut none) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..handoff_count {
        let (id, took) = hand_off(&with.0, &thread);
        ids.push(id);
        if number < compared_count {
            dead.push(took);
            none.push(hand_off(&without.0, &other).1);
        }
    }
    let (dead, none) = (median(dead), median(none));
    println!("accepting takes {none:?} without a mirror, {dead:?} with one that is away");
    // Two busy servers differ by some milliseconds. Waiting for a connection attempt would take far
    // longer.
    assert!(dead < none * 2, "{dead:?} against {none:?}");
    // The status changes after three failed attempts, which may take longer than the handoffs.
    let status = mirrored.wait_for_status("failed attempts", |status| status["status"] == "degraded");
    assert_eq!(status["waiting"], json!(handoff_count), "{status}");
    mirrored.proxy.restore();
    // The next handoff detects that the mirror is up again, and the export of all others follows.
    ids.push(hand_off(&with.0, &thread).0);
    let status = mirrored.wait_for_status("row for each handoff", |status| status["waiting"] == 0);
    assert_eq!(status["rows"], json!({"summaries": handoff_count + 1, "deleted": 0}), "{status}");
    let stats = mirrored.sandbox.json(&["handoff", "stats", "--json"]);
    assert_eq!(stats["outcomes"]["accepted"]["handoffs"], handoff_count + 1);
    assert_mirrored(&mirrored, &ids);
}

/// Checks that the mirror contains these handoffs, each with the bytes that were accepted.
fn assert_mirrored(mirrored: &MirroredMachine, ids: &[String]) {
    let journal = rusqlite::Connection::open(mirrored.sandbox.home().join("segue.db")).unwrap();
    let mut accepted = journal
        .prepare(
            "SELECT h.handoff_id, p.summary_md FROM handoffs h JOIN proposals p ON p.handoff_id = h.handoff_id
             AND p.summary_sha256 = h.accepted_sha256 ORDER BY h.handoff_id",
        )
        .unwrap();
    let accepted: Vec<(String, String)> =
        accepted.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
    assert_eq!(accepted.iter().map(|(id, _)| id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>());
    let rows = mirrored.query_rows(
        "SELECT json_build_array(handoff_id::text, summary_md)::text FROM thread_summaries ORDER BY handoff_id",
    );
    let mirrored: Vec<(String, String)> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(mirrored, accepted);
}
