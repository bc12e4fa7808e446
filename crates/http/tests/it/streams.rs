//! Streams with losses: gaps, missed runs, and restarts of the server.

#[cfg(test)]
mod gaps;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod unseen;
