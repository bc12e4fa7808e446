//! `segue mirror`: whether accepted handoffs reach their copy in PostgreSQL, and sending what waits.

use agent::{Delivered, MirrorReport, MirrorRows, MirrorStatus};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use terminal::{one_line, wrap};

use crate::cli::Format;
use crate::cli::mirror::Mirror;
use crate::commands::Context;
use crate::commands::import::count;
use crate::commands::threads::ago;
use crate::exit::{Code, Failure, Outcome, chain};

/// What to do where there is no mirror.
const NONE_HINT: &str =
    "set `[mirror] url = \"postgres://USER:PASSWORD@HOST/DATABASE\"` in config.toml, or SEGUE_MIRROR_URL";

/// What `status --json` prints.
#[derive(Serialize)]
struct Status<'a> {
    configured: bool,
    #[serde(flatten)]
    report: &'a MirrorReport,
    /// Whether its database can be reached and used now; nothing where there is none.
    reachable: Option<bool>,
    problem: Option<String>,
    rows: Option<MirrorRows>,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Mirror) -> Outcome {
    match args {
        Mirror::Status => status(context).await,
        Mirror::Flush => flush(context).await,
    }
}

async fn status(context: &Context) -> Outcome {
    let report = context.agent.handoffs().mirror_report().await?;
    let configured = report.status != MirrorStatus::Off;
    let (rows, problem) = match context.agent.handoffs().mirror_rows().await {
        Ok(rows) => (rows, None),
        Err(error) => (None, Some((format!("failed to {}", chain(&error)), error.hint()))),
    };
    if context.format == Format::Json {
        let reachable = configured.then_some(problem.is_none());
        let problem = problem.map(|(what, _)| what);
        context.json(&Status { configured, report: &report, reachable, problem, rows })?;
        return Ok(Code::Done);
    }
    if !configured {
        context.screen.line(none(&report))?;
        context.screen.note(context.screen.style.dim(wrap(
            &format!("hint: {NONE_HINT}"),
            context.screen.text_columns(),
            "",
            "  ",
        )));
        return Ok(Code::Done);
    }
    show(context, &report, rows, problem.as_ref().map(|(what, _)| what.as_str()))?;
    let hint = problem.and_then(|(_, hint)| hint).or(report.hint.filter(|_| report.waiting > 0));
    if let Some(hint) = hint {
        let hint = wrap(&format!("hint: {}", one_line(&hint)), context.screen.text_columns(), "", "  ");
        context.screen.note(context.screen.style.dim(hint));
    }
    Ok(Code::Done)
}

fn none(report: &MirrorReport) -> String {
    match report.waiting {
        0 => "No mirror is configured.".to_owned(),
        waiting => {
            let verb = if waiting == 1 { "goes" } else { "go" };
            format!(
                "No mirror is configured; {} {verb} there once one is.",
                count(waiting, "accepted handoff")
            )
        }
    }
}

fn show(
    context: &Context,
    report: &MirrorReport,
    rows: Option<MirrorRows>,
    problem: Option<&str>,
) -> Result<(), Failure> {
    let (screen, style, now) = (&context.screen, context.screen.style, Timestamp::now());
    let line = |name: &str, text: &str| {
        screen.line(wrap(&one_line(text), screen.text_columns(), &format!("{name:<13}"), &" ".repeat(13)))
    };
    let status = match report.status {
        MirrorStatus::Degraded => style.bad(report.status.as_str()),
        MirrorStatus::Ok | MirrorStatus::Off => style.good(report.status.as_str()),
    };
    screen.line(format!("{:<13}{status}", "status"))?;
    line("database", report.location.as_deref().unwrap_or_default())?;
    line("reachable", problem.unwrap_or("yes"))?;
    if let Some(rows) = rows {
        let deleted = match rows.deleted {
            0 => String::new(),
            deleted => format!(", and {deleted} whose handoff was deleted"),
        };
        line("rows", &format!("{}{deleted}", rows.summaries))?;
    }
    let since = report.oldest.map(|oldest| format!(", the oldest since {}", ago(now, oldest)));
    line("waiting", &format!("{}{}", report.waiting, since.unwrap_or_default()))?;
    if let Some(at) = report.last_success {
        line("last success", &ago(now, at))?;
    }
    if let (Some(error), Some(at)) = (&report.last_error, report.last_error_at) {
        line("last error", &format!("{}: failed to {error}", ago(now, at)))?;
    }
    if let Some(rejected) = &report.rejected {
        line("rejected", &format!("handoff {}: {}", rejected.key, rejected.reason))?;
    }
    Ok(())
}

async fn flush(context: &Context) -> Outcome {
    let before = context.agent.handoffs().mirror_report().await?;
    if before.status == MirrorStatus::Off {
        return Err(Failure::new(Code::Config, "flush the mirror: none is configured").with_hint(NONE_HINT));
    }
    let screen = &context.screen;
    let mut told = |sent: u64| {
        if context.format == Format::Text && sent < before.waiting {
            screen.note(screen.style.dim(format!("{sent} of {} sent", before.waiting)));
        }
    };
    let Delivered { sent, rejected } = context.agent.handoffs().flush_mirror(&mut told).await?;
    let waiting = context.agent.handoffs().mirror_report().await?.waiting;
    if context.format == Format::Json {
        context.json(&json!({"sent": sent, "rejected": rejected, "waiting": waiting}))?;
    } else {
        screen.line(match sent {
            0 => "Nothing waited for the mirror.".to_owned(),
            sent => format!("{} sent to the mirror.", count(sent, "handoff")),
        })?;
    }
    match rejected {
        0 => Ok(Code::Done),
        rejected => {
            let what =
                format!("send {}: the database does not take what is in it", count(rejected, "handoff"));
            Err(Failure::new(Code::Store, what).with_hint("it waits; SEGUE_LOG=warn shows why"))
        }
    }
}
