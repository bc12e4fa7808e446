//! A custom hook that asks the user: an answer that mentions money is not sent before the user has agreed. The
//! question is durable: another process can answer it days later.
//!
//! `cargo run -p segue-agent --example custom_hook`

use std::sync::Arc;

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder};
use async_trait::async_trait;
use protocol::{
    ActionRequest, AiMessage, Decision, Decisions, HumanMessage, InterruptPayload, Message, ReviewConfig,
};
use runtime::{GraphUpdate, Hook, InterruptRequest, StepContext, StepFailure};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

/// A hook that asks the user before an answer with an amount of money is accepted.
struct MoneyReview;

const NAME: &str = "MoneyReview";

#[async_trait]
impl Hook for MoneyReview {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn after_model(
        &self,
        step: &StepContext<'_>,
        answer: &AiMessage,
    ) -> Result<GraphUpdate, StepFailure> {
        let text = Message::Ai(answer.clone()).text();
        match step.answer(NAME) {
            // The run resumed with an answer; `agent` checked that it is one of the allowed decisions.
            Some(decisions) => {
                let agreed = matches!(decisions.decisions[..], [Decision::Approve { .. }]);
                println!("The user {} it.", if agreed { "agreed to" } else { "refused" });
                Ok(GraphUpdate::default())
            }
            None if text.contains('$') => {
                let payload = InterruptPayload {
                    schema_version: 1,
                    middleware_source: NAME.to_owned(),
                    action_requests: vec![ActionRequest {
                        name: "mention_money".to_owned(),
                        description: "The answer names a sum".to_owned(),
                        args: json!({"text": text}),
                        details: None,
                    }],
                    review_configs: vec![ReviewConfig {
                        action_name: "mention_money".to_owned(),
                        allowed_decisions: vec!["approve".to_owned(), "reject".to_owned()],
                    }],
                    workspace: None,
                };
                Ok(GraphUpdate {
                    interrupts: vec![InterruptRequest { key: NAME.to_owned(), payload }],
                    ..GraphUpdate::default()
                })
            }
            None => Ok(GraphUpdate::default()),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let home = HomeFolder::locate(Some(folder.path().join("home").as_os_str()))?;
    home.create()?;
    let server = ScriptedServer::start(Script::new([ScriptedReply::text("That will be $ 40.")]))?;
    let settings = format!(
        "model = \"anthropic/scripted\"\n[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"none\"\n",
        server.url()
    );
    std::fs::write(home.config_path(), settings)?;

    let agent =
        Agent::open(AgentSettings::new(home.clone(), folder.path())).await?.with_hook(Arc::new(MoneyReview));
    let thread = agent.threads().create(None).await?.thread_id;
    let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
    let end =
        agent.runs().send_message(thread, HumanMessage::text("What does it cost?"), &frames, &cancel).await?;
    println!("The run ended: {}.", end.status.as_str());
    drop(agent);

    // Another process does the same: it opens the home folder, lists the pending questions, and answers them.
    let agent = Agent::open(AgentSettings::new(home, folder.path())).await?.with_hook(Arc::new(MoneyReview));
    for question in agent.runs().pending_interrupts(thread).await? {
        println!("Question: {}", serde_json::to_string(&question.payload.action_requests)?);
        let yes = Decisions { decisions: vec![Decision::Approve { args: None, summary_sha256: None }] };
        if let Some(end) = agent.runs().resume(question.interrupt_id, &yes, &frames, &cancel).await? {
            println!("The run ended: {}.", end.status.as_str());
        }
    }
    Ok(())
}
