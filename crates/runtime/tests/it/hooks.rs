//! Tests of hooks: their order, and that each point can change, ask, jump or do nothing.

use std::sync::Arc;

use async_trait::async_trait;
use model::ChatRequest;
use protocol::{AiMessage, ContentBlock, RunStatus};
use runtime::{
    AFTER_AGENT_NODE, FailureKind, GraphUpdate, Hook, InterruptRequest, ModelAnswer, ModelCallHandler,
    RepeatSafety, StepContext, StepFailure, ToolCall, ToolCallHandler, ToolOutput,
};
use serde_json::json;
use test_model::{Script, ScriptedReply};

use crate::harness::{HookNotes, RuntimeHarness, counting_tool, interrupt_payload};

/// A hook that records every call of its methods.
struct NotingHook {
    name: &'static str,
    notes: HookNotes,
}

impl NotingHook {
    fn note(&self, point: &str) {
        self.notes.lock().unwrap().push(format!("{} {point}", self.name));
    }
}

#[async_trait]
impl Hook for NotingHook {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn before_agent(&self, _: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        self.note("before_agent");
        Ok(GraphUpdate::default())
    }

    async fn before_model(
        &self,
        _: &StepContext<'_>,
        _: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        self.note("before_model");
        Ok(GraphUpdate::default())
    }

    async fn wrap_model_call(
        &self,
        _: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCallHandler<'_>,
    ) -> Result<ModelAnswer, StepFailure> {
        self.note("calls the model");
        let answer = next.run(request).await;
        self.note("has the answer");
        answer
    }

    async fn after_model(&self, _: &StepContext<'_>, answer: &AiMessage) -> Result<GraphUpdate, StepFailure> {
        self.note(&format!("after_model {}", answer.content.len()));
        Ok(GraphUpdate::default())
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        self.note(&format!("calls {}", call.name));
        next.run(call).await
    }

    async fn after_agent(&self, _: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        self.note("after_agent");
        Ok(GraphUpdate::default())
    }
}

#[tokio::test]
async fn hooks_run_in_their_order_and_the_first_wraps_the_others() {
    let notes = HookNotes::default();
    let hook = |name| -> Arc<dyn Hook> { Arc::new(NotingHook { name, notes: Arc::clone(&notes) }) };
    let script = Script::new([ScriptedReply::call("c1", "look", json!({})), ScriptedReply::text("Done.")]);
    let (look, _) = counting_tool("look", RepeatSafety::Safe);
    let harness = RuntimeHarness::new(script, vec![look], vec![hook("a"), hook("b")]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    let model_step = [
        "a before_model",
        "b before_model",
        "a calls the model",
        "b calls the model",
        "b has the answer",
        "a has the answer",
        "a after_model 1",
        "b after_model 1",
    ];
    let mut expected = vec!["a before_agent", "b before_agent"];
    expected.extend(model_step);
    expected.extend(["a calls look", "b calls look"]);
    expected.extend(model_step);
    expected.extend(["a after_agent", "b after_agent"]);
    assert_eq!(*notes.lock().unwrap(), expected);
}

/// The action of an [`ActingHook`], at one point.
enum HookAction {
    AnswerItself,
    TryAgain,
    EditCall,
    JumpBeforeModel,
    AskBeforeModel,
    AskBeforeAgent,
    AskWithAnswer,
    AskAfterAgent,
}

/// A hook that performs one action.
struct ActingHook(HookAction);

/// Returns an update that asks one question.
fn interrupt_update() -> GraphUpdate {
    GraphUpdate {
        interrupts: vec![InterruptRequest {
            key: "acting".to_owned(),
            payload: interrupt_payload("Acting", "go_on"),
        }],
        ..GraphUpdate::default()
    }
}

/// Returns an update that asks a question, or an empty one if the question is answered.
fn ask_once(step: &StepContext<'_>) -> GraphUpdate {
    if step.answer("acting").is_none() { interrupt_update() } else { GraphUpdate::default() }
}

#[async_trait]
impl Hook for ActingHook {
    fn name(&self) -> &'static str {
        "acting"
    }

    async fn before_agent(&self, step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(if matches!(self.0, HookAction::AskBeforeAgent) { ask_once(step) } else { GraphUpdate::default() })
    }

    async fn before_model(
        &self,
        step: &StepContext<'_>,
        _: &mut ChatRequest,
    ) -> Result<GraphUpdate, StepFailure> {
        Ok(match self.0 {
            HookAction::JumpBeforeModel => {
                GraphUpdate { jump: Some(AFTER_AGENT_NODE), ..GraphUpdate::default() }
            }
            HookAction::AskBeforeModel => ask_once(step),
            _ => GraphUpdate::default(),
        })
    }

    async fn wrap_model_call(
        &self,
        step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCallHandler<'_>,
    ) -> Result<ModelAnswer, StepFailure> {
        match self.0 {
            HookAction::AnswerItself => {
                let content = vec![ContentBlock::text("From the cache.")];
                let answer = Some(AiMessage { content, ..AiMessage::default() });
                Ok(ModelAnswer { answer, update: GraphUpdate::default() })
            }
            HookAction::TryAgain => {
                let second_request = request.clone();
                match next.run(request).await {
                    Err(failure) if failure.kind == FailureKind::Model => {
                        answer_from_fallback(step, second_request).await
                    }
                    result => result,
                }
            }
            HookAction::AskWithAnswer => {
                let mut model_answer = next.run(request).await?;
                model_answer.update.merge(interrupt_update());
                Ok(model_answer)
            }
            _ => next.run(request).await,
        }
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        mut call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        if matches!(self.0, HookAction::EditCall) {
            call.name = "look".to_owned();
        }
        next.run(call).await
    }

    async fn after_agent(&self, step: &StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Ok(if matches!(self.0, HookAction::AskAfterAgent) { ask_once(step) } else { GraphUpdate::default() })
    }
}

