//! Integration tests: agent.md on a real file system with concurrent programs, its prompt section and its tools;
//! recall and search; the item store; and the summarization of old messages.

#[cfg(test)]
mod files;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod items;
#[cfg(test)]
mod prompt;
#[cfg(test)]
mod recall;
#[cfg(test)]
mod remember;
#[cfg(test)]
mod search;
#[cfg(test)]
mod tiers;
#[cfg(test)]
mod tool;
#[cfg(test)]
mod under_fire;
