//! Rules for what manifests declare about the whole project: licences and the oldest supported Rust.

pub mod licences;
pub mod rust_version;
