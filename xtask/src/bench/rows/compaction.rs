//! `segue compact` in a new process, offline and with memory, on threads of growing length.

use std::time::Instant;

use super::super::harness::BenchContext;
use super::super::harness::home::BenchHome;
use super::super::report::Measurement;

/// Lengths of the threads in messages, and the goals in seconds.
const LENGTHS: [(usize, f64); 3] = [(5_000, 0.3), (20_000, 1.2), (50_000, 3.0)];

/// Measures one compaction of each thread.
///
/// # Errors
/// If a process fails.
pub fn measure_compactions(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (messages, goal) in LENGTHS {
        let home = BenchHome::create(context, &format!("compact-{messages}"))?;
        let thread_id = home.import_session(messages)?;
        let start = Instant::now();
        home.run_command(&["compact", &thread_id])?;
        let seconds = start.elapsed().as_secs_f64();
        let name = format!("segue compact, {messages} messages, memory on");
        measurements.push(Measurement::cost(name, seconds, "s").with_goal(goal));
    }
    Ok(measurements)
}
