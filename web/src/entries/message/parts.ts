// The parts of an answer in order. A streamed answer uses the same keys as the stored one, so its elements
// are kept.
import type { ContentBlock } from "../../api/types";
import type { ToolInvocation, StreamingMessage } from "../../thread/items";
import type { MediaFile } from "./media";

export type AnswerPart =
  | { kind: "thought" | "text" | "note"; key: string; text: string }
  | { kind: "call"; key: string; call: ToolInvocation }
  | { kind: "media"; key: string; media: MediaFile };

/** Returns the parts of a stored answer. */
export function answerParts(
  content: readonly ContentBlock[],
  calls: readonly ToolInvocation[],
): AnswerPart[] {
  const result: AnswerPart[] = [];
  const counts = new Map<string, number>();
  const nextKey = (kind: string) => {
    const count = counts.get(kind) ?? 0;
    counts.set(kind, count + 1);
    return `${kind}${count}`;
  };
  for (const block of content) {
    const last = result.at(-1);
    switch (block.type) {
      case "text":
        if (last?.kind === "text") last.text += block.text;
        else if (block.text.trim()) result.push({ kind: "text", key: nextKey("text"), text: block.text });
        break;
      case "thinking":
        if (last?.kind === "thought") last.text += `\n\n${block.text}`;
        else if (block.text.trim())
          result.push({ kind: "thought", key: nextKey("thought"), text: block.text });
        break;
      case "tool_call": {
        const call = calls.find(({ id }) => id === block.id);
        if (call) result.push({ kind: "call", key: call.id, call });
        break;
      }
      case "media":
        result.push({ kind: "media", key: nextKey("media"), media: block });
        break;
      case "opaque":
        // Provider-specific content, such as encrypted reasoning.
        break;
    }
  }
  return result;
}

/** Returns the parts of a streamed answer. */
export function streamingParts({ thinking, text }: StreamingMessage): AnswerPart[] {
  return [
    ...(thinking.trim() ? [{ kind: "thought" as const, key: "thought0", text: thinking }] : []),
    ...(text.trim() ? [{ kind: "text" as const, key: "text0", text }] : []),
  ];
}

/** Returns the text without reasoning and calls. */
export function textOf(content: readonly ContentBlock[]): string {
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n\n");
}
