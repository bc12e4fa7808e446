//! Which database is used, what is told of one that cannot be, and moving everything from one into another: the real binary
//! against files and real servers.

mod address;
mod backup;
mod copy;
mod prune;
