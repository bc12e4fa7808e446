//! Random concurrent writes of every kind by several processes keep the tables consistent.

use std::sync::{Arc, Mutex};

use journal::{
    Error, PostgresStore, Result, RunPatch, Store, SummaryQuery, TurnQuery, TurnSummarization, Write,
};
use protocol::{
    ArchiveReason, AssistantId, CheckpointSource, HandoffStatus, RunStatus, SummaryId, Thread, ThreadId,
};

use crate::conformance::fixtures::{
    ai, all_events, append, artifact, at, checkpoint, commit, create, feedback, fork, handoff, human,
    interrupt, messages, proposal, rewind, run, seqs, thread,
};
use crate::conformance::tiers::memory_fixtures::{archive_event, current_version, newest_query};
use crate::server::races::{check_consistency, open_processes};

/// Thread ids that the tasks share, so that they conflict often.
const THREADS: usize = 6;
/// Tasks that write concurrently.
const TASKS: u64 = 12;
/// Random writes of each task.
const STEPS: u64 = 60;

/// A deterministic pseudo-random number generator.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// Thread ids that all workers share. A thread may exist or be deleted.
type SharedThreadIds = Arc<Mutex<Vec<ThreadId>>>;

struct RandomWorkload {
    store: Arc<PostgresStore>,
    threads: SharedThreadIds,
    rng: SeededRng,
}

