//! Which parts of a run a client wants to see. What each part looks like is not said here.

use std::fmt;

/// A part of what a stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// How the run begins, fails and is lost sight of: everybody is told.
    Always,
    /// The whole state.
    Values,
    /// What each step wrote.
    Updates,
    /// What the model says, as it says it: `messages-tuple`.
    Tuple,
    /// The same, each time with all that was said so far: `messages`.
    Messages,
    /// What tools and steps tell beside that.
    Custom,
    /// Steps as they begin and end.
    Tasks,
    /// Points of the thread's past as they are written.
    Checkpoints,
    /// The last two in one envelope.
    Debug,
}

/// The names clients know the parts by.
const NAMES: [(&str, Mode); 8] = [
    ("values", Mode::Values),
    ("updates", Mode::Updates),
    ("messages-tuple", Mode::Tuple),
    ("messages", Mode::Messages),
    ("custom", Mode::Custom),
    ("tasks", Mode::Tasks),
    ("checkpoints", Mode::Checkpoints),
    ("debug", Mode::Debug),
];

/// Names that newer clients ask for and that nothing is sent for.
const SILENT: [&str; 3] = ["tools", "events", "lifecycle"];

/// A set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes(u16);

/// None of the names a client gave is the name of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownModes {
    given: String,
}

impl Modes {
    /// What is sent to everybody, and nothing else.
    pub(crate) const NONE: Self = Self(1 << Mode::Always as u16);

    /// Returns the parts of these names; none at all means `values`. Names that mean nothing here are passed over as long
    /// as one means something, so that a client newer than this server is served all the same.
    ///
    /// # Errors
    /// When no name means anything.
    pub(crate) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownModes> {
        let (mut modes, mut is_any_known, mut given) = (Self::NONE, false, Vec::new());
        for name in names {
            let mode = NAMES.iter().find(|(known, _)| *known == name);
            is_any_known |= mode.is_some() || SILENT.contains(&name);
            if let Some((_, mode)) = mode {
                modes = modes.with(*mode);
            }
            given.push(name);
        }
        match (given.is_empty(), is_any_known) {
            (true, _) => Ok(Self::NONE.with(Mode::Values)),
            (false, true) => Ok(modes),
            (false, false) => Err(UnknownModes { given: given.join("`, `") }),
        }
    }

    /// Returns the set with one more part.
    #[must_use]
    pub(crate) const fn with(self, mode: Mode) -> Self {
        Self(self.0 | 1 << mode as u16)
    }

    /// Returns whether the part is in the set.
    pub(crate) const fn has(self, mode: Mode) -> bool {
        self.0 & 1 << mode as u16 != 0
    }

    /// Returns whether any of the parts is in the set.
    pub(crate) fn has_any(self, modes: &[Mode]) -> bool {
        modes.iter().any(|mode| self.has(*mode))
    }
}

impl fmt::Display for UnknownModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "Invalid stream_mode `{}`: known modes are {}", self.given, known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s22_8_a_mode_of_a_newer_client_is_no_error_while_one_is_known() {
        let check = |names: &[&str]| Modes::named(names.iter().copied());
        assert_eq!(check(&[]), Ok(Modes::NONE.with(Mode::Values)));
        assert_eq!(check(&["values", "tools"]), check(&["values"]));
        assert_eq!(check(&["updates", "from-the-future"]), check(&["updates"]));
        assert_eq!(check(&["tools"]), Ok(Modes::NONE));
        let error = check(&["nope", "neither"]).unwrap_err().to_string();
        for named in ["nope", "neither", "values", "messages-tuple", "debug"] {
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn only_what_was_named_is_in_the_set() {
        let modes = Modes::named(["updates", "messages-tuple"]).unwrap();
        assert!(modes.has(Mode::Always) && modes.has(Mode::Updates) && modes.has(Mode::Tuple));
        assert!(!modes.has_any(&[Mode::Values, Mode::Messages, Mode::Custom, Mode::Tasks, Mode::Debug]));
    }
}
