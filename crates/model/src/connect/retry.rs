//! Retries: the delays between attempts, the provider's own wait times, and the limit of the total wait. Requests
//! and the classification of failures are in other modules.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::failure::AttemptFailure;
use crate::error::Error;
use crate::name::ModelName;
use crate::settings::ProviderSettings;

/// The first delay. Each further delay is twice as long, plus a random part so that clients do not retry in step.
const DELAY_MIN: Duration = Duration::from_millis(500);

/// The longest delay, unless the provider asks for a longer one.
const DELAY_MAX: Duration = Duration::from_secs(8);

/// The most retries of one call after the connection could not be made or broke. A person should learn soon that
/// there is no network.
const CONNECTION_RETRIES_MAX: usize = 3;

/// The retries of one call that are left.
pub(super) struct RetryBudget {
    /// The model or the endpoint that is called, for the log.
    model: ModelName,
    /// The delays of the retries that are left, if the provider asks for none.
    delays: ExponentialBackoff,
    /// The number of retries after a failed connection that are left.
    connection_retries: usize,
    /// The total of all waits so far.
    waited: Duration,
    /// The limit of the total.
    wait_max: Duration,
}

impl RetryBudget {
    /// Returns the retries that the settings allow for one call.
    pub(super) fn new(model: ModelName, settings: &ProviderSettings) -> Self {
        Self {
            model,
            delays: backoff(settings.retries_max).build(),
            connection_retries: CONNECTION_RETRIES_MAX,
            waited: Duration::ZERO,
            wait_max: settings.retry_wait_max,
        }
    }

    /// Takes a retry and returns the delay before it, or `None` when there must not be one.
    pub(super) fn next_delay(&mut self, failure: &AttemptFailure) -> Option<Duration> {
        if !failure.is_transient {
            return None;
        }
        // A provider that asks for no wait at all, time after time, must not be called in a tight loop.
        if !is_overload(&failure.error) || failure.retry_after == Some(Duration::ZERO) {
            self.connection_retries = self.connection_retries.checked_sub(1)?;
        }
        let delay = next_delay(self.delays.next(), failure.retry_after, self.waited, self.wait_max)?;
        self.waited += delay;
        tracing::info!(model = %self.model, wait_ms = delay.as_millis() as u64,
            "retrying after a failure to {}", failure.error);
        Some(delay)
    }
}

/// Returns whether the provider is reachable and cannot serve the request now.
const fn is_overload(error: &Error) -> bool {
    matches!(error, Error::RateLimited { .. } | Error::Failed { .. })
}

/// Returns the delays between attempts for which the provider asks for none.
fn backoff(retries_max: usize) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(DELAY_MIN)
        .with_max_delay(DELAY_MAX)
        .with_factor(2.0)
        .with_max_times(retries_max)
        .with_jitter()
}

/// Returns the delay before the next attempt, or `None` when there must not be one.
///
/// `planned` is the next delay of [`backoff`], `requested` the time that the provider asks to wait, and `waited`
/// the total of all waits so far. If the total would exceed `wait_max`, no further attempt is made, so that the
/// caller gets the error at once.
fn next_delay(
    planned: Option<Duration>,
    requested: Option<Duration>,
    waited: Duration,
    wait_max: Duration,
) -> Option<Duration> {
    let delay = requested.unwrap_or(planned?);
    planned.is_some().then_some(delay).filter(|delay| waited.saturating_add(*delay) <= wait_max)
}

