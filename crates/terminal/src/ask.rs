//! Questions: a key out of several, a line of text, one of a list. What the answers mean is up to the caller.

pub mod text_input;
pub mod pick;
pub mod question;
