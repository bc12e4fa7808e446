//! Stream modes: their names, and the set of modes that a client requested. Their payloads are in
//! [`crate::modes::payload`].

use std::fmt;

/// A stream mode: a kind of events that a client can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamMode {
    /// The start and the end of the run, and its failure. Every client receives these events.
    Always,
    /// `values`: the complete state after each change.
    Values,
    /// `updates`: the changes of each step.
    Updates,
    /// `messages-tuple`: the model's messages as chunks, each with metadata.
    MessagesTuple,
    /// `messages`: the model's messages, each event with the complete text so far.
    Messages,
    /// `custom`: events of tools, hooks and steps.
    Custom,
    /// `tasks`: the start and the end of each step.
    Tasks,
    /// `checkpoints`: each checkpoint that a step wrote.
    Checkpoints,
    /// `debug`: the events of `tasks` and `checkpoints`, each in an envelope.
    Debug,
}

/// The name of each mode on the wire.
const MODE_NAMES: [(&str, StreamMode); 8] = [
    ("values", StreamMode::Values),
    ("updates", StreamMode::Updates),
    ("messages-tuple", StreamMode::MessagesTuple),
    ("messages", StreamMode::Messages),
    ("custom", StreamMode::Custom),
    ("tasks", StreamMode::Tasks),
    ("checkpoints", StreamMode::Checkpoints),
    ("debug", StreamMode::Debug),
];

/// Names of modes that newer clients request. They are accepted, and no events are sent for them.
const IGNORED_MODES: [&str; 3] = ["tools", "events", "lifecycle"];

/// A set of stream modes, as a bit set indexed by the discriminants of [`StreamMode`]. It always contains `Always`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamModes(u16);

/// The error for a request in which no mode is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownModes {
    /// The requested names, separated for quoting in backticks.
    names: String,
}

impl StreamModes {
    /// The set with only the events that every client receives.
    pub(crate) const NONE: Self = Self(1 << StreamMode::Always as u16);

    /// Returns the set with the modes of these names; no names mean `values`. Unknown names are ignored if at least
    /// one name is known, so that a client can be newer than this server.
    ///
    /// # Errors
    /// [`UnknownModes`] if there are names and none is known.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownModes> {
        let (mut modes, mut is_any_known, mut requested) = (Self::NONE, false, Vec::new());
        for name in names {
            let mode = MODE_NAMES.iter().find(|(known, _)| *known == name);
            is_any_known |= mode.is_some() || IGNORED_MODES.contains(&name);
            if let Some((_, mode)) = mode {
                modes = modes.with(*mode);
            }
            requested.push(name);
        }
        match (requested.is_empty(), is_any_known) {
            (true, _) => Ok(Self::NONE.with(StreamMode::Values)),
            (false, true) => Ok(modes),
            (false, false) => Err(UnknownModes { names: requested.join("`, `") }),
        }
    }

    /// Returns the set with one more mode.
    #[must_use]
    pub(crate) const fn with(self, mode: StreamMode) -> Self {
        Self(self.0 | 1 << mode as u16)
    }

    /// Returns whether the mode is in the set.
    pub(crate) const fn has(self, mode: StreamMode) -> bool {
        self.0 & 1 << mode as u16 != 0
    }

    /// Returns whether any of the modes is in the set.
    pub(crate) fn has_any(self, modes: &[StreamMode]) -> bool {
        modes.iter().any(|mode| self.has(*mode))
    }
}

impl fmt::Display for UnknownModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = MODE_NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "Invalid stream_mode `{}`: known modes are {}", self.names, known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i8_s22_8_unknown_modes_are_ignored_if_one_mode_is_known() {
        let parse = |names: &[&str]| StreamModes::from_names(names.iter().copied());
        assert_eq!(parse(&[]), Ok(StreamModes::NONE.with(StreamMode::Values)));
        assert_eq!(parse(&["values", "tools"]), parse(&["values"]));
        assert_eq!(parse(&["updates", "from-the-future"]), parse(&["updates"]));
        assert_eq!(parse(&["tools"]), Ok(StreamModes::NONE));
        let error = parse(&["nope", "neither"]).unwrap_err().to_string();
        for expected in ["nope", "neither", "values", "messages-tuple", "debug"] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn the_set_contains_only_the_requested_modes() {
        let modes = StreamModes::from_names(["updates", "messages-tuple"]).unwrap();
        assert!(
            modes.has(StreamMode::Always)
                && modes.has(StreamMode::Updates)
                && modes.has(StreamMode::MessagesTuple)
        );
        assert!(!modes.has_any(&[
            StreamMode::Values,
            StreamMode::Messages,
            StreamMode::Custom,
            StreamMode::Tasks,
            StreamMode::Debug
        ]));
    }
}
