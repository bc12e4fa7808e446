//! Several processes on one journal: each takes what is its own, and what one leaves another takes up.

mod alone;
mod elsewhere;
mod processes;
mod replicas;
mod servers;
