//! The runtime as a library: graphs of its own nodes over a real journal, with a scripted model at the wire.

#[cfg(test)]
mod going_on;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod immediate;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod tools;
#[cfg(test)]
mod world;
