//! Tests of the scheduler through its public interface, with a scripted model: order, strategies, cancellation,
//! streams, crashes, several processes, shutdown.

#[cfg(test)]
mod cancel;
mod faults;
#[cfg(test)]
mod fixture;
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
