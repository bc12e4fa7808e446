//! Integration tests of the agent's public interface: import, handoff, compaction, memory, turns with tools, requests of
//! clients, and the same operations with a process crash at every commit.

#[cfg(test)]
mod compaction;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod doctor;
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
