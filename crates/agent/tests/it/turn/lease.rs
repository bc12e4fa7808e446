//! Several processes on one journal: one works in a thread, others look on, stop it, or work beside it.

use agent::{
    Agent, AgentSettings, CancellationToken, DatabaseAddress, ErrorClass, Frame, FrameSender, HomeFolder,
    SubscriptionItem,
};
use jiff::{SignedDuration, Timestamp};
use protocol::{RunStatus, ThreadStatus};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{
    CrashingStore, TEST_MODEL, TestEnvironment, answering_server, message_texts, unwatched,
};

/// The shortest leases there are.
const SHORT_LEASE_CONFIG: &str = "[serve]\nlease_seconds = 2\n";

#[tokio::test]
async fn j4_a_run_is_stopped_from_another_process_once_and_the_thread_goes_on() {
    let world = TestEnvironment::new();
    let replies =
        [ScriptedReply::text("I begin").with_fault(ScriptedFault::Stall), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let (one, two) = (world.agent_with(&server), world.agent_with(&server));
    let thread = one.threads().create(None).await.unwrap().thread_id;
    assert!(!two.runs().stop_thread(thread).await.unwrap(), "there is nothing to stop");
    let (frames, mut watched) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return (
                    two.runs().stop_thread(thread).await.unwrap(),
                    two.runs().stop_thread(thread).await.unwrap(),
                );
            }
        }
        panic!("the model said nothing")
    };
    let (end, stopped) = tokio::join!(one.runs().send_message(thread, "Begin.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(stopped, (true, true), "asking again changes nothing");
    assert!(!two.runs().stop_thread(thread).await.unwrap(), "it has come to its end");
    let (frames, cancel) = unwatched();
    let end = two.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "the stop was for the run before: {end:?}");
    assert_eq!(message_texts(&one, thread).await, ["Begin.", "I begin", "Go on.", "Done."]);
}

#[tokio::test]
async fn a_stop_of_a_run_that_was_cut_off_stops_that_run_alone() {
    let world = TestEnvironment::new();
    let replies =
        [ScriptedReply::text("I begin").with_fault(ScriptedFault::Stall), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let (one, two) = (world.agent_with(&server), world.agent_with(&server));
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let ((frames, mut watched), cancel) = (FrameSender::channel(), CancellationToken::new());
    let has_begun = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return;
            }
        }
    };
    tokio::select! {
        end = one.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("{end:?}"),
        () = has_begun => {}
    }
    assert!(two.runs().stop_thread(thread).await.unwrap());
    drop(one);
    let (frames, cancel) = unwatched();
    let end = two.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!((end.status, cancel.is_cancelled()), (RunStatus::Success, false), "{end:?}");
    assert_eq!(message_texts(&two, thread).await, ["Begin.", "Go on.", "Done."]);
}

#[tokio::test]
async fn j8_two_agents_that_work_at_the_same_time_lose_nothing() {
    const THREADS: usize = 6;
    const TURNS: usize = 4;
    let world = TestEnvironment::new();
    let server = answering_server("Yes.");
    let agents = [world.agent_with(&server), world.agent_with(&server)];
    let mut work = Vec::new();
    for number in 0..THREADS {
        let agent = &agents[number % agents.len()];
        work.push(async move {
            let (frames, cancel) = unwatched();
            let thread = agent.threads().create(None).await.unwrap().thread_id;
            for turn in 0..TURNS {
                let end = agent
                    .runs()
                    .send_message(thread, format!("{turn}").as_str(), &frames, &cancel)
                    .await
                    .unwrap();
                assert_eq!(end.status, RunStatus::Success, "{end:?}");
            }
            thread
        });
    }
    for thread in futures::future::join_all(work).await {
        let expected: Vec<String> =
            (0..TURNS).flat_map(|turn| [turn.to_string(), "Yes.".to_owned()]).collect();
        assert_eq!(message_texts(&agents[0], thread).await, expected);
        let events = agents[1].threads().events(thread).await.unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "a1");
    }
}

