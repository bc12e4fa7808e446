//! Signals that ask the program to stop: Ctrl-C, SIGTERM and SIGHUP. Work that is watched is asked to stop and keeps what
//! had arrived; where the program waits for a person it puts the terminal back and ends. What stopping means to the work
//! is decided by whoever watches it.

use std::io;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::keyboard::SavedTerminalModes;

/// Signals after which the program ends although its work did not notice.
const SIGNALS_BEFORE_EXIT: usize = 3;
/// The exit code of a process that a signal ends, as shells have it for Ctrl-C.
const EXIT_CODE_DEFAULT: u8 = 130;
/// The hint after Ctrl-C at a prompt that cannot show it itself.
const INTERRUPT_HINT: &str = "\nCtrl-C once more, Ctrl-D or /quit leaves.\n> ";

/// The present effect of a signal.
#[derive(Debug)]
enum SignalMode {
    /// It ends the program.
    Exit,
    /// It goes to the work under way.
    Forward { sender: UnboundedSender<()>, sent_count: usize },
    /// Ctrl-C is a key, or is meant for another program; the others end this one.
    KeyInput,
    /// Ctrl-C leaves a prompt when it comes twice; the others end the program.
    Prompt { pressed: bool },
}

#[derive(Debug)]
struct SignalState {
    mode: SignalMode,
    /// True if the program was asked to exit, not only to stop its work.
    is_exiting: bool,
    /// The terminal as it was found.
    saved_modes: Option<SavedTerminalModes>,
}

/// An action before a signal ends the process; it returns the exit code.
type ExitAction = fn() -> u8;

static STATE: Mutex<SignalState> = Mutex::new(SignalState { mode: SignalMode::Exit, is_exiting: false, saved_modes: None });
/// Why the signals cannot be listened to, if so.
static LISTENER_RESULT: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();

static EXIT_ACTION: OnceLock<ExitAction> = OnceLock::new();

/// Sets what is done before a signal ends the process; it returns the exit code. Only the first call counts.
pub fn set_exit_action(action: ExitAction) {
    let _ = EXIT_ACTION.set(action);
}

/// Signals do something else as long as this lives.
#[derive(Debug)]
pub struct SignalModeGuard {
    previous_mode: Option<SignalMode>,
}

impl SignalModeGuard {
    fn enter(mode: SignalMode) -> io::Result<Self> {
        ensure_listening()?;
        Ok(Self { previous_mode: Some(std::mem::replace(&mut STATE.lock().mode, mode)) })
    }

    /// Ctrl-C is a key like others, or belongs to a program that has the terminal.
    pub fn for_key_input() -> io::Result<Self> {
        Self::enter(SignalMode::KeyInput)
    }

    /// A line is read the way the terminal gives it.
    pub fn for_prompt() -> io::Result<Self> {
        Self::enter(SignalMode::Prompt { pressed: false })
    }
}

impl Drop for SignalModeGuard {
    fn drop(&mut self) {
        if let Some(before) = self.previous_mode.take() {
            STATE.lock().mode = before;
        }
    }
}

/// The signals that come while work is under way.
#[derive(Debug)]
pub struct SignalReceiver {
    receiver: UnboundedReceiver<()>,
    _mode_guard: SignalModeGuard,
}

impl SignalReceiver {
    /// Takes them as long as this lives.
    ///
    /// # Errors
    /// When they cannot be listened to.
    pub fn subscribe() -> io::Result<Self> {
        let (to, come) = unbounded_channel();
        Ok(Self { receiver: come, _mode_guard: SignalModeGuard::enter(SignalMode::Forward { sender: to, sent_count: 0 })? })
    }

    /// Waits for the next one.
    pub async fn recv(&mut self) {
        if self.receiver.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Returns whether the program was asked to end, and not only what it was doing.
pub fn is_exiting() -> bool {
    STATE.lock().is_exiting
}

/// Says that the program ends: a person does not even wait for the work to stop.
pub fn request_exit() {
    STATE.lock().is_exiting = true;
}

/// Begins to listen, once. A thread of its own does, for at a prompt all others wait for a key.
fn ensure_listening() -> io::Result<()> {
    LISTENER_RESULT.get_or_init(|| spawn_listener().map_err(|error| error.kind())).map_err(io::Error::from)
}

fn spawn_listener() -> io::Result<()> {
    STATE.lock().saved_modes = SavedTerminalModes::capture();
    let (told, ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let listened = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .and_then(|runtime| runtime.block_on(listen_loop(&told)));
        if let Err(error) = listened {
            // Nobody waits any more once listening has begun.
            let _ = told.send(Err(error));
        }
    })?;
    ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

async fn listen_loop(told: &std::sync::mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // Whoever started listening waits for this.
    let _ = told.send(Ok(()));
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

fn handle_signal(asked: SignalRequest) {
    let mut state = STATE.lock();
    state.is_exiting |= asked == SignalRequest::Exit;
    let ends = match (&mut state.mode, asked) {
        (SignalMode::Forward { sender: to, sent_count: sent }, _) => {
            *sent += 1;
            to.send(()).is_err() || *sent >= SIGNALS_BEFORE_EXIT
        }
        (SignalMode::Exit, _) | (SignalMode::KeyInput | SignalMode::Prompt { .. }, SignalRequest::Exit) => true,
        (SignalMode::KeyInput, SignalRequest::Stop) => false,
        (SignalMode::Prompt { pressed }, SignalRequest::Stop) => {
            let was_pressed = std::mem::replace(pressed, true);
            if !was_pressed {
                // A terminal that cannot be written to is left by the next one.
                let _ = io::Write::write_all(&mut io::stdout(), INTERRUPT_HINT.as_bytes());
                let _ = io::Write::flush(&mut io::stdout());
            }
            was_pressed
        }
    };
    if ends {
        if let Some(usual) = &state.saved_modes {
            usual.restore();
        }
        let code = EXIT_ACTION.get().map_or(EXIT_CODE_DEFAULT, |action| action());
        std::process::exit(i32::from(code));
    }
}
