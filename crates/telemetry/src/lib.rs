//! What happened, as spans: stretches of time, each within another one, made from the events of a thread and from nothing
//! else. So what a trace shows is what the journal holds, of a run that a crash cut in two as well, and the same event gives
//! the same span wherever it is read. What a trace looks like on a screen is not said here.

mod fold;
mod span;

pub use fold::{Fold, Place, caller};
pub use span::{Kind, Link, Outcome, Span, SpanId, ToolCalled, TraceId};
