//! The arguments of `cargo xtask bench`.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// Pairs of a comparison, unless `--pairs` says otherwise.
const PAIRS_DEFAULT: usize = 5;

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchOptions {
    /// The names of benchmarks, crates, or other measurements.
    pub names: Vec<String>,
    /// The file for the results.
    pub json: Option<PathBuf>,
    /// The revision to compare with.
    pub against: Option<String>,
    /// Number of pairs of a comparison.
    pub pairs: usize,
    /// The file of results to print as a table.
    pub table: Option<PathBuf>,
    /// True to list the benchmarks of the program only.
    pub is_list: bool,
}

impl BenchOptions {
    /// Parses the arguments.
    ///
    /// # Errors
    /// If an option is unknown or lacks its value, or `--json` and `--against` are combined.
    pub fn parse(args: &[String]) -> anyhow::Result<Self> {
        let mut options = Self {
            names: Vec::new(),
            json: None,
            against: None,
            pairs: PAIRS_DEFAULT,
            table: None,
            is_list: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("`{arg}` needs a value"));
            match arg.as_str() {
                "--json" => options.json = Some(value()?.into()),
                "--against" => options.against = Some(value()?.clone()),
                "--pairs" => options.pairs = value()?.parse().context("`--pairs` needs a number")?,
                "--table" => options.table = Some(value()?.into()),
                "--list" => options.is_list = true,
                unknown if unknown.starts_with('-') => bail!("unknown option `{unknown}`"),
                name => options.names.push(name.to_owned()),
            }
        }
        if options.json.is_some() && options.against.is_some() {
            bail!("`--json` records one revision and cannot be combined with `--against`");
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<BenchOptions> {
        BenchOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_names_may_be_mixed() {
        let options = parse("compact --against main --pairs 3 gateway").unwrap();
        assert_eq!((options.against.as_deref(), options.pairs), (Some("main"), 3));
        assert_eq!(options.names, ["compact", "gateway"]);
        assert_eq!(parse("--json a.json").unwrap().json, Some("a.json".into()));
        assert!(parse("--list").unwrap().is_list);
    }

    #[test]
    fn bad_options_are_refused() {
        for line in ["--json", "--pairs x", "--fast", "--json a --against b"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
