//! Tests of all targets: on the corpus, on generated inputs, and on inputs of growing length.

#[cfg(test)]
mod costs;
#[cfg(test)]
mod replay;
