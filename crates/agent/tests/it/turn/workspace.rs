//! The folder of a run: calls are made where they were proposed and nowhere else, rejected from anywhere, and asked about
//! again where their folder is gone.

use std::path::{Path, PathBuf};

use agent::{Agent, AgentSettings, ApprovalPolicy, Error, RunError};
use protocol::{Decisions, EventType, Interrupt, RunStatus, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, decisions, messages, unwatched};
use crate::requests::{assert_fault, run, user_request};

/// A thread that was begun in one folder, and an agent in another one.
struct TwoFolders {
    world: TestEnvironment,
    server: ScriptedServer,
    here: Agent,
    there: Agent,
    thread: ThreadId,
}

impl TwoFolders {
    /// `replies` come first; afterwards the model says that it is done.
    async fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::of(TestEnvironment::new(), replies).await
    }

    async fn of(world: TestEnvironment, replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let replies = replies.into_iter().chain([ScriptedReply::text("Done.").with_repeat()]);
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let here = world.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
        let there = agent_in(&world, &world.folder().join("there"));
        let thread = here.threads().create(None).await.unwrap().thread_id;
        Self { world, server, here, there, thread }
    }

    fn folder_there(&self) -> PathBuf {
        self.world.folder().join("there")
    }

    async fn pending_interrupt(&self) -> Interrupt {
        let mut pending = self.here.runs().pending_interrupts(self.thread).await.unwrap();
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending.remove(0)
    }

    async fn send(&self, agent: &Agent) -> RunStatus {
        let (frames, cancel) = unwatched();
        agent.runs().send_message(self.thread, "Do it.", &frames, &cancel).await.unwrap().status
    }

    async fn answer(&self, agent: &Agent, answer: Decisions) -> agent::Result<RunStatus> {
        let (frames, cancel) = unwatched();
        let id = self.pending_interrupt().await.interrupt_id;
        Ok(agent.runs().resume(id, &answer, &frames, &cancel).await?.unwrap().status)
    }

    async fn rehome(&self, agent: &Agent) -> RunStatus {
        let (frames, cancel) = unwatched();
        agent.runs().rehome_thread(&self.pending_interrupt().await, &frames, &cancel).await.unwrap().status
    }

    async fn folder_of_thread(&self) -> Value {
        self.here.store().thread(self.thread).await.unwrap().unwrap().metadata["workspace"].clone()
    }
}

fn agent_in(world: &TestEnvironment, folder: &Path) -> Agent {
    std::fs::create_dir_all(folder).unwrap();
    let settings = AgentSettings { workspace: folder.to_owned(), ..world.settings(TEST_MODEL) };
    Agent::with_store(settings, world.store()).unwrap()
}

fn execute(command: &str) -> ScriptedReply {
    ScriptedReply::call("c1", "execute", json!({"command": command}))
}

fn approve_decisions() -> Decisions {
    decisions(r#"{"decisions": [{"type": "approve"}]}"#)
}

fn reject_decisions() -> Decisions {
    decisions(r#"{"decisions": [{"type": "reject"}]}"#)
}

fn name(folder: &Path) -> String {
    folder.to_string_lossy().into_owned()
}

#[tokio::test]
async fn k6_a_call_is_made_in_the_folder_it_was_proposed_in_whoever_approves_it() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    assert_eq!(thread.send(&thread.there).await, RunStatus::Interrupted);
    assert_eq!(thread.pending_interrupt().await.payload.workspace, Some(name(&thread.folder_there())));
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.folder_there().join("made").exists());
    assert!(!thread.world.workspace().join("made").exists(), "not where the thread was begun");
}

#[tokio::test]
async fn k6_a_client_answers_for_the_folder_of_the_question_too() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    thread.send(&thread.there).await;
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(thread.folder_there().join("made").exists());
    assert!(!thread.world.workspace().join("made").exists());
}

#[tokio::test]
async fn k6_a_call_is_rejected_from_anywhere_and_where_its_folder_is_gone() {
    for is_gone in [false, true] {
        let thread = TwoFolders::new([execute("touch made")]).await;
        thread.send(&thread.there).await;
        if is_gone {
            std::fs::remove_dir_all(thread.folder_there()).unwrap();
        }
        assert_eq!(thread.answer(&thread.here, reject_decisions()).await.unwrap(), RunStatus::Success);
        assert!(!thread.world.workspace().join("made").exists());
        assert_eq!(messages(&thread.here, thread.thread).await.last().unwrap().text(), "Done.");
    }
}

