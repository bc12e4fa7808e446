//! The services of an [`Agent`]: the calls of front ends, grouped by subject. A service borrows the agent and
//! has no state of its own, so making one costs nothing. The methods of each service are in the files named
//! after their subject.

use crate::agent::Agent;

/// Threads: finding, listing, reading, changing, importing and deleting them, and the states clients see of them.
#[derive(Clone, Copy)]
pub struct ThreadService<'a> {
    /// The agent whose threads the service works on.
    pub(crate) agent: &'a Agent,
}

/// Runs: starting, resuming, queueing, stopping and recovering them, the questions they ask, and their
/// events.
#[derive(Clone, Copy)]
pub struct RunService<'a> {
    /// The agent whose runs the service works on.
    pub(crate) agent: &'a Agent,
}

/// Handoffs: requesting, reviewing and deciding them, and the export of accepted ones to PostgreSQL.
#[derive(Clone, Copy)]
pub struct HandoffService<'a> {
    /// The agent whose handoffs the service works on.
    pub(crate) agent: &'a Agent,
}

/// Memory that outlives a context: `agent.md`, summaries of old messages, stored items, search and recall.
#[derive(Clone, Copy)]
pub struct MemoryService<'a> {
    /// The agent whose memory the service works on.
    pub(crate) agent: &'a Agent,
}

/// Administration: access keys, MCP servers, tools and skills, the database, health checks and trace export.
#[derive(Clone, Copy)]
pub struct AdminService<'a> {
    /// The agent whose installation the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for threads.
    pub const fn threads(&self) -> ThreadService<'_> {
        ThreadService { agent: self }
    }

    /// Returns the service for runs.
    pub const fn runs(&self) -> RunService<'_> {
        RunService { agent: self }
    }

    /// Returns the service for handoffs.
    pub const fn handoffs(&self) -> HandoffService<'_> {
        HandoffService { agent: self }
    }

    /// Returns the service for memory and search.
    pub const fn memory(&self) -> MemoryService<'_> {
        MemoryService { agent: self }
    }

    /// Returns the service for administration.
    pub const fn admin(&self) -> AdminService<'_> {
        AdminService { agent: self }
    }
}
