// The texts of the check of what a summary alone answers. Pure.
import type { ContinuityProbe, ContinuityReport } from "../api/types";

const NAMES: Record<string, string> = {
  last_request: "Last request",
  open_task: "Open task",
  rule: "Rule",
  file: "File in use",
  decision: "Decision",
};

/** Returns the name of a question's subject. */
export function probeName(kind: string): string {
  return NAMES[kind] ?? kind;
}

/** Returns how many of the questions of the rehearsal the text answers, in words. It is no mark for the text as a whole. */
export function continuityCount({ passed, probes }: Pick<ContinuityReport, "passed" | "probes">): string {
  return `Rehearsal: the text answers ${passed} of ${probes.length} ${probes.length === 1 ? "question" : "questions"}`;
}

/** Returns what was answered to a failed question, in a sentence. */
export function probeAnswer({ answer, judged_by }: ContinuityProbe): string {
  if (!answer) return "The text does not say.";
  return judged_by === "model" ? `The answer was: ${answer}` : `Closest: ${answer}`;
}

/** Returns whether a report is about the text with this hash. */
export function isAbout(report: ContinuityReport, sha256: string): boolean {
  return report.summary_sha256 === sha256;
}
