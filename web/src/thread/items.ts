// What is drawn of a thread, from what the journal has and what is being said. Pure: entries in, items out. The order is
// that of `seq` and of nothing else, whatever came first.
import type {
  AiEntry,
  ArchivedEntry,
  CompactionFailedEntry,
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
  /** The end of what it printed so far. */
  output: string;
  /** What a sub-agent does at the moment, in a word: the tool it works with, or `thinking`. */
  doing: string | null;
  /** The thread a sub-agent works in. */
  thread: string | null;
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
  | { kind: "failed"; key: string; seq: number; entry: CompactionFailedEntry }
  | { kind: "archived"; key: string; seq: number; entry: ArchivedEntry }
  | { kind: "imported"; key: string; seq: number; entry: ImportedEntry }
  | { kind: "saying"; key: string; seq: number; saying: Saying };

/** Puts entries in, each once, in the order of `seq`. Of two with the same `seq` the one that came later counts. */
export function merge(known: readonly Entry[], added: readonly Entry[]): Entry[] {
  const bySeq = new Map<number, Entry>();
  for (const entry of known) bySeq.set(entry.seq, entry);
  for (const entry of added) bySeq.set(entry.seq, entry);
  return [...bySeq.values()].sort((a, b) => a.seq - b.seq);
}

const unratedOnes = new WeakMap<AiEntry, AiEntry>();

/** The entry without the field that says that it can be rated: the same each time. */
export function unrated(entry: AiEntry): AiEntry {
  const known = unratedOnes.get(entry);
  if (known) return known;
  const { feedback: _, ...rest } = entry;
  unratedOnes.set(entry, rest);
  return rest;
}

/** What is known of the thread beside the entries that are there. */
export interface Around {
  /** The markers that were taken back, by `seq`, wherever that is told. */
  undone: ReadonlySet<number>;
  /** The run that works: its answers can be rated when it has ended. */
  active: string | null;
}

/** Returns what is drawn. A result stands with its call; only where the call is on another page it stands for itself. */
export function items(
  entries: readonly Entry[],
  working: ReadonlyMap<string, Working> = new Map(),
  saying: readonly Saying[] = [],
  around: Around = { undone: new Set(), active: null },
): Item[] {
  const drawn: Item[] = [];
  const open = new Map<string, Call>();
  const undone = new Set(around.undone);
  for (const entry of entries)
    if (entry.type === "summary_undone" && !entry.superseded) undone.add(entry.marker_seq);
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
        const isActive = "feedback" in entry && entry.run_id === around.active;
        drawn.push({ kind: "ai", key, seq, entry: isActive ? unrated(entry) : entry, calls });
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
      case "compaction_failed":
        drawn.push({ kind: "failed", key, seq, entry });
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
