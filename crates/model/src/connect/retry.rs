//! When a failed request is sent again: the order of delays, what the provider asks for, and where waiting ends. What a
//! request is, and which failures may pass, is not known here.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use jiff::{SignedDuration, Timestamp};
use reqwest::header::{HeaderMap, RETRY_AFTER};

use super::failure::Failure;
use crate::name::ModelName;
use crate::settings::Settings;

/// The first delay; each further one is twice as long, plus chance so that clients do not come in step.
const DELAY_MIN: Duration = Duration::from_millis(500);

/// The longest delay that is not asked for by the provider.
const DELAY_MAX: Duration = Duration::from_secs(8);

/// Makes attempts until one succeeds, one fails for good, or the settings allow no more; returns the last.
pub(super) async fn until_passed<T, F: Future<Output = Result<T, Failure>>>(
    model: &ModelName,
    settings: &Settings,
    attempt: impl FnMut() -> F,
) -> Result<T, Failure> {
    let mut waited = Duration::ZERO;
    attempt
        .retry(delays(settings.retries_max))
        .sleep(tokio::time::sleep)
        .when(|failure: &Failure| failure.passing)
        .adjust(|failure, planned| {
            let delay = delay(planned, failure.retry_after, waited, settings.retry_wait_max)?;
            waited += delay;
            Some(delay)
        })
        .notify(|failure, delay| {
            tracing::info!(%model, wait_ms = delay.as_millis() as u64,
                "retrying after a failure to {}", failure.error);
        })
        .await
}

/// Returns the delays between attempts where the provider asks for none.
fn delays(retries_max: usize) -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(DELAY_MIN)
        .with_max_delay(DELAY_MAX)
        .with_factor(2.0)
        .with_max_times(retries_max)
        .with_jitter()
}

/// Returns how long to wait before the next attempt; `None` when there is no other.
///
/// `planned` is the next of [`delays`], `asked` what the provider asks for, `waited` what all waits so far took.
/// A wait that would exceed `wait_max` in total is not begun: the caller learns at once.
fn delay(
    planned: Option<Duration>,
    asked: Option<Duration>,
    waited: Duration,
    wait_max: Duration,
) -> Option<Duration> {
    let delay = asked.unwrap_or(planned?);
    planned.is_some().then_some(delay).filter(|delay| waited.saturating_add(*delay) <= wait_max)
}

/// Returns how long the provider asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let asked = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = asked.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(asked).ok()?;
    Some(Duration::try_from(date.duration_since(now).max(SignedDuration::ZERO)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns what became of attempts that fail with these statuses in turn, how many were made, and how long it took.
    async fn attempts(statuses: &[u16]) -> (Result<(), crate::Error>, usize, Duration) {
        let model: ModelName = "anthropic/m".parse().expect("a name");
        let settings = Settings { retries_max: 3, ..Settings::default() };
        let (begun, mut made) = (tokio::time::Instant::now(), 0);
        let outcome = until_passed(&model, &settings, || {
            made += 1;
            let failed = statuses.get(made - 1).map(|status| {
                let report = crate::wire::Report { status: *status, ..Default::default() };
                let (error, passing) = crate::wire::classify(&model, report, str::to_owned);
                Failure { error, passing, retry_after: (*status == 429).then_some(SECOND * 20) }
            });
            std::future::ready(failed.map_or(Ok(()), Err))
        })
        .await;
        (outcome.map_err(|failure| failure.error), made, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn l11_what_may_pass_is_tried_again_with_growing_waits_and_a_full_window_is_not() {
        let (outcome, made, took) = attempts(&[529, 500, 502]).await;
        assert!(outcome.is_ok() && made == 4);
        assert!((SECOND * 35 / 10..SECOND * 8).contains(&took), "{took:?}");
        let (outcome, made, took) = attempts(&[429, 503]).await;
        assert!(outcome.is_ok() && made == 3);
        assert!((SECOND * 21..SECOND * 23).contains(&took), "{took:?}: as long as the provider asks");
        let (outcome, made, _) = attempts(&[500; 9]).await;
        assert!(matches!(outcome, Err(crate::Error::Failed { status: 500, .. })) && made == 4);
        let (outcome, made, took) = attempts(&[529, 413, 529]).await;
        assert!(matches!(outcome, Err(crate::Error::Overflow { .. })) && made == 2);
        assert!(took < SECOND * 2, "{took:?}");
        let (outcome, made, took) = attempts(&[429; 9]).await;
        assert!(matches!(outcome, Err(crate::Error::Limited { status: 429, .. })) && made == 4);
        assert!(took <= Settings::default().retry_wait_max, "{took:?}");
    }

    #[test]
    fn l11_waiting_is_bounded_and_honours_the_provider() {
        for (planned, asked, waited, expected) in [
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
            assert_eq!(delay(planned, asked, waited, MINUTE), expected, "{planned:?} {asked:?} {waited:?}");
        }
    }

    #[test]
    fn l11_delays_grow_and_end() {
        use backon::BackoffBuilder;
        let delays: Vec<Duration> = delays(6).build().collect();
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
