//! The tools as a model meets them: names, arguments, answers.

#[cfg(test)]
mod files;
