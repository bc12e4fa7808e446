// What a question about a call holds for the person who decides. What the server says of it is in `details`; it is not relied on.
import type { ActionRequest, Interrupt, JsonObject } from "../../api/types";

export type Kind = "approve" | "edit" | "reject" | "respond";
export const KINDS: readonly { kind: Kind; letter: string; label: string }[] = [
  { kind: "approve", letter: "y", label: "Approve" },
  { kind: "edit", letter: "e", label: "Edit" },
  { kind: "reject", letter: "n", label: "Reject" },
  { kind: "respond", letter: "r", label: "Answer instead" },
];

/** Returns the decisions that are allowed about a request. */
export function allowed(interrupt: Interrupt, request: ActionRequest): Kind[] {
  const config = interrupt.value.review_configs?.find(({ action_name }) => action_name === request.name);
  return KINDS.map(({ kind }) => kind).filter((kind) => config?.allowed_decisions.includes(kind) ?? true);
}

/** Returns those of the decisions that can be taken where the folder of a call does not exist: nothing is run by them. */
export function withoutFolder(kinds: readonly Kind[]): Kind[] {
  return kinds.filter((kind) => kind === "reject" || kind === "respond");
}

const detail = (request: ActionRequest, key: string) => {
  const value = request.details?.[key];
  return typeof value === "string" ? value : null;
};

/** Returns the command that would be run. Only a tool that says so takes one; another's argument of that name is one of many. */
export function command(request: ActionRequest): string | null {
  const told = detail(request, "command");
  if (told === null) return null;
  return typeof request.args.command === "string" ? request.args.command : told;
}

/** Returns the change that would be made, as a unified diff. */
export const change = (request: ActionRequest) => detail(request, "diff");
/** Returns why a person is asked. */
export const rule = (request: ActionRequest) => detail(request, "rule");
/** Whether a sub-agent asks. */
export const isNested = (request: ActionRequest) => Boolean(request.details?.subagent);

/** Returns what speaks against the call, a line each. */
export function warnings(request: ActionRequest): string[] {
  const told = request.details?.warnings;
  if (!Array.isArray(told)) return [];
  return told.flatMap((warning) => {
    if (typeof warning === "string") return [warning];
    const text = (warning as JsonObject | null)?.text;
    return typeof text === "string" ? [text] : [];
  });
}

/** A field of the form in which arguments are changed. */
export interface Field {
  name: string;
  /** Text is edited as it is, everything else as JSON. */
  is: "text" | "json";
  value: string;
}

export function fields(args: JsonObject): Field[] {
  return Object.entries(args).map(([name, value]) =>
    typeof value === "string"
      ? { name, is: "text", value }
      : { name, is: "json", value: JSON.stringify(value, null, 2) },
  );
}

/** Returns why a field cannot be read, or null. */
export function problem({ is, value }: Field): string | null {
  if (is === "text") return null;
  try {
    JSON.parse(value);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : "This is no JSON";
  }
}

/** Returns the arguments that the fields hold. */
export function edited(found: readonly Field[]): JsonObject {
  return Object.fromEntries(
    found.map(({ name, is, value }) => [
      name,
      is === "text" ? value : (JSON.parse(value) as JsonObject[string]),
    ]),
  );
}
