//! Execution of one turn: a graph of named nodes, one checkpoint for each step, interrupts, cancellation and
//! recovery.
//!
//! [`TurnMachine`] is the pure state machine of a run: it takes a [`TurnInput`] and returns the next
//! [`TurnEffect`]. [`Driver`] performs that effect: it runs the node, commits the step or performs the activity,
//! and reports the outcome. Features plug in as [`Node`]s, [`Hook`]s, [`Tool`]s and [`Activity`]s. All of them
//! return values; only the driver writes to the journal. [`admit_run`] and [`resume_run`] start runs,
//! [`take_over_run`] continues the run of a process that is gone, and [`FrameSender`] streams a run to its
//! subscribers.
//!
//! This crate names no feature: it does not know what its nodes, hooks and activities are for.

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

pub use activity::{Activity, ActivityRegistry};
pub use admit::{
    ADMISSION_ATTEMPTS_MAX, AdmissionSource, AnswerDurability, ExpectedHead, KnownQuestions, OpenCall,
    RewindRequest, RunAdmission, RunStart, TakeoverReason, abandon_run, admit_run, check_decisions, fail_run,
    find_answered_interrupt, forget_question, relayed_withdrawals, request_stop, resume_answered, resume_run,
    take_over_run, withdraw_calls,
};
pub use driver::lease::{LEASE_SECONDS, LeaseHolder};
pub use driver::lifecycle::RunEvents;
pub use driver::{AdmittedRun, Driver, DriverLimits, RunEnd};
pub use error::{DecisionRejection, Error};
pub use graph::channel::{Channel, ChannelError};
pub use graph::{Edge, Graph, NextNode, Node, QuestionLifetime};
pub use hook::{Hook, ModelAnswer, ModelCallHandler, ToolCallHandler};
pub use node::context::{ContextCache, ModelContext};
pub use node::hooks::{AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, HookPoint, HooksNode};
pub use node::model::{HAS_TOOL_CALLS_CHANNEL, MODEL_NODE, ModelNode, RequestPreview, has_tool_calls};
pub use node::tools::{EDITED_ARGS_CHANNEL, TOOLS_NODE, ToolCall, ToolsNode};
pub use protocol::FailureKind;
pub use step::{
    Channels, EarlyCommitSender, GraphUpdate, InterruptRequest, KeyedAnswer, RunScope, StepContext,
    StepEntry, StepFailure, model_hint,
};
pub use stream::frame::{Frame, FrameMode, SubagentFrame};
pub use stream::replay::{Replay, ReplayStatus, TakeoverGap};
pub use stream::{
    FRAME_COUNT_BITS, FramePosition, FrameSender, FrameSubscription, STREAM_BYTES_MAX, STREAM_FRAMES_MAX,
    SubscriptionItem,
};
pub use tool::{
    CallReview, CallSubject, Confinement, RepeatSafety, ResultTiming, ReviewDetail, Tool, ToolContext,
    ToolOutput,
};
pub use turn::breakpoints::{Breakpoints, NodeSet};
pub use turn::{RunEnding, TurnEffect, TurnInput, TurnLimits, TurnMachine, interrupt_id};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
