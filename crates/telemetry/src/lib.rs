//! What happened, as spans: stretches of time, each within another one, made from the events of a thread and from nothing
//! else. So what a trace shows is what the journal holds, of a run that a crash cut in two as well, and the same event gives
//! the same span wherever it is read. They are sent over OTLP to whatever understands it, behind the work and apart from it: no run
//! waits for a collector, and what one that is away does not get is in the journal still. What a trace looks like on a
//! screen is not said here.

mod attributes;
mod counted;
mod export;
mod fold;
mod follow;
mod settings;
mod span;

pub use counted::{BOUNDS, Counted, Counts, Durations};
pub use export::Error;
pub use fold::{Fold, Place};
pub use follow::{Traces, primed};
pub use settings::{Preset, Settings};
pub use span::{Kind, Link, Outcome, Span, SpanId, ToolCalled, TraceId};