#[tokio::test]
async fn j2_a_run_whose_process_ended_is_taken_up_at_the_next_message_and_its_prompt_kept() {
    let world = TestEnvironment::new();
    let replies = [
        ScriptedReply::fault(ScriptedFault::Hang),
        ScriptedReply::text("First done."),
        ScriptedReply::text("Second done."),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let one = world.agent_with(&server);
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    tokio::select! {
        // Dropped in the middle, as with its process.
        end = one.runs().send_message(thread, "First.", &frames, &cancel) => panic!("it hangs: {end:?}"),
        () = server.wait_for_calls(1) => {}
    }
    drop(one);
    let two = world.agent_with(&server);
    assert_eq!(two.store().active_runs(None).await.unwrap().len(), 1);
    let end = two.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&two, thread).await, ["First.", "First done.", "Second.", "Second done."]);
    let now = two.store().thread(thread).await.unwrap().unwrap();
    assert_eq!(now.status, ThreadStatus::Idle);
    let run = &two.threads().events(thread).await.unwrap()[1..];
    let ended = run.iter().filter(|event| event.event_type == "run_ended").count();
    assert_eq!(ended, 2, "each run has one end");
    let three = world.agent_with(&server);
    assert_eq!(three.runs().unclaimed_runs(10).await.unwrap(), []);
    let locks = std::fs::read_dir(world.home().root().join("processes")).unwrap();
    assert_eq!(locks.count(), 2, "the lock of a process that nothing names any more is gone");
}

#[tokio::test]
async fn j8_of_two_homes_on_one_file_neither_takes_what_the_other_works_on() {
    let world = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::fault(ScriptedFault::Hang)])).unwrap();
    world.configure(&server);
    let database = DatabaseAddress::File(world.folder().join("shared.db"));
    let open = async |home: &str| {
        let home = HomeFolder::locate(Some(world.folder().join(home).as_os_str())).unwrap();
        let settings = AgentSettings { home, database: Some(database.clone()), ..world.settings(TEST_MODEL) };
        Agent::open(settings).await.unwrap()
    };
    let (one, two) = (open("home").await, open("elsewhere").await);
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let looked = async {
        server.wait_for_calls(1).await;
        assert_eq!(two.runs().unclaimed_runs(10).await.unwrap(), []);
        let taken = two.runs().recover(thread, &frames, &cancel).await;
        assert_eq!(taken.unwrap_err().class(), ErrorClass::Conflict);
    };
    tokio::select! {
        end = one.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("it hangs: {end:?}"),
        () = looked => {}
    }
    drop(one);
    assert_eq!(two.runs().unclaimed_runs(10).await.unwrap().len(), 1, "its lock is seen from the other home");
}

#[tokio::test]
async fn j3_where_the_machines_clock_is_wrong_leases_go_by_the_one_of_the_journal() {
    let world = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::fault(ScriptedFault::Hang)])).unwrap();
    world.configure_with_extra(&server, SHORT_LEASE_CONFIG);
    let journal = CrashingStore::never_crash(world.store());
    journal.advance_clock(SignedDuration::from_mins(5));
    let one = world.agent_over(journal.clone(), TEST_MODEL);
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let lasts = async || {
        let run = one.store().active_runs(Some(thread)).await.unwrap().remove(0);
        run.lease_until.unwrap().duration_since(Timestamp::now())
    };
    let looked = async {
        server.wait_for_calls(1).await;
        assert!(lasts().await > SignedDuration::from_mins(4), "the first lease");
        journal.advance_clock(SignedDuration::from_hours(1));
        while lasts().await < SignedDuration::from_mins(50) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        end = one.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("it hangs: {end:?}"),
        () = looked => {}
    }
}

#[tokio::test]
async fn j3_a_run_whose_renewal_hangs_is_let_go_when_its_lease_ends_and_goes_on_where_the_journal_is_reached()
{
    let world = TestEnvironment::new();
    let replies = [ScriptedReply::fault(ScriptedFault::Hang), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    world.configure_with_extra(&server, SHORT_LEASE_CONFIG);
    let journal = CrashingStore::never_crash(world.store());
    journal.set_remote();
    let one = world.agent_over(journal.clone(), TEST_MODEL);
    let thread = one.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let (end, ()) = tokio::join!(one.runs().send_message(thread, "Begin.", &frames, &cancel), async {
        server.wait_for_calls(1).await;
        journal.set_hanging(true);
    });
    let error = end.unwrap_err();
    assert!(error.is_lease_expired(), "{error}");
    journal.set_hanging(false);
    assert_eq!(
        one.runs().unclaimed_runs(10).await.unwrap().len(),
        1,
        "whoever reaches it may take it, this process too"
    );
    let end = one.runs().recover(thread, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&one, thread).await, ["Begin.", "Done."]);
}
