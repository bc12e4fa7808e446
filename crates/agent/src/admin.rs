//! The administration service: hooks, connections and prices here; access keys, MCP servers, tools, the database, health checks,
//! the shape of the graph and trace export in the files beside this one. Its calls act on the whole installation, not on a thread.

pub(crate) mod doctor;
pub(crate) mod error;
pub(crate) mod graph_shape;
pub(crate) mod keys;
pub(crate) mod maintenance;
mod mcp_servers;
pub(crate) mod tools;
mod tracing;

use std::sync::Arc;

use journal::{EventVerification, PoolStatistics, PostgresStore, VerificationPosition};
use model::prices::{self, Price};
use protocol::Usage;
use user_hooks::HookDispatcher;

use crate::Agent;

/// Administration: access keys, MCP servers, tools and skills, the database, health checks and trace export.
#[derive(Clone, Copy)]
pub struct AdminService<'a> {
    /// The agent whose installation the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for administration.
    pub const fn admin(&self) -> AdminService<'_> {
        AdminService { agent: self }
    }
}

impl AdminService<'_> {
    /// Starts the dispatcher that calls the hooks of the configuration after commits. Returns `None` if there
    /// are no hooks or the dispatcher is already running.
    ///
    /// Must be called on a Tokio runtime, because the dispatcher runs there as a task.
    pub fn start_user_hooks(self) -> Option<HookDispatcher> {
        HookDispatcher::start(Arc::clone(&self.agent.journal), &self.agent.user_hooks)
    }

    /// Returns the statistics of the connection pool. `None` if the journal is a file.
    pub fn connection_metrics(self) -> Option<PoolStatistics> {
        self.agent.postgres.as_ref().map(PostgresStore::pool_statistics)
    }

    /// Checks that the files of the database are still those that were opened, and not truncated. It costs two system calls.
    ///
    /// # Errors
    /// Fails if a file was deleted, replaced or truncated. What this process writes is lost then, and is not acknowledged.
    pub fn check_database(self) -> crate::Result<()> {
        Ok(self.agent.store.check_database()?)
    }

    /// Compares a batch of the events of all threads with their checksums: at most `limit` from `position` on, in its
    /// direction.
    ///
    /// # Errors
    /// Fails if the limit is zero or too large, or if the journal fails.
    pub async fn verify_events(
        self,
        position: VerificationPosition,
        limit: usize,
    ) -> crate::Result<EventVerification> {
        Ok(self.agent.journal.verify_events(position, limit).await?)
    }

    /// Returns the price of a model's tokens in US dollars; `None` if the price is unknown. Configured prices
    /// precede the built-in table.
    pub fn usage_price(self, model: &str, usage: &Usage) -> Option<f64> {
        let price: Option<Price> = prices::find_price(model, &self.agent.config.prices);
        price.map(|price| prices::cost(usage, &price))
    }
}
