//! Tests of the server through HTTP, with a scripted model.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod events;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod handoffs;
#[cfg(test)]
mod isolation;
mod resources;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod security;
#[cfg(test)]
mod sse;
mod streams;
#[cfg(test)]
mod webhooks;
