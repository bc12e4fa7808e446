//! Tests of several processes on one journal: each drives its own runs, and takes over the runs of a process that died.

mod changes;
mod exclusive;
mod processes;
mod remote;
mod replicas;
mod servers;
