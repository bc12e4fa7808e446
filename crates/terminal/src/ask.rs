//! Prompts for user input: one key of several, a line of text, or one entry of a list; and a pane that shows a text. The caller decides what an
//! answer means.

pub mod outline_pane;
pub mod pick;
pub mod question;
pub mod text_input;
