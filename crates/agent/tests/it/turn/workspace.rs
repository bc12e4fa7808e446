//! Tests of a run's folder: calls run only in the folder in which they were proposed, can be rejected from any folder, and
//! are asked about again if their folder was deleted.

use std::path::{Path, PathBuf};

use agent::{Agent, AgentSettings, ApprovalPolicy, Error, RunError};
use protocol::{Decisions, EventType, Interrupt, RunStatus, ThreadId};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, decisions, messages, unwatched};
use crate::requests::{assert_fault, run, user_request};

/// A thread that was started in one folder, and agents in this folder and in another one.
struct TwoFolders {
    environment: TestEnvironment,
    server: ScriptedServer,
    here: Agent,
    there: Agent,
    thread: ThreadId,
}

impl TwoFolders {
    /// Creates the fixture. The model plays `replies`, and then "Done." for every request.
    async fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::of(TestEnvironment::new(), replies).await
    }

    async fn of(environment: TestEnvironment, replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let replies = replies.into_iter().chain([ScriptedReply::text("Done.").with_repeat()]);
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let here = environment.agent_with_policy(&server, ("", ApprovalPolicy::Ask));
        let there = agent_in(&environment, &environment.folder().join("there"));
        let thread = here.threads().create(None).await.unwrap().thread_id;
        Self { environment, server, here, there, thread }
    }

    fn folder_there(&self) -> PathBuf {
        self.environment.folder().join("there")
    }

    async fn pending_interrupt(&self) -> Interrupt {
        let mut pending = self.here.runs().pending_interrupts(self.thread).await.unwrap();
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending.remove(0)
    }

    /// Sends a message and returns the status of its run.
    async fn send(&self, agent: &Agent) -> RunStatus {
        let (frames, cancel) = unwatched();
        agent.runs().send_message(self.thread, "Do it.", &frames, &cancel).await.unwrap().status
    }

    /// Answers the pending question and returns the status of the resumed run.
    async fn answer(&self, agent: &Agent, answer: Decisions) -> agent::Result<RunStatus> {
        let (frames, cancel) = unwatched();
        let id = self.pending_interrupt().await.interrupt_id;
        Ok(agent.runs().resume(id, &answer, &frames, &cancel).await?.unwrap().status)
    }

    /// Moves the thread to the agent's folder and returns the status of the run that asks again.
    async fn rehome(&self, agent: &Agent) -> RunStatus {
        let (frames, cancel) = unwatched();
        agent.runs().rehome_thread(&self.pending_interrupt().await, &frames, &cancel).await.unwrap().status
    }

    async fn folder_of_thread(&self) -> Value {
        self.here.store().thread(self.thread).await.unwrap().unwrap().metadata["workspace"].clone()
    }
}

fn agent_in(environment: &TestEnvironment, folder: &Path) -> Agent {
    std::fs::create_dir_all(folder).unwrap();
    let settings = AgentSettings { workspace: folder.to_owned(), ..environment.settings(TEST_MODEL) };
    Agent::with_store(settings, environment.store()).unwrap()
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
async fn k6_a_call_runs_in_the_folder_of_its_proposal_whichever_agent_approves_it() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    assert_eq!(thread.send(&thread.there).await, RunStatus::Interrupted);
    assert_eq!(thread.pending_interrupt().await.payload.workspace, Some(name(&thread.folder_there())));
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.folder_there().join("made").exists());
    assert!(
        !thread.environment.workspace().join("made").exists(),
        "the call does not run in the folder where the thread started"
    );
}

#[tokio::test]
async fn k6_a_clients_approval_applies_to_the_folder_of_the_question_too() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    thread.send(&thread.there).await;
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(thread.folder_there().join("made").exists());
    assert!(!thread.environment.workspace().join("made").exists());
}

