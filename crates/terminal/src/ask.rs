//! Prompts for user input: one key of several, a line of text, or one entry of a list. The caller decides what an
//! answer means.

pub mod pick;
pub mod question;
pub mod text_input;
