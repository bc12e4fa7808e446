// Excerpts of history entries as plain text. Pure.
import type { ContentBlock, HistoryEntry, JsonObject } from "../api/types";

/** The maximum number of characters. */
const EXCERPT_CHARS_MAX = 280;

export interface MessageExcerpt {
  speaker: string;
  text: string;
  created_at: string;
}

/** Returns the speaker and an excerpt of an entry. */
export function excerptOf(entry: HistoryEntry): MessageExcerpt {
  const { created_at } = entry;
  switch (entry.type) {
    case "human":
      return { speaker: "User", text: textOf(entry.content), created_at };
    case "ai":
      return { speaker: "Assistant", text: textOf(entry.content), created_at };
    case "tool":
      return { speaker: entry.name ?? "Tool", text: textOf(entry.content), created_at };
    case "summary_marker":
      return { speaker: "Compacted", text: truncate(entry.summary), created_at };
    case "turns_archived":
      return { speaker: "Archived", text: truncate(entry.summary), created_at };
    case "summary_undone":
      return { speaker: "Compaction undone", text: "", created_at };
    case "compaction_failed":
      return { speaker: "Not compacted", text: truncate(entry.reason), created_at };
    case "imported_boundary":
    case "imported_summary":
      return { speaker: "Imported", text: truncate(entry.text), created_at };
    default:
      return { speaker: "Event", text: truncate(entry.text), created_at };
  }
}

function textOf(content: readonly ContentBlock[]): string {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const calls = content.flatMap((block) =>
    block.type === "tool_call" ? [`Calls ${block.name}${describeArguments(block.args)}`] : [],
  );
  const media = content.flatMap((block) => (block.type === "media" ? [`(${block.media_type})`] : []));
  return truncate([...texts, ...calls, ...media].join("\n"));
}

/** Returns the arguments of a call as text. */
function describeArguments(args: JsonObject): string {
  const pairs = Object.entries(args).map(
    ([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return pairs.length > 0 ? `: ${pairs.join(", ")}` : "";
}

function truncate(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  const characters = [...flat.slice(0, 2 * EXCERPT_CHARS_MAX + 2)];
  return characters.length > EXCERPT_CHARS_MAX
    ? `${characters.slice(0, EXCERPT_CHARS_MAX).join("").trimEnd()}…`
    : flat;
}
