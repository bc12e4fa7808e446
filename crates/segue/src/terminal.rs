//! What a terminal is shown and how keys are read. It knows nothing of commands.

pub(crate) mod ask;
pub(crate) mod editor;
pub(crate) mod keyboard;
pub(crate) mod screen;
pub(crate) mod show;
pub(crate) mod signals;
pub(crate) mod text;
pub(crate) mod work;
