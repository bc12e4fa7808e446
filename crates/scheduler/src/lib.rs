//! The runs of many clients at once: which waits and which works, their live streams, cancellation, and what a crash or a
//! shutdown leaves behind.
//!
//! Each busy thread has one line: a run or a piece of exclusive work in front, others behind it, and one task that does one
//! after the other ([`Dispatch::create`], [`Dispatch::exclusive`]). What waits in a line is a row of the journal too, so
//! that the next process begins it; the line is only its order. Over all lines, so many runs work at once and so many wait;
//! the rest is refused with a time to come back.
//!
//! A run belongs to its task, not to the client that asked for it. Clients look on through a [`Live`]: the run's one
//! bounded ring of frames, read at each reader's own pace. Before a stream ends, the rows of the run and of its thread are
//! final. A resumable stream is kept for a while after its end, within a bound of bytes over all.
//!
//! Nothing here decides what a request means, what a frame looks like on the wire, or who a client is; and nothing here
//! lasts. Whatever a reader lost is in the journal.

mod cancel;
mod create;
mod dispatch;
mod error;
mod limits;
mod line;
mod recover;
mod settle;
mod streams;
mod webhooks;
mod work;

pub use cancel::CancelAction;
pub use create::{Created, IfNotExists, NewRun};
pub use dispatch::{Dispatch, Figures};
pub use error::Error;
pub use limits::Limits;
pub use recover::Recovered;
pub use streams::live::{Live, StreamPosition};
pub use streams::thread::{Changes, ThreadItem, ThreadLive};
pub use webhooks::target::{Refusal, WebhookTargets};
pub use webhooks::{Ended, Render};
pub use work::exclusive::Alone;

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
