//! The whole history of a long thread over HTTP: page by page, and as one export.

use std::time::Instant;

use super::super::harness::BenchContext;
use super::super::harness::client::HttpClient;
use super::super::harness::home::BenchHome;
use super::super::harness::server::ServeProcess;
use super::super::harness::statistics::median;
use super::super::report::Measurement;
use anyhow::{Context, bail};

/// Length of the thread in messages.
const MESSAGES: usize = 100_000;
/// Entries of one page: the most that the server returns.
const PAGE_ENTRIES: usize = 1_000;
/// Bytes of a page's end that contain its positions.
const TAIL_BYTES: usize = 200;
/// Number of measured readings of each kind.
const READINGS: usize = 3;

/// Measures the time of both and the peak memory of the server.
///
/// # Errors
/// If a response is incomplete.
pub fn measure_history(context: &BenchContext) -> anyhow::Result<Vec<Measurement>> {
    let home = BenchHome::create(context, "history")?;
    let thread = home.import_session(MESSAGES)?;
    let server = ServeProcess::start(&home)?;
    let mut client = server.connect()?;
    let (mut paged, mut exported) = (Vec::new(), Vec::new());
    server.reset_peak()?;
    for _ in 0..READINGS {
        let start = Instant::now();
        read_pages(&mut client, &thread)?;
        paged.push(start.elapsed().as_secs_f64());
    }
    let paged_peak = server.peak_mb()?;
    server.reset_peak()?;
    for _ in 0..READINGS {
        let start = Instant::now();
        let path = format!("/api/threads/{thread}/export?format=json");
        let bytes = client.request("GET", &path, "")?.len();
        exported.push(start.elapsed().as_secs_f64());
        if bytes < MESSAGES * 100 {
            bail!("the export has only {bytes} bytes");
        }
    }
    let name = |part: &str| format!("history of {MESSAGES} messages, {part}");
    Ok(vec![
        Measurement::cost(name("paged"), median(paged), "s").with_goal(0.25),
        Measurement::cost(name("paged: peak memory of the server"), paged_peak, "MB"),
        Measurement::cost(name("exported"), median(exported), "s").with_goal(0.4),
        Measurement::cost(name("exported: peak memory of the server"), server.peak_mb()?, "MB")
            .with_goal(60.0),
    ])
}

/// Reads all pages from the oldest entry on. Only the end of each page is parsed, so that the client costs little.
fn read_pages(client: &mut HttpClient, thread: &str) -> anyhow::Result<()> {
    let (mut after, mut pages) = (0, 0);
    loop {
        let path = format!("/api/threads/{thread}/history?limit={PAGE_ENTRIES}&after_seq={after}");
        let page = client.request("GET", &path, "")?;
        pages += 1;
        match last_seq(&page)? {
            Some(seq) if seq > after => after = seq,
            _ if pages * PAGE_ENTRIES < MESSAGES => bail!("the history ended after {pages} pages"),
            _ => return Ok(()),
        }
    }
}

/// Returns the value of `last_seq`, which follows the entries; `None` on an empty page.
fn last_seq(page: &[u8]) -> anyhow::Result<Option<u64>> {
    let tail = String::from_utf8_lossy(&page[page.len().saturating_sub(TAIL_BYTES)..]);
    let (_, value) = tail.rsplit_once("\"last_seq\":").context("a page has no `last_seq`")?;
    let digits: String = value.trim_start().chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_behind_the_entries() {
        assert_eq!(last_seq(br#"{"entries":[{"seq":7}],"first_seq":7,"last_seq":12}"#).unwrap(), Some(12));
        assert_eq!(last_seq(br#"{"entries":[],"first_seq":null,"last_seq":null}"#).unwrap(), None);
        assert!(last_seq(b"{}").is_err());
    }
}
