//! The database: its choice, errors when it cannot be used, backups, pruning, and copies between engines.
//! The real binary runs against files and real PostgreSQL servers.

mod address;
mod backup;
mod copy;
mod damage;
mod prune;
mod upgrade;
