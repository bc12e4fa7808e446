//! Streams as clients meet them that lose sight of something: frames, runs, the server.

#[cfg(test)]
mod gaps;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod unseen;
