//! agent.md on a real file system: what is kept, what is refused, what survives other programs, and what a model reads;
//! what a thread finds again of what was said, and what becomes of old turns.

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
mod tiers;
#[cfg(test)]
mod tool;
#[cfg(test)]
mod under_fire;
