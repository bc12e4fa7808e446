//! Terminal input and output: rendering, prompts, and the live view of running work.
//!
//! [`Screen`] describes the output: its width, its style, and whether printed rows can be redrawn. Text from models,
//! tools and files is first made safe with [`sanitize`] or [`sanitize_line`], then measured and wrapped in columns
//! ([`wrap`], [`table`]) and emphasised with [`Style`]. [`MarkdownRenderer`] renders an answer while it streams in,
//! [`TurnView`] shows a whole turn, and [`watch`] runs work until it ends or Ctrl-C stops it. Prompts are [`ask`] (one
//! key of several), [`ask_line`] (a line of text), and [`pick`] (one entry of a list).
//!
//! Deliberately absent: commands and rules. The caller decides what an answer means and what is stored.

mod ask;
pub mod editor;
mod error;
mod keyboard;
mod render;
mod run_view;
mod screen;
pub mod signals;
mod text;

pub use ask::outline_pane::{OutlineItem, OutlinePane, OutlineSection, PaneOutcome};
pub use ask::pick::{PickResult, pick, pick_or_type};
pub use ask::question::{KeyChoice, ask, ask_while_typing};
pub use ask::text_input::{ask_draft, ask_line, ask_text};
pub use error::{Error, Result};
pub use keyboard::{BracketedPasteGuard, NoEchoGuard};
pub use render::markdown::MarkdownRenderer;
pub use render::review::{continuity, outline};
pub use render::{context_window, coverage, diff, facts, marker, notes, search_hits, summary, tool_calls};
pub use run_view::progress::{ProgressDisplay, ProgressUnit};
pub use run_view::turn_view::{TurnTotals, TurnView};
pub use run_view::type_ahead::TypeAheadBuffer;
pub use run_view::watch::{WatchControl, WatchEvent, watch};
pub use screen::{Audience, CursorMode, DrawMode, Screen, detect_columns};
pub use text::amount::{format_dollars, format_tokens};
pub use text::json::write_json;
pub use text::sanitize::{reveal_unsafe, sanitize, sanitize_line, sanitize_path};
pub use text::style::Style;
pub use text::table::{TableColumn, table};
pub use text::timestamp::format_minute;
pub use text::wrap::{format_bytes, pad, shorten, width, wrap, wrap_lines};
