//! Hooks: where they run, in which order, and that each place can change, ask, jump or do nothing.

use std::sync::Arc;

use async_trait::async_trait;
use model::ChatRequest;
use protocol::{AiMessage, Block, RunStatus};
use runtime::{
    AFTER_AGENT_NODE, Ask, Failure, FailureKind, Hook, ModelAnswer, ModelCall, NextCall, Repeat, StepContext,
    ToolCall, ToolOutput, Update,
};
use serde_json::json;
use test_model::{Reply, Script};

use crate::world::{Notes, World, question, tool};

/// Notes every place it is called at.
struct Noting {
    name: &'static str,
    notes: Notes,
}

impl Noting {
    fn note(&self, place: &str) {
        self.notes.lock().unwrap().push(format!("{} {place}", self.name));
    }
}

#[async_trait]
impl Hook for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn before_agent(&self, _: &StepContext<'_>) -> Result<Update, Failure> {
        self.note("before_agent");
        Ok(Update::default())
    }

    async fn before_model(&self, _: &StepContext<'_>, _: &mut ChatRequest) -> Result<Update, Failure> {
        self.note("before_model");
        Ok(Update::default())
    }

    async fn wrap_model_call(
        &self,
        _: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCall<'_>,
    ) -> Result<ModelAnswer, Failure> {
        self.note("calls the model");
        let answer = next.run(request).await;
        self.note("has the answer");
        answer
    }

    async fn after_model(&self, _: &StepContext<'_>, answer: &AiMessage) -> Result<Update, Failure> {
        self.note(&format!("after_model {}", answer.content.len()));
        Ok(Update::default())
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        self.note(&format!("calls {}", call.name));
        next.run(call).await
    }

    async fn after_agent(&self, _: &StepContext<'_>) -> Result<Update, Failure> {
        self.note("after_agent");
        Ok(Update::default())
    }
}

