//! Dispatch from the outside, over a scripted model: order, strategies, stopping, streams, crashes, two processes, shutdown.

#[cfg(test)]
mod cancel;
mod faults;
#[cfg(test)]
mod order;
#[cfg(test)]
mod several;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod webhooks;
#[cfg(test)]
mod world;
