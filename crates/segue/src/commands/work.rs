//! Work of the agent that a command waits for, and how it is shown while it goes on: where a person watches, with what is
//! under way and their keys kept; elsewhere only notices. Ctrl-C stops it. What came of it is shown by the caller.

use agent::{Agent, CancellationToken, Frame, Frames};
use terminal::{Audience, Bracketed, Progress, Quiet, Screen, Seen, Spent, Stream, Then, Typed, Unit, watch};

use crate::cli::Format;
use crate::commands::Context;
use crate::exit::Failure;

/// What is shown of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Everything: the agent may go on with its turn.
    Everything,
    /// What is under way, and nothing that stays.
    Progress,
}

/// What is said of work before it tells anything itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Showing {
    /// What is under way, in a word.
    pub(crate) what: &'static str,
    pub(crate) telling: Telling,
}

/// What came of work.
pub(crate) struct Done<T> {
    pub(crate) done: T,
    /// Whether the person stopped it.
    pub(crate) is_stopped: bool,
}

/// Returns whether a person watches.
pub(crate) fn is_watched(context: &Context) -> bool {
    context.format == Format::Text && context.screen.audience == Audience::Person
}

/// Does work where a person watches; `spent` holds the calls that wait for a result, before and after.
///
/// # Errors
/// When the terminal fails, or the person gave up waiting for the work to stop.
pub(crate) async fn shown<T>(
    context: &Context,
    showing: Showing,
    typed: &mut Typed,
    spent: &mut Spent,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> T,
) -> Result<Done<T>, Failure> {
    let _quiet = Quiet::begin(&context.screen)?;
    let _pastes = Bracketed::begin(&context.screen)?;
    let mut stream = Stream::new(&context.screen, typed);
    stream.begin_with(showing.what);
    stream.expect(std::mem::take(&mut spent.waiting));
    let done = watch(
        async |frames, cancel| Done {
            done: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |seen| match seen {
            // The panel that follows says it, and stays.
            Seen::Frame(_, Frame::AttemptFailed { .. }) => Ok(Then::GoOn),
            Seen::Frame(_, Frame::Notice { .. } | Frame::Progress { .. }) | Seen::Tick | Seen::Stopping => {
                stream.show(seen)
            }
            Seen::Frame(..) | Seen::Gap(_) if showing.telling == Telling::Everything => stream.show(seen),
            Seen::Frame(..) | Seen::Gap(_) => Ok(Then::GoOn),
        },
    )
    .await;
    *spent = stream.finish()?;
    Ok(done?)
}

/// Returns a progress bar, which is hidden where programs read the output.
pub(crate) fn progress(screen: &Screen, format: Format, unit: Unit) -> Progress {
    match format {
        Format::Text => Progress::new(screen, unit),
        Format::Json => Progress::hidden(unit),
    }
}

/// Does work of which only notices are told.
///
/// # Errors
/// When the person gave up waiting for the work to stop.
pub(crate) async fn noted<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> T,
) -> Result<Done<T>, Failure> {
    let bar = progress(&context.screen, context.format, Unit::Steps);
    Ok(watch(
        async |frames, cancel| Done {
            done: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |seen| {
            match seen {
                Seen::Frame(_, Frame::Notice { text } | Frame::AttemptFailed { text }) => {
                    bar.aside(|| context.notice(text))
                }
                Seen::Frame(_, frame) => bar.show(frame),
                Seen::Gap(_) | Seen::Tick | Seen::Stopping => {}
            }
            Ok(Then::GoOn)
        },
    )
    .await?)
}