#[tokio::test]
async fn k6_a_call_can_be_rejected_from_any_folder_and_after_its_folder_was_deleted() {
    for is_deleted in [false, true] {
        let thread = TwoFolders::new([execute("touch made")]).await;
        thread.send(&thread.there).await;
        if is_deleted {
            std::fs::remove_dir_all(thread.folder_there()).unwrap();
        }
        assert_eq!(thread.answer(&thread.here, reject_decisions()).await.unwrap(), RunStatus::Success);
        assert!(!thread.environment.workspace().join("made").exists());
        assert_eq!(messages(&thread.here, thread.thread).await.last().unwrap().text(), "Done.");
    }
}

#[tokio::test]
async fn k6_a_call_next_to_a_rejected_one_does_not_run_in_another_folder() {
    let both = ScriptedReply::call("c1", "execute", json!({"command": "touch made"})).with_call(
        "c2",
        "read_file",
        json!({"path": "notes.txt"}),
    );
    let thread = TwoFolders::new([both]).await;
    thread.environment.write_file("notes.txt", "of another folder");
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    assert_eq!(thread.answer(&thread.here, reject_decisions()).await.unwrap(), RunStatus::Success);
    let sent = thread.server.requests().last().unwrap().body.to_string();
    assert!(!sent.contains("of another folder") && sent.contains("is not made in another folder"), "{sent}");
}

#[tokio::test]
async fn k6_a_call_of_a_deleted_folder_is_asked_about_again_for_the_new_folder() {
    let environment = TestEnvironment::new();
    let deleted_folder = environment.folder().join("there");
    let call = execute(&format!("touch '{}/made'", deleted_folder.display()));
    let thread = TwoFolders::of(environment, [call]).await;
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(&deleted_folder).unwrap();
    let first = thread.pending_interrupt().await;
    let refused = thread.answer(&thread.here, approve_decisions()).await.unwrap_err();
    assert!(matches!(refused, Error::Run(RunError::WorkspaceGone { .. })), "{refused:?}");
    assert!(refused.hint().unwrap().contains("--here"), "{refused}");
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_fault(&end, "WorkspaceError");
    assert_eq!(
        thread.pending_interrupt().await.interrupt_id,
        first.interrupt_id,
        "the question is still pending"
    );

    assert_eq!(thread.rehome(&thread.here).await, RunStatus::Interrupted);
    let again = thread.pending_interrupt().await;
    let folder = name(&thread.environment.workspace());
    assert_ne!(again.interrupt_id, first.interrupt_id, "the new question has its own id");
    assert_eq!(again.payload.workspace.as_deref(), Some(&*folder));
    assert_eq!(again.payload.action_requests[0].args["command"], format!("touch '{folder}/made'"));
    assert_eq!(thread.folder_of_thread().await, folder);
    let events = thread.here.threads().events(thread.thread).await.unwrap();
    let moved = events.iter().find(|event| event.kind() == Some(EventType::ThreadRehomed)).unwrap();
    assert_eq!(moved.content_value(), json!({"from": name(&deleted_folder), "to": folder}));
    assert!(
        !thread.environment.workspace().join("made").exists(),
        "the call is not made before the new answer"
    );
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.environment.workspace().join("made").exists() && !deleted_folder.exists());
}

#[tokio::test]
async fn k6_a_client_can_move_a_thread_so_that_the_call_is_asked_about_again() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    let end = run(&thread.here, thread.thread, json!({"rehome": true})).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    let end = run(&thread.here, thread.thread, json!({"command": {"resume": approve_decisions()}})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
    assert!(thread.environment.workspace().join("made").exists());
    // A thread without a pending question can be moved too.
    let end = run(&thread.here, thread.thread, json!({"rehome": true})).await;
    assert_eq!(end.status, RunStatus::Success, "{end:?}");
}

