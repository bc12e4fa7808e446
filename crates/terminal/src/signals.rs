//! Signals that ask the program to stop: Ctrl-C, SIGTERM and SIGHUP. Work that is watched is asked to stop and keeps what
//! had arrived; where the program waits for a person it puts the terminal back and ends. What stopping means to the work
//! is decided by whoever watches it.

use std::io;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::keyboard::Usual;

/// Signals after which the program ends although its work did not notice.
const PATIENCE: usize = 3;
/// The exit code of a process that a signal ends, as shells have it for Ctrl-C.
const EXIT_CODE_DEFAULT: u8 = 130;
/// What a person is told who presses Ctrl-C at a prompt that cannot show it.
const ONCE_MORE: &str = "\nCtrl-C once more, Ctrl-D or /quit leaves.\n> ";

/// What a signal does at present.
#[derive(Debug)]
enum Mode {
    /// It ends the program.
    End,
    /// It goes to the work under way.
    Work { to: UnboundedSender<()>, sent: usize },
    /// Ctrl-C is a key, or is meant for another program; the others end this one.
    Key,
    /// Ctrl-C leaves a prompt when it comes twice; the others end the program.
    Prompt { pressed: bool },
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Whether the program was asked to end, not only its work.
    is_ending: bool,
    /// The terminal as it was found.
    usual: Option<Usual>,
}

/// What is done before a signal ends the process, and the exit code it ends with.
type ExitAction = fn() -> u8;

static STATE: Mutex<State> = Mutex::new(State { mode: Mode::End, is_ending: false, usual: None });
/// Why the signals cannot be listened to, if so.
static LISTENING: OnceLock<Result<(), io::ErrorKind>> = OnceLock::new();

static EXIT_ACTION: OnceLock<ExitAction> = OnceLock::new();

/// Sets what is done before a signal ends the process; it returns the exit code. Only the first call counts.
pub fn set_exit_action(action: ExitAction) {
    let _ = EXIT_ACTION.set(action);
}

/// Signals do something else as long as this lives.
#[derive(Debug)]
pub struct During {
    before: Option<Mode>,
}

impl During {
    fn begin(mode: Mode) -> io::Result<Self> {
        listen()?;
        Ok(Self { before: Some(std::mem::replace(&mut STATE.lock().mode, mode)) })
    }

    /// Ctrl-C is a key like others, or belongs to a program that has the terminal.
    pub fn keys() -> io::Result<Self> {
        Self::begin(Mode::Key)
    }

    /// A line is read the way the terminal gives it.
    pub fn prompt() -> io::Result<Self> {
        Self::begin(Mode::Prompt { pressed: false })
    }
}

impl Drop for During {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            STATE.lock().mode = before;
        }
    }
}

/// The signals that come while work is under way.
#[derive(Debug)]
pub struct Signals {
    come: UnboundedReceiver<()>,
    _during: During,
}

impl Signals {
    /// Takes them as long as this lives.
    ///
    /// # Errors
    /// When they cannot be listened to.
    pub fn take() -> io::Result<Self> {
        let (to, come) = unbounded_channel();
        Ok(Self { come, _during: During::begin(Mode::Work { to, sent: 0 })? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        if self.come.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

/// Returns whether the program was asked to end, and not only what it was doing.
pub fn is_ending() -> bool {
    STATE.lock().is_ending
}

/// Says that the program ends: a person does not even wait for the work to stop.
pub fn end() {
    STATE.lock().is_ending = true;
}

/// Begins to listen, once. A thread of its own does, for at a prompt all others wait for a key.
fn listen() -> io::Result<()> {
    LISTENING.get_or_init(|| begin_listening().map_err(|error| error.kind())).map_err(io::Error::from)
}

fn begin_listening() -> io::Result<()> {
    STATE.lock().usual = Usual::found();
    let (told, ready) = std::sync::mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let listened = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .and_then(|runtime| runtime.block_on(forever(&told)));
        if let Err(error) = listened {
            // Nobody waits any more once listening has begun.
            let _ = told.send(Err(error));
        }
    })?;
    ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

async fn forever(told: &std::sync::mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // Whoever started listening waits for this.
    let _ = told.send(Ok(()));
    loop {
        tokio::select! {
            Some(()) = interrupt.recv() => take(Asked::Stop),
            Some(()) = terminate.recv() => take(Asked::End),
            Some(()) = hangup.recv() => take(Asked::End),
        }
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// That what is done be stopped.
    Stop,
    /// That the program end.
    End,
}

fn take(asked: Asked) {
    let mut state = STATE.lock();
    state.is_ending |= asked == Asked::End;
    let ends = match (&mut state.mode, asked) {
        (Mode::Work { to, sent }, _) => {
            *sent += 1;
            to.send(()).is_err() || *sent >= PATIENCE
        }
        (Mode::End, _) | (Mode::Key | Mode::Prompt { .. }, Asked::End) => true,
        (Mode::Key, Asked::Stop) => false,
        (Mode::Prompt { pressed }, Asked::Stop) => {
            let was_pressed = std::mem::replace(pressed, true);
            if !was_pressed {
                // A terminal that cannot be written to is left by the next one.
                let _ = io::Write::write_all(&mut io::stdout(), ONCE_MORE.as_bytes());
                let _ = io::Write::flush(&mut io::stdout());
            }
            was_pressed
        }
    };
    if ends {
        if let Some(usual) = &state.usual {
            usual.restore();
        }
        let code = EXIT_ACTION.get().map_or(EXIT_CODE_DEFAULT, |action| action());
        std::process::exit(i32::from(code));
    }
}
