//! The HTTP server: Segue's own endpoints under `/api`, authentication, limits, metrics and the page's assets. The
//! endpoints of the Agent Server protocol are implemented in `langgraph` and mounted here.
//!
//! `server` accepts connections and assembles the router, `security` admits requests, and `api` holds Segue's own
//! endpoints. `health_check` is the client side of the health check.
//!
//! This crate does not interpret requests or schedule runs. It uses no cookies: every client sends a key with each
//! request. Therefore a page of another site cannot send requests with the user's credentials (cross-site request
//! forgery).

mod api;
mod health_check;
mod security;
mod server;

pub use health_check::{ServerUrl, check_health};
pub use langgraph::read_request;
pub use scheduler::{Error as SchedulerError, RecoveryReport, Scheduler, SchedulerLimits};
pub use security::token::InstallToken;
pub use server::error::Error;
pub use server::serve;
pub use server::settings::{AllowedOrigins, AuthMode, RateLimit, ServerLimits, ServerSettings};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
