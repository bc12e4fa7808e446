//! The terminal: what a person is shown there, and how their keys and answers are read.
//!
//! [`Screen`] says how lines are laid out, and whether rows can be drawn over. Text that comes from models, tools and files goes through
//! [`safe`] or [`one_line`] first, is measured and wrapped in columns ([`wrap`], [`table`]), and is emphasised by [`Style`]. [`Markdown`]
//! renders an answer while it streams in, [`Stream`] a whole turn, and [`watch`] runs work until it ends or Ctrl-C stops it. Questions
//! are [`ask`] (one key of several), [`ask_line`], and [`pick`] (one entry of a list).
//!
//! Deliberately absent: commands, and rules. What an answer means, and what is stored, is decided by the caller.

mod ask;
pub mod editor;
mod error;
mod keyboard;
mod screen;
mod show;
pub mod signals;
mod text;
mod work;

pub use ask::line::{ask_draft, ask_line, ask_text};
pub use ask::pick::{Picked, pick, pick_or_type};
pub use ask::question::{Choice, ask, ask_amid};
pub use error::{Error, Result};
pub use keyboard::{Bracketed, Quiet};
pub use screen::{Audience, Cursor, Drawing, Screen, columns};
pub use show::markdown::Markdown;
pub use show::{calls, carry, diff, facts, found, marker, summary, window};
pub use text::amount::{dollars, tokens};
pub use text::moment::minute;
pub use text::safe::{one_line, revealed, safe, shown_path};
pub use text::style::Style;
pub use text::table::{Column, table};
pub use text::wrap::{pad, shorten, size, width, wrap, wrap_lines};
pub use work::progress::{Progress, Unit};
pub use work::stream::{Spent, Stream};
pub use work::typed::Typed;
pub use work::watch::{Seen, Then, watch};
