//! Tests of the endpoints other than those for runs.

mod assistants;
#[cfg(test)]
pub mod facts;
#[cfg(test)]
mod feedback;
#[cfg(test)]
mod page;
#[cfg(test)]
mod pins;
#[cfg(test)]
mod rows;
mod states;
mod stopped;
mod store;
mod system;
mod threads;
