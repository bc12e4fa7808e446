//! The keyboard while nobody asks for a line: keys are not shown, wait until they are read, and Enter is Enter. The
//! line editor and the questions set a mode of their own on top of this one. It reads no keys itself.

use std::io::{self, IsTerminal, Write};

use rustix::stdio::stdin;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use crate::screen::{CursorMode, Screen};
use crate::signals::SignalModeGuard;
use crate::text::style::is_dumb_terminal;

/// Keys typed while the program works are kept for the next prompt as long as this lives.
///
/// Left to the terminal, they would be echoed into the answer, an Enter among them would reach the editor as a
/// newline, and Ctrl-C would throw away what was typed before it.
#[derive(Debug)]
pub struct NoEchoGuard {
    saved_modes: Termios,
}

impl NoEchoGuard {
    /// Sets the mode; `None` where the program cannot draw over what it shows, and so shows no typed keys itself.
    ///
    /// # Errors
    /// When the terminal cannot be asked or set.
    pub fn enable(screen: &Screen) -> io::Result<Option<Self>> {
        if screen.cursor == CursorMode::Fixed {
            return Ok(None);
        }
        let before = tcgetattr(stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        quiet.local_modes.insert(LocalModes::NOFLSH);
        quiet.input_modes.remove(InputModes::ICRNL);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &quiet)?;
        Ok(Some(Self { saved_modes: before }))
    }
}

impl Drop for NoEchoGuard {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that went away.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.saved_modes);
    }
}

/// The terminal tells a paste from typed keys as long as this lives.
#[derive(Debug)]
pub struct BracketedPasteGuard;

impl BracketedPasteGuard {
    /// Asks the terminal for it; `None` where the program cannot steer it.
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
        // Nothing can be done about a terminal that went away.
        let _ = stdout.write_all(b"\x1b[?2004l").and_then(|()| stdout.flush());
    }
}

/// The terminal as the program found it, to be put back where it ends without coming to its end.
#[derive(Debug)]
pub struct SavedTerminalModes {
    modes: Termios,
}

impl SavedTerminalModes {
    /// Returns the modes of the terminal; `None` where there is none.
    pub fn capture() -> Option<Self> {
        tcgetattr(stdin()).ok().map(|modes| Self { modes })
    }

    /// Puts the terminal back, with what the line editor may have switched on.
    pub fn restore(&self) {
        let mut stdout = io::stdout();
        // Nothing can be done about a terminal that went away.
        if stdout.is_terminal() && !is_dumb_terminal() {
            let _ = stdout.write_all(b"\x1b[?2004l\x1b[?25h\r\n").and_then(|()| stdout.flush());
        }
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.modes);
    }
}

/// Runs `work`, which is another program, with the terminal as programs expect to find it.
pub fn run_in_cooked_mode<T>(work: impl FnOnce() -> T) -> T {
    let before = tcgetattr(stdin()).ok();
    if let Some(before) = &before {
        let mut usual = before.clone();
        usual.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        usual.input_modes.insert(InputModes::ICRNL);
        usual.output_modes.insert(OutputModes::OPOST);
        usual.special_codes[SpecialCodeIndex::VMIN] = 1;
        // Without a terminal there is nothing to lend.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &usual);
    }
    // Ctrl-C is meant for the other program; where signals cannot be listened to it ends both.
    let _keys = SignalModeGuard::for_key_input().ok();
    let done = work();
    if let Some(before) = before {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
    done
}
