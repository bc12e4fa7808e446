//! Tests of the hooks that run before a compaction is stored: a hook can veto it, add writes to its transaction, fail, or
//! hang. Hooks are not called for a compaction that does not happen.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent::{
    Agent, CancellationToken, CompactionParameters, Error, Frame, FrameSender, SubscriptionItem, ThreadError,
};
use compaction::{BeforeCompactionHook, HookVerdict, PendingCompaction};
use journal::{OutboxItem, OutboxQuery, SubagentVisibility, ThreadFilter};
use memory::TRANSFER_OUTBOX_KIND;
use protocol::RunStatus;
use runtime::{FailureKind, StepFailure};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use super::*;
use crate::environment::{messages, unwatched};

/// The outbox kind of the item that a hook stores with a compaction.
const HOOK_ITEM_KIND: &str = "noted";

/// The reaction of a [`CountingHook`].
#[derive(Debug, Clone, Copy)]
enum HookBehavior {
    Allow,
    AllowWithWrite,
    Veto,
    Fail,
}

/// A hook that counts its calls.
struct CountingHook {
    behavior: HookBehavior,
    calls: AtomicUsize,
}

impl CountingHook {
    fn new(behavior: HookBehavior) -> Arc<Self> {
        Arc::new(Self { behavior, calls: AtomicUsize::new(0) })
    }

    fn call_count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl BeforeCompactionHook for CountingHook {
    fn name(&self) -> &str {
        "Keeper"
    }

    async fn before_compaction(&self, pending: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(!pending.compaction.summary.is_empty(), "the hook receives the summary");
        let events = pending.store.events(pending.thread_id, journal::EventQuery::after(0, 500)).await?;
        let stored = events.iter().filter(|event| event.kind() == Some(EventType::Compacted)).count();
        assert_eq!(stored, 0, "the hook runs before the compaction is stored");
        Ok(match self.behavior {
            HookBehavior::Allow => HookVerdict::Allow,
            HookBehavior::AllowWithWrite => {
                HookVerdict::AllowWithWrites(vec![Write::PutOutboxItem(OutboxItem {
                    kind: HOOK_ITEM_KIND.to_owned(),
                    key: pending.thread_id.to_string(),
                    payload: json!({"last_seq": pending.compaction.last_seq}),
                    attempts: 0,
                    created_at: pending.now,
                })])
            }
            HookBehavior::Veto => HookVerdict::Veto { reason: "the audit is not done".to_owned() },
            HookBehavior::Fail => return Err(StepFailure::new(FailureKind::Store, "reach the archive")),
        })
    }
}

/// Returns an agent with `hook` and a configuration as [`configure`] writes it.
fn agent_with(
    environment: &TestEnvironment,
    server: &ScriptedServer,
    settings: (u64, &str),
    hook: &Arc<CountingHook>,
) -> Agent {
    agent_of(environment, server, settings).with_before_compaction(hook.clone())
}

/// Returns the ids of the threads whose messages are queued for the memory.
pub async fn queued_threads(agent: &Agent) -> Vec<String> {
    agent
        .store()
        .outbox(OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, 10))
        .await
        .unwrap()
        .into_iter()
        .map(|item| item.key)
        .collect()
}

#[tokio::test]
async fn e18_a_hook_can_veto_a_compaction_and_the_conversation_is_unchanged() {
    let (environment, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::Veto));
    let agent = agent_with(&environment, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    let error = compact_thread(&agent, thread).await.unwrap_err();
    assert!(
        matches!(error, Error::Thread(ThreadError::NotCompacted { .. })),
        "the error names the veto: {error:?}"
    );
    let message = error.to_string();
    assert!(message.contains("Keeper refused: the audit is not done"), "{message}");
    assert_eq!(visible_markers(&agent, thread).await, []);
    assert_eq!(
        queued_threads(&agent).await,
        Vec::<String>::new(),
        "a vetoed compaction queues nothing for the memory"
    );
    let failed = events_of(&agent, thread, EventType::CompactionFailed).await;
    assert_eq!((failed[0]["vetoed_by"].as_str(), hook.call_count()), (Some("Keeper"), 1));
    send_message(&agent, thread, "And now?").await;
    assert!(
        newest_request(&server).contains(CODE_WORD_SENTENCE)
            && !newest_request(&server).contains(SUMMARY_OPENING)
    );
}

