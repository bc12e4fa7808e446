//! Tests of several processes on one journal: stopping each other's runs, running concurrently, taking over after an exit.

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

/// Settings with the shortest possible lease: 2 seconds.
const SHORT_LEASE_CONFIG: &str = "[serve]\nlease_seconds = 2\n";

#[tokio::test]
async fn j4_another_process_can_stop_a_run_and_the_thread_can_continue() {
    let environment = TestEnvironment::new();
    let replies =
        [ScriptedReply::text("I begin").with_fault(ScriptedFault::Stall), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let (first, second) = (environment.agent_with(&server), environment.agent_with(&server));
    let thread = first.threads().create(None).await.unwrap().thread_id;
    assert!(!second.runs().stop_thread(thread).await.unwrap(), "the thread has no active run");
    let (frames, mut watched) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let stop = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return (
                    second.runs().stop_thread(thread).await.unwrap(),
                    second.runs().stop_thread(thread).await.unwrap(),
                );
            }
        }
        panic!("the model sent no text")
    };
    let (end, stopped) = tokio::join!(first.runs().send_message(thread, "Begin.", &frames, &cancel), stop);
    assert_eq!(end.unwrap().status, RunStatus::Cancelled);
    assert_eq!(stopped, (true, true), "a second stop changes nothing");
    assert!(!second.runs().stop_thread(thread).await.unwrap(), "the run has ended");
    let (frames, cancel) = unwatched();
    let end = second.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "the stop applied to the previous run only: {end:?}");
    assert_eq!(message_texts(&first, thread).await, ["Begin.", "I begin", "Go on.", "Done."]);
}