/// Returns the time that the provider asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now).max(SignedDuration::ZERO)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns the result of attempts that fail with these statuses in turn, the number of attempts, and the time
    /// that they took.
    async fn attempts(statuses: &[u16]) -> (Result<(), crate::Error>, usize, Duration) {
        let model: ModelName = "anthropic/m".parse().expect("a name");
        let settings = ProviderSettings { retries_max: 3, ..ProviderSettings::default() };
        let (started_at, mut attempt_count) = (tokio::time::Instant::now(), 0);
        let mut budget = RetryBudget::new(model.clone(), &settings);
        let outcome = loop {
            attempt_count += 1;
            let Some(status) = statuses.get(attempt_count - 1) else { break Ok(()) };
            let report = crate::wire::FailureReport { status: *status, ..Default::default() };
            let (error, is_transient) = crate::wire::classify_failure(&model, report, str::to_owned);
            let retry_after = (*status == 429).then_some(SECOND * 20);
            let failure = AttemptFailure { error, is_transient, retry_after };
            match budget.next_delay(&failure) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => break Err(failure.error),
            }
        };
        (outcome, attempt_count, started_at.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn l11_transient_failures_are_retried_with_growing_delays_and_an_overflow_is_not() {
        let (outcome, attempt_count, duration) = attempts(&[529, 500, 502]).await;
        assert!(outcome.is_ok() && attempt_count == 4);
        assert!((SECOND * 35 / 10..SECOND * 8).contains(&duration), "{duration:?}");
        let (outcome, attempt_count, duration) = attempts(&[429, 503]).await;
        assert!(outcome.is_ok() && attempt_count == 3);
        assert!((SECOND * 21..SECOND * 23).contains(&duration), "{duration:?}: the provider asks for 20 s");
        let (outcome, attempt_count, _) = attempts(&[500; 9]).await;
        assert!(matches!(outcome, Err(crate::Error::Failed { status: 500, .. })) && attempt_count == 4);
        let (outcome, attempt_count, duration) = attempts(&[529, 413, 529]).await;
        assert!(matches!(outcome, Err(crate::Error::ContextOverflow { .. })) && attempt_count == 2);
        assert!(duration < SECOND * 2, "{duration:?}");
        let (outcome, attempt_count, duration) = attempts(&[429; 9]).await;
        assert!(matches!(outcome, Err(crate::Error::RateLimited { status: 429, .. })) && attempt_count == 4);
        assert!(duration <= ProviderSettings::default().retry_wait_max, "{duration:?}");
    }

    #[test]
    fn l11_waiting_is_bounded_and_honours_the_provider() {
        for (planned, requested, waited, expected) in [
            (Some(SECOND), None, Duration::ZERO, Some(SECOND)),
            (Some(SECOND), Some(Duration::ZERO), Duration::ZERO, Some(Duration::ZERO)),
            (Some(SECOND), Some(SECOND * 20), Duration::ZERO, Some(SECOND * 20)),
            (None, Some(SECOND), Duration::ZERO, None),
            (None, None, Duration::ZERO, None),
            (Some(SECOND), Some(SECOND * 61), Duration::ZERO, None),
            (Some(SECOND), None, MINUTE, None),
            (Some(SECOND), None, SECOND * 59, Some(SECOND)),
            (Some(SECOND), Some(Duration::MAX), SECOND, None),
        ] {
            assert_eq!(
                next_delay(planned, requested, waited, MINUTE),
                expected,
                "{planned:?} {requested:?} {waited:?}"
            );
        }
    }

    #[test]
    fn l11_an_overload_is_waited_for_longer_than_a_broken_connection() {
        let model: ModelName = "anthropic/m".parse().expect("a name");
        let settings = ProviderSettings::default();
        let retries = |error: fn(ModelName) -> Error| {
            let mut budget = RetryBudget::new(model.clone(), &settings);
            let failure =
                AttemptFailure { error: error(model.clone()), is_transient: true, retry_after: None };
            std::iter::from_fn(|| budget.next_delay(&failure)).collect::<Vec<Duration>>()
        };
        let overload = retries(|model| Error::RateLimited { model, status: 529, retry_after: None });
        let waited: Duration = overload.iter().sum();
        assert!(waited > MINUTE * 4 && waited <= settings.retry_wait_max, "{waited:?}");
        let broken = retries(|model| Error::MalformedAnswer { model, reason: "it broke off".to_owned() });
        assert_eq!(broken.len(), CONNECTION_RETRIES_MAX);
    }

    #[test]
    fn l11_a_provider_that_asks_for_no_wait_is_called_few_times() {
        let model: ModelName = "anthropic/m".parse().expect("a name");
        let mut budget = RetryBudget::new(model.clone(), &ProviderSettings::default());
        let retry_after = Some(Duration::ZERO);
        let error = Error::RateLimited { model, status: 429, retry_after };
        let failure = AttemptFailure { error, is_transient: true, retry_after };
        let retries = std::iter::from_fn(|| budget.next_delay(&failure)).count();
        assert_eq!(retries, CONNECTION_RETRIES_MAX);
    }

    #[test]
    fn l11_delays_grow_and_end() {
        let delays: Vec<Duration> = backoff(6).build().collect();
        assert_eq!(delays.len(), 6);
        let bounds = [500, 1_000, 2_000, 4_000, 8_000, 8_000].map(Duration::from_millis);
        for (delay, least) in delays.iter().zip(bounds) {
            assert!((least..=least * 2).contains(delay), "{delay:?} is not near {least:?}");
        }
    }

    #[test]
    fn every_form_of_retry_after_is_read() {
        let now: Timestamp = "2026-11-06T08:49:30Z".parse().expect("a time");
        for (name, value, expected) in [
            ("retry-after", "7", Some(SECOND * 7)),
            ("retry-after", "0", Some(Duration::ZERO)),
            ("retry-after", "1.5", Some(Duration::from_millis(1500))),
            ("retry-after-ms", "250", Some(Duration::from_millis(250))),
            ("retry-after", "Fri, 06 Nov 2026 08:49:37 GMT", Some(SECOND * 7)),
            ("retry-after", "Fri, 06 Nov 2026 08:00:00 GMT", Some(Duration::ZERO)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("x-other", "7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            assert_eq!(retry_after(&headers, now), expected, "{name}: {value}");
        }
    }
}
