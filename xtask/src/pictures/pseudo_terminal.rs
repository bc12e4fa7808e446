//! A program in a pseudo-terminal and the screen it draws. Callers wait for texts on the screen or for the program's
//! exit, never for a fixed time.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::screen::ScreenContent;

/// Maximum wait for a text or for the exit of the program.
const DEADLINE: Duration = Duration::from_secs(60);
/// A screen is complete if the program has written nothing for this long.
const QUIET: Duration = Duration::from_millis(300);
/// Size of the read buffer, in bytes.
const READ_BUFFER_BYTES: usize = 4096;

/// A running program and its terminal. Dropping it kills the program.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    /// Chunks of the program's output, from the reading thread.
    output: Receiver<Vec<u8>>,
    input: Box<dyn Write + Send>,
    /// The terminal emulator. It holds the screen.
    parser: vt100::Parser<CursorQueries>,
    /// The terminal closes when the master is dropped.
    _master: Box<dyn MasterPty + Send>,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct TerminalSize {
    /// The number of columns.
    pub columns: NonZeroU16,
    /// The number of rows.
    pub rows: NonZeroU16,
}

/// Counts requests for the cursor position (DSR 6), which a terminal has to answer.
#[derive(Debug, Default)]
struct CursorQueries {
    unanswered: usize,
}

impl vt100::Callbacks for CursorQueries {
    fn unhandled_csi(
        &mut self,
        _: &mut vt100::Screen,
        _: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        end: char,
    ) {
        if end == 'n' && params == [[6]] {
            self.unanswered += 1;
        }
    }
}

impl Terminal {
    /// Starts a program in a new terminal, below a shell prompt that shows the command as `typed`.
    ///
    /// # Errors
    /// If a pseudo-terminal cannot be opened or the program cannot be started.
    pub fn start(command: CommandBuilder, typed: &str, size: TerminalSize) -> anyhow::Result<Self> {
        let TerminalSize { columns, rows } = size;
        let pty_size = PtySize { rows: rows.get(), cols: columns.get(), pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(pty_size).context("open a pseudo-terminal")?;
        let mut parser = vt100::Parser::new_with_callbacks(rows, columns, 0, CursorQueries::default());
        parser.process(format!("\x1b[32m$\x1b[0m \x1b[1m{typed}\x1b[0m\r\n").as_bytes());
        let child = pair.slave.spawn_command(command).with_context(|| format!("start `{typed}`"))?;
        drop(pair.slave);
        let (sender, output) = channel();
        let mut reader = pair.master.try_clone_reader().context("read from the pseudo-terminal")?;
        thread::spawn(move || {
            let mut bytes = [0; READ_BUFFER_BYTES];
            // After the program has exited, reading fails instead of returning 0 bytes.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let input = pair.master.take_writer().context("write to the pseudo-terminal")?;
        Ok(Self { child, output, input, parser, _master: pair.master })
    }

    /// Waits until the screen shows all of `texts` and is complete. Returns the screen.
    ///
    /// # Errors
    /// If a text does not appear. The error names it and contains the screen.
    pub fn wait_for_texts(&mut self, texts: &[&str]) -> anyhow::Result<ScreenContent> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let shown = self.parser.screen().contents();
            let missing = texts.iter().find(|text| !shown.contains(**text));
            let wait =
                if missing.is_some() { deadline.saturating_duration_since(Instant::now()) } else { QUIET };
            match (self.output.recv_timeout(wait), missing) {
                (Ok(bytes), _) => self.process_output(&bytes)?,
                (Err(_), None) => return Ok(ScreenContent::from_terminal(self.parser.screen())),
                (Err(RecvTimeoutError::Timeout), Some(text)) => {
                    bail!("`{text}` is not on the screen after {DEADLINE:?}; the screen shows:\n{shown}")
                }
                (Err(RecvTimeoutError::Disconnected), Some(text)) => {
                    bail!("the program exited, and `{text}` is not on the screen; the screen shows:\n{shown}")
                }
            }
        }
    }

    /// Waits until the program has exited. Returns the final screen.
    ///
    /// # Errors
    /// If the program does not exit, or exits with a failure. The error contains the screen.
    pub fn wait_for_exit(mut self) -> anyhow::Result<ScreenContent> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.process_output(&bytes)?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    bail!(
                        "the program has not exited after {DEADLINE:?}; the screen shows:\n{}",
                        self.parser.screen().contents()
                    )
                }
            }
        }
        let status = self.child.wait().context("wait for the program")?;
        let screen = ScreenContent::from_terminal(self.parser.screen()).without_cursor();
        if !status.success() {
            bail!("the program exited with {status}; the screen shows:\n{}", screen.text());
        }
        Ok(screen)
    }

    /// Draws output of the program and answers its requests for the cursor position.
    fn process_output(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.parser.process(bytes);
        let unanswered = std::mem::take(&mut self.parser.callbacks_mut().unanswered);
        for _ in 0..unanswered {
            let (row, column) = self.parser.screen().cursor_position();
            write!(self.input, "\x1b[{};{}R", row + 1, column + 1).context("answer the program")?;
        }
        self.input.flush().context("answer the program")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail if the program has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Terminal {
        let cells = |count| NonZeroU16::new(count).unwrap();
        let mut command = CommandBuilder::new("sh");
        command.args(["-c", script]);
        Terminal::start(command, "script", TerminalSize { columns: cells(40), rows: cells(6) }).unwrap()
    }

    #[test]
    fn a_screen_shows_the_prompt_and_the_output() {
        let screen = start("printf 'one\\ntwo'").wait_for_exit().unwrap();
        assert_eq!((screen.text().as_str(), screen.cursor), ("$ script\none\ntwo", None));
    }

    #[test]
    fn a_program_that_waits_is_shown_with_its_cursor() {
        let screen = start("printf 'Ready? '; read answer").wait_for_texts(&["Ready?"]).unwrap();
        assert_eq!(screen.text(), "$ script\nReady?");
        assert_eq!(screen.cursor.map(|cursor| (cursor.row, cursor.column)), Some((1, 7)));
    }

    #[test]
    fn a_program_receives_its_cursor_position() {
        let script = r"stty raw -echo; printf '\033[6n'; dd bs=6 count=1 2>/dev/null | tr '\033' E";
        assert_eq!(start(script).wait_for_exit().unwrap().text(), "$ script\nE[2;1R");
    }

    #[test]
    fn a_failure_contains_the_screen() {
        let error = start("echo away; exit 3").wait_for_exit().unwrap_err().to_string();
        assert!(error.starts_with("the program exited with") && error.ends_with("$ script\naway"), "{error}");
        let error = start("echo away").wait_for_texts(&["here"]).unwrap_err().to_string();
        assert!(error.starts_with("the program exited, and `here` is not on the screen"), "{error}");
    }
}
