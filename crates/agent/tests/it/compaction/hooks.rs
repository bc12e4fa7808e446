//! Hooks before a compaction takes effect: refusing it, storing something with it, failing. They are not called for a
//! compaction that does not happen.

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

/// The kind of the item that a hook keeps with a marker.
const HOOK_ITEM_KIND: &str = "noted";

/// The behaviour of a hook in these tests.
#[derive(Debug, Clone, Copy)]
enum HookBehavior {
    Pass,
    Keep,
    Refuse,
    Fail,
}

/// A hook that counts how often it is asked.
struct CountingHook {
    behavior: HookBehavior,
    calls: AtomicUsize,
}

impl CountingHook {
    fn new(way: HookBehavior) -> Arc<Self> {
        Arc::new(Self { behavior: way, calls: AtomicUsize::new(0) })
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

    async fn before_compaction(&self, due: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        assert!(!due.compaction.summary.is_empty(), "the summary is there");
        let events = due.store.events(due.thread_id, journal::EventQuery::after(0, 500)).await?;
        let stored = events.iter().filter(|event| event.kind() == Some(EventType::Compacted)).count();
        assert_eq!(stored, 0, "and nothing is stored yet");
        Ok(match self.behavior {
            HookBehavior::Pass => HookVerdict::Allow,
            HookBehavior::Keep => HookVerdict::AllowWithWrites(vec![Write::PutOutboxItem(OutboxItem {
                kind: HOOK_ITEM_KIND.to_owned(),
                key: due.thread_id.to_string(),
                payload: json!({"last_seq": due.compaction.last_seq}),
                attempts: 0,
                created_at: due.now,
            })]),
            HookBehavior::Refuse => HookVerdict::Veto { reason: "the audit is not done".to_owned() },
            HookBehavior::Fail => return Err(StepFailure::new(FailureKind::Store, "reach the archive")),
        })
    }
}

fn agent_with(
    world: &TestEnvironment,
    server: &ScriptedServer,
    settings: (u64, &str),
    hook: &Arc<CountingHook>,
) -> Agent {
    agent_of(world, server, settings).with_before_compaction(hook.clone())
}

/// Returns the threads whose turns are queued for memory.
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
async fn e18_a_hook_may_refuse_and_the_conversation_stays_as_it_is() {
    let (world, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::Refuse));
    let agent = agent_with(&world, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    let error = compact_thread(&agent, thread).await.unwrap_err();
    assert!(
        matches!(error, Error::Thread(ThreadError::NotCompacted { .. })),
        "it is no want of something to condense: {error:?}"
    );
    let told = error.to_string();
    assert!(told.contains("Keeper refused: the audit is not done"), "{told}");
    assert_eq!(visible_markers(&agent, thread).await, []);
    assert_eq!(
        queued_threads(&agent).await,
        Vec::<String>::new(),
        "what others keep with a marker is not kept without one"
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
async fn e18_what_is_refused_unasked_is_not_tried_with_every_call_of_the_model() {
    let (world, hook) = (TestEnvironment::new(), CountingHook::new(HookBehavior::Refuse));
    let replies = [
        record_reply(),
        large_call("c1", 100),
        large_call("c2", 100),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&world, &server, (200_000, "trigger = [{ tokens = 8000 }]"));
    let agent = agent.with_before_compaction(hook.clone());
    let thread = filled_thread(&agent, 3_000).await;
    send_message(&agent, thread, "And now?").await;
    let (asked, answered) = split_requests(&server);
    assert_eq!((hook.call_count(), asked.len(), answered.len()), (1, 1, 3));
    assert!(answered.iter().all(|request| request.body["messages"].to_string().contains(CODE_WORD_SENTENCE)));
}

#[tokio::test]
async fn e18_what_a_hook_keeps_is_stored_with_the_marker() {
    let (world, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::Keep));
    let agent = agent_with(&world, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    compact_thread(&agent, thread).await.unwrap();
    let noted = agent.store().outbox(OutboxQuery::for_kind(HOOK_ITEM_KIND, 10)).await.unwrap();
    let (_, marker) = visible_markers(&agent, thread).await.remove(0);
    assert_eq!(noted[0].payload["last_seq"], marker.last_seq);
    assert_eq!((noted.len(), hook.call_count()), (1, 1));
    assert_eq!(queued_threads(&agent).await, [thread.to_string()], "f8: memory has its own say beside it");
}

#[tokio::test]
async fn e18_a_hook_that_fails_blocks_nothing_and_is_told() {
    let (world, server, hook) =
        (TestEnvironment::new(), good_server(), CountingHook::new(HookBehavior::Fail));
    let agent = agent_with(&world, &server, (200_000, ""), &hook);
    let thread = filled_thread(&agent, 3_000).await;
    let (frames, mut watched) = FrameSender::channel();
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
    let mut told = Vec::new();
    while let Some(SubscriptionItem::Frame(_, frame)) = watched.try_next() {
        if let Frame::Notice { text } = &*frame {
            told.push(text.clone());
        }
    }
    assert!(
        told.iter().any(|text| text.contains("Keeper") && text.contains("reach the archive")),
        "{told:?}"
    );
}

/// A hook while which a person stops the compaction, and which has not answered by then.
struct HangingHook(CancellationToken);

#[async_trait]
impl BeforeCompactionHook for HangingHook {
    fn name(&self) -> &str {
        "Waited"
    }

    async fn before_compaction(&self, _: &PendingCompaction<'_>) -> Result<HookVerdict, StepFailure> {
        self.0.cancel();
        std::future::pending().await
    }
}

#[tokio::test]
async fn e18_nobody_waits_for_a_hook_once_the_compaction_is_stopped() {
    let (world, server, cancel) = (TestEnvironment::new(), good_server(), CancellationToken::new());
    let waited = Arc::new(HangingHook(cancel.clone()));
    let agent = agent_of(&world, &server, (200_000, "")).with_before_compaction(waited);
    let thread = filled_thread(&agent, 3_000).await;
    let request = CompactionParameters::default();
    let error =
        agent.threads().compact(thread, &request, &FrameSender::default(), &cancel).await.unwrap_err();
    assert!(error.to_string().contains("it was stopped"), "{error}");
    assert_eq!((visible_markers(&agent, thread).await.len(), queued_threads(&agent).await.len()), (0, 0));
    assert_eq!(events_of(&agent, thread, EventType::ModelCalled).await.len(), 1, "what it took is told");
    assert_eq!(agent.store().active_runs(None).await.unwrap(), []);
}

#[tokio::test]
async fn e18_nobody_is_asked_about_a_compaction_that_does_not_happen() {
    let (world, hook) = (TestEnvironment::new(), CountingHook::new(HookBehavior::Pass));
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
    let agent = agent_with(&world, &server, (200_000, ""), &hook);
    let (frames, cancel) = unwatched();
    let about = |focus: &str| CompactionParameters { focus: Some(focus.to_owned()), keep: None };

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
    agent.threads().preview_compaction(thread, &about("the first time"), &frames, &cancel).await.unwrap();

    let stopped = CancellationToken::new();
    let second = about("the second time");
    let stopping = async {
        server.wait_for_calls(2).await;
        stopped.cancel();
    };
    let (ended, ()) = futures::join!(agent.threads().compact(thread, &second, &frames, &stopped), stopping);
    assert!(matches!(ended, Err(Error::Thread(ThreadError::CompactionStopped(_)))), "{ended:?}");

    let small = filled_thread(&agent, 20).await;
    let helpless = agent.threads().compact(small, &about("the third time"), &frames, &cancel).await;
    assert!(helpless.is_err(), "a summary as long as what it stands for: {helpless:?}");

    assert_eq!((hook.call_count(), queued_threads(&agent).await), (0, Vec::new()));
    compact_thread(&agent, thread).await.unwrap();
    assert_eq!((hook.call_count(), queued_threads(&agent).await), (1, vec![thread.to_string()]));
}

#[tokio::test]
async fn f8_what_a_subagent_condenses_is_not_flushed_to_memory() {
    let world = TestEnvironment::new();
    let mut replies = vec![record_reply()];
    let task = json!({"description": "look", "prompt": "Look at everything large."});
    let own =
        |reply: ScriptedReply, step| without_usage(reply).when_body_contains("Plum.").when_turn_is(1, step);
    replies.push(own(ScriptedReply::call("t1", "task", task), 1));
    replies.push(own(ScriptedReply::text("Reported."), 2));
    replies.extend((0..8).map(|number| large_call(&format!("s{number}"), 16_000)));
    replies.push(without_usage(ScriptedReply::text("All of it is well.")).with_repeat());
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let agent = agent_with_large_tool(&world, &server, (30_000, ""));
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let end = send_message(&agent, thread, "Plum.").await;
    assert_eq!(end.status, RunStatus::Success);
    let filter = ThreadFilter { subagents: SubagentVisibility::Shown, limit: 10, ..ThreadFilter::default() };
    let threads = agent.threads().list(filter).await.unwrap();
    let subagent = threads.iter().find(|found| found.parent_id == Some(thread)).unwrap().thread_id;
    assert!(!visible_markers(&agent, subagent).await.is_empty());
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    // Nor is what a person has condensed of it.
    append(&agent, subagent, &turns(20..28, 3_000)).await;
    compact_thread(&agent, subagent).await.unwrap();
    assert_eq!(queued_threads(&agent).await, Vec::<String>::new());
    assert!(!messages(&agent, subagent).await.is_empty());
}
