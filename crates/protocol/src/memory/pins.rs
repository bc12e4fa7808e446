//! Pins: texts that every model request of a thread contains word for word, whatever leaves the context. The `memory`
//! crate decides what can be pinned and how pins are rendered.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::event::Seq;
use crate::ids::HandoffId;
use crate::memory::MessageRole;

/// A pinned text: a text of the user, or a quoted message of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The number of the pin in its thread, from 1. The number of a removed pin is not given to another one.
    pub number: u64,
    /// The text, in which secrets are redacted.
    pub text: String,
    /// The author of the text.
    pub author: MessageRole,
    /// The event of the message that the pin quotes. `None` for a text that the user wrote for the pin, and for a pin
    /// that was handed over from another thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_seq: Option<Seq>,
    /// Time at which the text was pinned.
    pub pinned_at: Timestamp,
}

/// The content of a `pins_changed` event. The newest such event of a thread holds all of its pins, so that reading the
/// pins costs the same however long the thread is and however often its pins changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinsChanged {
    /// The change.
    pub change: PinChange,
    /// All pins of the thread after the change, in the order of their numbers.
    pub pins: Vec<Pin>,
    /// The number of the next pin.
    pub next_number: u64,
}

/// A change of the pins of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PinChange {
    /// A pin was added.
    Added {
        /// The number of the pin.
        number: u64,
    },
    /// A pin was removed.
    Removed {
        /// The pin, which is no longer among the pins of the thread.
        pin: Pin,
    },
    /// The thread received the pins of an accepted handoff.
    HandedOver {
        /// The handoff.
        handoff_id: HandoffId,
    },
    /// A change that only a later version knows.
    #[serde(other)]
    Other,
}