/// Returns the answer of a fallback model, without a model call.
async fn answer_from_fallback(_: &StepContext<'_>, _: ChatRequest) -> Result<ModelAnswer, StepFailure> {
    let content = vec![ContentBlock::text("From the fallback.")];
    Ok(ModelAnswer {
        answer: Some(AiMessage { content, ..AiMessage::default() }),
        update: GraphUpdate::default(),
    })
}

async fn harness_with_hook(action: HookAction, replies: Vec<ScriptedReply>) -> RuntimeHarness {
    let (look, _) = counting_tool("look", RepeatSafety::Safe);
    RuntimeHarness::new(Script::new(replies), vec![look], vec![Arc::new(ActingHook(action))]).await
}

#[tokio::test]
async fn a_hook_may_answer_instead_of_the_model() {
    let harness = harness_with_hook(HookAction::AnswerItself, vec![]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: From the cache."]);
    assert_eq!(harness.server.call_count(), 0);
}

#[tokio::test]
async fn a_hook_may_answer_after_the_model_failed() {
    let harness = harness_with_hook(HookAction::TryAgain, vec![ScriptedReply::status(500, "{}")]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: From the fallback."]);
}

#[tokio::test]
async fn a_hook_may_change_a_call() {
    let harness = harness_with_hook(
        HookAction::EditCall,
        vec![ScriptedReply::call("c1", "lok", json!({})), ScriptedReply::text("Done.")],
    )
    .await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    assert_eq!(harness.message_lines().await, ["U: Go.", "A: lok#c1", "T#c1: look", "A: Done."]);
}

#[tokio::test]
async fn a_jump_before_the_model_skips_it() {
    let harness = harness_with_hook(HookAction::JumpBeforeModel, vec![]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Success);
    assert_eq!((harness.message_lines().await.len(), harness.server.call_count()), (1, 0));
}

#[tokio::test]
async fn a_question_can_be_asked_at_every_point_and_the_model_is_called_once() {
    for (action, calls_before) in [
        (HookAction::AskBeforeAgent, 0),
        (HookAction::AskBeforeModel, 0),
        (HookAction::AskWithAnswer, 1),
        (HookAction::AskAfterAgent, 1),
    ] {
        let harness = harness_with_hook(action, vec![ScriptedReply::text("Done.")]).await;
        let interrupted = harness.send_message("Go.").await;
        assert_eq!((interrupted.status, interrupted.interrupts.len()), (RunStatus::Interrupted, 1));
        assert_eq!(harness.server.call_count(), calls_before);
        let end = harness.answer_interrupt(&interrupted, 0, r#"{"type":"approve"}"#).await.unwrap();
        assert_eq!((end.status, harness.server.call_count()), (RunStatus::Success, 1), "{end:?}");
        assert_eq!(harness.message_lines().await, ["U: Go.", "A: Done."]);
    }
}

/// A hook that counts its calls in the state and then asks. A second hook of this kind must not make the first
/// one count twice.
struct CountingThenAskingHook(&'static str);

#[async_trait]
impl Hook for CountingThenAskingHook {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn after_model(&self, step: &StepContext<'_>, _: &AiMessage) -> Result<GraphUpdate, StepFailure> {
        if step.answer(self.0).is_some() {
            return Ok(GraphUpdate::default());
        }
        let count = step.channels.get(self.0).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let mut update = GraphUpdate::default();
        update.channels.insert(self.0.to_owned(), (count + 1).into());
        update
            .interrupts
            .push(InterruptRequest { key: self.0.to_owned(), payload: interrupt_payload(self.0, "go_on") });
        Ok(update)
    }
}

#[tokio::test]
async fn a_turn_resumes_at_the_hook_that_asked() {
    let hooks: Vec<Arc<dyn Hook>> =
        vec![Arc::new(CountingThenAskingHook("one")), Arc::new(CountingThenAskingHook("two"))];
    let harness = RuntimeHarness::new(Script::new([ScriptedReply::text("Done.")]), vec![], hooks).await;
    let first = harness.send_message("Go.").await;
    assert_eq!(first.interrupts[0].payload.middleware_source, "one");
    let second = harness.answer_interrupt(&first, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(second.interrupts[0].payload.middleware_source, "two");
    let end = harness.answer_interrupt(&second, 0, r#"{"type":"reject"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    let checkpoint = harness.store.checkpoint(harness.thread_id).await.unwrap().unwrap();
    assert_eq!(
        (checkpoint.channels.get("one"), checkpoint.channels.get("two")),
        (Some(&json!(1)), Some(&json!(1)))
    );
    assert!(checkpoint.channels.keys().all(|key| !key.starts_with("_asked") && !key.starts_with("_hook")));
}

#[tokio::test]
async fn after_an_unanswered_question_the_next_turn_skips_no_hook() {
    let notes = HookNotes::default();
    let noting = NotingHook { name: "noting", notes: Arc::clone(&notes) };
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(noting), Arc::new(CountingThenAskingHook("asks"))];
    let script = Script::new([ScriptedReply::text("One."), ScriptedReply::text("Two.")]);
    let harness = RuntimeHarness::new(script, vec![], hooks).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Interrupted);
    assert_eq!(harness.send_message("Never mind.").await.status, RunStatus::Interrupted);
    let after_model = notes.lock().unwrap().iter().filter(|note| note.contains("after_model")).count();
    assert_eq!(after_model, 2);
}

/// A hook that fails at calls of one tool.
struct FailingHook(&'static str);

#[async_trait]
impl Hook for FailingHook {
    fn name(&self) -> &'static str {
        "fails"
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        call: ToolCall,
        next: ToolCallHandler<'_>,
    ) -> Result<ToolOutput, StepFailure> {
        match call.name == self.0 {
            true => Err(StepFailure::new(FailureKind::Store, "no")),
            false => next.run(call).await,
        }
    }
}

#[tokio::test]
async fn a_hook_that_fails_for_one_call_loses_no_result_of_the_others() {
    let ((look, _), (write, _)) =
        (counting_tool("look", RepeatSafety::Safe), counting_tool("write", RepeatSafety::Unsafe));
    let calls = ScriptedReply::call("c1", "look", json!({})).with_call("c2", "write", json!({}));
    let script = Script::new([calls]);
    let harness = RuntimeHarness::new(script, vec![look, write], vec![Arc::new(FailingHook("look"))]).await;
    assert_eq!(harness.send_message("Go.").await.status, RunStatus::Error);
    assert_eq!(harness.message_lines().await.last().unwrap(), "T#c2: write");
}
