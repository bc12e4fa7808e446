//! The input of the chat. On a terminal it is a multi-line editor with history, completion and hints. On a terminal
//! that cannot move the cursor, and for a pipe, it is plain lines. The caller interprets the lines.

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
use terminal::signals::SignalModeGuard;
use terminal::{Audience, CursorMode, Style};

use self::completion::ChatCompleter;
pub(super) use self::completion::CompletionCandidates;
use self::hint::ChatHinter;
use self::history::ChatHistory;
use self::paste::{ExpandedInput, PasteBuffer, PasteEditMode};
use crate::commands::CommandContext;
use crate::exit::{CliFailure, ExitReason};

/// The prompt.
pub(super) const PROMPT: &str = "segue> ";
/// The command that Ctrl-O performs.
const SHOW_COMMAND: &str = "/show";
/// The name of the completion menu.
const COMPLETION_MENU: &str = "completion";

/// The result of reading one line. A line of the editor can contain newlines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine {
    /// The line, with pasted text in full.
    Text(ExpandedInput),
    /// Ctrl-C at an empty prompt.
    Interrupted,
    /// Ctrl-C after some input, which was discarded.
    Cleared,
    /// The end of the input.
    Eof,
}

/// The reader of the chat's lines.
pub(super) struct ChatLineReader {
    /// The source of the lines.
    source: InputSource,
    /// The state that the reader shares with the components of the editor.
    shared: Arc<Mutex<EditorState>>,
}

/// The source of lines.
enum InputSource {
    /// A terminal with a line editor.
    Editor(Box<Reedline>),
    /// A terminal that cannot move the cursor.
    PlainTerminal,
    /// A pipe or a file.
    Pipe,
}

/// The state that the components of the editor share.
#[derive(Debug, Default)]
struct EditorState {
    /// The texts that were pasted in this chat.
    pastes: PasteBuffer,
    /// The candidates for the arguments of commands.
    candidates: CompletionCandidates,
    /// The message that is offered on an empty line.
    suggestion: Option<String>,
    /// True if the line was empty when it was last drawn. The editor does not report this when it reports Ctrl-C.
    is_empty: bool,
}

impl ChatLineReader {
    /// Opens the source that fits the terminal.
    ///
    /// # Errors
    /// Fails if the file of the history cannot be opened.
    pub(super) fn open(context: &CommandContext) -> Result<Self, CliFailure> {
        let shared = Arc::new(Mutex::new(EditorState::default()));
        let source = match (context.screen.audience, context.screen.cursor) {
            (Audience::Program, _) => InputSource::Pipe,
            (Audience::Person, CursorMode::Fixed) => InputSource::PlainTerminal,
            (Audience::Person, CursorMode::Free) => {
                InputSource::Editor(Box::new(build_editor(context, &shared)?))
            }
        };
        Ok(Self { source, shared })
    }

    /// Replaces the candidates of the completion.
    pub(super) fn set_candidates(&self, candidates: CompletionCandidates) {
        self.shared.lock().candidates = candidates;
    }

    /// Puts `text` into the next line of the editor, where the user can edit and send it. Has no effect without an
    /// editor.
    pub(super) fn prefill(&mut self, text: &str) {
        match &mut self.source {
            InputSource::Editor(editor) if !text.is_empty() => {
                editor.run_edit_commands(&[EditCommand::InsertString(text.to_owned())]);
            }
            InputSource::Editor(_) | InputSource::PlainTerminal | InputSource::Pipe => {}
        }
    }

    /// Offers a message on an empty line, as a hint that a key inserts; `None` withdraws the offer. Has no effect without
    /// an editor.
    pub(super) fn suggest(&self, message: Option<String>) {
        self.shared.lock().suggestion = message;
    }

    /// Returns whether a suggestion can be inserted with a key.
    pub(super) const fn can_suggest(&self) -> bool {
        matches!(self.source, InputSource::Editor(_))
    }

    /// Records a text that was pasted while a run was shown. Files that the text mentions are not attached.
    pub(super) fn record_paste(&self, text: &str) {
        self.shared.lock().pastes.record_mentions(text);
    }

    /// Returns the text with the labels of pasted texts replaced by these texts.
    pub(super) fn expand_pastes(&self, text: &str) -> ExpandedInput {
        self.shared.lock().pastes.expand(text)
    }

