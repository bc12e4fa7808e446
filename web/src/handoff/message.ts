// The beginning of one message, for whoever wants to know what a number stands for without going there.
import { api } from "../api/endpoints";
import type { Block, Entry } from "../api/types";

/** Characters of a message that are shown. */
const BEGINNING_MAX = 280;
/** Messages that are remembered; they never change. */
const KEPT_MAX = 200;

export interface Beginning {
  speaker: string;
  text: string;
  created_at: string;
}

const kept = new Map<string, Promise<Beginning | null>>();

/** Returns how a message begins; `null` when it is not there. */
export function beginningOf(thread: string, seq: number): Promise<Beginning | null> {
  const key = `${thread}:${seq}`;
  const known = kept.get(key);
  if (known) return known;
  const asked = api
    .history(thread, { after_seq: seq - 1, limit: 1, superseded: true })
    .then(({ entries: [entry] }) => (entry?.seq === seq ? beginning(entry) : null));
  // What failed is asked again the next time.
  asked.catch(() => kept.delete(key));
  kept.set(key, asked);
  const oldest = kept.keys().next().value;
  if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest);
  return asked;
}

/** Says who speaks in an entry, and how it begins. */
export function beginning(entry: Entry): Beginning {
  const { created_at } = entry;
  switch (entry.type) {
    case "human":
      return { speaker: "User", text: textOf(entry.content), created_at };
    case "ai":
      return { speaker: "Assistant", text: textOf(entry.content), created_at };
    case "tool":
      return { speaker: entry.name ?? "Tool", text: textOf(entry.content), created_at };
    case "summary_marker":
      return { speaker: "Condensed", text: cut(entry.summary), created_at };
    case "turns_archived":
      return { speaker: "Archived", text: cut(entry.summary), created_at };
    case "summary_undone":
      return { speaker: "Condensing taken back", text: "", created_at };
    case "imported_boundary":
    case "imported_summary":
      return { speaker: "Imported", text: cut(entry.text), created_at };
  }
}

function textOf(content: readonly Block[]): string {
  const said = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const called = content.flatMap((block) =>
    block.type === "tool_call" ? [`${block.name} ${JSON.stringify(block.args)}`] : [],
  );
  const shown = content.flatMap((block) => (block.type === "media" ? [`(${block.media_type})`] : []));
  return cut([...said, ...called, ...shown].join("\n"));
}

function cut(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length > BEGINNING_MAX ? `${flat.slice(0, BEGINNING_MAX).trimEnd()}…` : flat;
}