#[tokio::test]
async fn k6_a_sub_agents_question_is_asked_again_too() {
    let task = ScriptedReply::call("t1", "task", json!({"description": "a task", "prompt": "Make it."}));
    let asks = ScriptedReply::call("s1", "execute", json!({"command": "touch made"}));
    let thread = TwoFolders::new([task, asks]).await;
    assert_eq!(thread.send(&thread.there).await, RunStatus::Interrupted);
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    assert_eq!(thread.rehome(&thread.here).await, RunStatus::Interrupted);
    let again = thread.pending_interrupt().await;
    assert_eq!(again.payload.workspace, Some(name(&thread.environment.workspace())));
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.environment.workspace().join("made").exists());
}

#[tokio::test]
async fn a_message_runs_in_the_agents_folder_if_the_threads_folder_was_deleted() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    std::fs::remove_dir_all(thread.environment.workspace()).unwrap();
    let end = run(&thread.there, thread.thread, user_request("Do it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(thread.pending_interrupt().await.payload.workspace, Some(name(&thread.folder_there())));
    assert_eq!(thread.answer(&thread.there, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.folder_there().join("made").exists());
}

#[tokio::test]
async fn a_client_of_an_agent_in_another_folder_works_in_the_threads_folder() {
    let thread = TwoFolders::new([execute("touch made")]).await;
    let end = run(&thread.there, thread.thread, user_request("Do it.")).await;
    assert_eq!(end.status, RunStatus::Interrupted, "{end:?}");
    assert_eq!(thread.answer(&thread.there, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.environment.workspace().join("made").exists());
    assert!(!thread.folder_there().join("made").exists());
}

#[tokio::test]
async fn k6_a_deferred_call_needs_its_folder_and_a_refused_one_is_not_asked_about_again() {
    let other = json!({"command": "touch other"});
    let thread = TwoFolders::new([execute("touch made").with_call("c2", "execute", other)]).await;
    assert_eq!(thread.send(&thread.there).await, RunStatus::Interrupted);
    let reject_first = || decisions(r#"{"decisions": [{"type": "reject"}, {"type": "defer"}]}"#);
    assert_eq!(thread.answer(&thread.there, reject_first()).await.unwrap(), RunStatus::Interrupted);
    let deferred = thread.pending_interrupt().await;
    assert_eq!(deferred.payload.workspace, Some(name(&thread.folder_there())));
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    assert_eq!(thread.rehome(&thread.here).await, RunStatus::Interrupted);
    let again = thread.pending_interrupt().await;
    let commands: Vec<&Value> =
        again.payload.action_requests.iter().map(|request| &request.args["command"]).collect();
    assert_eq!(commands, ["touch other"]);
    assert_eq!(thread.answer(&thread.here, approve_decisions()).await.unwrap(), RunStatus::Success);
    assert!(thread.environment.workspace().join("other").exists());
    assert!(!thread.environment.workspace().join("made").exists());
    let results = messages(&thread.here, thread.thread).await;
    let results = results.iter().filter(|message| matches!(message, protocol::Message::Tool(_)));
    assert_eq!(results.count(), 2, "g2: every call has one result");
}

#[tokio::test]
async fn k6_a_call_of_a_deleted_folder_cannot_be_deferred() {
    let other = json!({"command": "touch other"});
    let thread = TwoFolders::new([execute("touch made").with_call("c2", "execute", other)]).await;
    thread.send(&thread.there).await;
    std::fs::remove_dir_all(thread.folder_there()).unwrap();
    let reject_first = decisions(r#"{"decisions": [{"type": "reject"}, {"type": "defer"}]}"#);
    let refused = thread.answer(&thread.here, reject_first).await.unwrap_err();
    assert!(matches!(refused, Error::Run(RunError::WorkspaceGone { .. })), "{refused:?}");
    let reject_both = decisions(r#"{"decisions": [{"type": "reject"}, {"type": "reject"}]}"#);
    assert_eq!(thread.answer(&thread.here, reject_both).await.unwrap(), RunStatus::Success);
}
