//! Compatibility tests: the stored and sent shapes against golden files of the current, an earlier and a later version.

#[cfg(test)]
mod events;
#[cfg(test)]
mod golden;
