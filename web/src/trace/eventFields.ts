// Reads fields of journal events without trusting their types. Pure.
import type { ContentBlock, JournalEvent, Json, JsonObject, TokenUsage } from "../api/types";

export const NO_USAGE: TokenUsage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
};

/** Adds two usages. */
export function addUsage(a: TokenUsage, b: TokenUsage | null): TokenUsage {
  if (!b) return a;
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cache_read_tokens: a.cache_read_tokens + b.cache_read_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
  };
}

/** Returns the sum of all input and output tokens. */
export function totalTokens(usage: TokenUsage): number {
  return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
}

export const asText = (value: Json | undefined): string => (typeof value === "string" ? value : "");
export const asNumber = (value: Json | undefined): number => (typeof value === "number" ? value : 0);
export const asObject = (value: Json | undefined): JsonObject =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};

/** Returns the token usage, or null if there is none. */
export function usageOf(value: Json | undefined): TokenUsage | null {
  if (value === undefined || value === null) return null;
  const usage = asObject(value);
  return {
    input_tokens: asNumber(usage.input_tokens),
    output_tokens: asNumber(usage.output_tokens),
    cache_read_tokens: asNumber(usage.cache_read_tokens),
    cache_write_tokens: asNumber(usage.cache_write_tokens),
  };
}

/** Returns the content blocks of a message. */
export function blocksOf(event: JournalEvent): ContentBlock[] {
  const content = event.content.content;
  return Array.isArray(content) ? (content as ContentBlock[]) : [];
}

/** Returns the text of a message. */
export function textOf(event: JournalEvent): string {
  const texts = blocksOf(event).map((block) => (block.type === "text" ? block.text : ""));
  return texts.filter(Boolean).join("\n\n");
}

/** Returns the first line, truncated. */
export function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

/** Returns the most important argument of a call. */
export function argumentOf(args: JsonObject | null): string {
  if (!args) return "";
  const names = ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text"];
  const key = names.find((name) => typeof args[name] === "string");
  const [first] = Object.values(args);
  return firstLine(key ? asText(args[key]) : typeof first === "string" ? first : "");
}

/** Removes the provider from a model name: `claude-sonnet-4-5` from `anthropic/claude-sonnet-4-5`. */
export const modelName = (model: string): string => model.slice(model.indexOf("/") + 1);
