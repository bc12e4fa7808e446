//! Power is cut while a process writes: what was acknowledged is there, and nothing is torn.

use std::io::{BufRead, BufReader, Read};

use journal::{HealthDepth, Sqlite, Store};
use protocol::Seq;

use crate::conformance::fixtures::{all_events, create, seqs};
use crate::processes::spawn;

const ROUNDS: usize = 25;

/// Returns the seqs that a child reported; a last line that was cut short is none.
pub fn acknowledged(output: &str) -> Vec<Seq> {
    output
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.split_once("acknowledged ")?.1.parse().ok())
        .collect()
}

#[tokio::test]
async fn a3_what_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let thread_id = create(&Sqlite::open(&database).unwrap()).await;
    let mut stored = 0;
    for round in 0..ROUNDS {
        let mut child = spawn("append_until_killed", &database, thread_id);
        let mut reports = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        // A different moment every round, and never one that depends on the clock.
        for _ in 0..(round * 37) % 400 + 10 {
            reports.read_line(&mut output).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        reports.read_to_string(&mut output).unwrap();
        let acknowledged = acknowledged(&output);

        let store = Sqlite::open(&database).unwrap();
        let events = all_events(&store, thread_id, &[]).await;
        let last = events.last().unwrap().seq;
        assert_eq!(seqs(&events), (1..=last).collect::<Vec<_>>(), "round {round}: a prefix without a gap");
        assert!(acknowledged.iter().all(|seq| (stored + 1..=last).contains(seq)), "round {round}");
        // Two events a transaction, of the same number: both are there, or neither.
        assert!(last.is_multiple_of(2), "round {round}");
        assert!(events.chunks(2).all(|pair| pair[0].content.get() == pair[1].content.get()), "round {round}");
        stored = last;
    }
    let store = Sqlite::open(&database).unwrap();
    let health = store.health(HealthDepth::Integrity).await.unwrap();
    assert_eq!((health.events, health.problems), (stored, vec![]));
}
