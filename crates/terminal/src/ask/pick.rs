//! List pickers: the user moves to an entry of a list, or types a part of it to filter the list.
//! The terminal UI is the crate `inquire`. A picker only returns the choice; it does not act on it.

use std::cell::RefCell;
use std::io::{self, BufRead, Write};

use inquire::ui::RenderConfig;
use inquire::{InquireError, Select};

use crate::screen::{CursorMode, Screen};
use crate::text::style::Style;

/// The most items that are visible at the same time.
/// Longer lists scroll, so that the picker fits a small terminal.
const VISIBLE_ITEMS_MAX: usize = 12;

/// Asks the user to choose one of `items` and returns its index, or `None` if they leave the question with Esc or
/// Ctrl-C.
///
/// Each item must be one sanitized line that fits the screen. On a terminal whose rows cannot be redrawn, the items are
/// printed with numbers, and the user types a number. Blocks the thread until the user answers.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn pick(screen: &Screen, label: &str, items: Vec<String>) -> io::Result<Option<usize>> {
    if screen.cursor == CursorMode::Fixed {
        return select_by_number(screen, label, &items);
    }
    select_interactively(Select::new(label, items), screen)
}

/// The user's choice in a list that also accepts free text.
#[derive(Debug, PartialEq, Eq)]
pub enum PickResult {
    /// The item at this index.
    /// Counted from 0.
    Item(usize),
    /// A typed text that is not an item, without leading and trailing white space.
    Typed(String),
}

/// Asks like [`pick`], but also accepts a text that is not an item: once `is_complete` accepts the typed text, Enter
/// chooses that text instead of an item.
///
/// The last item must explain this to the user: it stays visible for every input, and it is the only visible item once
/// the typed text is complete.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn pick_or_type(
    screen: &Screen,
    label: &str,
    items: Vec<String>,
    is_complete: fn(&str) -> bool,
) -> io::Result<Option<PickResult>> {
    let last = items.len().saturating_sub(1);
    let typed = RefCell::new(String::new());
    let score = |input: &str, item: &String, text: &str, index: usize| {
        input.clone_into(&mut typed.borrow_mut());
        match (is_complete(input), index == last) {
            (true, true) => Some(0),
            (true, false) => None,
            // The last item stays visible, below the matching items.
            (false, true) => Some(i64::MIN),
            (false, false) => Select::DEFAULT_SCORER(input, item, text, index),
        }
    };
    let index = match screen.cursor {
        CursorMode::Fixed => return select_by_number_or_text(screen, label, &items, is_complete),
        CursorMode::Free => select_interactively(Select::new(label, items).with_scorer(&score), screen)?,
    };
    let typed = typed.borrow().trim().to_owned();
    Ok(index
        .map(|index| if is_complete(&typed) { PickResult::Typed(typed) } else { PickResult::Item(index) }))
}

/// Shows the list and returns the index of the chosen item, or `None` after Esc or Ctrl-C.
fn select_interactively(select: Select<'_, String>, screen: &Screen) -> io::Result<Option<usize>> {
    let render_config = match screen.style {
        Style::Color => RenderConfig::default_colored(),
        Style::Plain => RenderConfig::empty(),
    };
    let answer = select
        .with_page_size(VISIBLE_ITEMS_MAX)
        .with_render_config(render_config)
        .with_help_message("↑↓ move, type to filter, Enter chooses, Esc leaves")
        .raw_prompt();
    match answer {
        Ok(chosen) => Ok(Some(chosen.index)),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => Ok(None),
        Err(InquireError::IO(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Prints the numbered items and reads a number. Any other input chooses nothing.
fn select_by_number(screen: &Screen, label: &str, items: &[String]) -> io::Result<Option<usize>> {
    match select_by_number_or_text(screen, label, items, |_| false)? {
        Some(PickResult::Item(index)) => Ok(Some(index)),
        Some(PickResult::Typed(_)) | None => Ok(None),
    }
}

/// Prints the numbered items and reads a number, or a text that `is_complete` accepts. Any other line chooses nothing.
fn select_by_number_or_text(
    screen: &Screen,
    label: &str,
    items: &[String],
    is_complete: fn(&str) -> bool,
) -> io::Result<Option<PickResult>> {
    for (index, item) in items.iter().enumerate() {
        screen.print_line(format!("{:>3}  {item}", index + 1))?;
    }
    screen.write(&format!("{label} (number, Enter for none): "))?;
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if is_complete(line.trim()) {
        return Ok(Some(PickResult::Typed(line.trim().to_owned())));
    }
    let number = line.trim().parse::<usize>().ok();
    let index = number.and_then(|number| number.checked_sub(1)).filter(|index| *index < items.len());
    Ok(index.map(PickResult::Item))
}
