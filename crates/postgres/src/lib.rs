//! Connections to PostgreSQL: one pool of them, transactions that are performed once however often a connection breaks, and
//! news from the server ([`Listener`]). The one place that knows the client library.
//!
//! A [`Connection`] is used from one thread at a time and blocks it: what is read and written with it is the same code that
//! works with an embedded engine. Statements whose answers nobody waits for travel together ([`Connection::send`]).
//!
//! No table is known here, and no SQL but that of transactions.

mod connection;
mod error;
mod listener;
mod pool;
mod target;
mod tls;
mod value;

pub use connection::Connection;
pub use error::Error;
pub use listener::Listener;
pub use pool::{Figures, Passing, Pool, PoolSettings, Taking};
pub use target::Target;
pub use value::{Row, Value};

/// The result type of this room.
pub type Result<T, E = Error> = std::result::Result<T, E>;