#[tokio::test]
async fn stopping_a_run_whose_process_exited_stops_that_run_alone() {
    let environment = TestEnvironment::new();
    let replies =
        [ScriptedReply::text("I begin").with_fault(ScriptedFault::Stall), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let (first, second) = (environment.agent_with(&server), environment.agent_with(&server));
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let ((frames, mut watched), cancel) = (FrameSender::channel(), CancellationToken::new());
    let is_streaming = async {
        while let Some(SubscriptionItem::Frame(_, frame)) = watched.next().await {
            if matches!(&*frame, Frame::Text { .. }) {
                return;
            }
        }
    };
    tokio::select! {
        end = first.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("{end:?}"),
        () = is_streaming => {}
    }
    assert!(second.runs().stop_thread(thread).await.unwrap());
    drop(first);
    let (frames, cancel) = unwatched();
    let end = second.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!((end.status, cancel.is_cancelled()), (RunStatus::Success, false), "{end:?}");
    assert_eq!(message_texts(&second, thread).await, ["Begin.", "Go on.", "Done."]);
}

#[tokio::test]
async fn j8_two_concurrent_agents_lose_no_messages() {
    const THREADS: usize = 6;
    const TURNS: usize = 4;
    let environment = TestEnvironment::new();
    let server = answering_server("Yes.");
    let agents = [environment.agent_with(&server), environment.agent_with(&server)];
    let mut turns = Vec::new();
    for number in 0..THREADS {
        let agent = &agents[number % agents.len()];
        turns.push(async move {
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
    for thread in futures::future::join_all(turns).await {
        let expected: Vec<String> =
            (0..TURNS).flat_map(|turn| [turn.to_string(), "Yes.".to_owned()]).collect();
        assert_eq!(message_texts(&agents[0], thread).await, expected);
        let events = agents[1].threads().events(thread).await.unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "a1");
    }
}

#[tokio::test]
async fn j2_the_next_message_resumes_a_run_whose_process_exited() {
    let environment = TestEnvironment::new();
    let replies = [
        ScriptedReply::fault(ScriptedFault::Hang),
        ScriptedReply::text("First done."),
        ScriptedReply::text("Second done."),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let first = environment.agent_with(&server);
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    tokio::select! {
        // The run is dropped midway, as when its process exits.
        end = first.runs().send_message(thread, "First.", &frames, &cancel) => panic!("the run did not hang: {end:?}"),
        () = server.wait_for_calls(1) => {}
    }
    drop(first);
    let second = environment.agent_with(&server);
    assert_eq!(second.store().active_runs(None).await.unwrap().len(), 1);
    let end = second.runs().send_message(thread, "Second.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&second, thread).await, ["First.", "First done.", "Second.", "Second done."]);
    let now = second.store().thread(thread).await.unwrap().unwrap();
    assert_eq!(now.status, ThreadStatus::Idle);
    let run = &second.threads().events(thread).await.unwrap()[1..];
    let ended = run.iter().filter(|event| event.event_type == "run_ended").count();
    assert_eq!(ended, 2, "each run has one end");
    let third = environment.agent_with(&server);
    assert_eq!(third.runs().unclaimed_runs(10).await.unwrap(), []);
    let locks = std::fs::read_dir(environment.home().root().join("processes")).unwrap();
    assert_eq!(locks.count(), 2, "the lock file of a process without runs is deleted");
}

#[tokio::test]
async fn j8_a_process_of_another_home_does_not_take_over_a_live_run() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::fault(ScriptedFault::Hang)])).unwrap();
    environment.configure(&server);
    let database = DatabaseAddress::File(environment.folder().join("shared.db"));
    let open = async |home: &str| {
        let home = HomeFolder::locate(Some(environment.folder().join(home).as_os_str())).unwrap();
        let settings =
            AgentSettings { home, database: Some(database.clone()), ..environment.settings(TEST_MODEL) };
        Agent::open(settings).await.unwrap()
    };
    let (first, second) = (open("home").await, open("elsewhere").await);
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let observe = async {
        server.wait_for_calls(1).await;
        assert_eq!(second.runs().unclaimed_runs(10).await.unwrap(), []);
        let recovery = second.runs().recover(thread, &frames, &cancel).await;
        assert_eq!(recovery.unwrap_err().class(), ErrorClass::Conflict);
    };
    tokio::select! {
        end = first.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("the run did not hang: {end:?}"),
        () = observe => {}
    }
    drop(first);
    assert_eq!(
        second.runs().unclaimed_runs(10).await.unwrap().len(),
        1,
        "the other home detects that the process has exited"
    );
}

#[tokio::test]
async fn j3_leases_use_the_journals_clock_when_the_machines_clock_is_wrong() {
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::fault(ScriptedFault::Hang)])).unwrap();
    environment.configure_with_extra(&server, SHORT_LEASE_CONFIG);
    let journal = CrashingStore::never_crash(environment.store());
    journal.advance_clock(SignedDuration::from_mins(5));
    let first = environment.agent_over(journal.clone(), TEST_MODEL);
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let remaining_lease = async || {
        let run = first.store().active_runs(Some(thread)).await.unwrap().remove(0);
        run.lease_until.unwrap().duration_since(Timestamp::now())
    };
    let observe = async {
        server.wait_for_calls(1).await;
        assert!(remaining_lease().await > SignedDuration::from_mins(4), "the first lease");
        journal.advance_clock(SignedDuration::from_hours(1));
        while remaining_lease().await < SignedDuration::from_mins(50) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        end = first.runs().send_message(thread, "Begin.", &frames, &cancel) => panic!("the run did not hang: {end:?}"),
        () = observe => {}
    }
}

#[tokio::test]
async fn j3_a_run_with_a_hanging_renewal_ends_with_its_lease_and_can_be_recovered() {
    let environment = TestEnvironment::new();
    let replies = [ScriptedReply::fault(ScriptedFault::Hang), ScriptedReply::text("Done.")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    environment.configure_with_extra(&server, SHORT_LEASE_CONFIG);
    let journal = CrashingStore::never_crash(environment.store());
    journal.set_remote();
    let first = environment.agent_over(journal.clone(), TEST_MODEL);
    let thread = first.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let (end, ()) = tokio::join!(first.runs().send_message(thread, "Begin.", &frames, &cancel), async {
        server.wait_for_calls(1).await;
        journal.set_hanging(true);
    });
    let error = end.unwrap_err();
    assert!(error.is_lease_expired(), "{error}");
    journal.set_hanging(false);
    assert_eq!(
        first.runs().unclaimed_runs(10).await.unwrap().len(),
        1,
        "any process that reaches the journal may take the run over, this one too"
    );
    let end = first.runs().recover(thread, &frames, &cancel).await.unwrap().unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert_eq!(message_texts(&first, thread).await, ["Begin.", "Done."]);
}
