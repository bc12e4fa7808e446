//! Where the lines of a chat come from: a line editor with a history on a terminal, plain lines from a pipe.

use std::fs::OpenOptions;
use std::io::{self, BufRead};
use std::path::Path;

use reedline::{
    ColumnarMenu, Completer, CompletionResult, DefaultPrompt, DefaultPromptSegment, Emacs, FileBackedHistory,
    KeyCode, KeyModifiers, MenuBuilder, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion,
    default_emacs_keybindings,
};

use crate::commands::Context;
use crate::commands::chat::slash::COMMANDS;
use crate::exit::{Code, Failure};
use crate::terminal::screen::Audience;
use crate::terminal::style::Style;

/// Lines of the history that are kept.
const HISTORY_LINES_MAX: usize = 1_000;
/// The history's file in the home folder.
const HISTORY_FILE: &str = "chat_history.txt";
/// The name of the completion menu.
const MENU: &str = "commands";

/// One line of a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// What was written.
    Text(String),
    /// Ctrl-C: the line was given up.
    Abandoned,
    /// There are no more.
    End,
}

/// Where lines come from.
pub(super) enum Lines {
    /// A terminal.
    Editor(Box<Reedline>, DefaultPrompt),
    /// A pipe or a file.
    Plain,
}

impl Lines {
    /// Opens the line editor where there is a terminal.
    pub(super) fn open(context: &Context) -> Result<Self, Failure> {
        if context.screen.audience == Audience::Program {
            return Ok(Self::Plain);
        }
        let path = context.agent.home().root().join(HISTORY_FILE);
        create_private(&path)?;
        let history = FileBackedHistory::with_file(HISTORY_LINES_MAX, path.clone())
            .map_err(|error| Failure::new(Code::Store, format!("read {}: {error}", path.display())))?;
        let mut keys = default_emacs_keybindings();
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        let menu = Box::new(ColumnarMenu::default().with_name(MENU).with_columns(1));
        let editor = Reedline::create()
            .with_ansi_colors(context.screen.style == Style::Color)
            .use_bracketed_paste(true)
            .with_history(Box::new(history))
            .with_completer(Box::new(Commands))
            .with_quick_completions(true)
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_edit_mode(Box::new(Emacs::new(keys)));
        let prompt =
            DefaultPrompt::new(DefaultPromptSegment::Basic("segue".to_owned()), DefaultPromptSegment::Empty);
        Ok(Self::Editor(Box::new(editor), prompt))
    }

    /// Returns the next line.
    pub(super) fn next(&mut self) -> Result<Line, Failure> {
        match self {
            Self::Editor(editor, prompt) => match editor.read_line(prompt) {
                Ok(Signal::Success(text)) => Ok(Line::Text(text)),
                Ok(Signal::CtrlC) => Ok(Line::Abandoned),
                Ok(_) => Ok(Line::End),
                Err(error) => Err(io::Error::other(error).into()),
            },
            Self::Plain => {
                let mut text = String::new();
                match io::stdin().lock().read_line(&mut text)? {
                    0 => Ok(Line::End),
                    _ => Ok(Line::Text(text.trim_end_matches(['\n', '\r']).to_owned())),
                }
            }
        }
    }
}

/// What a person wrote is theirs alone to read.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Completes the names of commands.
struct Commands;

impl Completer for Commands {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        let suggestions: Vec<Suggestion> = COMMANDS
            .iter()
            .filter(|command| typed.starts_with('/') && command.name.starts_with(&typed[1..]))
            .map(|command| Suggestion {
                value: format!("/{}", command.name),
                description: Some(command.about.to_owned()),
                span: Span::new(0, position),
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}
