//! One of a list: the person moves to it or types a part of it. What the items are is up to the caller.

use std::cell::RefCell;
use std::io::{self, BufRead, Write};

use inquire::ui::RenderConfig;
use inquire::{InquireError, Select};

use crate::screen::{CursorMode, Screen};
use crate::text::style::Style;

/// Items that are shown at a time.
const VISIBLE_ITEMS_MAX: usize = 12;

/// Lets the person choose one of `items`, each one line that fits the screen; `None` when they leave it with Esc or
/// Ctrl-C. Without a free cursor, the items are numbered and a number is read.
pub fn pick(screen: &Screen, label: &str, items: Vec<String>) -> io::Result<Option<usize>> {
    if screen.cursor == CursorMode::Fixed {
        return select_by_number(screen, label, &items);
    }
    select_interactively(Select::new(label, items), screen)
}

/// The choice of a person in a list that also accepts free text.
#[derive(Debug, PartialEq, Eq)]
pub enum PickResult {
    /// The item at this index.
    Item(usize),
    /// The text that is no item.
    Typed(String),
}

/// Lets the person choose as [`pick`] does, or type what is no item: as soon as what they type `is_whole`, Enter takes it.
/// The last item stands for that.
pub fn pick_or_type(
    screen: &Screen,
    label: &str,
    items: Vec<String>,
    is_whole: fn(&str) -> bool,
) -> io::Result<Option<PickResult>> {
    let last = items.len().saturating_sub(1);
    let typed = RefCell::new(String::new());
    let score = |input: &str, item: &String, text: &str, at: usize| {
        input.clone_into(&mut typed.borrow_mut());
        match (is_whole(input), at == last) {
            (true, true) => Some(0),
            (true, false) => None,
            // It stays there, below what is found.
            (false, true) => Some(i64::MIN),
            (false, false) => Select::DEFAULT_SCORER(input, item, text, at),
        }
    };
    let at = match screen.cursor {
        CursorMode::Fixed => return select_by_number_or_text(screen, label, &items, is_whole),
        CursorMode::Free => select_interactively(Select::new(label, items).with_scorer(&score), screen)?,
    };
    let typed = typed.borrow().trim().to_owned();
    Ok(at.map(|at| if is_whole(&typed) { PickResult::Typed(typed) } else { PickResult::Item(at) }))
}

fn select_interactively(select: Select<'_, String>, screen: &Screen) -> io::Result<Option<usize>> {
    let look = match screen.style {
        Style::Color => RenderConfig::default_colored(),
        Style::Plain => RenderConfig::empty(),
    };
    let asked = select
        .with_page_size(VISIBLE_ITEMS_MAX)
        .with_render_config(look)
        .with_help_message("↑↓ move, type to filter, Enter chooses, Esc leaves")
        .raw_prompt();
    match asked {
        Ok(chosen) => Ok(Some(chosen.index)),
        Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => Ok(None),
        Err(InquireError::IO(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn select_by_number(screen: &Screen, label: &str, items: &[String]) -> io::Result<Option<usize>> {
    match select_by_number_or_text(screen, label, items, |_| false)? {
        Some(PickResult::Item(at)) => Ok(Some(at)),
        Some(PickResult::Typed(_)) | None => Ok(None),
    }
}

fn select_by_number_or_text(
    screen: &Screen,
    label: &str,
    items: &[String],
    is_whole: fn(&str) -> bool,
) -> io::Result<Option<PickResult>> {
    for (at, item) in items.iter().enumerate() {
        screen.print_line(format!("{:>3}  {item}", at + 1))?;
    }
    screen.write(&format!("{label} (number, Enter for none): "))?;
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    if is_whole(line.trim()) {
        return Ok(Some(PickResult::Typed(line.trim().to_owned())));
    }
    let number = line.trim().parse::<usize>().ok();
    let at = number.and_then(|number| number.checked_sub(1)).filter(|at| *at < items.len());
    Ok(at.map(PickResult::Item))
}
