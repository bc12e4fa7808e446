//! What a terminal is shown and how keys are read. It knows nothing of commands.

pub(crate) mod editor;
pub(crate) mod markdown;
pub(crate) mod progress;
pub(crate) mod question;
pub(crate) mod safe;
pub(crate) mod screen;
pub(crate) mod stream;
pub(crate) mod style;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod watch;
pub(crate) mod wrap;
