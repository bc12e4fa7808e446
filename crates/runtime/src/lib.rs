//! Running a turn: a graph of named nodes, one checkpoint a step, interrupts, cancellation and recovery.
//!
//! [`Turn`] is the pure machine: it is told what happened and answers with the one thing to do next. [`Driver`]
//! does it: runs the node, commits the step, performs the activities. Features plug in as nodes, [`Hook`]s and
//! [`Activity`]s, all of which return values; only the driver writes. This room does not know what a feature is
//! for: it never names one.

mod activity;
mod admit;
mod driver;
mod error;
mod graph;
mod hook;
mod node;
mod step;
mod stream;
mod tool;
mod turn;

pub use activity::{Activities, Activity};
pub use admit::{
    ATTEMPTS_MAX, Admission, AnswerDurability, BackTo, Head, Origin, Start, Taken, admit, answered,
    begin_answered, check_decisions, fail, forget_question, give_up, reclaim, request_stop, resume,
};
pub use driver::lease::{LEASE_SECONDS, Lease};
pub use driver::lifecycle::RunEvents;
pub use driver::{Admitted, Driver, Limits, RunEnd};
pub use error::{Error, Rejection};
pub use graph::channel::{Channel, ChannelError};
pub use graph::{Edge, Graph, NextNode, Node, Question};
pub use hook::{Hook, ModelAnswer, ModelCall, NextCall};
pub use node::context::{Context, Contexts};
pub use node::hooks::{AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, HooksNode, Point};
pub use node::model::{MODEL_NODE, ModelNode, Preview, TOOLS_WANTED_CHANNEL, wants_tools};
pub use node::tools::{EDITED_ARGS_CHANNEL, TOOLS_NODE, ToolCall, ToolsNode};
pub use protocol::FailureKind;
pub use step::{Answer, Ask, Channels, Early, Entry, Failure, RunScope, StepContext, Update, model_hint};
pub use stream::frame::{Frame, Mode, Within};
pub use stream::retold::{Cut, Retelling, Retold};
pub use stream::{Frames, Item, Position, STEP_BITS, STREAM_BYTES_MAX, STREAM_FRAMES_MAX, Subscription};
pub use tool::{Detail, Given, Repeat, Review, Subject, Tool, ToolContext, ToolOutput};
pub use turn::breakpoints::{Breakpoints, Nodes};
pub use turn::{Bounds, Effect, Ending, Input, Turn, interrupt_id};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
