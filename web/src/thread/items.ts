// Derives the conversation items from stored entries and streamed messages, without side effects. Items are
// ordered by `seq`, not by the time at which they arrived.
import type {
  AiEntry,
  ArchivedEntry,
  AuditEntry,
  CompactionFailedEntry,
  DamagedEntry,
  HistoryEntry,
  HumanEntry,
  ImportedEntry,
  JsonObject,
  MarkerEntry,
  ToolEntry,
  CompactionUndoneEntry,
} from "../api/types";

/** The progress of a running tool call. */
export interface CallProgress {
  /** The start time by the browser's clock. */
  since: number;
  /** The last part of the output so far. */
  output: string;
  /** The current activity of a sub-agent: the name of a tool, or `thinking`. */
  currentTool: string | null;
  /** The thread of a sub-agent. */
  thread: string | null;
}

/** A tool call and its result. */
export interface ToolInvocation {
  id: string;
  name: string;
  args: JsonObject;
  result: ToolEntry | null;
  progress: CallProgress | null;
}

/** A streamed answer that is not stored yet. */
export interface StreamingMessage {
  id: string;
  thinking: string;
  text: string;
}

/** One item of the conversation. Its `key` is stable. */
export type ConversationItem =
  | { kind: "human"; key: string; seq: number; entry: HumanEntry }
  | { kind: "ai"; key: string; seq: number; entry: AiEntry; calls: ToolInvocation[] }
  | { kind: "tool"; key: string; seq: number; entry: ToolEntry; call: ToolInvocation }
  | { kind: "marker"; key: string; seq: number; entry: MarkerEntry; undone: boolean }
  | { kind: "undone"; key: string; seq: number; entry: CompactionUndoneEntry }
  | { kind: "failed"; key: string; seq: number; entry: CompactionFailedEntry }
  | { kind: "archived"; key: string; seq: number; entry: ArchivedEntry }
  | { kind: "imported"; key: string; seq: number; entry: ImportedEntry }
  | { kind: "audit"; key: string; seq: number; entry: AuditEntry }
  | { kind: "damaged"; key: string; seq: number; entry: DamagedEntry }
  | { kind: "streaming"; key: string; seq: number; streaming: StreamingMessage };

/** Returns the positions that an item shows: its own, and those of the results of its calls. */
export function itemSeqs(item: ConversationItem): number[] {
  const calls = item.kind === "ai" ? item.calls : [];
  return [item.seq, ...calls.flatMap(({ result }) => result?.seq ?? [])];
}

/** Merges entries by `seq`, in order. An added entry replaces a known one with the same `seq`. */
export function mergeEntries(known: readonly HistoryEntry[], added: readonly HistoryEntry[]): HistoryEntry[] {
  const bySeq = new Map<number, HistoryEntry>();
  for (const entry of known) bySeq.set(entry.seq, entry);
  for (const entry of added) bySeq.set(entry.seq, entry);
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}

/** The results of `withoutFeedback`, so that the same entry always gives the same object. */
const unratedEntries = new WeakMap<AiEntry, AiEntry>();

/** Returns the entry without the feedback field. Returns the same object for the same entry. */
export function withoutFeedback(entry: AiEntry): AiEntry {
  const known = unratedEntries.get(entry);
  if (known) return known;
  const { feedback: _, ...rest } = entry;
  unratedEntries.set(entry, rest);
  return rest;
}

/** Thread state that the entries do not contain. */
export interface ItemContext {
  /** The `seq` of all markers that were undone, including those that are not loaded. */
  undone: ReadonlySet<number>;
  /** The active run. Its answers can be rated after it has ended. */
  activeRun: string | null;
}

/** Returns the conversation items. A result is shown with its call, unless the call is on another page. */
export function conversationItems(
  entries: readonly HistoryEntry[],
  progress: ReadonlyMap<string, CallProgress> = new Map(),
  streamed: readonly StreamingMessage[] = [],
  context: ItemContext = { undone: new Set(), activeRun: null },
): ConversationItem[] {
  const list: ConversationItem[] = [];
  const openCalls = new Map<string, ToolInvocation>();
  const undone = new Set(context.undone);
  for (const entry of entries)
    if (entry.type === "summary_undone" && !entry.superseded) undone.add(entry.marker_seq);
  for (const entry of entries) {
    const { id: key, seq } = entry;
    switch (entry.type) {
      case "human":
        list.push({ kind: "human", key, seq, entry });
        break;
      case "ai": {
        const calls = entry.content.flatMap((block) =>
          block.type === "tool_call"
            ? [
                {
                  id: block.id,
                  name: block.name,
                  args: block.args,
                  result: null,
                  progress: progress.get(block.id) ?? null,
                },
              ]
            : [],
        );
        for (const call of calls) openCalls.set(call.id, call);
        const isActive = "feedback" in entry && entry.run_id === context.activeRun;
        list.push({ kind: "ai", key, seq, entry: isActive ? withoutFeedback(entry) : entry, calls });
        break;
      }
      case "tool": {
        const call = openCalls.get(entry.call_id);
        if (call && !call.result) {
          call.result = entry;
          call.progress = null;
          break;
        }
        const base = {
          id: entry.call_id,
          name: entry.call?.name ?? entry.name ?? "tool",
          args: entry.call?.args ?? {},
        };
        list.push({ kind: "tool", key, seq, entry, call: { ...base, result: entry, progress: null } });
        break;
      }
      case "summary_marker":
        list.push({ kind: "marker", key, seq, entry, undone: undone.has(seq) });
        break;
      case "summary_undone":
        list.push({ kind: "undone", key, seq, entry });
        break;
      case "compaction_failed":
        list.push({ kind: "failed", key, seq, entry });
        break;
      case "turns_archived":
        list.push({ kind: "archived", key, seq, entry });
        break;
      case "imported_boundary":
      case "imported_summary":
        list.push({ kind: "imported", key, seq, entry });
        break;
      case "handoff_requested":
      case "handoff_refined":
      case "handoff_edited":
      case "handoff_accepted":
      case "handoff_merged":
      case "handoff_declined":
      case "handoff_previewed":
      case "handoff_failed":
      case "handoff_expired":
      case "tool_call_decided":
      case "thread_renamed":
      case "thread_rewound":
      case "pins_changed":
      case "run_failed":
        list.push({ kind: "audit", key, seq, entry });
        break;
      case "event_damaged":
        list.push({ kind: "damaged", key, seq, entry });
        break;
      // A newer server may send types that this page does not know.
    }
  }
  const stored = new Set(entries.map((entry) => entry.id));
  for (const message of streamed)
    if (!stored.has(message.id))
      list.push({ kind: "streaming", key: message.id, seq: Infinity, streaming: message });
  return list;
}
