//! Errors of pins, with hints for the user. Errors are not handled here.

use protocol::Seq;

use super::{PIN_CHARS_MAX, PINS_CHARS_MAX, PINS_MAX};

/// A text could not be pinned, or a pin could not be removed. The pins are unchanged.
///
/// The messages read on after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The text is empty or white space.
    #[error("pin a text: it is empty")]
    Blank,
    /// The text is longer than [`PIN_CHARS_MAX`].
    #[error("pin a text of {chars} characters: a pin has at most {PIN_CHARS_MAX}")]
    TooLong {
        /// The length of the text in grapheme clusters.
        chars: usize,
    },
    /// The thread has [`PINS_MAX`] pins or more.
    #[error("pin another text: the thread has {pins} pins, and {PINS_MAX} is the maximum")]
    TooMany {
        /// The number of pins.
        pins: usize,
    },
    /// All texts together would be longer than [`PINS_CHARS_MAX`].
    #[error(
        "pin a text of {chars} characters: the pins of a thread have at most {PINS_CHARS_MAX} together, and {used} \
         are in use"
    )]
    NoRoom {
        /// The length of the pinned texts in grapheme clusters.
        used: usize,
        /// The length of the text in grapheme clusters.
        chars: usize,
    },
    /// The thread has no visible message at this seq.
    #[error("pin message #{seq}: the thread has no such message")]
    NoMessage {
        /// The seq.
        seq: Seq,
    },
    /// The message is the result of a tool call.
    #[error("pin message #{seq}: it is the result of a tool")]
    ToolMessage {
        /// The seq.
        seq: Seq,
    },
    /// The message consists of tool calls or media only.
    #[error("pin message #{seq}: it has no text")]
    NoText {
        /// The seq.
        seq: Seq,
    },
    /// The thread has no pin with this number.
    #[error("unpin {number}: the thread has no such pin")]
    Unknown {
        /// The given number.
        number: u64,
        /// The numbers of the thread's pins.
        pins: Vec<u64>,
    },
    /// The pins of the thread were changed by others at the same time, again and again.
    #[error("change the pins: others change them too")]
    Contended,
    /// The journal failed.
    #[error("read or change the pins")]
    Journal(#[from] journal::Error),
    /// A pin has no JSON form.
    #[error("write a pin as JSON")]
    Json(#[from] serde_json::Error),
}

impl PinError {
    /// Returns what the user can do about the error, as a clause without a period.
    pub fn hint(&self) -> String {
        match self {
            Self::Blank => "write the text to pin, or the number of a message as `#12`".to_owned(),
            Self::TooLong { .. } => "pin the sentences that matter as a text".to_owned(),
            Self::TooMany { .. } | Self::NoRoom { .. } => "unpin what is no longer needed".to_owned(),
            Self::NoMessage { .. } => {
                "`segue history THREAD`, or `/history` in a chat, shows the number of each message".to_owned()
            }
            Self::ToolMessage { .. } => {
                "pin a message of yours or of the agent, or pin the lines that matter as a text".to_owned()
            }
            Self::NoText { .. } => "pin a message with a text".to_owned(),
            Self::Unknown { pins, .. } if pins.is_empty() => "the thread has no pins".to_owned(),
            Self::Unknown { pins, .. } => {
                let numbers: Vec<String> = pins.iter().map(ToString::to_string).collect();
                format!("its pins are {}", numbers.join(", "))
            }
            Self::Contended | Self::Journal(_) | Self::Json(_) => "try again".to_owned(),
        }
    }
}
