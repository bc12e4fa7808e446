//! The tools node: makes the tool calls of the newest answer concurrently and returns their results in the order
//! of the calls. A call that has a result is not made again. A call that a crash interrupted is made again only
//! if the tool says that this is harmless.

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
use protocol::{ContentBlock, Decisions, Interrupt, Message, NewEvent, ToolMessage, ToolStatus};
use serde_json::{Map, Value};

use crate::error::DecisionRejection;
use crate::graph::Node;
use crate::graph::channel::Channel;
use crate::hook::{Hook, ToolCallHandler};
use crate::node::model::HAS_TOOL_CALLS_CHANNEL;
use crate::node::read_latest_answer;
use crate::step::{GraphUpdate, InterruptRequest, StepContext, StepEntry, StepFailure};
use crate::stream::frame::Frame;
use crate::tool::{RepeatSafety, ResultTiming, Tool, ToolContext, ToolOutput};

/// The name of the tools node.
pub const TOOLS_NODE: &str = "tools";

/// The channel with the arguments that a person put in place of a call's own, by call id. The journaled answer
/// keeps the arguments of the model.
pub const EDITED_ARGS_CHANNEL: Channel<Map<String, Value>> = Channel::new("_edited_args");

/// The result of a call that a process which is gone may have made.
pub(crate) const CALL_INTERRUPTED_TEXT: &str = "The call was interrupted: the process that made it ended, and no result was stored. It may have \
                                                had its effect or not. Check before you repeat it.";
/// The result of a call that did not return within the grace period after the run was stopped.
const CALL_STOPPED_TEXT: &str =
    "The person stopped the run before the tool was done. It may have had its effect or not.";
/// The result of a call that wanted to leave the tools node when another call of the same answer does so already.
const CALL_POSTPONED_TEXT: &str = "Not done: another call of the same answer has to be completed first. Make this call afterwards if it is still needed.";
/// The result of a call whose tool panicked.
const TOOL_PANICKED_TEXT: &str =
    "The tool failed because of an internal error; the call may be made again with other arguments.";

/// The node that makes the tool calls of the newest answer.
pub struct ToolsNode {
    /// The tools by name.
    tools: HashMap<String, Arc<dyn Tool>>,
    /// The folder in which the tools work.
    workspace: PathBuf,
    /// The hooks that wrap each call, outermost first.
    hooks: Vec<Arc<dyn Hook>>,
}

/// A tool call that a model requested.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The id of the call, as the model gave it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, as a JSON object.
    pub args: Value,
}

#[async_trait]
impl Node for ToolsNode {
    fn name(&self) -> &'static str {
        TOOLS_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        if step.cancel.is_cancelled() {
            return Ok(GraphUpdate::default());
        }
        let calls = open_calls(&step).await?;
        let (outputs, failure) = self.make_calls(&step, &calls).await?;
        let mut update = GraphUpdate::default();
        let mut deferred_update = None;
        for (call, output) in calls.iter().zip(outputs) {
            let Some((output, duration)) = output else { continue };
            let output = match output.result_timing {
                ResultTiming::ByLaterNode if deferred_update.is_some() => {
                    ToolOutput::error(CALL_POSTPONED_TEXT)
                }
                ResultTiming::ByLaterNode => {
                    deferred_update = Some(output.update);
                    continue;
                }
                ResultTiming::WithStep => output,
            };
            let payloads = output.interrupts.iter();
            update.interrupts.extend(
                payloads.map(|payload| InterruptRequest { key: call.id.clone(), payload: payload.clone() }),
            );
            if output.interrupts.is_empty() {
                update.events.push(result_event(call, &output, duration)?);
            }
            update.merge(output.update);
        }
        // While another call waits for a person, this call is made again later, so its update is dropped.
        if let Some(deferred_update) =
            deferred_update.filter(|_| update.interrupts.is_empty() && failure.is_none())
        {
            update.merge(deferred_update);
        }
        if let Some(mut failure) = failure {
            // The results of the other calls are kept. Their questions are asked again by the next run.
            update.interrupts.clear();
            update.merge(std::mem::take(&mut *failure.partial));
            return Err(failure.with_partial(update));
        }
        if update.interrupts.is_empty() {
            HAS_TOOL_CALLS_CHANNEL.clear(&mut update.channels);
            if EDITED_ARGS_CHANNEL.is_set(step.channels) {
                EDITED_ARGS_CHANNEL.clear(&mut update.channels);
            }
        }
        Ok(update)
    }

    async fn validate_decisions(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        for hook in &self.hooks {
            hook.validate_decisions(interrupt, decisions, store).await?;
        }
        Ok(())
    }
}

impl ToolsNode {
    /// Returns the node for these tools, which work in the folder `workspace`. `hooks` wrap each call.
    pub fn new(tools: Vec<Arc<dyn Tool>>, workspace: PathBuf, hooks: Vec<Arc<dyn Hook>>) -> Self {
        let tools = tools.into_iter().map(|tool| (tool.spec().name, tool)).collect();
        Self { tools, workspace, hooks }
    }

