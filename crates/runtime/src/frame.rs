//! Frames: what a client sees while a run works. They are a view; what lasts is in the journal.

use protocol::{Event, Interrupt, RunId, RunStatus, ThreadId};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

/// One thing a client may show.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum Frame {
    /// A run began or resumed.
    RunStarted {
        /// The thread.
        thread_id: ThreadId,
        /// The run.
        run_id: RunId,
    },
    /// A node began.
    StepStarted {
        /// The node.
        node: String,
        /// The number of the step within the run.
        step: u64,
    },
    /// More text of the model's answer.
    Text {
        /// The text.
        text: String,
    },
    /// More of the model's reasoning.
    Thinking {
        /// The text.
        text: String,
    },
    /// A tool call begins to run.
    ToolStarted {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// The arguments.
        args: Value,
    },
    /// A tool call ended.
    ToolEnded {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// Whether it failed.
        failed: bool,
    },
    /// A long step is under way.
    Progress {
        /// What is being done.
        what: String,
        /// How far, in the unit `what` names.
        done: u64,
        /// How much there is, if known.
        total: Option<u64>,
    },
    /// Something a person should know that fails nothing.
    Notice {
        /// One line.
        text: String,
    },
    /// A stored event, with its seq.
    Event(Box<Event>),
    /// The run stopped to ask.
    Interrupted(Box<Interrupt>),
    /// The run ended; always the last frame.
    RunEnded {
        /// The run.
        run_id: RunId,
        /// How it ended.
        status: RunStatus,
        /// Why, when it did not succeed.
        error: Option<String>,
    },
}

/// Where frames go. A client that went away loses frames, never facts.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    sender: Option<mpsc::UnboundedSender<Frame>>,
}

impl Frames {
    /// Returns frames that go to a receiver.
    pub fn channel() -> (Self, mpsc::UnboundedReceiver<Frame>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender: Some(sender) }, receiver)
    }

    /// Sends a frame, if anyone listens.
    pub fn send(&self, frame: Frame) {
        if let Some(sender) = &self.sender {
            // A closed receiver is a client that went away; the run goes on without it.
            let _ = sender.send(frame);
        }
    }
}
