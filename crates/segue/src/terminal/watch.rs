//! Watching work: frames are shown while a call of the agent goes on, and Ctrl-C asks it to stop.

use std::io;

use agent::{CancellationToken, Frame, Frames};

use crate::exit::Failure;

/// Does `work` and shows its frames as they come. The first Ctrl-C asks it to stop and waits; a second gives it up.
///
/// # Errors
/// When it was given up, or the frames cannot be shown: the work was asked to stop and has come to rest then.
pub(crate) async fn watch<T, W: Future<Output = T>>(
    work: impl FnOnce(Frames, CancellationToken) -> W,
    mut show: impl FnMut(Frame) -> io::Result<()>,
) -> Result<T, Failure> {
    let (frames, mut receiver) = Frames::channel();
    let cancel = CancellationToken::new();
    let work = work(frames, cancel.clone());
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(work, stop);
    let mut shown = Ok(());
    let mut show = |frame: Frame, shown: &mut io::Result<()>| {
        if shown.is_ok() {
            *shown = show(frame);
            if shown.is_err() {
                cancel.cancel();
            }
        }
    };
    loop {
        tokio::select! {
            biased;
            Some(frame) = receiver.recv() => show(frame, &mut shown),
            pressed = &mut stop => {
                pressed?;
                if cancel.is_cancelled() {
                    return Err(Failure::cancelled("wait for the work to stop"));
                }
                cancel.cancel();
                stop.set(tokio::signal::ctrl_c());
            }
            done = &mut work => {
                while let Ok(frame) = receiver.try_recv() {
                    show(frame, &mut shown);
                }
                shown?;
                return Ok(done);
            }
        }
    }
}
