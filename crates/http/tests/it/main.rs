//! The server as its clients meet it: over HTTP, with a model that plays a script.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod door;
#[cfg(test)]
mod events;
#[cfg(test)]
mod handoffs;
#[cfg(test)]
mod isolation;
mod resources;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod sse;
mod streams;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod world;
