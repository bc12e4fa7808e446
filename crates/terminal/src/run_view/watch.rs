//! Runs work in the foreground: the work's frames are shown while it runs, and Ctrl-C or a signal stops it.

use std::io;
use std::time::Duration;

use agent::{CancellationToken, Frame, FramePosition, FrameSender, SubscriptionItem};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::{Error, Result};
use crate::signals::{SignalReceiver, request_exit};

/// The interval at which the watcher redraws and reads keys.
const TICK: Duration = Duration::from_millis(80);

/// An event for the view of running work.
#[derive(Debug, Clone, Copy)]
pub enum WatchEvent<'a> {
    /// A frame of the run.
    Frame(FramePosition, &'a Frame),
    /// Frames were lost because the view was too slow, and no more frames follow. Durable events after this position
    /// can be read from the journal.
    Gap(FramePosition),
    /// The redraw interval has passed.
    Tick,
    /// Ctrl-C was pressed or a signal arrived, and the work was asked to stop.
    Stopping,
}

/// The view's reply to an event: continue or stop the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchControl {
    /// The work continues.
    Continue,
    /// The work is asked to stop.
    Stop,
}

/// Performs `work`, passes its frames to `show`, and returns the output of `work`.
///
/// The first Ctrl-C, SIGTERM or SIGHUP cancels the token that `work` received, and `work` is awaited. A second signal
/// drops `work` at its current await point. Remaining frames are shown after `work` has ended.
///
/// # Errors
/// Fails with [`Error::Aborted`] after a second signal. Fails if an event cannot be shown; then the work is asked to
/// stop and is awaited first.
pub async fn watch<T, W: Future<Output = T>>(
    work: impl FnOnce(FrameSender, CancellationToken) -> W,
    mut show: impl FnMut(WatchEvent<'_>) -> io::Result<WatchControl>,
) -> Result<T> {
    let (frames, mut items) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let work = work(frames, cancel.clone());
    let mut signals = SignalReceiver::subscribe()?;
    tokio::pin!(work);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut show_result = Ok(());
    let mut show_event = |event: WatchEvent<'_>| {
        if show_result.is_err() {
            return;
        }
        match show(event) {
            Ok(WatchControl::Continue) => {}
            Ok(WatchControl::Stop) => cancel.cancel(),
            Err(error) => {
                show_result = Err(error);
                cancel.cancel();
            }
        }
    };
    let mut has_ended = false;
    let output = loop {
        tokio::select! {
            biased;
            item = items.next(), if !has_ended => match item {
                Some(item) => show_event(watch_event(&item)),
                None => has_ended = true,
            },
            () = signals.recv() => {
                if cancel.is_cancelled() {
                    request_exit();
                    return Err(Error::Aborted);
                }
                cancel.cancel();
                show_event(WatchEvent::Stopping);
            }
            output = &mut work => break output,
            _ = ticks.tick() => show_event(WatchEvent::Tick),
        }
    };
    while let Some(item) = items.try_next() {
        show_event(watch_event(&item));
    }
    show_result?;
    Ok(output)
}

/// Returns the event for an item of the subscription.
fn watch_event(item: &SubscriptionItem) -> WatchEvent<'_> {
    match item {
        SubscriptionItem::Frame(position, frame) => WatchEvent::Frame(*position, frame),
        SubscriptionItem::Gap { after } => WatchEvent::Gap(*after),
    }
}
