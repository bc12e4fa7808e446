// The threads that can be merged by handoff: several threads are handed off into one child. The server decides; these
// rules only choose what the page offers. Pure.
import type { MergedParent, ThreadRow } from "../api/types";
import { relativeTime, shortId, titleOf } from "../ui/format";

/** The properties of the child of a handoff. */
export type MergeTarget = Pick<
  ThreadRow,
  "thread_id" | "name" | "first_prompt" | "parent_id" | "parent_kind" | "message_count"
> & { title?: string | null; merged_parents?: MergedParent[] };

/** Returns whether a thread can get the summary of another thread: a handoff created it, and it has no message. */
export function isMergeTarget({ parent_kind, message_count }: MergeTarget): boolean {
  return parent_kind === "handoff" && message_count === 0;
}

/** Returns the threads whose summary can be added to the child: those with messages that are not its parents. */
export function mergeSources(rows: readonly ThreadRow[], child: MergeTarget): ThreadRow[] {
  const parents = [child.parent_id, ...(child.merged_parents ?? []).map(({ thread_id }) => thread_id)];
  return rows.filter((row) => row.message_count > 0 && !parents.includes(row.thread_id));
}

/** Returns the threads to which the summary of a thread can be added. */
export function mergeTargets(rows: readonly ThreadRow[], source: string): ThreadRow[] {
  return rows.filter((row) => isMergeTarget(row) && row.thread_id !== source && row.parent_id !== source);
}

/** Returns the text of a child in the list of targets. The id and the age tell children with the same title apart. */
export function targetLabel(row: ThreadRow, targets: readonly ThreadRow[], now: number): string {
  const id = shortId(
    row.thread_id,
    targets.map(({ thread_id }) => thread_id),
  );
  return `“${titleOf(row)}”, with its summary (${id}, created ${relativeTime(row.created_at, now)})`;
}
