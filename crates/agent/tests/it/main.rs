//! The agent from the outside: import, handoff, first turn, cleanup, and the same with a crash at every boundary.

mod crash;
mod handoff;
mod import;
mod turn;
mod world;