impl RandomWorkload {
    fn random_thread(&mut self) -> ThreadId {
        let threads = self.threads.lock().unwrap();
        threads[self.rng.below(threads.len())]
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<()> {
        commit(&*self.store, writes).await.map(|_| ())
    }

    async fn random_step(&mut self) -> Result<()> {
        let thread_id = self.random_thread();
        match self.rng.below(16) {
            0..=3 => self.append_message(thread_id).await,
            4 => self.run_turn(thread_id).await,
            5 => {
                let keep_seq = self.store.thread(thread_id).await?.map_or(0, |thread| thread.last_seq / 2);
                rewind(&*self.store, thread_id, keep_seq).await.map(|_| ())
            }
            6 => self.restart_run(thread_id).await,
            7 => self.fork(thread_id).await,
            8..=10 => self.summarize_turns(thread_id).await,
            11 => self.restore_turns().await,
            12 => self.create_handoff(thread_id).await,
            13 => self.put_artifact(thread_id).await,
            14 => {
                messages(&*self.store, "herons").await;
                self.store.update_search_index().await?;
                self.store.turns(TurnQuery::for_agent(AssistantId::default())).await.map(|_| ())
            }
            _ => self.raise_interrupt(thread_id).await,
        }
    }

    async fn append_message(&mut self, thread_id: ThreadId) -> Result<()> {
        let key = format!("key {}", self.rng.below(40));
        let events = vec![human("what of the herons?"), ai("they are grey").with_key(&key)];
        append(&*self.store, thread_id, events).await.map(|_| ())
    }
    /// Commits a run from its admission to its end, in two transactions.
    async fn run_turn(&mut self, thread_id: ThreadId) -> Result<()> {
        let run = run(thread_id, "one");
        let mut point = checkpoint(&run, 0);
        let events = vec![human("count them").with_run(run.run_id)];
        let admitted = vec![
            Write::AdmitRun(run.clone()),
            Write::Append { thread_id, events },
            Write::PutCheckpoint(point.clone()),
        ];
        self.commit(admitted).await?;
        point.step = 1;
        point.source = CheckpointSource::Loop;
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        self.commit(vec![
            Write::Append { thread_id, events: vec![ai("seven").with_run(run.run_id)] },
            Write::PutCheckpoint(point),
            Write::UpdateRun { run_id: run.run_id, patch },
            Write::SettleThread { thread_id },
        ])
        .await?;
        match self.rng.below(3) {
            0 => self.commit(vec![Write::DeleteRun { run_id: run.run_id }]).await,
            _ => self.commit(vec![Write::PutFeedback(feedback(&run, protocol::Rating::Up, 2))]).await,
        }
    }

    async fn restart_run(&self, thread_id: ThreadId) -> Result<()> {
        self.commit(vec![Write::DeleteThread { thread_id }]).await?;
        let again = Thread::blank(thread_id, AssistantId::default(), at(0));
        self.commit(vec![Write::CreateThread(again)]).await
    }

    async fn fork(&mut self, from: ThreadId) -> Result<()> {
        let fork = thread();
        let into = fork.thread_id;
        let writes = vec![Write::CreateThread(fork), Write::CopyEvents { from, until: None, into }];
        self.commit(writes).await?;
        let mut threads = self.threads.lock().unwrap();
        if threads.len() < 2 * THREADS {
            threads.push(into);
        }
        Ok(())
    }
    /// Summarizes turns of the thread, or of all threads that have turns in the window.
    async fn summarize_turns(&mut self, thread_id: ThreadId) -> Result<()> {
        let of_one = self.rng.below(2) == 0;
        let query = TurnQuery {
            thread_id: of_one.then_some(thread_id),
            archived: Some(false),
            limit: 4,
            ..TurnQuery::for_agent(AssistantId::default())
        };
        let turns = self.store.turns(query).await?;
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else { return Ok(()) };
        let mut threads: Vec<ThreadId> = turns.iter().map(|turn| turn.thread_id).collect();
        threads.sort_unstable();
        threads.dedup();
        let window = (first.turn_index, last.turn_index);
        let summary = crate::conformance::tiers::memory_fixtures::summary(window, "Herons are grey.");
        let announcements = threads.iter().map(|thread_id| Write::Append {
            thread_id: *thread_id,
            events: vec![archive_event(&summary, ArchiveReason::Budget, (first.seq, first.seq))],
        });
        let transfer = TurnSummarization {
            summary: summary.clone(),
            thread_id: of_one.then_some(thread_id),
            turns: turns.len() as u64,
            thread_versions: threads.iter().map(|thread_id| current_version(*thread_id)).collect(),
        };
        self.commit([Write::SummarizeTurns(transfer)].into_iter().chain(announcements).collect()).await
    }

    async fn restore_turns(&mut self) -> Result<()> {
        let known = self.store.summaries(SummaryQuery { limit: 20, ..newest_query() }).await?;
        let ids: Vec<SummaryId> = known.into_iter().map(|stored| stored.summary.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let chosen = (0..2).map(|_| ids[self.rng.below(ids.len())]).collect();
        self.commit(vec![Write::RestoreTurns { summary_ids: chosen, scope: None }]).await
    }

    async fn create_handoff(&mut self, parent: ThreadId) -> Result<()> {
        let handoff = handoff(parent, 1);
        self.commit(vec![Write::CreateHandoff(handoff.clone())]).await?;
        // Like a drafting step, which writes to its thread too.
        let drafted = Write::Append { thread_id: parent, events: vec![human("draft it")] };
        self.commit(vec![drafted, Write::PutProposal(proposal(&handoff, 0, "of herons"))]).await?;
        let to = HandoffStatus::Declined;
        let from = HandoffStatus::Requested;
        let handoff_id = handoff.handoff_id;
        self.commit(vec![Write::TransitionHandoff {
            handoff_id,
            from,
            to,
            patch: Default::default(),
            at: at(3),
        }])
        .await
    }

    async fn put_artifact(&mut self, thread_id: ThreadId) -> Result<()> {
        let number = self.rng.below(3) as u8;
        self.commit(vec![Write::PutArtifact(artifact(thread_id, number, &[number; 100]))]).await
    }

    async fn raise_interrupt(&mut self, thread_id: ThreadId) -> Result<()> {
        let raised = interrupt(&run(thread_id, "one"), "approval", 1);
        let interrupt_id = raised.interrupt_id;
        self.commit(vec![Write::RaiseInterrupt(raised), Write::SettleThread { thread_id }]).await?;
        self.commit(vec![Write::ResolveInterrupt { interrupt_id, decisions: None, at: at(4) }]).await
    }
}

/// Returns whether the error names an expected conflict.
fn is_expected(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound { .. }
            | Error::UnknownRun { .. }
            | Error::Busy { .. }
            | Error::Fenced { .. }
            | Error::AlreadyDecided { .. }
            | Error::HandoffPending { .. }
            | Error::HandoffStatusChanged { .. }
            | Error::Conflict { .. }
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_a2_j1_f6_concurrent_random_writes_keep_the_tables_consistent() {
    let (_database, stores) = open_processes(3).await;
    let mut known = Vec::new();
    for _ in 0..THREADS {
        known.push(create(&*stores[0]).await);
    }
    known.push(fork(&*stores[0], known[0], None).await);
    let threads: SharedThreadIds = Arc::new(Mutex::new(known));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&stores[task as usize % stores.len()]);
            let mut scene =
                RandomWorkload { store, threads: Arc::clone(&threads), rng: SeededRng(task * 7_919) };
            tokio::spawn(async move {
                let mut done = 0;
                for step in 0..STEPS {
                    match scene.random_step().await {
                        Ok(()) => done += 1,
                        Err(error) => assert!(is_expected(&error), "step {step} of {task}: {error:?}"),
                    }
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    assert!(done > TASKS * STEPS / 3, "{done} steps succeeded");
    check_consistency(&stores[0]).await;
    let known = threads.lock().unwrap().clone();
    for thread_id in known {
        let events = seqs(&all_events(&*stores[0], thread_id, &[]).await);
        assert!(events.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
