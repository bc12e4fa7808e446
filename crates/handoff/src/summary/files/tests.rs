//! What is looked at, and what is not.
