//! The node that makes the tool calls of the newest answer, all of them at the same time, and returns their results
//! in the order of the calls. A call that has a result is not made again, and one that a crash cut off only if that is
//! harmless.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use journal::Store;
use protocol::{Block, Decisions, Interrupt, Message, NewEvent, ToolMessage, ToolStatus};
use serde_json::{Map, Value};

use crate::error::Rejection;
use crate::graph::Node;
use crate::graph::channel::Channel;
use crate::hook::{Hook, NextCall};
use crate::node::model::TOOLS_WANTED_CHANNEL;
use crate::node::newest_answer;
use crate::step::{Ask, Entry, Failure, StepContext, Update};
use crate::stream::frame::Frame;
use crate::tool::{Given, Repeat, Tool, ToolContext, ToolOutput};

/// The name of the tools node.
pub const TOOLS_NODE: &str = "tools";

/// Channel: arguments that a person put in place of a call's own, by call id. The answer itself stays as it was said.
pub const EDITED_ARGS_CHANNEL: Channel<Map<String, Value>> = Channel::new("_edited_args");

/// What a model is told of a call that may have been made by a process that is gone.
pub(crate) const CUT_OFF: &str = "The call was interrupted: the process that made it ended, and no result was stored. It may have \
                       had its effect or not. Look before you repeat it.";
const STOPPED: &str =
    "The person stopped the run before the tool was done. It may have had its effect or not.";
const ONE_AT_A_TIME: &str = "Not done: another call of the same answer leads on from here; make this one afterwards if it is still needed.";
const BROKE_OFF: &str =
    "The tool broke off on a fault of its own; the call may be made again with other arguments.";

/// Makes tool calls.
pub struct ToolsNode {
    tools: HashMap<String, Arc<dyn Tool>>,
    workspace: PathBuf,
    hooks: Vec<Arc<dyn Hook>>,
}

/// One call that a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub args: Value,
}

#[async_trait]
impl Node for ToolsNode {
    fn name(&self) -> &'static str {
        TOOLS_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        if step.cancel.is_cancelled() {
            return Ok(Update::default());
        }
        let calls = open_calls(&step).await?;
        let (outputs, failure) = self.make(&step, &calls).await?;
        let mut update = Update::default();
        let mut leaving = None;
        for (call, output) in calls.iter().zip(outputs) {
            let Some((output, took)) = output else { continue };
            let output = match output.given {
                Given::Later if leaving.is_some() => ToolOutput::error(ONE_AT_A_TIME),
                Given::Later => {
                    leaving = Some(output.update);
                    continue;
                }
                Given::Now => output,
            };
            let asks = output.interrupts.iter();
            update.asks.extend(asks.map(|payload| Ask { key: call.id.clone(), payload: payload.clone() }));
            if output.interrupts.is_empty() {
                update.events.push(result(call, &output, took)?);
            }
            update.merge(output.update);
        }
        // While another call waits, the one that leads away is made again with its answer.
        if let Some(leaving) = leaving.filter(|_| update.asks.is_empty() && failure.is_none()) {
            update.merge(leaving);
        }
        if let Some(mut failure) = failure {
            // What the other calls returned is kept; what they ask is asked again by the next run.
            update.asks.clear();
            update.merge(std::mem::take(&mut *failure.partial));
            return Err(failure.keeping(update));
        }
        if update.asks.is_empty() {
            TOOLS_WANTED_CHANNEL.clear(&mut update.channels);
            if EDITED_ARGS_CHANNEL.is_set(step.channels) {
                EDITED_ARGS_CHANNEL.clear(&mut update.channels);
            }
        }
        Ok(update)
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        for hook in &self.hooks {
            hook.check(interrupt, decisions, store).await?;
        }
        Ok(())
    }
}

