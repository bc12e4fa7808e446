//! The tools as a model meets them: names, arguments, answers; and the hook that decides which calls are made.

#[cfg(test)]
mod approval;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod changes;
#[cfg(test)]
mod execute;
#[cfg(test)]
mod files;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod schemas;
