//! Renders the report about a probed summary: how many questions the text answers, and each question that it does not.

use agent::HandoffService;
use protocol::{ContinuityProbe, ContinuityReport, ProbeJudge};

use crate::screen::Screen;
use crate::text::amount::{format_dollars, format_tokens};
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::wrap;

/// Returns the result in one line, the subjects of all questions, and the details of each question that failed; a line
/// that says so if the conversation contains nothing to ask about.
pub fn render_report(
    screen: &Screen,
    report: &ContinuityReport,
    handoffs: HandoffService<'_>,
) -> Vec<String> {
    let (columns, style) = (screen.text_columns(), screen.style);
    let mut lines = Vec::new();
    if let Some(problem) = &report.problem {
        let problem = sanitize_line(problem);
        let text = match report.model {
            None => format!("No model answered ({problem}). The text was searched instead."),
            Some(_) => {
                format!("The model did not judge every answer ({problem}). The others count as wrong.")
            }
        };
        lines.push(style.warn(wrap(&text, columns, "", "  ")));
    }
    let total = report.probes.len();
    if total == 0 {
        lines.push(
            style.dim("There is nothing to check: the conversation has no request, task, rule or file."),
        );
        return lines;
    }
    let passed = report.passed_count();
    let heading = format!(
        "Rehearsal of the next thread: this text alone answers {passed} of {total} questions about the work{}.",
        answerer(report, handoffs)
    );
    let heading = wrap(&heading, columns, "", "  ");
    lines.push(if passed == total { style.good(heading) } else { style.warn(heading) });
    let mark = |probe: &ContinuityProbe| if probe.passed { "✓" } else { "✗" };
    let subjects: Vec<String> =
        report.probes.iter().map(|probe| format!("{} {}", mark(probe), probe.kind.label())).collect();
    lines.push(style.dim(wrap(&subjects.join(" · "), columns, "  ", "  ")));
    for probe in report.probes.iter().filter(|probe| !probe.passed) {
        lines.extend(failure_lines(screen, probe));
    }
    lines
}

/// Returns who answered, with the cost: ` (asked openai/gpt-5: 3.1k tokens, $0.01)`.
fn answerer(report: &ContinuityReport, handoffs: HandoffService<'_>) -> String {
    let Some(model) = &report.model else { return " (searched without a model)".to_owned() };
    let tokens = format_tokens(report.usage.total_tokens());
    let price = handoffs.probe_price(report).map(|price| format!(", {}", format_dollars(price)));
    format!(" (asked {}: {tokens} tokens{})", sanitize_line(model), price.unwrap_or_default())
}

/// Returns the question, the expected answer with its place, and the answer that was given.
fn failure_lines(screen: &Screen, probe: &ContinuityProbe) -> Vec<String> {
    let (columns, style) = (screen.text_columns(), screen.style);
    let place = probe.seq.map(|seq| format!(" (#{seq})")).unwrap_or_default();
    let expected = format!("{} {}{place}", probe.question, sanitize_line(&probe.expected));
    let given = match (&probe.answer, probe.judged_by) {
        (Some(answer), ProbeJudge::Model) => {
            format!("the answer was: {} (compared by the model)", sanitize_line(answer))
        }
        (Some(answer), ProbeJudge::Rules) => format!("closest: {}", sanitize_line(answer)),
        (None, _) => "the text does not say".to_owned(),
    };
    vec![
        style.warn(wrap(&expected, columns, "  ✗ ", "    ")),
        style.dim(wrap(&given, columns, "    ", "    ")),
    ]
}
