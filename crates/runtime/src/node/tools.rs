//! The node that runs the tools the newest answer asks for, all of them at the same time, and returns their results
//! in the order of the calls.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use jiff::Timestamp;
use journal::EventQuery;
use protocol::{Category, Message, NewEvent, ToolMessage};
use serde_json::Value;

use crate::frame::Frame;
use crate::graph::Node;
use crate::node::model::TOOLS_WANTED_CHANNEL;
use crate::step::{Failure, StepContext, Update};
use crate::tool::{Tool, ToolContext, ToolOutput};

/// The name of the tools node.
pub const TOOLS_NODE: &str = "tools";

/// Runs tool calls.
pub struct ToolsNode {
    /// The tools there are.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The folder they work in.
    pub workspace: PathBuf,
}

struct Call {
    id: String,
    name: String,
    args: Value,
}

#[async_trait]
impl Node for ToolsNode {
    fn name(&self) -> &'static str {
        TOOLS_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let calls = open_calls(&step).await?;
        let outputs = join_all(calls.iter().map(|call| self.call(&step, call))).await;
        let mut update = Update::default();
        for (call, output) in calls.into_iter().zip(outputs) {
            let message = Message::Tool(ToolMessage {
                id: None,
                call_id: call.id,
                name: Some(call.name),
                content: output.content,
                status: output.status,
            });
            update.events.push(NewEvent::message(&message, Timestamp::now())?);
        }
        update.channels.insert(TOOLS_WANTED_CHANNEL.to_owned(), Value::Null);
        Ok(update)
    }
}

impl ToolsNode {
    async fn call(&self, step: &StepContext<'_>, call: &Call) -> ToolOutput {
        let Some(tool) = self.tools.iter().find(|tool| tool.spec().name == call.name) else {
            let names: Vec<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
            return ToolOutput::error(format!(
                "There is no tool `{}`; there are: {}.",
                call.name,
                names.join(", ")
            ));
        };
        let (call_id, name, args) = (call.id.clone(), call.name.clone(), call.args.clone());
        step.frames.send(Frame::ToolStarted { call_id, name, args });
        let context = ToolContext { workspace: self.workspace.clone(), cancel: step.cancel.clone() };
        let output = tokio::select! {
            output = tool.call(&call.args, &context) => output,
            () = step.cancel.cancelled() => ToolOutput::error("The person stopped the run before the tool was done."),
        };
        let failed = output.status == protocol::ToolStatus::Error;
        step.frames.send(Frame::ToolEnded { call_id: call.id.clone(), name: call.name.clone(), failed });
        output
    }
}

/// The calls of the newest answer. Results follow only after it, so the newest message is that answer.
async fn open_calls(step: &StepContext<'_>) -> Result<Vec<Call>, Failure> {
    let query = EventQuery { after: None, before: None, categories: vec![Category::Message], limit: 1 };
    let newest = step.store.events(step.thread_id, query).await?;
    let Some(Message::Ai(answer)) = newest.first().and_then(protocol::Event::message) else {
        return Ok(Vec::new());
    };
    let message = Message::Ai(answer);
    let calls = message.tool_calls();
    Ok(calls
        .map(|(id, name, args)| Call { id: id.to_owned(), name: name.to_owned(), args: args.clone() })
        .collect())
}
