//! `segue doctor`: what a handoff relies on, checked, with what to do. It changes nothing.

use agent::{Agent, Check, Verdict};
use terminal::{one_line, wrap};

use crate::cli::{Format, Global};
use crate::commands::{Asked, settings};
use crate::exit::{Code, Failure, Outcome};

/// Performs the command. A home that cannot be opened is a finding, not a failure of the doctor.
pub(crate) async fn run(global: &Global) -> Outcome {
    let (checks, code) = match Agent::open(settings(global, Asked::default())?).await {
        Ok(agent) => {
            let checks = agent.admin().doctor().await;
            let fails = checks.iter().any(|check| check.verdict == Verdict::Fail);
            (checks, if fails { Code::Store } else { Code::Done })
        }
        Err(error) => {
            let (code, hint) = (Code::from(error.class()), error.hint());
            let check =
                Check::new("open", Verdict::Fail, format!("failed to {}", crate::exit::chain(&error)));
            (vec![Check { hint, ..check }], code)
        }
    };
    show(global, &checks)?;
    Ok(code)
}

fn show(global: &Global, checks: &[Check]) -> Result<(), Failure> {
    let screen = global.screen();
    if global.format() == Format::Json {
        screen.line(serde_json::to_string(checks)?)?;
        return Ok(());
    }
    for check in checks {
        let (mark, style) = (check.verdict, screen.style);
        let mark = match mark {
            Verdict::Ok => style.good("ok  "),
            Verdict::Warn => style.warn("warn"),
            Verdict::Fail => style.bad("fail"),
        };
        let lead = format!("{mark}  {:<9} ", check.name);
        let next = " ".repeat(16);
        screen.line(wrap(&one_line(&check.detail), screen.columns, &lead, &next))?;
        if let Some(hint) = &check.hint {
            screen.line(style.dim(wrap(
                &format!("hint: {}", one_line(hint)),
                screen.columns,
                &next,
                &next,
            )))?;
        }
    }
    Ok(())
}
