//! The PostgreSQL client: a connection pool, transactions that are applied exactly once even if a connection breaks,
//! and notifications from the server ([`NotificationListener`]). No other crate uses the client library.
//!
//! A [`Connection`] is blocking and is used by one thread at a time, so that the code that reads and writes with it
//! can also work with an embedded engine. Callers pipeline statements if they do not need the response immediately
//! ([`Connection::send`]).
//!
//! The crate contains no table names, and no SQL except that of sessions and transactions.

mod connection;
mod error;
mod listener;
mod pool;
mod session;
mod target;
mod tls;
mod value;

pub use connection::Connection;
pub use error::Error;
pub use listener::NotificationListener;
pub use pool::{Pool, PoolSettings, PoolStatistics, RetryPolicy, TransactionLocks};
pub use target::DatabaseTarget;
pub use value::{Row, SqlValue};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
