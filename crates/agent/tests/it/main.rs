//! The agent from the outside: import, handoff, first turn, cleanup, and the same with a crash at every boundary.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod handoff;
#[cfg(test)]
mod import;
#[cfg(test)]
mod pathological;
#[cfg(test)]
mod review;
#[cfg(test)]
mod turn;
#[cfg(test)]
mod under_fire;
#[cfg(test)]
mod world;
