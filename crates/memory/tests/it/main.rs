//! agent.md on a real file system: what is kept, what is refused, and what survives other programs.

#[cfg(test)]
mod files;
#[cfg(test)]
mod under_fire;
