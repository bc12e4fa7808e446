//! One of a list: the person moves to it or types a part of it. What the items are is up to the caller.

use std::io::{self, BufRead, Write};

use inquire::ui::RenderConfig;
use inquire::{InquireError, Select};

use crate::terminal::screen::{Cursor, Screen};
use crate::terminal::text::style::Style;

/// Items that are shown at a time.
const ROWS: usize = 12;

/// Lets the person choose one of `items`, each one line that fits the screen; `None` when they leave it with Esc or
/// Ctrl-C. Without a free cursor, the items are numbered and a number is read.
///
/// # Errors
/// When the terminal fails.
pub(crate) fn pick(screen: &Screen, label: &str, items: Vec<String>) -> io::Result<Option<usize>> {
    if screen.cursor == Cursor::Fixed {
        return numbered(screen, label, &items);
    }
    let look = match screen.style {
        Style::Color => RenderConfig::default_colored(),
        Style::Plain => RenderConfig::empty(),
    };
    let asked = Select::new(label, items)
        .with_page_size(ROWS)
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

fn numbered(screen: &Screen, label: &str, items: &[String]) -> io::Result<Option<usize>> {
    for (at, item) in items.iter().enumerate() {
        screen.line(format!("{:>3}  {item}", at + 1))?;
    }
    screen.write(&format!("{label} (number, Enter for none): "))?;
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let number = line.trim().parse::<usize>().ok();
    Ok(number.and_then(|number| number.checked_sub(1)).filter(|at| *at < items.len()))
}
