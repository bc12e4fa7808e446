//! The stored and sent shapes, read from files as another version would have written them.

#[cfg(test)]
mod events;
#[cfg(test)]
mod golden;
