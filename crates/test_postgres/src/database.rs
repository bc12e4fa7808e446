//! A database for one test.

use std::net::SocketAddr;
use std::sync::Arc;

use uuid::Uuid;

use crate::Error;
use crate::shared::ServerLease;

/// The environment variable that selects the store of tests that run with any store: `postgres`, else SQLite.
pub const STORE_VARIABLE: &str = "SEGUE_TEST_STORE";

/// A database that is empty at first: UTF-8, with English collation if the server supports ICU. The user of its URLs owns
/// it and has no other rights.
///
/// Dropping the value drops the database, even if clients are still connected.
#[derive(Debug)]
pub struct TestDatabase {
    server: Arc<ServerLease>,
    name: String,
}

impl TestDatabase {
    /// Creates a database on the shared server. This takes tens of milliseconds, or about a second if the server must be
    /// started. It blocks, and can be called within an async runtime.
    ///
    /// # Errors
    /// If PostgreSQL is not installed (the message names the package), or the server does not start (with its log).
    pub fn create() -> Result<Self, Error> {
        Self::create_on(ServerLease::acquire_shared()?)
    }

    /// Creates a database if [`STORE_VARIABLE`] is `postgres`. Otherwise returns `None`.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn create_if_configured() -> Result<Option<Self>, Error> {
        match std::env::var(STORE_VARIABLE).as_deref() {
            Ok("postgres") => Self::create().map(Some),
            _ => Ok(None),
        }
    }

    /// Creates a database with a random name on a server.
    pub(crate) fn create_on(server: Arc<ServerLease>) -> Result<Self, Error> {
        let name = format!("test_{}", Uuid::new_v4().simple());
        server.server.create_database(&name)?;
        Ok(Self { server, name })
    }

    /// Executes statements that return no rows, as a superuser.
    ///
    /// # Errors
    /// If the server refuses a statement or does not answer.
    pub fn execute(&self, statements: &str) -> Result<(), Error> {
        self.server.server.execute_in(&self.name, statements)
    }

    /// Executes a statement as a superuser, and returns the first column of its rows. Null becomes an empty string.
    ///
    /// # Errors
    /// If the server refuses the statement or does not answer.
    pub fn query_texts(&self, statement: &str) -> Result<Vec<String>, Error> {
        self.server.server.query_texts(&self.name, statement)
    }

    /// Returns every row of every table, sorted, as text with the name of its table before it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn dump_rows(&self) -> Result<Vec<String>, Error> {
        let select = "SELECT string_agg(format('SELECT %L || stored::text FROM %I stored', tablename || ': ', tablename), \
                      ' UNION ALL ') FROM pg_tables WHERE schemaname = 'public'";
        self.query_texts(&(self.query_texts(select)?.concat() + " ORDER BY 1"))
    }

    /// Returns the URL of the database over the server's Unix socket, without a password. Tests use it unless they test the
    /// network.
    #[must_use]
    pub fn socket_url(&self) -> String {
        self.server.server.socket_url(&self.name)
    }

    /// Returns the URL of the database over TCP, with a password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// Returns the URL of the database over TCP with another address, such as that of a [`crate::Proxy`].
    #[must_use]
    pub fn url_through(&self, address: SocketAddr) -> String {
        self.server.server.url(address, &self.name)
    }

    /// Returns the TCP address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.server.address()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // If this fails, the database exists until its server is removed. It fails if the test has stopped its server.
        let _ = self.server.server.execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
