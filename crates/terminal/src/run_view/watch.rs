//! Watching work: what it tells is shown while a call of the agent goes on, and Ctrl-C or a signal asks it to stop.

use std::io;
use std::time::Duration;

use agent::{CancellationToken, Frame, FrameSender, SubscriptionItem, FramePosition};
use tokio::time::{MissedTickBehavior, interval};

use crate::error::{Error, Result};
use crate::signals::{self, SignalReceiver};

/// How often the watcher may draw and look for keys.
const TICK: Duration = Duration::from_millis(80);

/// An event for a watcher of a run.
#[derive(Debug, Clone, Copy)]
pub enum WatchEvent<'a> {
    /// The work tells something.
    Frame(FramePosition, &'a Frame),
    /// The display fell behind: what the work told was lost, and nothing more comes. What lasts is in the
    /// journal, after this place.
    Gap(FramePosition),
    /// Time went by.
    Tick,
    /// Ctrl-C was pressed, or a signal came: the work was asked to stop.
    Stopping,
}

/// A watcher's answer: continue or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchControl {
    /// It shall.
    Continue,
    /// It shall stop.
    Stop,
}

/// Does `work` and shows what it tells as it comes. The first Ctrl-C, SIGTERM or SIGHUP asks it to
/// stop and waits; a second gives it up.
///
/// # Errors
/// When the watcher gave up or cannot show an event. The run was asked to stop and has ended by then.
pub async fn watch<T, W: Future<Output = T>>(
    work: impl FnOnce(FrameSender, CancellationToken) -> W,
    mut show: impl FnMut(WatchEvent<'_>) -> io::Result<WatchControl>,
) -> Result<T> {
    let (frames, mut items) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let work = work(frames, cancel.clone());
    let mut asked = SignalReceiver::subscribe()?;
    tokio::pin!(work);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown = Ok(());
    let mut tell = |seen: WatchEvent<'_>| {
        if shown.is_err() {
            return;
        }
        match show(seen) {
            Ok(WatchControl::Continue) => {}
            Ok(WatchControl::Stop) => cancel.cancel(),
            Err(error) => {
                shown = Err(error);
                cancel.cancel();
            }
        }
    };
    let mut is_over = false;
    let done = loop {
        tokio::select! {
            biased;
            item = items.next(), if !is_over => match item {
                Some(item) => tell(watch_event(&item)),
                None => is_over = true,
            },
            () = asked.recv() => {
                if cancel.is_cancelled() {
                    signals::request_exit();
                    return Err(Error::Aborted);
                }
                cancel.cancel();
                tell(WatchEvent::Stopping);
            }
            done = &mut work => break done,
            _ = ticks.tick() => tell(WatchEvent::Tick),
        }
    };
    while let Some(item) = items.try_next() {
        tell(watch_event(&item));
    }
    shown?;
    Ok(done)
}

fn watch_event(item: &SubscriptionItem) -> WatchEvent<'_> {
    match item {
        SubscriptionItem::Frame(position, frame) => WatchEvent::Frame(*position, frame),
        SubscriptionItem::Gap { after } => WatchEvent::Gap(*after),
    }
}
