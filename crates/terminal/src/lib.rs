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
mod render;
pub mod signals;
mod text;
mod run_view;

pub use ask::text_input::{ask_draft, ask_line, ask_text};
pub use ask::pick::{PickResult, pick, pick_or_type};
pub use ask::question::{KeyChoice, ask, ask_while_typing};
pub use error::{Error, Result};
pub use keyboard::{BracketedPasteGuard, NoEchoGuard};
pub use screen::{Audience, CursorMode, DrawMode, Screen, detect_columns};
pub use render::markdown::MarkdownRenderer;
pub use render::{tool_calls, carry_over, diff, coverage, search_hits, marker, summary, context_window};
pub use text::amount::{format_dollars, format_tokens};
pub use text::timestamp::format_minute;
pub use text::sanitize::{sanitize_line, reveal_unsafe, sanitize, sanitize_path};
pub use text::style::Style;
pub use text::table::{TableColumn, table};
pub use text::wrap::{pad, shorten, format_bytes, width, wrap, wrap_lines};
pub use run_view::progress::{ProgressDisplay, ProgressUnit};
pub use run_view::turn_view::{TurnTotals, TurnView};
pub use run_view::type_ahead::TypeAheadBuffer;
pub use run_view::watch::{WatchEvent, WatchControl, watch};
