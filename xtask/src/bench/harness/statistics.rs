//! Medians, percentiles, and the confidence interval of a ratio.

/// The 97.5 % quantiles of Student's t distribution with 1, 2, … degrees of freedom.
const T_QUANTILES: [f64; 19] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093,
];
/// The most pairs of a comparison.
pub const PAIRS_MAX: usize = T_QUANTILES.len() + 1;

/// Returns the median; NaN if there is no value.
pub fn median(values: Vec<f64>) -> f64 {
    percentile(values, 50)
}

/// Returns the value at a percentile; NaN if there is no value.
pub fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() * percent / 100).min(values.len().saturating_sub(1));
    values.get(index).copied().unwrap_or(f64::NAN)
}

/// A ratio with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioInterval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl RatioInterval {
    /// Returns the geometric mean of the ratios `new / old`, with the t interval of their logarithms. The interval is
    /// infinite with one pair, and `None` without pairs, with more than [`PAIRS_MAX`], or if a value is not positive.
    pub fn from_pairs(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.is_empty()
            || pairs.len() > PAIRS_MAX
            || pairs.iter().any(|(old, new)| !(*old > 0.0 && *new > 0.0))
        {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(old, new)| (new / old).ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let Some(quantile) = logs.len().checked_sub(2).and_then(|index| T_QUANTILES.get(index)) else {
            return Some(Self { ratio: mean.exp(), low: 0.0, high: f64::INFINITY });
        };
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let margin = quantile * (variance / count).sqrt();
        Some(Self { ratio: mean.exp(), low: (mean - margin).exp(), high: (mean + margin).exp() })
    }

    /// Returns true if the interval does not contain 1.
    pub fn is_significant(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_a_measured_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(percentile((1..=100).map(f64::from).collect(), 99), 100.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_interval_of_equal_ratios_is_a_point() {
        let interval = RatioInterval::from_pairs(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]).unwrap();
        assert!((interval.ratio - 0.5).abs() < 1e-9 && (interval.low - 0.5).abs() < 1e-9);
        assert!(interval.is_significant());
    }

    #[test]
    fn the_interval_follows_the_t_distribution() {
        // Logarithms 0 and ln 4: mean ln 2, standard error ln 2, quantile 12.706 with one degree of freedom.
        let interval = RatioInterval::from_pairs(&[(1.0, 1.0), (1.0, 4.0)]).unwrap();
        assert!((interval.ratio - 2.0).abs() < 1e-9);
        assert!((interval.high.ln() - 13.706 * 2f64.ln()).abs() < 1e-9);
        assert!(!interval.is_significant());
    }

    #[test]
    fn values_without_a_ratio_have_no_interval() {
        assert_eq!(RatioInterval::from_pairs(&[]), None);
        assert_eq!(RatioInterval::from_pairs(&[(0.0, 1.0)]), None);
        assert!(!RatioInterval::from_pairs(&[(1.0, 9.0)]).unwrap().is_significant());
    }
}