    /// Reads the next line. Blocks the thread until a line is available.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub(super) fn read_line(&mut self) -> Result<InputLine, CliFailure> {
        let signal = match &mut self.source {
            InputSource::Editor(editor) => editor.read_line(&ChatPrompt).map_err(io::Error::other)?,
            InputSource::PlainTerminal => return read_plain_line(&self.shared),
            InputSource::Pipe => {
                let mut text = String::new();
                let count = io::stdin().lock().read_line(&mut text).map_err(line_failure)?;
                let line = || self.shared.lock().pastes.expand(text.trim_end_matches(['\n', '\r']));
                return Ok(if count == 0 { InputLine::Eof } else { InputLine::Text(line()) });
            }
        };
        let shared = self.shared.lock();
        Ok(match signal {
            Signal::Success(text) => InputLine::Text(shared.pastes.expand(&text.replace("\\\n", "\n"))),
            Signal::HostCommand(command) => {
                InputLine::Text(ExpandedInput { text: command, ..ExpandedInput::default() })
            }
            Signal::CtrlC if shared.is_empty => InputLine::Interrupted,
            Signal::CtrlC => InputLine::Cleared,
            _ => InputLine::Eof,
        })
    }
}

/// Returns the failure to read a line of standard input.
fn line_failure(error: io::Error) -> CliFailure {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            CliFailure::new(ExitReason::User, "read a message from standard input: it is not UTF-8 text")
                .with_hint("convert it to UTF-8, for example with `iconv`")
        }
        _ => error.into(),
    }
}

/// Reads a line from a terminal without an editor. A backslash at the end of a line continues it on the next one.
fn read_plain_line(shared: &Mutex<EditorState>) -> Result<InputLine, CliFailure> {
    let mut text = String::new();
    let _prompt = SignalModeGuard::for_prompt()?;
    print_prompt(PROMPT)?;
    loop {
        if io::stdin().lock().read_line(&mut text).map_err(line_failure)? == 0 && text.is_empty() {
            return Ok(InputLine::Eof);
        }
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        if !text.ends_with('\\') {
            return Ok(InputLine::Text(shared.lock().pastes.expand(&text)));
        }
        text.pop();
        text.push('\n');
        print_prompt("… ")?;
    }
}

/// Prints a prompt without a newline.
fn print_prompt(prompt: &str) -> io::Result<()> {
    use std::io::Write;
    let mut stdout = io::stdout().lock();
    stdout.write_all(prompt.as_bytes())?;
    stdout.flush()
}

/// Returns the editor with its history, hints, completion and keys.
fn build_editor(context: &CommandContext, shared: &Arc<Mutex<EditorState>>) -> Result<Reedline, CliFailure> {
    let style = context.screen.style;
    let menu = Box::new(ColumnarMenu::default().with_name(COMPLETION_MENU).with_columns(1));
    let completion = ChatCompleter::new(context.agent.workspace(), Arc::clone(shared));
    Ok(Reedline::create()
        .with_ansi_colors(style == Style::Color)
        .use_bracketed_paste(true)
        .with_history(Box::new(ChatHistory::open(context.agent.home().root(), Arc::clone(shared))?))
        .with_hinter(Box::new(ChatHinter::new(Arc::clone(shared))))
        .with_completer(Box::new(completion))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_validator(Box::new(BackslashValidator))
        .with_menu(ReedlineMenu::EngineCompleter(menu))
        .with_edit_mode(Box::new(PasteEditMode::new(key_bindings(), Arc::clone(shared)))))
}

/// Returns the key bindings: those of Emacs; Tab and Shift-Tab complete; Alt-Enter, Shift-Enter and Ctrl-J insert a
/// newline; Ctrl-O performs [`SHOW_COMMAND`].
fn key_bindings() -> Emacs {
    let mut keys = default_emacs_keybindings();
    let complete = vec![ReedlineEvent::Menu(COMPLETION_MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline());
    let show = ReedlineEvent::ExecuteHostCommand(SHOW_COMMAND.to_owned());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), show);
    Emacs::new(keys)
}

/// A validator that treats a line that ends with a backslash as incomplete.
struct BackslashValidator;

impl Validator for BackslashValidator {
    fn validate(&self, line: &str) -> ValidationResult {
        if line.ends_with('\\') { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

/// The prompt of the editor. It looks like [`PROMPT`].
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
