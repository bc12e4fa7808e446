//! The commands that administer Segue: configuration, database, models, MCP servers, API keys, the server and its
//! health, the doctor, and generated completions and manual pages. These commands do not change the content of a thread.

pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod keys;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod ping;
pub(crate) mod secrets;
pub(crate) mod serve;
