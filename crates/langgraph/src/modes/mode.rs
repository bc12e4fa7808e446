//! Which parts of a run a client wants to see. What each part looks like is not said here.

use std::fmt;

/// A part of what a stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamMode {
    /// How the run begins, fails and is lost sight of: everybody is told.
    Always,
    /// The whole state.
    Values,
    /// The updates that each step wrote.
    Updates,
    /// The model's messages, streamed as they arrive: `messages-tuple`.
    MessagesTuple,
    /// The same, each time with all that was said so far: `messages`.
    Messages,
    /// Custom events of tools and steps.
    Custom,
    /// Steps as they begin and end.
    Tasks,
    /// Points of the thread's past as they are written.
    Checkpoints,
    /// The last two in one envelope.
    Debug,
}

/// The names clients know the parts by.
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

/// Names that newer clients ask for and that nothing is sent for.
const IGNORED_MODES: [&str; 3] = ["tools", "events", "lifecycle"];

/// A set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamModes(u16);

/// None of the names a client gave is the name of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownModes {
    names: String,
}

impl StreamModes {
    /// Events that every client receives, and nothing else.
    pub(crate) const NONE: Self = Self(1 << StreamMode::Always as u16);

    /// Returns the parts of these names; none at all means `values`. Names that mean nothing here are passed over as long
    /// as one means something, so that a client newer than this server is served all the same.
    ///
    /// # Errors
    /// When no name means anything.
    pub(crate) fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownModes> {
        let (mut modes, mut is_any_known, mut given) = (Self::NONE, false, Vec::new());
        for name in names {
            let mode = MODE_NAMES.iter().find(|(known, _)| *known == name);
            is_any_known |= mode.is_some() || IGNORED_MODES.contains(&name);
            if let Some((_, mode)) = mode {
                modes = modes.with(*mode);
            }
            given.push(name);
        }
        match (given.is_empty(), is_any_known) {
            (true, _) => Ok(Self::NONE.with(StreamMode::Values)),
            (false, true) => Ok(modes),
            (false, false) => Err(UnknownModes { names: given.join("`, `") }),
        }
    }

    /// Returns the set with one more part.
    #[must_use]
    pub(crate) const fn with(self, mode: StreamMode) -> Self {
        Self(self.0 | 1 << mode as u16)
    }

    /// Returns whether the part is in the set.
    pub(crate) const fn has(self, mode: StreamMode) -> bool {
        self.0 & 1 << mode as u16 != 0
    }

    /// Returns whether any of the parts is in the set.
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
    fn s22_8_a_mode_of_a_newer_client_is_no_error_while_one_is_known() {
        let check = |names: &[&str]| StreamModes::from_names(names.iter().copied());
        assert_eq!(check(&[]), Ok(StreamModes::NONE.with(StreamMode::Values)));
        assert_eq!(check(&["values", "tools"]), check(&["values"]));
        assert_eq!(check(&["updates", "from-the-future"]), check(&["updates"]));
        assert_eq!(check(&["tools"]), Ok(StreamModes::NONE));
        let error = check(&["nope", "neither"]).unwrap_err().to_string();
        for named in ["nope", "neither", "values", "messages-tuple", "debug"] {
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn only_what_was_named_is_in_the_set() {
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
