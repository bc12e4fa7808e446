//! The terminal modes between prompts: keys are not echoed, stay unread until the next prompt, and Enter stays a
//! carriage return. The line editor and the questions set modes of their own on top of these. This file reads no keys.

use std::io::{self, IsTerminal, Write};

use rustix::stdio::stdin;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::ask::outline_pane;
use crate::screen::{CursorMode, Screen};
use crate::signals::SignalModeGuard;
use crate::text::style::is_dumb_terminal;

/// A guard that makes the terminal neither echo typed keys nor deliver them by line, so that they stay unread for the
/// next prompt while the program works.
///
/// In the terminal's default modes, keys would be echoed into the answer, an Enter would reach the line editor as a
/// newline, and Ctrl-C would discard the keys before it.
#[derive(Debug)]
pub struct NoEchoGuard {
    /// The modes to restore when the guard is dropped.
    saved_modes: Termios,
}

impl NoEchoGuard {
    /// Sets the modes; they are restored when the guard is dropped. Returns `None` if rows cannot be redrawn, because then the
    /// program cannot show typed keys itself.
    ///
    /// # Errors
    /// Fails if the modes cannot be read or set.
    pub fn enable(screen: &Screen) -> io::Result<Option<Self>> {
        if screen.cursor == CursorMode::Fixed {
            return Ok(None);
        }
        let saved_modes = tcgetattr(stdin())?;
        let mut modes = saved_modes.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        modes.local_modes.insert(LocalModes::NOFLSH);
        modes.input_modes.remove(InputModes::ICRNL);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        Ok(Some(Self { saved_modes }))
    }
}

impl Drop for NoEchoGuard {
    fn drop(&mut self) {
        // A terminal that was closed cannot be restored.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.saved_modes);
    }
}

/// A guard that makes the terminal mark pasted text (bracketed paste).
#[derive(Debug)]
pub struct BracketedPasteGuard;

impl BracketedPasteGuard {
    /// Enables bracketed paste; it is disabled when the guard is dropped. Returns `None` if the terminal cannot be controlled.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn enable(screen: &Screen) -> io::Result<Option<Self>> {
        if screen.cursor == CursorMode::Fixed {
            return Ok(None);
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(b"\x1b[?2004h")?;
        stdout.flush()?;
        Ok(Some(Self))
    }
}

impl Drop for BracketedPasteGuard {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        // A terminal that was closed cannot be restored.
        let _ = stdout.write_all(b"\x1b[?2004l").and_then(|()| stdout.flush());
    }
}

/// The modes of the terminal at the start of the program. They are restored if the program exits without dropping its guards.
#[derive(Debug)]
pub struct SavedTerminalModes {
    /// The modes as the operating system reports them.
    modes: Termios,
}

impl SavedTerminalModes {
    /// Returns the current modes; `None` if stdin is not a terminal.
    pub fn capture() -> Option<Self> {
        tcgetattr(stdin()).ok().map(|modes| Self { modes })
    }

    /// Restores the modes, disables bracketed paste, closes a pane and shows the cursor, because the line editor may have changed these.
    pub fn restore(&self) {
        let mut stdout = io::stdout();
        // A terminal that was closed cannot be restored.
        if stdout.is_terminal() && !is_dumb_terminal() {
            let leave = outline_pane::leave_sequence();
            let _ = write!(stdout, "{leave}\u{1b}[?2004l\u{1b}[?25h\r\n").and_then(|()| stdout.flush());
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.modes);
    }
}

/// Runs `work`, which starts another program, with the terminal in the modes that programs expect (cooked mode). The current
/// modes are restored afterwards.
pub fn run_in_cooked_mode<T>(work: impl FnOnce() -> T) -> T {
    let saved_modes = tcgetattr(stdin()).ok();
    if let Some(saved_modes) = &saved_modes {
        let mut cooked = saved_modes.clone();
        cooked.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        cooked.input_modes.insert(InputModes::ICRNL);
        cooked.output_modes.insert(OutputModes::OPOST);
        cooked.special_codes[SpecialCodeIndex::VMIN] = 1;
        // If the modes cannot be set, the other program sets what it needs.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &cooked);
    }
    // Ctrl-C is meant for the other program. If the listener cannot be started, it ends both programs.
    let _key_input = SignalModeGuard::for_key_input().ok();
    let result = work();
    if let Some(saved_modes) = saved_modes {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &saved_modes);
    }
    result
}