#[tokio::test]
async fn k6_beside_a_rejected_call_no_other_of_a_folder_that_is_gone_is_made_elsewhere() {
    let both = ScriptedReply::call("c1", "execute", json!({"command": "touch made"})).with_call(
        "c2",
        "read_file",
        json!({"path": "notes.txt"}),
    );
    let thread = TwoFolders::new([both]).await;
    thread.world.write_file("notes.txt", "of another folder");
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    assert_eq!(thread.answer(&thread.here, reject_decisions()).await.unwrap(), RunStatus::Success);
    let said = thread.server.requests().last().unwrap().body.to_string();
    assert!(!said.contains("of another folder") && said.contains("is not made in another folder"), "{said}");
}

#[tokio::test]
async fn k6_where_the_folder_is_gone_the_call_is_asked_about_again_for_this_one() {
    let world = TestEnvironment::new();
    let gone = world.folder().join("there");
    let call = execute(&format!("touch '{}/made'", gone.display()));
    let thread = TwoFolders::of(world, [call]).await;
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(&gone).unwrap();
    let first = thread.pending_interrupt().await;
    let refused = thread.answer(&thread.here, approve_decisions()).await.unwrap_err();
    assert!(matches!(refused, Error::Run(RunError::WorkspaceGone { .. })), "{refused:?}");
    assert!(refused.hint().unwrap().contains("--here"), "{refused}");
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_fault(&end, "WorkspaceError");
    assert_eq!(thread.pending_interrupt().await.interrupt_id, first.interrupt_id, "it still waits");

    assert_eq!(thread.rehome(&thread.here).await, RunStatus::Interrupted);
    let again = thread.pending_interrupt().await;
    let folder = name(&thread.world.workspace());
    assert_ne!(again.interrupt_id, first.interrupt_id, "what was asked before is not what is answered");
    assert_eq!(again.payload.workspace.as_deref(), Some(&*folder));
    assert_eq!(again.payload.action_requests[0].args["command"], format!("touch '{folder}/made'"));
    assert_eq!(thread.folder_of_thread().await, folder);
    let events = thread.here.threads().events(thread.thread).await.unwrap();
    let moved = events.iter().find(|event| event.kind() == Some(EventType::ThreadRehomed)).unwrap();
    assert_eq!(moved.content_value(), json!({"from": name(&gone), "to": folder}));
    assert!(!thread.world.workspace().join("made").exists(), "nothing is made before the new answer");
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.world.workspace().join("made").exists() && !gone.exists());
}

#[tokio::test]
async fn k6_a_client_can_have_the_call_asked_about_again() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    let end = run(&thread.here, thread.thread, json!({"rehome": true})).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(thread.world.workspace().join("made").exists());
    // A thread in which nothing waits moves, too.
    let end = run(&thread.here, thread.thread, json!({"rehome": true})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn k6_what_a_sub_agent_asks_is_asked_again_too() {
    let task = ScriptedReply::call("t1", "task", json!({"description": "a task", "prompt": "Make it."}));
    let asks = ScriptedReply::call("s1", "execute", json!({"command": "touch made"}));
    let thread = TwoFolders::new([task, asks]).await;
    assert_eq!(thread.send(&thread.there).await, RunStatus::Interrupted);
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    assert_eq!(thread.rehome(&thread.here).await, RunStatus::Interrupted);
    let again = thread.pending_interrupt().await;
    assert_eq!(again.payload.workspace, Some(name(&thread.world.workspace())));
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.world.workspace().join("made").exists());
}

#[tokio::test]
async fn a_message_is_answered_here_where_the_threads_folder_is_gone() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    std::fs::remove_dir_all(thread.world.workspace()).unwrap();
    let end = run(&thread.there, thread.thread, user_request("Do it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(thread.pending_interrupt().await.payload.workspace, Some(name(&thread.folder_there())));
    assert_eq!(thread.answer(&thread.there, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.folder_there().join("made").exists());
}

#[tokio::test]
async fn a_client_of_a_server_elsewhere_works_in_the_folder_of_the_thread() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    let end = run(&thread.there, thread.thread, user_request("Do it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(thread.answer(&thread.there, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.world.workspace().join("made").exists());
    assert!(!thread.folder_there().join("made").exists());
}
