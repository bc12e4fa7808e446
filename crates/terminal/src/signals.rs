//! The signals that stop the program: Ctrl-C (SIGINT), SIGTERM and SIGHUP. While work runs, a signal is forwarded to
//! the work, which decides how to stop. While the program waits for the user, a signal restores the terminal and ends
//! the program.

use std::io;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::keyboard::SavedTerminalModes;

/// The number of signals after which the program ends even if its work does not react to them.
const SIGNALS_BEFORE_EXIT: usize = 3;
/// The exit code if no exit action is set: the one that shells report for Ctrl-C (128 + SIGINT).
const EXIT_CODE_DEFAULT: u8 = 130;
/// The hint after Ctrl-C at a prompt without a line editor.
const INTERRUPT_HINT: &str = "\nPress Ctrl-C again, or Ctrl-D, or write /quit, to leave.\n> ";

/// The effect of a signal.
#[derive(Debug)]
enum SignalMode {
    /// A signal ends the program.
    Exit,
    /// A signal is forwarded to the current work.
    Forward {
        /// The channel to the [`SignalReceiver`]. One item stands for one signal.
        sender: UnboundedSender<()>,
        /// The number of signals that were forwarded.
        sent_count: usize,
    },
    /// Ctrl-C is a key, or is meant for another program. The other signals end the program.
    KeyInput,
    /// A second Ctrl-C ends the program. The other signals end it at once.
    Prompt {
        /// True if Ctrl-C was pressed once.
        pressed: bool,
    },
}

/// The state that the listener shares with the threads of the program.
#[derive(Debug)]
struct SignalState {
    /// The current effect of a signal.
    mode: SignalMode,
    /// True if the program was asked to exit, and not only to stop its work.
    is_exiting: bool,
    /// The modes of the terminal when the program started.
    saved_modes: Option<SavedTerminalModes>,
}

/// An action that runs before a signal ends the process. It returns the exit code.
type ExitAction = fn() -> u8;

/// The state of the process. Signals concern the whole process, so it is global.
static STATE: Mutex<SignalState> =
    Mutex::new(SignalState { mode: SignalMode::Exit, is_exiting: false, saved_modes: None });
/// The result of starting the listener.
static LISTENER_RESULT: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();
/// The action of [`set_exit_action`].
static EXIT_ACTION: OnceLock<ExitAction> = OnceLock::new();

/// Sets the action that runs before a signal ends the process. It returns the exit code. Only the first call has an
/// effect.
pub fn set_exit_action(action: ExitAction) {
    let _ = EXIT_ACTION.set(action);
}

/// A guard that changes the effect of signals until it is dropped.
#[derive(Debug)]
pub struct SignalModeGuard {
    /// The mode to restore. Always `Some` until the guard is dropped.
    previous_mode: Option<SignalMode>,
}

impl SignalModeGuard {
    /// Sets the mode and starts the listener if it is not running yet.
    fn enter(mode: SignalMode) -> io::Result<Self> {
        ensure_listening()?;
        Ok(Self { previous_mode: Some(std::mem::replace(&mut STATE.lock().mode, mode)) })
    }

    /// Makes Ctrl-C an ordinary key, or leaves it to another program that uses the terminal.
    ///
    /// # Errors
    /// Fails if the listener cannot be started.
    pub fn for_key_input() -> io::Result<Self> {
        Self::enter(SignalMode::KeyInput)
    }

    /// Sets the mode of a prompt without a line editor: the first Ctrl-C prints a hint, the second ends the program.
    ///
    /// # Errors
    /// Fails if the listener cannot be started.
    pub fn for_prompt() -> io::Result<Self> {
        Self::enter(SignalMode::Prompt { pressed: false })
    }
}

impl Drop for SignalModeGuard {
    fn drop(&mut self) {
        if let Some(previous) = self.previous_mode.take() {
            STATE.lock().mode = previous;
        }
    }
}

