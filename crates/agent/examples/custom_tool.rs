//! A custom tool with arguments and live output that stores a count in the thread's state.
//!
//! `cargo run -p segue-agent --example custom_tool`

use std::sync::Arc;

use agent::{Agent, AgentSettings, CancellationToken, FrameSender, HomeFolder};
use async_trait::async_trait;
use model::ToolSpec;
use protocol::HumanMessage;
use runtime::{Channels, Frame, GraphUpdate, RepeatSafety, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

/// A tool that throws dice.
struct DiceTool;

#[async_trait]
impl Tool for DiceTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "throw_dice".to_owned(),
            description: "Throws a number of dice and returns their sum.".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {"count": {"type": "integer", "minimum": 1, "maximum": 10}},
                "required": ["count"]
            }),
        }
    }

    /// Returns `Unsafe`, because a crash between the throw and the commit of its result must not cause a second throw. The
    /// model then gets a result that says so.
    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Unsafe
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let Some(count) = args["count"].as_u64().filter(|count| (1..=10).contains(count)) else {
            return ToolOutput::error("`count` is a number from 1 to 10");
        };
        let mut sum = 0;
        for number in 1..=count {
            let eyes = 1 + u64::from(uuid::Uuid::now_v7().as_bytes()[15]) % 6;
            sum += eyes;
            let text = format!("die {number}: {eyes}\n");
            context.frames.send(Frame::ToolOutput { call_id: context.call_id.clone(), text });
        }
        // The tool returns its state instead of writing it. The state becomes durable together with the result.
        let thrown = context.channels.get("dice_thrown").and_then(Value::as_u64).unwrap_or(0) + count;
        let channels = Channels::from_iter([("dice_thrown".to_owned(), thrown.into())]);
        ToolOutput::success(sum.to_string()).with_update(GraphUpdate { channels, ..GraphUpdate::default() })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let home = HomeFolder::locate(Some(folder.path().join("home").as_os_str()))?;
    home.create()?;
    let call = ScriptedReply::call("call_1", "throw_dice", json!({"count": 2}));
    let server = ScriptedServer::start(Script::new([call, ScriptedReply::text("There they lie.")]))?;
    let settings = format!(
        "model = \"anthropic/scripted\"\n[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"none\"\n\
         [permissions]\nallow = [\"throw_dice\"]\n",
        server.url()
    );
    std::fs::write(home.config_path(), settings)?;

    let agent = Agent::open(AgentSettings::new(home, folder.path())).await?.with_tool(Arc::new(DiceTool));
    let thread = agent.threads().create(None).await?;
    let message = HumanMessage::text("Throw two dice.");
    let end = agent
        .runs()
        .send_message(thread.thread_id, message, &FrameSender::default(), &CancellationToken::new())
        .await?;
    println!("The run ended: {}.", end.status.as_str());
    for entry in agent.threads().history(thread.thread_id).await? {
        println!("{}", serde_json::to_string(&entry)?);
    }
    Ok(())
}
