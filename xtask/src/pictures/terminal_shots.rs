//! The pictures of the terminal, as data: the commands to run and the part of the screen to show.

use std::num::NonZeroU16;
use std::path::Path;

use anyhow::Context;
use portable_pty::CommandBuilder;

use super::Picture;
use super::palette::Scheme;
use super::pseudo_terminal::{Terminal, TerminalSize};
use super::sandbox::{SESSION, Sandbox};
use super::screen::ScreenContent;
use super::svg;

/// The width of the terminal in columns.
const COLUMNS: NonZeroU16 = NonZeroU16::new(100).expect("100 is not 0");
/// The height of the terminal in rows. No output is longer, so nothing scrolls off the screen.
const ROWS: NonZeroU16 = NonZeroU16::new(200).expect("200 is not 0");

/// A picture of the terminal.
struct TerminalShot {
    /// The file name without scheme and extension.
    name: &'static str,
    /// The arguments of `segue` commands that run first and are not shown.
    setup: &'static [&'static [&'static str]],
    /// The arguments of the `segue` command that is shown.
    args: &'static [&'static str],
    trigger: Trigger,
}

/// The event that triggers the capture.
enum Trigger {
    /// The program has exited.
    Exit,
    /// The program has exited. The picture shows the rows above the first row that begins with this text.
    ExitRowsAbove(&'static str),
    /// The screen shows all of these texts.
    TextsShown(&'static [&'static str]),
}

/// All pictures of the terminal.
const SHOTS: [TerminalShot; 3] = [
    TerminalShot {
        name: "handoff-review",
        setup: &[],
        args: &["handoff", SESSION],
        trigger: Trigger::TextsShown(&["[a] Accept", "[D] Decline", "[Esc]", "Enter"]),
    },
    TerminalShot {
        name: "history",
        setup: &[&["import", SESSION], &["compact", "last"]],
        args: &["history", "last", "--limit", "5"],
        trigger: Trigger::Exit,
    },
    TerminalShot { name: "help", setup: &[], args: &["--help"], trigger: Trigger::ExitRowsAbove("Options:") },
];

/// Captures all pictures of the terminal.
///
/// # Errors
/// If a picture cannot be captured. The error names it.
pub fn capture_all(root: &Path, program: &Path) -> anyhow::Result<Vec<Picture>> {
    let mut pictures = Vec::new();
    for shot in &SHOTS {
        let sandbox = Sandbox::new(root, program)?;
        let screen =
            shot.capture(&sandbox).with_context(|| format!("capture the picture `{}`", shot.name))?;
        for scheme in Scheme::ALL {
            let svg = svg::render(&screen, &shot.title(), scheme.palette());
            pictures.push(Picture::new(shot.name, scheme, "svg", svg.into_bytes()));
        }
    }
    Ok(pictures)
}

impl TerminalShot {
    /// Runs the commands in the sandbox and returns the screen at the trigger.
    fn capture(&self, sandbox: &Sandbox) -> anyhow::Result<ScreenContent> {
        for args in self.setup {
            sandbox.run(args)?;
        }
        let (program, clock) = sandbox.program();
        let mut command = CommandBuilder::new(program);
        command.args(self.args);
        command.cwd(sandbox.work());
        command.env_clear();
        for (name, value) in sandbox.environment().into_iter().chain(clock) {
            command.env(name, value);
        }
        let typed = format!("segue {}", self.args.join(" "));
        let mut terminal = Terminal::start(command, &typed, TerminalSize { columns: COLUMNS, rows: ROWS })?;
        match self.trigger {
            Trigger::Exit => terminal.wait_for_exit(),
            Trigger::ExitRowsAbove(text) => {
                let screen = terminal.wait_for_exit()?;
                let shown = screen.text();
                screen
                    .rows_above(text)
                    .with_context(|| format!("no row begins with `{text}`; the screen shows:\n{shown}"))
            }
            Trigger::TextsShown(texts) => terminal.wait_for_texts(texts),
        }
    }

    /// Returns the title of the window: `segue` and the subcommand.
    fn title(&self) -> String {
        let words = self.args.iter().filter(|arg| !arg.starts_with('-')).take(1);
        std::iter::once(&"segue").chain(words).copied().collect::<Vec<_>>().join(" ")
    }
}
