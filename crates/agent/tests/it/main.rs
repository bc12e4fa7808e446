//! The agent from the outside: import, handoff, compaction, turns with tools, and the same with a crash at every boundary.

#[cfg(test)]
mod compaction;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod handoff;
#[cfg(test)]
mod import;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod session;
#[cfg(test)]
mod states;
#[cfg(test)]
mod turn;