    /// Makes all calls concurrently and returns their outputs in the order of the calls, with the first failure
    /// of a hook, if any. An output is `None` if the call's result was committed early or if a hook failed.
    async fn make_calls(
        &self,
        step: &StepContext<'_>,
        calls: &[ToolCall],
    ) -> Result<(Vec<Option<TimedOutput>>, Option<StepFailure>), StepFailure> {
        let (mut outputs, mut failure) = (vec![None; calls.len()], None);
        let running = calls.iter().enumerate().map(async |(index, call)| {
            let started_at = Instant::now();
            (index, self.make_call(step, call).await, started_at.elapsed())
        });
        let mut running: FuturesUnordered<_> = running.collect();
        while let Some((index, output, duration)) = running.next().await {
            let output = match output {
                Ok(output) => output,
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            let repeat_safety =
                self.tools.get(&calls[index].name).map_or(RepeatSafety::Safe, |tool| tool.repeat_safety());
            // The process may end while other calls run. The result of a call that cannot be repeated must not be
            // lost then.
            if !running.is_empty() && repeat_safety == RepeatSafety::Unsafe && can_commit_early(&output) {
                step.early_commits.commit_early(
                    vec![result_event(&calls[index], &output, duration)?],
                    output.update.writes,
                );
            } else {
                outputs[index] = Some((output, duration));
            }
        }
        Ok((outputs, failure))
    }

    /// Makes one call through the hooks. After a crash, a call that must not be repeated gets an error as its
    /// output.
    async fn make_call(&self, step: &StepContext<'_>, call: &ToolCall) -> Result<ToolOutput, StepFailure> {
        let repeat_safety =
            self.tools.get(&call.name).map_or(RepeatSafety::Safe, |tool| tool.repeat_safety());
        if step.entry == StepEntry::Recovered && repeat_safety == RepeatSafety::Unsafe {
            return Ok(ToolOutput::error(CALL_INTERRUPTED_TEXT));
        }
        let (call_id, name, args) = (call.id.clone(), call.name.clone(), call.args.clone());
        step.frames.send(Frame::ToolStarted { call_id, name, args });
        let output =
            ToolCallHandler { node: self, step, remaining_hooks: &self.hooks }.run(call.clone()).await?;
        let failed = output.status == ToolStatus::Error;
        step.frames.send(Frame::ToolEnded { call_id: call.id.clone(), name: call.name.clone(), failed });
        Ok(output)
    }

    /// Executes one call without the hooks. An unknown tool, a panic and a timeout after a stop become outputs
    /// with the status error.
    pub(crate) async fn execute_call(&self, step: &StepContext<'_>, call: &ToolCall) -> ToolOutput {
        let Some(tool) = self.tools.get(&call.name) else {
            let mut names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            names.sort_unstable();
            let names = names.join(", ");
            return ToolOutput::error(format!("There is no tool `{}`; there are: {names}.", call.name));
        };
        let answers = step.answers.iter().filter(|answer| answer.key == call.id);
        let answers = answers.map(|answer| answer.decisions.clone()).collect();
        let context = ToolContext { answers, ..ToolContext::for_call(step, call, &self.workspace) };
        let work = AssertUnwindSafe(tool.call(&call.args, &context)).catch_unwind();
        let stopped = async {
            step.cancel.cancelled().await;
            tokio::time::sleep(tool.stop_grace()).await;
        };
        tokio::select! {
            output = work => output.unwrap_or_else(|_| ToolOutput::error(TOOL_PANICKED_TEXT)),
            () = stopped => ToolOutput::error(CALL_STOPPED_TEXT),
        }
    }
}

/// The output of a call and the duration of the call.
type TimedOutput = (ToolOutput, Duration);

/// Returns whether the output can be committed before the step ends. Changes of the state cannot, because the
/// state is part of the step's checkpoint.
fn can_commit_early(output: &ToolOutput) -> bool {
    let update = &output.update;
    output.interrupts.is_empty()
        && output.result_timing == ResultTiming::WithStep
        && update.events.is_empty()
        && update.channels.is_empty()
        && update.activities.is_empty()
        && !update.is_diverting()
}

/// Returns the event that journals the result of a call.
fn result_event(call: &ToolCall, output: &ToolOutput, duration: Duration) -> Result<NewEvent, StepFailure> {
    let message = Message::Tool(ToolMessage {
        id: None,
        call_id: call.id.clone(),
        name: Some(call.name.clone()),
        content: output.content.clone(),
        status: output.status,
    });
    Ok(NewEvent::from_message(&message, Timestamp::now())?.with_duration(duration)?)
}

/// Returns the calls of the newest answer that have no result, with the arguments that a person edited.
async fn open_calls(step: &StepContext<'_>) -> Result<Vec<ToolCall>, StepFailure> {
    let newest = read_latest_answer(step).await?;
    let edited = EDITED_ARGS_CHANNEL.get(step.channels)?.unwrap_or_default();
    let content = newest.answer.map(|answer| answer.content).unwrap_or_default();
    let calls = content.into_iter().filter_map(|block| match block {
        ContentBlock::ToolCall { id, name, args } if !newest.answered_calls.contains(&id) => {
            let args = edited.get(&id).cloned().unwrap_or(args);
            Some(ToolCall { id, name, args })
        }
        ContentBlock::ToolCall { .. }
        | ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::Media { .. }
        | ContentBlock::Opaque { .. } => None,
    });
    Ok(calls.collect())
}
