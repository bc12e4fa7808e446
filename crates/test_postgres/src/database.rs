//! A database of a test's own. What is in it is the test's business; which server it is on is decided elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;

use uuid::Uuid;

use crate::Error;
use crate::shared::ServerLease;

/// The environment variable that says where tests keep what they store, as far as that may be anywhere.
pub const STORE_VARIABLE: &str = "SEGUE_TEST_STORE";

/// An empty database: UTF-8, text in the order of English, owned by the user of its URLs, who has no other rights.
///
/// Dropped, it is gone, whoever is still connected to it.
#[derive(Debug)]
pub struct TestDatabase {
    server: Arc<ServerLease>,
    name: String,
}

impl TestDatabase {
    /// Makes a database on the server that all tests share, starting the server if need be: in some ten milliseconds,
    /// or about a second. It may be called inside a runtime.
    ///
    /// # Errors
    /// When PostgreSQL is not installed, with what to install, or the server does not start, with its log.
    pub fn create() -> Result<Self, Error> {
        Self::create_on(ServerLease::acquire_shared()?)
    }

    /// Makes one when the tests are to keep what they store on a server: [`STORE_VARIABLE`] is `postgres`.
    ///
    /// # Errors
    /// As for [`Self::create`].
    pub fn create_if_configured() -> Result<Option<Self>, Error> {
        match std::env::var(STORE_VARIABLE).as_deref() {
            Ok("postgres") => Self::create().map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn create_on(running: Arc<ServerLease>) -> Result<Self, Error> {
        let name = format!("test_{}", Uuid::new_v4().simple());
        running.server.create_database(&name)?;
        Ok(Self { server: running, name })
    }

    /// Performs statements in it that return nothing, as somebody who may do anything.
    ///
    /// # Errors
    /// What the server says of them.
    pub fn execute(&self, statements: &str) -> Result<(), Error> {
        self.server.server.execute_in(&self.name, statements)
    }

    /// Performs a statement as somebody who may read anything, and returns the first column of what it answers.
    ///
    /// # Errors
    /// What the server says of it.
    pub fn query_texts(&self, statement: &str) -> Result<Vec<String>, Error> {
        self.server.server.query_texts(&self.name, statement)
    }

    /// Returns every row of every table, each after the name of its table.
    ///
    /// # Errors
    /// What the server says of it.
    pub fn dump_rows(&self) -> Result<Vec<String>, Error> {
        let select = "SELECT string_agg(format('SELECT %L || stored::text FROM %I stored', tablename || ': ', tablename), \
                      ' UNION ALL ') FROM pg_tables WHERE schemaname = 'public'";
        self.query_texts(&(self.query_texts(select)?.concat() + " ORDER BY 1"))
    }

    /// Returns its URL over the server's socket, without a password: what a test uses unless it is about the network.
    #[must_use]
    pub fn socket_url(&self) -> String {
        self.server.server.socket_url(&self.name)
    }

    /// Returns its URL over TCP, with a password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// Returns its URL over TCP by way of another address, such as a [`crate::Proxy`]'s.
    #[must_use]
    pub fn url_through(&self, address: SocketAddr) -> String {
        self.server.server.url(address, &self.name)
    }

    /// Returns where its server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.server.address()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // Without an answer it stays until its server goes, soon: a test that stopped its own server has no other.
        let _ = self.server.server.execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}
