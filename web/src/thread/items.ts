// What is drawn of a thread, from what the journal has and what is being said. Pure: entries in, items out. The order is
// that of `seq` and of nothing else, whatever came first.
import type {
  AiEntry,
  ArchivedEntry,
  Entry,
  HumanEntry,
  ImportedEntry,
  JsonObject,
  MarkerEntry,
  ToolEntry,
  UndoneEntry,
} from "../api/types";

/** What is known of a call that works at the moment. */
export interface Working {
  /** When it began, by this browser's clock. */
  since: number;
  /** What it printed so far. */
  output: string;
}

/** A call of a tool, with what became of it. */
export interface Call {
  id: string;
  name: string;
  args: JsonObject;
  result: ToolEntry | null;
  working: Working | null;
}

/** An answer while it is given: not stored, and gone when the stored one is there. */
export interface Saying {
  id: string;
  thinking: string;
  text: string;
}

/** One thing in the list. `key` stays the same for as long as it is there. */
export type Item =
  | { kind: "human"; key: string; seq: number; entry: HumanEntry }
  | { kind: "ai"; key: string; seq: number; entry: AiEntry; calls: Call[] }
  | { kind: "tool"; key: string; seq: number; entry: ToolEntry; call: Call }
  | { kind: "marker"; key: string; seq: number; entry: MarkerEntry; undone: boolean }
  | { kind: "undone"; key: string; seq: number; entry: UndoneEntry }
  | { kind: "archived"; key: string; seq: number; entry: ArchivedEntry }
  | { kind: "imported"; key: string; seq: number; entry: ImportedEntry }
  | { kind: "saying"; key: string; seq: number; saying: Saying };

/** Puts entries in, each once, in the order of `seq`. Of two with the same `seq` the one that came later counts. */
export function merge(known: readonly Entry[], added: readonly Entry[]): Entry[] {
  const first = added[0];
  const last = known.at(-1);
  if (!first) return [...known];
  // The common case, a page behind the last one, costs nothing of what is there.
  if (!last) return sorted(added);
  const bySeq = new Map<number, Entry>();
  for (const entry of known) bySeq.set(entry.seq, entry);
  for (const entry of added) bySeq.set(entry.seq, entry);
  return sorted([...bySeq.values()]);
}

function sorted(entries: readonly Entry[]): Entry[] {
  return [...entries].sort((a, b) => a.seq - b.seq);
}

/** Returns what is drawn. A result stands with its call; only where the call is on another page it stands for itself. */
export function items(
  entries: readonly Entry[],
  working: ReadonlyMap<string, Working> = new Map(),
  saying: readonly Saying[] = [],
): Item[] {
  const drawn: Item[] = [];
  const open = new Map<string, Call>();
  const undone = new Set(
    entries.flatMap((entry) =>
      entry.type === "summary_undone" && !entry.superseded ? [entry.marker_seq] : [],
    ),
  );
  for (const entry of entries) {
    const { id: key, seq } = entry;
    switch (entry.type) {
      case "human":
        drawn.push({ kind: "human", key, seq, entry });
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
                  working: working.get(block.id) ?? null,
                },
              ]
            : [],
        );
        for (const call of calls) open.set(call.id, call);
        drawn.push({ kind: "ai", key, seq, entry, calls });
        break;
      }
      case "tool": {
        const call = open.get(entry.call_id);
        if (call && !call.result) {
          call.result = entry;
          call.working = null;
          break;
        }
        const named = {
          id: entry.call_id,
          name: entry.call?.name ?? entry.name ?? "tool",
          args: entry.call?.args ?? {},
        };
        drawn.push({ kind: "tool", key, seq, entry, call: { ...named, result: entry, working: null } });
        break;
      }
      case "summary_marker":
        drawn.push({ kind: "marker", key, seq, entry, undone: undone.has(seq) });
        break;
      case "summary_undone":
        drawn.push({ kind: "undone", key, seq, entry });
        break;
      case "turns_archived":
        drawn.push({ kind: "archived", key, seq, entry });
        break;
      case "imported_boundary":
      case "imported_summary":
        drawn.push({ kind: "imported", key, seq, entry });
        break;
      // A newer server may tell of things this page does not know.
    }
  }
  const stored = new Set(entries.map((entry) => entry.id));
  for (const said of saying)
    if (!stored.has(said.id)) drawn.push({ kind: "saying", key: said.id, seq: Infinity, saying: said });
  return drawn;
}