#[tokio::test]
async fn e18_a_vetoed_automatic_compaction_is_not_tried_again_before_each_model_call() {
    let (environment, hook) = (TestEnvironment::new(), CountingHook::new(HookBehavior::Veto));
    let replies = [
        record_reply(),
        large_call("c1", 100),
        large_call("c2", 100),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (200_000, "trigger = [{ tokens = 8000 }]"));
    let agent = agent.with_before_compaction(hook.clone());
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "And now?").await;
    let (summarized, answered) = split_requests(&server);
    assert_eq!((hook.call_count(), summarized.len(), answered.len()), (1, 1, 3));
    assert!(answered.iter().all(|request| request.body["messages"].to_string().contains(CODE_WORD_SENTENCE)));
}

#[tokio::test]
async fn e18_the_writes_of_a_hook_are_stored_with_the_compaction() {
    let (environment, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::AllowWithWrite));
    let agent = agent_with(&environment, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    compact_thread(&agent, thread).await.unwrap();
    let items = agent.store().outbox(OutboxQuery::for_kind(HOOK_ITEM_KIND, 10)).await.unwrap();
    let (_, marker) = visible_markers(&agent, thread).await.remove(0);
    assert_eq!(items[0].payload["last_seq"], marker.last_seq);
    assert_eq!((items.len(), hook.call_count()), (1, 1));
    assert_eq!(queued_threads(&agent).await, [thread.to_string()], "f8: the hook of the memory runs too");
}

#[tokio::test]
async fn e18_a_failing_hook_does_not_block_the_compaction_and_is_reported() {
    let (environment, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::Fail));
    let agent = agent_with(&environment, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, mut subscription) = FrameSender::channel();
    let request = CompactionParameters::default();
    assert!(
        agent
            .threads()
            .compact(thread, &request, &frames, &CancellationToken::new())
            .await
            .unwrap()
            .is_stored
    );
    let events = agent.threads().events(thread).await.unwrap();
    let marker = events.iter().find(|event| event.kind() == Some(EventType::Compacted)).unwrap();
    let failed = json!([{"hook": "Keeper", "reason": "reach the archive"}]);
    assert_eq!(serde_json::to_value(marker.parsed_metadata().hooks_failed).unwrap(), failed);
    let mut notices = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = subscription.try_next() {
        if let Frame::Notice { text } = &*frame {
            notices.push(text.clone());
        }
    }
    assert!(
        notices.iter().any(|text| text.contains("Keeper") && text.contains("reach the archive")),
        "{notices:?}"
    );
}

/// A hook that cancels the compaction and then never returns.
struct HangingHook(CancellationToken);

#[async_trait]
impl BeforeCompactionHook for HangingHook {
    fn name(&self) -> &str {
        "Hanging"
    }

