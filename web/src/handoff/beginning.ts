// How a message begins, in a few words and without what it is made of. Pure.
import type { Block, Entry, JsonObject } from "../api/types";

/** Characters of a message that are shown. */
const BEGINNING_MAX = 280;

export interface Beginning {
  speaker: string;
  text: string;
  created_at: string;
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
    case "compaction_failed":
      return { speaker: "Not condensed", text: cut(entry.reason), created_at };
    case "imported_boundary":
    case "imported_summary":
      return { speaker: "Imported", text: cut(entry.text), created_at };
  }
}

function textOf(content: readonly Block[]): string {
  const said = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const called = content.flatMap((block) =>
    block.type === "tool_call" ? [`Calls ${block.name}${worded(block.args)}`] : [],
  );
  const shown = content.flatMap((block) => (block.type === "media" ? [`(${block.media_type})`] : []));
  return cut([...said, ...called, ...shown].join("\n"));
}

/** What a call is given, in words. */
function worded(args: JsonObject): string {
  const given = Object.entries(args).map(
    ([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return given.length > 0 ? `: ${given.join(", ")}` : "";
}

function cut(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  const letters = [...flat.slice(0, 2 * BEGINNING_MAX + 2)];
  return letters.length > BEGINNING_MAX ? `${letters.slice(0, BEGINNING_MAX).join("").trimEnd()}…` : flat;
}
