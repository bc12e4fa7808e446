//! A pseudo-terminal for the program: tests send keys and read the screen. They wait for a text on the
//! screen, never for a fixed time.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::sandbox::{TestSandbox, binary_path};

/// Maximum time to wait for a text before the test fails.
const DEADLINE: Duration = Duration::from_secs(120);
/// Escape sequence with which a program requests the cursor position.
const CURSOR_QUERY: &[u8] = b"\x1b[6n";
/// Lines of the screen, enough that no text a test waits for scrolls away.
const ROWS: u16 = 70;

type PtyWriter = Arc<Mutex<Box<dyn Write + Send>>>;

/// A running program and its screen.
pub struct PtyTerminal {
    child: Box<dyn Child + Send + Sync>,
    writer: PtyWriter,
    output: Arc<(Mutex<PtyOutput>, Condvar)>,
    _master: Box<dyn MasterPty + Send>,
}

struct PtyOutput {
    parser: vt100::Parser,
    /// All bytes that the program printed.
    printed: Vec<u8>,
    ended: bool,
}

impl PtyTerminal {
    /// Starts the program in a terminal of this width.
    pub fn start(sandbox: &TestSandbox, columns: u16, args: &[&str]) -> Self {
        Self::start_program(sandbox, columns, binary_path(), args)
    }

    /// Starts another program, like [`Self::start`].
    pub fn start_program(
        sandbox: &TestSandbox,
        columns: u16,
        program: impl AsRef<OsStr>,
        args: &[&str],
    ) -> Self {
        sandbox.check_drafts_without_model();
        let size = PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(sandbox.work_folder());
        command.env_clear();
        for (name, value) in sandbox.environment() {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let writer: PtyWriter = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let parser = vt100::Parser::new(cell_count(ROWS), cell_count(columns), 0);
        let output =
            Arc::new((Mutex::new(PtyOutput { parser, printed: Vec::new(), ended: false }), Condvar::new()));
        let reader = pair.master.try_clone_reader().unwrap();
        let (screen, answers) = (Arc::clone(&output), Arc::clone(&writer));
        std::thread::spawn(move || read_output(reader, &screen, &answers));
        Self { child, writer, output, _master: pair.master }
    }

    /// Sends keys to the program.
    pub fn press_keys(&self, keys: &str) {
        let mut writer = self.writer.lock().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    fn id(&self) -> Pid {
        let id = self.child.process_id().unwrap();
        Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
    }

    /// Waits until the screen contains `text`, and returns the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text))
    }

    /// Waits until `holds` is true of the screen, and returns the screen.
    #[track_caller]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        match self.wait_within(DEADLINE, holds) {
            Ok(screen) => screen,
            Err(screen) => panic!("no {what} on the screen:\n{screen}"),
        }
    }

    /// Waits up to `limit` until `holds` is true of the screen. Returns the screen, as an error if the
    /// time is up or the program has ended.
    pub fn wait_within(&self, limit: Duration, holds: impl Fn(&str) -> bool) -> Result<String, String> {
        let started = Instant::now();
        let mut shared = self.output.0.lock().unwrap();
        loop {
            let screen = shared.parser.screen().contents();
            if holds(&screen) {
                return Ok(screen);
            }
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() || shared.ended {
                return Err(screen);
            }
            shared = self.output.1.wait_timeout(shared, left).unwrap().0;
        }
    }

    /// Waits for the program to end. Returns its exit code and the last screen.
    pub fn end(mut self) -> (u32, String) {
        let code = self.child.wait().unwrap().exit_code();
        (code, self.last_screen(vt100::Screen::contents))
    }

    /// Waits for the program to end. Returns the last screen with its colours.
    pub fn end_formatted(mut self) -> String {
        self.child.wait().unwrap();
        self.last_screen(vt100::Screen::contents_formatted)
    }

    /// Waits for the program to end. Returns its exit code and all bytes that it printed, including
    /// escape sequences.
    pub fn end_printed(mut self) -> (u32, String) {
        let code = self.child.wait().unwrap().exit_code();
        self.last_screen(|_| String::new());
        let printed = &self.output.0.lock().unwrap().printed;
        (code, String::from_utf8_lossy(printed).into_owned())
    }

    fn last_screen(&self, read: impl Fn(&vt100::Screen) -> String) -> String {
        let mut shared = self.output.0.lock().unwrap();
        while !shared.ended {
            let (waited, timeout) = self.output.1.wait_timeout(shared, DEADLINE).unwrap();
            shared = waited;
            assert!(!timeout.timed_out(), "the terminal stays open");
        }
        read(shared.parser.screen())
    }

    /// Kills the program with SIGKILL, like a crash.
    pub fn kill(mut self) {
        // The child's own `kill` sends SIGHUP first, after which the program would clean up.
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Kills the program and its background processes with SIGKILL, like a crash.
    pub fn kill_all(mut self) {
        // The process group may already be empty.
        let _ = kill_process_group(self.id(), Signal::KILL);
        self.child.wait().unwrap();
    }
}

fn cell_count(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn read_output(mut reader: Box<dyn Read + Send>, shared: &(Mutex<PtyOutput>, Condvar), writer: &PtyWriter) {
    let mut bytes = [0; 4096];
    let mut tail: Vec<u8> = Vec::new();
    // On Linux, reading from a terminal whose program has ended returns an error instead of the end of
    // the file.
    while let Ok(count @ 1..) = reader.read(&mut bytes) {
        let cursor = {
            let mut shared = shared.0.lock().unwrap();
            shared.parser.process(&bytes[..count]);
            shared.printed.extend_from_slice(&bytes[..count]);
            shared.parser.screen().cursor_position()
        };
        tail.extend_from_slice(&bytes[..count]);
        while let Some(at) = tail.windows(CURSOR_QUERY.len()).position(|window| window == CURSOR_QUERY) {
            tail.drain(..at + CURSOR_QUERY.len());
            let answer = format!("\x1b[{};{}R", cursor.0 + 1, cursor.1 + 1);
            writer.lock().unwrap().write_all(answer.as_bytes()).unwrap();
        }
        tail.drain(..tail.len().saturating_sub(CURSOR_QUERY.len() - 1));
        shared.1.notify_all();
    }
    shared.0.lock().unwrap().ended = true;
    shared.1.notify_all();
}
