//! Text prompts: the user types a line of text, which starts empty or with a draft.
//! The line editor is `reedline`; on a terminal whose rows cannot be redrawn, lines are read from stdin.

use std::io::{self, BufRead};

use reedline::{
    DefaultPrompt, DefaultPromptSegment, EditCommand, Emacs, KeyCode, KeyModifiers, Reedline, ReedlineEvent,
    Signal, default_emacs_keybindings,
};

use crate::screen::{CursorMode, Screen};
use crate::text::sanitize::sanitize;
use crate::text::style::Style;

/// Asks for a line, and returns `None` if the user leaves the question with Esc, Ctrl-C or Ctrl-D.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn ask_line(screen: &Screen, label: &str) -> io::Result<Option<String>> {
    match screen.cursor {
        CursorMode::Fixed => read_plain_line(screen, label),
        CursorMode::Free => read_edited_line(screen, label, &mut String::new()),
    }
}

/// Asks for a text that starts as `draft`, like [`ask_text`]. If the user leaves the question, their text stays in
/// `draft`, so that the next question can start with it.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn ask_draft(screen: &Screen, label: &str, draft: &mut String) -> io::Result<Option<String>> {
    match screen.cursor {
        CursorMode::Free => read_edited_line(screen, label, draft),
        CursorMode::Fixed => ask_text(screen, label, draft),
    }
}

/// Asks for a text that starts as `text` and may have several lines; `None` if the user leaves the question. On a
/// terminal whose rows cannot be redrawn, the text is printed, and an empty line accepts it unchanged.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn ask_text(screen: &Screen, label: &str, text: &str) -> io::Result<Option<String>> {
    match (screen.cursor, text.is_empty()) {
        (CursorMode::Free, _) => read_edited_line(screen, label, &mut text.to_owned()),
        (CursorMode::Fixed, true) => read_plain_line(screen, label),
        (CursorMode::Fixed, false) => {
            screen.print_line(format!("{label}: {}", sanitize(text)))?;
            let line = read_plain_line(screen, &format!("{label}, Enter keeps it"))?;
            Ok(line.map(|line| if line.trim().is_empty() { text.to_owned() } else { line }))
        }
    }
}

/// Reads a line without a line editor, and returns it without its line break; `None` at the end of the input.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn read_plain_line(screen: &Screen, label: &str) -> io::Result<Option<String>> {
    screen.write(&format!("{label}> "))?;
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    Ok((count > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Reads a text with the line editor, which starts with `draft`. If the user leaves the question, their text stays in
/// `draft`.
fn read_edited_line(screen: &Screen, label: &str, draft: &mut String) -> io::Result<Option<String>> {
    let prompt =
        DefaultPrompt::new(DefaultPromptSegment::Basic(label.to_owned()), DefaultPromptSegment::Empty);
    let mut keys = default_emacs_keybindings();
    // A host command leaves the text in the editor, from which it is read below; the event `CtrlC` would clear it.
    let leave = || ReedlineEvent::ExecuteHostCommand(String::new());
    keys.add_binding(KeyModifiers::NONE, KeyCode::Esc, leave());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('c'), leave());
    let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline());
    let mut editor = Reedline::create()
        .with_ansi_colors(screen.style == Style::Color)
        .use_bracketed_paste(true)
        .with_edit_mode(Box::new(Emacs::new(keys)));
    if !draft.is_empty() {
        editor.run_edit_commands(&[EditCommand::InsertString(draft.clone())]);
    }
    match editor.read_line(&prompt) {
        Ok(Signal::Success(line)) => Ok(Some(line)),
        Ok(Signal::HostCommand(_)) => {
            editor.current_buffer_contents().clone_into(draft);
            screen.print_line("")?;
            Ok(None)
        }
        Ok(_) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}
