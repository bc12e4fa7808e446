//! The services of an [`Agent`]: what a front end can ask for, grouped by what it is about. A service borrows the agent and
//! holds nothing of its own, so that making one costs nothing. What each one does is in the files named after it.

use crate::agent::Agent;

/// Threads: finding, listing, reading, changing, importing and deleting them, and the states clients see of them.
#[derive(Clone, Copy)]
pub struct ThreadService<'a> {
    pub(crate) agent: &'a Agent,
}

/// Runs: starting, resuming, queueing, stopping and recovering them, the questions they ask, and what happened in them.
#[derive(Clone, Copy)]
pub struct RunService<'a> {
    pub(crate) agent: &'a Agent,
}

/// Handoffs: requesting, reviewing and deciding them, and the PostgreSQL copy of accepted ones.
#[derive(Clone, Copy)]
pub struct HandoffService<'a> {
    pub(crate) agent: &'a Agent,
}

/// What outlives a context: agent.md, summaries of old messages, stored items, search and recall.
#[derive(Clone, Copy)]
pub struct MemoryService<'a> {
    pub(crate) agent: &'a Agent,
}

/// Administration: access keys, MCP servers, tools and skills, the database, health checks and trace export.
#[derive(Clone, Copy)]
pub struct AdminService<'a> {
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
