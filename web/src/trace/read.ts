// What stands in the events of a journal, read without trusting its shape. Pure.
import type { Block, JournalEvent, Json, JsonObject, Usage } from "../api/types";

export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
};

/** Adds up. */
export function plus(a: Usage, b: Usage | null): Usage {
  if (!b) return a;
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cache_read_tokens: a.cache_read_tokens + b.cache_read_tokens,
    cache_write_tokens: a.cache_write_tokens + b.cache_write_tokens,
  };
}

/** All tokens that went to a model and came back. */
export function allTokens(usage: Usage): number {
  return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
}

export const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
export const number = (value: Json | undefined): number => (typeof value === "number" ? value : 0);
export const object = (value: Json | undefined): JsonObject =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};

/** Tokens, if any are told. */
export function usageOf(value: Json | undefined): Usage | null {
  if (value === undefined || value === null) return null;
  const told = object(value);
  return {
    input_tokens: number(told.input_tokens),
    output_tokens: number(told.output_tokens),
    cache_read_tokens: number(told.cache_read_tokens),
    cache_write_tokens: number(told.cache_write_tokens),
  };
}

/** The blocks of a message. */
export function blocksOf(event: JournalEvent): Block[] {
  const content = event.content.content;
  return Array.isArray(content) ? (content as Block[]) : [];
}

/** The text of a message. */
export function textOf(event: JournalEvent): string {
  const texts = blocksOf(event).map((block) => (block.type === "text" ? block.text : ""));
  return texts.filter(Boolean).join("\n\n");
}

/** The first words, on one line. */
export function beginning(words: string): string {
  const line = words.trim().split("\n", 1)[0] ?? "";
  return line.length > 120 ? `${line.slice(0, 119)}…` : line;
}

/** The argument by which people know a call. */
export function argumentOf(args: JsonObject | null): string {
  if (!args) return "";
  const names = ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "text"];
  const found = names.find((name) => typeof args[name] === "string");
  const [first] = Object.values(args);
  return beginning(found ? text(args[found]) : typeof first === "string" ? first : "");
}

/** `claude-sonnet-4-5`, of `anthropic/claude-sonnet-4-5`. */
export const modelName = (model: string): string => model.slice(model.indexOf("/") + 1);
