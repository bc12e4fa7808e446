//! Tests of the runtime as a library: its own nodes in a graph, a real journal in memory, and a scripted model
//! server.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod hooks;
#[cfg(test)]
mod immediate;
#[cfg(test)]
mod interrupts;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod tools;
