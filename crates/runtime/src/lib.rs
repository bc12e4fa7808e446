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
mod frame;
mod graph;
mod hook;
mod node;
mod step;
mod tool;
mod turn;

pub use activity::{Activities, Activity};
pub use admit::{Admission, Start, admit, check_decisions, give_up, reclaim, resume};
pub use driver::{Driver, Limits, RunEnd};
pub use error::{Error, Rejection};
pub use frame::{Frame, Frames};
pub use graph::{Edge, Graph, Node};
pub use hook::Hook;
pub use node::model::{MODEL_NODE, ModelNode, wants_tools};
pub use node::tools::{TOOLS_NODE, ToolsNode};
pub use step::{Channels, Failure, FailureKind, StepContext, Update, model_hint};
pub use tool::{Tool, ToolContext, ToolOutput};
pub use turn::{Effect, Ending, Input, Turn};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