#[tokio::test]
async fn hooks_run_in_their_order_and_the_first_wraps_the_others() {
    let notes = Notes::default();
    let hook = |name| -> Arc<dyn Hook> { Arc::new(Noting { name, notes: Arc::clone(&notes) }) };
    let script = Script::new([Reply::call("c1", "look", json!({})), Reply::text("Done.")]);
    let (look, _) = tool("look", Repeat::Safe);
    let world = World::new(script, vec![look], vec![hook("a"), hook("b")]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
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

/// Does one thing at one place.
enum At {
    AnswerItself,
    TryAgain,
    EditCall,
    JumpBeforeModel,
    AskBeforeModel,
    AskBeforeAgent,
    AskWithAnswer,
    AskAfterAgent,
}

struct Acting(At);

fn asking() -> Update {
    Update {
        asks: vec![Ask { key: "acting".to_owned(), payload: question("Acting", "go_on") }],
        ..Update::default()
    }
}

fn ask_once(step: &StepContext<'_>) -> Update {
    if step.answer("acting").is_none() { asking() } else { Update::default() }
}

#[async_trait]
impl Hook for Acting {
    fn name(&self) -> &'static str {
        "acting"
    }

    async fn before_agent(&self, step: &StepContext<'_>) -> Result<Update, Failure> {
        Ok(if matches!(self.0, At::AskBeforeAgent) { ask_once(step) } else { Update::default() })
    }

    async fn before_model(&self, step: &StepContext<'_>, _: &mut ChatRequest) -> Result<Update, Failure> {
        Ok(match self.0 {
            At::JumpBeforeModel => Update { jump: Some(AFTER_AGENT_NODE), ..Update::default() },
            At::AskBeforeModel => ask_once(step),
            _ => Update::default(),
        })
    }

    async fn wrap_model_call(
        &self,
        step: &StepContext<'_>,
        request: ChatRequest,
        next: ModelCall<'_>,
    ) -> Result<ModelAnswer, Failure> {
        match self.0 {
            At::AnswerItself => {
                let content = vec![Block::text("From the cache.")];
                let answer = Some(AiMessage { content, ..AiMessage::default() });
                Ok(ModelAnswer { answer, update: Update::default() })
            }
            At::TryAgain => {
                let again = request.clone();
                match next.run(request).await {
                    Err(failure) if failure.kind == FailureKind::Model => step_again(step, again).await,
                    answered => answered,
                }
            }
            At::AskWithAnswer => {
                let mut answered = next.run(request).await?;
                answered.update.merge(asking());
                Ok(answered)
            }
            _ => next.run(request).await,
        }
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        mut call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        if matches!(self.0, At::EditCall) {
            call.name = "look".to_owned();
        }
        next.run(call).await
    }

    async fn after_agent(&self, step: &StepContext<'_>) -> Result<Update, Failure> {
        Ok(if matches!(self.0, At::AskAfterAgent) { ask_once(step) } else { Update::default() })
    }
}

/// What a fallback would do, were there another model.
async fn step_again(_: &StepContext<'_>, _: ChatRequest) -> Result<ModelAnswer, Failure> {
    let content = vec![Block::text("From the fallback.")];
    Ok(ModelAnswer { answer: Some(AiMessage { content, ..AiMessage::default() }), update: Update::default() })
}

async fn world(at: At, replies: Vec<Reply>) -> World {
    let (look, _) = tool("look", Repeat::Safe);
    World::new(Script::new(replies), vec![look], vec![Arc::new(Acting(at))]).await
}

#[tokio::test]
async fn a_hook_may_answer_in_the_models_place() {
    let world = world(At::AnswerItself, vec![]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: Go.", "A: From the cache."]);
    assert_eq!(world.server.calls(), 0);
}

#[tokio::test]
async fn a_hook_may_go_on_where_the_model_failed() {
    let world = world(At::TryAgain, vec![Reply::status(500, "{}")]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: Go.", "A: From the fallback."]);
}

#[tokio::test]
async fn a_hook_may_change_a_call() {
    let world = world(At::EditCall, vec![Reply::call("c1", "lok", json!({})), Reply::text("Done.")]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    assert_eq!(world.said().await, ["U: Go.", "A: lok#c1", "T#c1: look", "A: Done."]);
}

#[tokio::test]
async fn a_jump_before_the_model_skips_it() {
    let world = world(At::JumpBeforeModel, vec![]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Success);
    assert_eq!((world.said().await.len(), world.server.calls()), (1, 0));
}

#[tokio::test]
async fn a_question_can_be_asked_at_every_place_and_the_model_is_called_once() {
    for (at, calls_before) in
        [(At::AskBeforeAgent, 0), (At::AskBeforeModel, 0), (At::AskWithAnswer, 1), (At::AskAfterAgent, 1)]
    {
        let world = world(at, vec![Reply::text("Done.")]).await;
        let asked = world.say("Go.").await;
        assert_eq!((asked.status, asked.interrupts.len()), (RunStatus::Interrupted, 1));
        assert_eq!(world.server.calls(), calls_before);
        let end = world.answer(&asked, 0, r#"{"type":"approve"}"#).await.unwrap();
        assert_eq!((end.status, world.server.calls()), (RunStatus::Success, 1), "{end:?}");
        assert_eq!(world.said().await, ["U: Go.", "A: Done."]);
    }
}

/// Counts the turns in the state, then asks; a second one behind it must not count twice.
struct CountThenAsk(&'static str);

#[async_trait]
impl Hook for CountThenAsk {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn after_model(&self, step: &StepContext<'_>, _: &AiMessage) -> Result<Update, Failure> {
        if step.answer(self.0).is_some() {
            return Ok(Update::default());
        }
        let seen = step.channels.get(self.0).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let mut update = Update::default();
        update.channels.insert(self.0.to_owned(), (seen + 1).into());
        update.asks.push(Ask { key: self.0.to_owned(), payload: question(self.0, "go_on") });
        Ok(update)
    }
}

#[tokio::test]
async fn a_hook_that_asked_is_taken_up_where_it_asked() {
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(CountThenAsk("one")), Arc::new(CountThenAsk("two"))];
    let world = World::new(Script::new([Reply::text("Done.")]), vec![], hooks).await;
    let first = world.say("Go.").await;
    assert_eq!(first.interrupts[0].payload.middleware_source, "one");
    let second = world.answer(&first, 0, r#"{"type":"approve"}"#).await.unwrap();
    assert_eq!(second.interrupts[0].payload.middleware_source, "two");
    let end = world.answer(&second, 0, r#"{"type":"reject"}"#).await.unwrap();
    assert_eq!(end.status, RunStatus::Success);
    let point = world.store.checkpoint(world.thread_id).await.unwrap().unwrap();
    assert_eq!((point.channels.get("one"), point.channels.get("two")), (Some(&json!(1)), Some(&json!(1))));
    assert!(point.channels.keys().all(|key| !key.starts_with("_asked") && !key.starts_with("_hook")));
}

#[tokio::test]
async fn a_question_nobody_answered_makes_the_next_turn_skip_no_hook() {
    let notes = Notes::default();
    let noting = Noting { name: "noting", notes: Arc::clone(&notes) };
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(noting), Arc::new(CountThenAsk("asks"))];
    let script = Script::new([Reply::text("One."), Reply::text("Two.")]);
    let world = World::new(script, vec![], hooks).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Interrupted);
    assert_eq!(world.say("Never mind.").await.status, RunStatus::Interrupted);
    let after_model = notes.lock().unwrap().iter().filter(|note| note.contains("after_model")).count();
    assert_eq!(after_model, 2);
}

/// Fails at calls of one tool.
struct FailsAt(&'static str);

#[async_trait]
impl Hook for FailsAt {
    fn name(&self) -> &'static str {
        "fails"
    }

    async fn wrap_tool_call(
        &self,
        _: &StepContext<'_>,
        call: ToolCall,
        next: NextCall<'_>,
    ) -> Result<ToolOutput, Failure> {
        match call.name == self.0 {
            true => Err(Failure::new(FailureKind::Store, "no")),
            false => next.run(call).await,
        }
    }
}

#[tokio::test]
async fn a_hook_that_fails_at_one_call_loses_no_result_of_the_others() {
    let ((look, _), (write, _)) = (tool("look", Repeat::Safe), tool("write", Repeat::Never));
    let calls = Reply::call("c1", "look", json!({})).and_call("c2", "write", json!({}));
    let script = Script::new([calls]);
    let world = World::new(script, vec![look, write], vec![Arc::new(FailsAt("look"))]).await;
    assert_eq!(world.say("Go.").await.status, RunStatus::Error);
    assert_eq!(world.said().await.last().unwrap(), "T#c2: write");
}