/// A receiver of the signals that arrive during work. Signals are forwarded to it until it is dropped.
#[derive(Debug)]
pub struct SignalReceiver {
    /// The signals that were forwarded and not received yet.
    receiver: UnboundedReceiver<()>,
    /// Forwards signals as long as the receiver exists.
    _mode_guard: SignalModeGuard,
}

impl SignalReceiver {
    /// Starts to forward signals to a new receiver.
    ///
    /// # Errors
    /// Fails if the listener cannot be started.
    pub fn subscribe() -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let mode_guard = SignalModeGuard::enter(SignalMode::Forward { sender, sent_count: 0 })?;
        Ok(Self { receiver, _mode_guard: mode_guard })
    }

    /// Waits for the next signal. Cancel safe: no signal is lost if the future is dropped.
    pub async fn recv(&mut self) {
        if self.receiver.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Returns whether the program was asked to exit, and not only to stop its current work.
pub fn is_exiting() -> bool {
    STATE.lock().is_exiting
}

/// Records that the program exits, because the user did not wait for the work to stop.
pub fn request_exit() {
    STATE.lock().is_exiting = true;
}

/// Starts the listener once. It runs on its own thread, because at a prompt all other threads may be waiting for a key.
///
/// # Errors
/// Fails if the listener cannot be started. Later calls return the same error.
fn ensure_listening() -> io::Result<()> {
    LISTENER_RESULT.get_or_init(|| spawn_listener().map_err(|error| error.kind())).map_err(io::Error::from)
}

/// Starts the thread of the listener, and waits until it listens.
fn spawn_listener() -> io::Result<()> {
    STATE.lock().saved_modes = SavedTerminalModes::capture();
    let (started, ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let result = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .and_then(|runtime| runtime.block_on(listen_loop(&started)));
        if let Err(error) = result {
            // An error after the start has no receiver any more.
            let _ = started.send(Err(error));
        }
    })?;
    ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Handles signals and never returns after it has reported through `started` that it listens.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
async fn listen_loop(started: &std::sync::mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // `spawn_listener` waits for this message.
    let _ = started.send(Ok(()));
    loop {
        tokio::select! {
            Some(()) = interrupt.recv() => handle_signal(SignalRequest::Stop),
            Some(()) = terminate.recv() => handle_signal(SignalRequest::Exit),
            Some(()) = hangup.recv() => handle_signal(SignalRequest::Exit),
        }
    }
}

/// The request that a signal makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalRequest {
    /// Stop the current work.
    Stop,
    /// Exit the program.
    Exit,
}

/// Forwards a signal to the work, or ends the program, depending on the mode.
fn handle_signal(request: SignalRequest) {
    let mut state = STATE.lock();
    state.is_exiting |= request == SignalRequest::Exit;
    let ends_program = match (&mut state.mode, request) {
        (SignalMode::Forward { sender, sent_count }, _) => {
            *sent_count += 1;
            sender.send(()).is_err() || *sent_count >= SIGNALS_BEFORE_EXIT
        }
        (SignalMode::Exit, _) | (SignalMode::KeyInput | SignalMode::Prompt { .. }, SignalRequest::Exit) => {
            true
        }
        (SignalMode::KeyInput, SignalRequest::Stop) => false,
        (SignalMode::Prompt { pressed }, SignalRequest::Stop) => {
            let was_pressed = std::mem::replace(pressed, true);
            if !was_pressed {
                // If the hint cannot be written, the next Ctrl-C still ends the program.
                let _ = io::Write::write_all(&mut io::stdout(), INTERRUPT_HINT.as_bytes());
                let _ = io::Write::flush(&mut io::stdout());
            }
            was_pressed
        }
    };
    if ends_program {
        if let Some(saved_modes) = &state.saved_modes {
            saved_modes.restore();
        }
        let code = EXIT_ACTION.get().map_or(EXIT_CODE_DEFAULT, |action| action());
        std::process::exit(i32::from(code));
    }
}
