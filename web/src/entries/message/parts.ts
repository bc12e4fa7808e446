// What an answer is drawn from, in its order. The parts of an answer that is being said have the names that those of the stored
// one will have.
import type { Block } from "../../api/types";
import type { Call, Saying } from "../../thread/items";
import type { Media } from "./media";

export type Part =
  | { kind: "thought" | "text" | "note"; key: string; text: string }
  | { kind: "call"; key: string; call: Call }
  | { kind: "media"; key: string; media: Media };

/** Returns the parts of a stored answer. */
export function parts(content: readonly Block[], calls: readonly Call[]): Part[] {
  const found: Part[] = [];
  const counts = new Map<string, number>();
  const next = (kind: string) => {
    const count = counts.get(kind) ?? 0;
    counts.set(kind, count + 1);
    return `${kind}${count}`;
  };
  for (const block of content) {
    const last = found.at(-1);
    switch (block.type) {
      case "text":
        if (last?.kind === "text") last.text += block.text;
        else if (block.text.trim()) found.push({ kind: "text", key: next("text"), text: block.text });
        break;
      case "thinking":
        if (last?.kind === "thought") last.text += `\n\n${block.text}`;
        else if (block.text.trim()) found.push({ kind: "thought", key: next("thought"), text: block.text });
        break;
      case "tool_call": {
        const call = calls.find(({ id }) => id === block.id);
        if (call) found.push({ kind: "call", key: call.id, call });
        break;
      }
      case "media":
        found.push({ kind: "media", key: next("media"), media: block });
        break;
      case "opaque":
        // The provider's own, such as reasoning that it keeps to itself.
        break;
    }
  }
  return found;
}

/** Returns the parts of an answer that is being said. */
export function said({ thinking, text }: Saying): Part[] {
  return [
    ...(thinking.trim() ? [{ kind: "thought" as const, key: "thought0", text: thinking }] : []),
    ...(text.trim() ? [{ kind: "text" as const, key: "text0", text }] : []),
  ];
}

/** Returns what was said, without what was thought and done. */
export function textOf(content: readonly Block[]): string {
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n\n");
}
