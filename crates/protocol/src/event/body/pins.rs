//! Bodies of events about pins, which are defined beside [`crate::memory`].

pub use crate::memory::pins::{PinChange, PinsChanged};
