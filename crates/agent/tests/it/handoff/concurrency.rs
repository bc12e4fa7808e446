//! Tests of concurrent handoffs: two processes with the same home folder and an editor that appends to `agent.md`. The
//! processes are this test binary, controlled by environment variables. Also a run that exceeds its time limit.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use agent::{Agent, HandoffRequestOptions};
use journal::{HandoffFilter, ThreadFilter};
use memory::managed_block;
use protocol::{Handoff, HandoffMark, HandoffStatus, Message, OwnerScope, RunStatus, Thread, ThreadStatus};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::environment::{TestEnvironment, approval, unwatched};

/// The number of handoffs of each process.
const HANDOFFS: usize = 50;
/// The maximum number of lines that the editor appends. They are far fewer than the size limit of `agent.md` allows.
const LINES_MAX: usize = 4_000;
/// The environment variable with the folder of the child process's test environment.
const FOLDER_VARIABLE: &str = "SEGUE_TEST_FOLDER";
/// The environment variable with the name of the child process, a prefix of its sessions' names.
const NAME_VARIABLE: &str = "SEGUE_TEST_NAME";

/// The entry point of the child process. Without the environment variables, as in an ordinary test run, it does nothing.
#[tokio::test]
async fn process_that_hands_off() {
    let (Ok(folder), Ok(name)) = (std::env::var(FOLDER_VARIABLE), std::env::var(NAME_VARIABLE)) else {
        return;
    };
    let environment = TestEnvironment::at(folder.into());
    let agent = environment.agent();
    for number in 0..HANDOFFS {
        hand_off(&environment, &agent, &format!("{name}-{number}")).await;
    }
}

/// Imports a session about `name`, requests a handoff of its thread and accepts it.
async fn hand_off(environment: &TestEnvironment, agent: &Agent, name: &str) {
    let (frames, cancel) = unwatched();
    let report =
        agent.threads().import(&[environment.write_session_about(name)], &frames, &cancel).await.unwrap();
    let parent = report.threads[0].thread_id;
    let pending =
        agent.handoffs().request(parent, HandoffRequestOptions::default(), &frames, &cancel).await.unwrap();
    agent.handoffs().decide(pending.handoff.handoff_id, &approval(&pending), &frames, &cancel).await.unwrap();
}

/// Starts a child process that makes [`HANDOFFS`] handoffs.
fn start_process(environment: &TestEnvironment, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "handoff::concurrency::process_that_hands_off", "--nocapture"])
        .env(FOLDER_VARIABLE, environment.folder())
        .env(NAME_VARIABLE, name)
        .spawn()
        .unwrap()
}

/// Appends lines, each flushed to the disk, until all processes have ended or [`LINES_MAX`] is reached. Returns the number
/// of lines.
fn append_lines_until_done(path: &Path, processes: &mut [Child]) -> usize {
    let mut lines = 0;
    loop {
        let have_ended = processes.iter_mut().all(|child| child.try_wait().unwrap().is_some());
        if lines < LINES_MAX {
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(format!("line {lines}\n").as_bytes()).unwrap();
            file.sync_data().unwrap();
            lines += 1;
        }
        if have_ended || lines == LINES_MAX {
            return lines;
        }
    }
}

/// Asserts that `agent.md` has one valid managed block and every appended line once, and that no temporary file remains.
fn check_file(environment: &TestEnvironment, lines: usize) {
    let text = std::fs::read(environment.agent_md()).unwrap();
    assert_eq!(managed_block::marker_problems(&text), []);
    assert_eq!(String::from_utf8_lossy(&text).matches(managed_block::OPEN_TAG).count(), 1);
    let outside = String::from_utf8(managed_block::remove_blocks(&text)).unwrap();
    let actual: Vec<&str> = outside.lines().filter(|line| line.starts_with("line ")).collect();
    let expected: Vec<String> = (0..lines).map(|number| format!("line {number}")).collect();
    let lost: Vec<&String> = expected.iter().filter(|line| !actual.contains(&line.as_str())).collect();
    assert_eq!((lost, actual.len()), (Vec::new(), lines));
    assert!(outside.starts_with("# Notes\n"));
    let folder = environment.agent_md().parent().unwrap().to_owned();
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["agent.md", "agent.md.lock"]);
}

/// Asserts that the metadata of the parent and of the child name the handoff and each other.
fn check_marks(handoff: &Handoff, parent: &Thread, child: &Thread) {
    let (parent_mark, child_mark) = (parent.handoff_mark().unwrap(), child.handoff_mark().unwrap());
    let ids = |mark: &HandoffMark| (mark.handoff_id, mark.source_thread_id, mark.child_thread_id);
    let expected = (handoff.handoff_id, parent.thread_id, child.thread_id);
    assert_eq!((ids(&parent_mark), ids(&child_mark)), (expected, expected));
    assert_eq!((child_mark.pending, child_mark.cleanup_required), (true, true));
    assert_eq!((parent_mark.pending, parent_mark.cleanup_required), (false, false));
    let last = &parent.metadata[HandoffMark::LAST_KEY];
    assert_eq!(last["handoff_id"], handoff.handoff_id.to_string());
    assert_eq!(last["child_thread_id"], child.thread_id.to_string());
    assert_eq!(child.parent_id, Some(parent.thread_id));
}