    async fn before_compaction(&self, _: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn e18_cancelling_a_compaction_does_not_wait_for_its_hook() {
    let (environment, server, cancel) = (TestEnvironment::new(), good_server(), CancellationToken::new());
    let hook = Arc::new(HangingHook(cancel.clone()));
    let agent = agent_of(&environment, &server, (200_000, "")).with_before_compaction(hook);
    let thread = filled_thread(&agent, 3_000).await;
    let request = CompactionParameters::default();
    let error =
        agent.threads().compact(thread, &request, &FrameSender::default(), &cancel).await.unwrap_err();
    assert!(error.to_string().contains("it was stopped"), "{error}");
    assert_eq!((visible_markers(&agent, thread).await.len(), queued_threads(&agent).await.len()), (0, 0));
    assert_eq!(events_of(&agent, thread, EventType::ModelCalled).await.len(), 1, "the model call is traced");
    assert_eq!(agent.store().active_runs(None).await.unwrap(), []);
}

#[tokio::test]
async fn e18_no_hook_is_called_for_a_compaction_that_does_not_happen() {
    let (environment, hook) = (TestEnvironment::new(), CountingHook::new(HookBehavior::Allow));
    let endless = ScriptedReply::text(
        RECORD.replace("The first parts", &"The very first of all the parts ".repeat(400)),
    );
    let replies = [
        record_reply().when_body_contains("the first time"),
        ScriptedReply::fault(ScriptedFault::Hang).when_body_contains("the second time"),
        without_usage(endless).when_body_contains("the third time").with_repeat(),
        record_reply(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with(&environment, &server, (200_000, ""), &hook);
    let (frames, cancel) = unwatched();
    let with_focus = |focus: &str| CompactionParameters { focus: Some(focus.to_owned()), keep: None };

    let short = agent.threads().create(None).await.unwrap().thread_id;
    append(&agent, short, &[Message::human("Hello."), Message::ai("Hello.")]).await;
    assert!(
        matches!(
            compact_thread(&agent, short).await,
            Err(Error::Thread(ThreadError::NothingToCompact { .. }))
        ),
        "nothing to do"
    );

    let thread = filled_thread(&agent, 3_000).await;
    agent
        .threads()
        .preview_compaction(thread, &with_focus("the first time"), &frames, &cancel)
        .await
        .unwrap();

    let stopped = CancellationToken::new();
    let second = with_focus("the second time");
    let stopping = async {
        server.wait_for_calls(2).await;
        stopped.cancel();
    };
    let (outcome, ()) = futures::join!(agent.threads().compact(thread, &second, &frames, &stopped), stopping);
    assert!(matches!(outcome, Err(Error::Thread(ThreadError::CompactionStopped(_)))), "{outcome:?}");

    let small = filled_thread(&agent, 20).await;
    let failed = agent.threads().compact(small, &with_focus("the third time"), &frames, &cancel).await;
    assert!(failed.is_err(), "the summary is as long as the messages that it would replace: {failed:?}");

    assert_eq!((hook.call_count(), queued_threads(&agent).await), (0, Vec::new()));
    compact_thread(&agent, thread).await.unwrap();
    assert_eq!((hook.call_count(), queued_threads(&agent).await), (1, vec![thread.to_string()]));
}

#[tokio::test]
async fn f8_a_compaction_in_a_subagents_thread_queues_nothing_for_the_memory() {
    let environment = TestEnvironment::new();
    let mut replies = vec![record_reply()];
    let task = json!({"description": "look", "prompt": "Look at everything large."});
    let main_agent_reply =
        |reply: ScriptedReply, step| without_usage(reply).when_body_contains("Plum.").when_turn_is(1, step);
    replies.push(main_agent_reply(ScriptedReply::call("t1", "task", task), 1));
    replies.push(main_agent_reply(ScriptedReply::text("Reported."), 2));
    replies.extend((0..8).map(|number| large_call(&format!("s{number}"), 16_000)));
    replies.push(without_usage(ScriptedReply::text("All of it is well.")).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&environment, &server, (30_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = send_message(&agent, thread, "Plum.").await;
    assert_eq!(end.status, RunStatus::Success);
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let threads = agent.threads().list(filter).await.unwrap();
    let subagent = threads.iter().find(|other| other.parent_id == Some(thread)).unwrap().thread_id;
    assert!(!visible_markers(&agent, subagent).await.is_empty());
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    // A manual compaction of the sub-agent's thread queues nothing either.
    append(&agent, subagent, &turns(20..28, 3_000)).await;
    compact_thread(&agent, subagent).await.unwrap();
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    assert!(!messages(&agent, subagent).await.is_empty());
}
