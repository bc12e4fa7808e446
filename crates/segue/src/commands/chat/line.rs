//! Where the lines of a chat come from: an editor of several lines with history, completion and hints on a terminal,
//! plain lines from a pipe or on a terminal that can only print. What a line means is not decided here.

mod completion;
mod hint;
mod history;
pub(super) mod paste;

use std::borrow::Cow;
use std::io::{self, BufRead};
use std::sync::Arc;

use parking_lot::Mutex;
use reedline::{
    ColumnarMenu, EditCommand, Emacs, KeyCode, KeyModifiers, MenuBuilder, Prompt, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, ValidationResult, Validator,
    default_emacs_keybindings,
};
use terminal::signals::During;
use terminal::{Audience, Cursor, Style};

use self::completion::Completion;
pub(super) use self::completion::Known;
use self::hint::Hints;
use self::history::History;
use self::paste::{Pastes, Pasting, Written};
use crate::commands::Context;
use crate::exit::Failure;

/// What stands before a line.
pub(super) const PROMPT: &str = "segue> ";
/// The command that Ctrl-O stands for.
const SHOW: &str = "/show";
/// The name of the completion menu.
const MENU: &str = "completion";

/// One line of a person; it may hold newlines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// What was written, with what was pasted in full.
    Text(Written),
    /// Ctrl-C where nothing was written.
    Abandoned,
    /// Ctrl-C where something was written: it was given up.
    Cleared,
    /// There are no more.
    End,
}

/// Where lines come from.
pub(super) struct Lines {
    source: Source,
    shared: Arc<Mutex<Shared>>,
}

enum Source {
    Editor(Box<Reedline>),
    /// A terminal that can only print.
    Printing,
    Pipe,
}

/// What the parts of the editor know of each other.
#[derive(Debug, Default)]
struct Shared {
    pastes: Pastes,
    known: Known,
    /// Whether nothing was written when the line was last drawn.
    is_empty: bool,
}

impl Lines {
    /// Opens the editor where there is a terminal for it.
    pub(super) fn open(context: &Context) -> Result<Self, Failure> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let source = match (context.screen.audience, context.screen.cursor) {
            (Audience::Program, _) => Source::Pipe,
            (Audience::Person, Cursor::Fixed) => Source::Printing,
            (Audience::Person, Cursor::Free) => Source::Editor(Box::new(editor(context, &shared)?)),
        };
        Ok(Self { source, shared })
    }

    /// Says what can be completed from here on.
    pub(super) fn know(&self, known: Known) {
        self.shared.lock().known = known;
    }

    /// Puts `text` into the next line, to be changed or sent.
    pub(super) fn prefill(&mut self, text: &str) {
        match &mut self.source {
            Source::Editor(editor) if !text.is_empty() => {
                editor.run_edit_commands(&[EditCommand::InsertString(text.to_owned())]);
            }
            Source::Editor(_) | Source::Printing | Source::Pipe => {}
        }
    }

    /// Takes down that `text` was pasted into a line while something else was done.
    pub(super) fn pasted(&self, text: &str) {
        self.shared.lock().pastes.note(text);
    }

    /// Returns the text with what was pasted into it in full.
    pub(super) fn written(&self, text: &str) -> Written {
        self.shared.lock().pastes.written(text)
    }

    pub(super) fn next(&mut self) -> Result<Line, Failure> {
        let signal = match &mut self.source {
            Source::Editor(editor) => editor.read_line(&ChatPrompt).map_err(io::Error::other)?,
            Source::Printing => return printed_line(&self.shared),
            Source::Pipe => {
                let mut text = String::new();
                let count = io::stdin().lock().read_line(&mut text)?;
                let line = || self.shared.lock().pastes.written(text.trim_end_matches(['\n', '\r']));
                return Ok(if count == 0 { Line::End } else { Line::Text(line()) });
            }
        };
        let shared = self.shared.lock();
        Ok(match signal {
            Signal::Success(text) => Line::Text(shared.pastes.written(&text.replace("\\\n", "\n"))),
            Signal::HostCommand(command) => Line::Text(Written { text: command, ..Written::default() }),
            Signal::CtrlC if shared.is_empty => Line::Abandoned,
            Signal::CtrlC => Line::Cleared,
            _ => Line::End,
        })
    }
}

fn printed_line(shared: &Mutex<Shared>) -> Result<Line, Failure> {
    let mut text = String::new();
    let _prompt = During::prompt()?;
    print_prompt(PROMPT)?;
    loop {
        if io::stdin().lock().read_line(&mut text)? == 0 && text.is_empty() {
            return Ok(Line::End);
        }
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        if !text.ends_with('\\') {
            return Ok(Line::Text(shared.lock().pastes.written(&text)));
        }
        text.pop();
        text.push('\n');
        print_prompt("… ")?;
    }
}

fn print_prompt(prompt: &str) -> io::Result<()> {
    use std::io::Write;
    let mut stdout = io::stdout().lock();
    stdout.write_all(prompt.as_bytes())?;
    stdout.flush()
}

fn editor(context: &Context, shared: &Arc<Mutex<Shared>>) -> Result<Reedline, Failure> {
    let style = context.screen.style;
    let menu = Box::new(ColumnarMenu::default().with_name(MENU).with_columns(1));
    let completion = Completion::new(context.agent.workspace(), Arc::clone(shared));
    Ok(Reedline::create()
        .with_ansi_colors(style == Style::Color)
        .use_bracketed_paste(true)
        .with_history(Box::new(History::open(context.agent.home().root(), Arc::clone(shared))?))
        .with_hinter(Box::new(Hints::new(Arc::clone(shared))))
        .with_completer(Box::new(completion))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_validator(Box::new(Backslash))
        .with_menu(ReedlineMenu::EngineCompleter(menu))
        .with_edit_mode(Box::new(Pasting::new(keys(), Arc::clone(shared)))))
}

fn keys() -> Emacs {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline());
    let show = ReedlineEvent::ExecuteHostCommand(SHOW.to_owned());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), show);
    Emacs::new(keys)
}

/// A line that ends with a backslash goes on.
struct Backslash;

impl Validator for Backslash {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

struct ChatPrompt;

impl Prompt for ChatPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("segue")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("     … ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!(" (search: {}) ", search.term))
    }
}
