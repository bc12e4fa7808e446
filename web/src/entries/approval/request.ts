// Reads action requests for the approval panel. The fields of `details` are optional and not trusted.
import type { ActionRequest, Interrupt, JsonObject } from "../../api/types";

export type DecisionKind = "approve" | "edit" | "reject" | "respond";
export const DECISION_KINDS: readonly { kind: DecisionKind; letter: string; label: string }[] = [
  { kind: "approve", letter: "y", label: "Approve" },
  { kind: "edit", letter: "e", label: "Edit" },
  { kind: "reject", letter: "n", label: "Reject" },
  { kind: "respond", letter: "r", label: "Answer instead" },
];

/** Returns the decisions that are allowed for a request. */
export function allowedDecisions(interrupt: Interrupt, request: ActionRequest): DecisionKind[] {
  const config = interrupt.value.review_configs?.find(({ action_name }) => action_name === request.name);
  return DECISION_KINDS.map(({ kind }) => kind).filter(
    (kind) => config?.allowed_decisions.includes(kind) ?? true,
  );
}

/** Returns the decisions that need no folder, because they run nothing. */
export function decisionsWithoutFolder(kinds: readonly DecisionKind[]): DecisionKind[] {
  return kinds.filter((kind) => kind === "reject" || kind === "respond");
}

const detailText = (request: ActionRequest, key: string) => {
  const value = request.details?.[key];
  return typeof value === "string" ? value : null;
};

/**
 * Returns the command that would run. `details` tells whether the tool runs commands; other tools may have an
 * argument of that name, too.
 */
export function commandOf(request: ActionRequest): string | null {
  const recorded = detailText(request, "command");
  if (recorded === null) return null;
  return typeof request.args.command === "string" ? request.args.command : recorded;
}

/** Returns the proposed change as a unified diff. */
export const diffOf = (request: ActionRequest) => detailText(request, "diff");
/** Returns the rule that requires the approval. */
export const ruleOf = (request: ActionRequest) => detailText(request, "rule");
/** Returns true if a sub-agent made the request. */
export const isFromSubagent = (request: ActionRequest) => Boolean(request.details?.subagent);

/** Returns the warnings about the call, one per line. */
export function warningsOf(request: ActionRequest): string[] {
  const list = request.details?.warnings;
  if (!Array.isArray(list)) return [];
  return list.flatMap((warning) => {
    if (typeof warning === "string") return [warning];
    const text = (warning as JsonObject | null)?.text;
    return typeof text === "string" ? [text] : [];
  });
}

/** A form field for one argument. */
export interface ArgumentField {
  name: string;
  /** Strings are edited as text, all other values as JSON. */
  format: "text" | "json";
  value: string;
}

export function argumentFields(args: JsonObject): ArgumentField[] {
  return Object.entries(args).map(([name, value]) =>
    typeof value === "string"
      ? { name, format: "text", value }
      : { name, format: "json", value: JSON.stringify(value, null, 2) },
  );
}

/** Returns the error of a field value, or null if it is valid. */
export function fieldError({ format, value }: ArgumentField): string | null {
  if (format === "text") return null;
  try {
    JSON.parse(value);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : "Invalid JSON";
  }
}

/** Returns the arguments from the form fields. */
export function parseArguments(fields: readonly ArgumentField[]): JsonObject {
  return Object.fromEntries(
    fields.map(({ name, format, value }) => [
      name,
      format === "text" ? value : (JSON.parse(value) as JsonObject[string]),
    ]),
  );
}