impl ToolsNode {
    /// Returns the node for these tools, working in `workspace`, with the hooks around each call.
    pub fn new(tools: Vec<Arc<dyn Tool>>, workspace: PathBuf, hooks: Vec<Arc<dyn Hook>>) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.spec().name, tool)).collect();
        Self { tools, workspace, hooks }
    }

    /// Makes the calls and returns their outputs in order; `None` for one whose result is durable already, or that a
    /// hook failed at. The first such failure comes with them, once all calls are done.
    async fn make(
        &self,
        step: &StepContext<'_>,
        calls: &[ToolCall],
    ) -> Result<(Vec<Option<Made>>, Option<Failure>), Failure> {
        let (mut outputs, mut failure) = (vec![None; calls.len()], None);
        let running = calls.iter().enumerate().map(async |(at, call)| {
            let begun = Instant::now();
            (at, self.call(step, call).await, begun.elapsed())
        });
        let mut running: FuturesUnordered<_> = running.collect();
        while let Some((at, output, took)) = running.next().await {
            let output = match output {
                Ok(output) => output,
                Err(failed) => {
                    failure.get_or_insert(failed);
                    continue;
                }
            };
            let repeat = self.tools.get(&calls[at].name).map_or(Repeat::Safe, |tool| tool.repeat());
            // While others run, the process may end; what cannot be made again must not be lost then.
            if !running.is_empty() && repeat == Repeat::Never && can_be_early(&output) {
                step.early.record(vec![result(&calls[at], &output, took)?], output.update.writes);
            } else {
                outputs[at] = Some((output, took));
            }
        }
        Ok((outputs, failure))
    }

    async fn call(&self, step: &StepContext<'_>, call: &ToolCall) -> Result<ToolOutput, Failure> {
        let repeat = self.tools.get(&call.name).map_or(Repeat::Safe, |tool| tool.repeat());
        if step.entry == Entry::Recovered && repeat == Repeat::Never {
            return Ok(ToolOutput::error(CUT_OFF));
        }
        let (call_id, name, args) = (call.id.clone(), call.name.clone(), call.args.clone());
        step.frames.send(Frame::ToolStarted { call_id, name, args });
        let output = NextCall { node: self, step, rest: &self.hooks }.run(call.clone()).await?;
        let failed = output.status == ToolStatus::Error;
        step.frames.send(Frame::ToolEnded { call_id: call.id.clone(), name: call.name.clone(), failed });
        Ok(output)
    }

    /// Makes the call itself.
    pub(crate) async fn perform(&self, step: &StepContext<'_>, call: &ToolCall) -> ToolOutput {
        let Some(tool) = self.tools.get(&call.name) else {
            let mut names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            names.sort_unstable();
            let names = names.join(", ");
            return ToolOutput::error(format!("There is no tool `{}`; there are: {names}.", call.name));
        };
        let answers = step.answers.iter().filter(|answer| answer.key == call.id);
        let answers = answers.map(|answer| answer.decisions.clone()).collect();
        let context = ToolContext { answers, ..ToolContext::of(step, call, &self.workspace) };
        let work = AssertUnwindSafe(tool.call(&call.args, &context)).catch_unwind();
        let stopped = async {
            step.cancel.cancelled().await;
            tokio::time::sleep(tool.stop_grace()).await;
        };
        tokio::select! {
            output = work => output.unwrap_or_else(|_| ToolOutput::error(BROKE_OFF)),
            () = stopped => ToolOutput::error(STOPPED),
        }
    }
}

/// What a call returned, and how long it took.
type Made = (ToolOutput, Duration);

/// A result that changes the state waits for the step's end: state is part of the checkpoint.
fn can_be_early(output: &ToolOutput) -> bool {
    let update = &output.update;
    output.interrupts.is_empty()
        && output.given == Given::Now
        && update.events.is_empty()
        && update.channels.is_empty()
        && update.activities.is_empty()
        && !update.diverts()
}

fn result(call: &ToolCall, output: &ToolOutput, took: Duration) -> Result<NewEvent, Failure> {
    let message = Message::Tool(ToolMessage {
        id: None,
        call_id: call.id.clone(),
        name: Some(call.name.clone()),
        content: output.content.clone(),
        status: output.status,
    });
    Ok(NewEvent::message(&message, Timestamp::now())?.that_took(took)?)
}

/// Returns the calls of the newest answer that have no result, with the arguments a person gave them.
async fn open_calls(step: &StepContext<'_>) -> Result<Vec<ToolCall>, Failure> {
    let newest = newest_answer(step).await?;
    let edited = EDITED_ARGS_CHANNEL.get(step.channels)?.unwrap_or_default();
    let content = newest.answer.map(|answer| answer.content).unwrap_or_default();
    let calls = content.into_iter().filter_map(|block| match block {
        Block::ToolCall { id, name, args } if !newest.answered.contains(&id) => {
            let args = edited.get(&id).cloned().unwrap_or(args);
            Some(ToolCall { id, name, args })
        }
        Block::ToolCall { .. }
        | Block::Text { .. }
        | Block::Thinking { .. }
        | Block::Media { .. }
        | Block::Opaque { .. } => None,
    });
    Ok(calls.collect())
}