/// Asserts that every handoff has its own parent, child and accepted summary. Returns the summaries.
async fn check_handoffs(environment: &TestEnvironment, names: &[&str]) -> BTreeSet<String> {
    let store = environment.store();
    let handoffs = store.handoffs(HandoffFilter::default()).await.unwrap();
    assert_eq!(handoffs.len(), names.len() * HANDOFFS);
    let mut summaries = BTreeSet::new();
    let mut requests = BTreeSet::new();
    for handoff in &handoffs {
        assert_eq!((handoff.status, &handoff.note), (HandoffStatus::Seeded, &None));
        let parent = store.thread(handoff.parent_thread_id).await.unwrap().unwrap();
        let child = store.thread(handoff.child_thread_id).await.unwrap().unwrap();
        check_marks(handoff, &parent, &child);
        let filter = ThreadFilter {
            parent_id: Some(parent.thread_id),
            ..ThreadFilter::for_scope(OwnerScope::Everyone, 5)
        };
        assert_eq!(store.threads(filter).await.unwrap(), [child]);
        let proposals = store.proposals(handoff.handoff_id).await.unwrap();
        assert_eq!(proposals.len(), 1);
        assert_eq!(handoff.accepted_sha256.as_ref(), Some(&proposals[0].summary_sha256));
        assert_eq!(proposals[0].summary_json.parent_thread_id, parent.thread_id);
        requests.insert(parent.first_prompt.unwrap());
        summaries.insert(proposals[0].package_md.clone());
    }
    assert_eq!((requests.len(), summaries.len()), (handoffs.len(), handoffs.len()));
    summaries
}

#[tokio::test]
async fn m13_two_processes_that_hand_off_and_an_editor_lose_nothing() {
    let environment = TestEnvironment::new();
    // The schema is created here, so that the measured time is that of the handoffs.
    drop(environment.agent());
    std::fs::create_dir_all(environment.agent_md().parent().unwrap()).unwrap();
    std::fs::write(environment.agent_md(), "# Notes\n").unwrap();
    let names = ["one", "two"];
    let started = Instant::now();
    let mut processes = names.map(|name| start_process(&environment, name));
    let lines = append_lines_until_done(&environment.agent_md(), &mut processes);
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let elapsed = started.elapsed();
    println!("2 x {HANDOFFS} handoffs and {lines} lines in {elapsed:?}");
    check_file(&environment, lines);
    let summaries = check_handoffs(&environment, &names).await;
    let shown = managed_block::block_content(environment.read_agent_md().as_bytes()).unwrap();
    assert!(summaries.iter().any(|summary| summary.trim() == shown.trim()), "{shown}");
}

#[tokio::test]
async fn a_run_that_exceeds_its_time_limit_ends_and_the_thread_accepts_messages() {
    let environment = TestEnvironment::new();
    let stalled = ScriptedReply::text("Let me think").with_fault(ScriptedFault::Stall);
    let server = ScriptedServer::start(Script::new([stalled, ScriptedReply::text("Done.")])).unwrap();
    environment.configure(&server);
    let limited =
        std::fs::read_to_string(environment.home().config_path()).unwrap() + "\n[run]\nseconds_max = 1\n";
    std::fs::write(environment.home().config_path(), limited).unwrap();
    let agent = environment.agent_over(environment.store(), "anthropic/claude-test");
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let (frames, cancel) = unwatched();
    let started = Instant::now();
    let end = agent.runs().send_message(thread, "Hello.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Timeout, "{end:?}");
    assert!(end.failure.is_some() && started.elapsed() < Duration::from_secs(10));
    let status = agent.store().thread(thread).await.unwrap().unwrap().status;
    assert_eq!(status, ThreadStatus::Error);
    let run = agent.store().run(end.run_id).await.unwrap().unwrap();
    assert_eq!((run.status, run.failure), (RunStatus::Timeout, end.failure));
    assert_eq!(agent.store().active_runs(None).await.unwrap(), []);
    let end = agent.runs().send_message(thread, "Go on.", &frames, &cancel).await.unwrap();
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    let messages: Vec<Message> =
        agent.threads().events(thread).await.unwrap().iter().filter_map(|event| event.message()).collect();
    let texts: Vec<String> = messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["Hello.", "Let me think", "Go on.", "Done."], "a17: the partial answer is stored");
    assert!(matches!(&messages[1], Message::Ai(answer) if answer.incomplete));
}

#[tokio::test]
async fn m13_a_line_appended_to_a_replaced_agent_md_is_merged_by_the_next_handoff() {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    hand_off(&environment, &agent, "first").await;
    let mut open_file = OpenOptions::new().append(true).open(environment.agent_md()).unwrap();
    hand_off(&environment, &agent, "second").await;
    open_file.write_all(b"a late line\n").unwrap();
    hand_off(&environment, &agent, "third").await;
    assert!(environment.read_agent_md().contains("a late line\n"), "{}", environment.read_agent_md());
}
