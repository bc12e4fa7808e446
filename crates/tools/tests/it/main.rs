//! Integration tests of the tools through their public interface (names, arguments, results), and of the approval hook.

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
#[cfg(test)]
mod secrets;
