// A person's own text for a summary: what they change, the limits it has to keep, and the decision it becomes. Pure.
import type { Decision, Proposal, SummaryItem, SummaryKind } from "../api/types";
import { KINDS } from "./review";

/** The limits of contract §4, in grapheme clusters and items. */
export const TITLE_MAX = 120;
export const TLDR_MAX = 200;
export const ITEMS_MAX = 7;
/** Bytes of one feedback. */
export const FEEDBACK_BYTES_MAX = 8_000;

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** How many characters people see in a text. */
export function graphemes(text: string): number {
  let count = 0;
  for (const _ of segmenter.segment(text)) count += 1;
  return count;
}

export function bytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** An item that is being edited. `key` stays while it moves. */
export interface EditItem {
  key: number;
  kind: SummaryKind;
  text: string;
  refs: number[];
  /** The text that could not be verified, for as long as it is that. */
  unverified: string | null;
}

/** A summary that is being edited, in one of two ways. */
export interface Edit {
  /** The text it was made from; it stays that when there is a newer one. */
  sha256: string;
  how: "fields" | "markdown";
  title: string;
  tldr: string;
  items: EditItem[];
  markdown: string;
  /** Whether the Markdown was changed by hand; the fields do not know of that. */
  isMarkdownOwn: boolean;
}

export function begin(proposal: Proposal): Edit {
  const { title, tldr, body } = proposal.summary_json;
  return {
    sha256: proposal.summary_sha256,
    how: "fields",
    title,
    tldr,
    items: itemsOf(body),
    markdown: proposal.summary_md,
    isMarkdownOwn: false,
  };
}

function itemsOf(body: readonly SummaryItem[]): EditItem[] {
  return inOrder(
    body.map(({ kind, text, refs, verified }, key) => ({
      key,
      kind,
      text,
      refs,
      unverified: verified ? null : text,
    })),
  );
}

const rank = new Map(KINDS.map(({ kind }, at) => [kind, at]));

/** Items in the order the summary will have them: by kind, and within a kind as they stand. */
export function inOrder(items: readonly EditItem[]): EditItem[] {
  return [...items].sort((a, b) => (rank.get(a.kind) ?? 0) - (rank.get(b.kind) ?? 0));
}

/** Moves an item past its neighbour of the same kind; the same items where there is none. */
export function moved(items: readonly EditItem[], key: number, by: -1 | 1): EditItem[] {
  const at = items.findIndex((item) => item.key === key);
  const [item, other] = [items[at], items[at + by]];
  if (!item || !other || other.kind !== item.kind) return [...items];
  const changed = [...items];
  changed[at] = other;
  changed[at + by] = item;
  return changed;
}

export function added(items: readonly EditItem[], kind: SummaryKind): EditItem[] {
  const key = Math.max(-1, ...items.map((item) => item.key)) + 1;
  return inOrder([...items, { key, kind, text: "", refs: [], unverified: null }]);
}

/** Whether anything differs from the proposal. */
export function isChanged(edit: Edit, proposal: Proposal): boolean {
  if (edit.how === "markdown") return edit.markdown !== proposal.summary_md;
  const { title, tldr, body } = proposal.summary_json;
  const items = itemsOf(body);
  const plain = (of: readonly EditItem[]) => JSON.stringify(of.map(({ kind, text }) => [kind, text]));
  return edit.title !== title || edit.tldr !== tldr || plain(edit.items) !== plain(items);
}

/** The draft an edit was made from; `null` where it is none of these. */
export function baseOf(edit: Edit, proposals: readonly Proposal[]): Proposal | null {
  return proposals.findLast((proposal) => proposal.summary_sha256 === edit.sha256) ?? null;
}

/** Whether a person wrote something: anything that differs from what they began with, whatever was drafted since. */
export function isWritten(edit: Edit | null, proposals: readonly Proposal[]): edit is Edit {
  if (!edit) return false;
  const base = baseOf(edit, proposals);
  return !base || isChanged(edit, base);
}

/** The text that an edit would be, as far as it can be told without the server. */
export function textOf(edit: Edit): string {
  return edit.how === "markdown" ? edit.markdown : asMarkdown(edit);
}

/** What keeps an edit from being accepted, in words; the server has the last word. */
export function problemsOf(edit: Edit): string[] {
  if (edit.how === "markdown") return edit.markdown.trim() ? [] : ["There is no text."];
  const written = edit.items.filter((item) => item.text.trim());
  const [title, tldr] = [graphemes(edit.title), graphemes(edit.tldr)];
  return [
    edit.title.trim() ? "" : "The title is empty.",
    title > TITLE_MAX ? `The title has ${title} characters, at most ${TITLE_MAX} are allowed.` : "",
    tldr > TLDR_MAX ? `The TL;DR has ${tldr} characters, at most ${TLDR_MAX} are allowed.` : "",
    written.length === 0 ? "There is no item." : "",
    written.length > ITEMS_MAX ? `There are ${written.length} items, at most ${ITEMS_MAX} are allowed.` : "",
  ].filter(Boolean);
}

/**
 * The decision that accepts the edit in the place of a text: the one it was made from, or a newer one that a person chose to leave
 * out. The server takes it for no other.
 */
export function acceptEdit(edit: Edit, summary_sha256 = edit.sha256): Decision {
  if (edit.how === "markdown")
    return { type: "approve", summary_sha256, args: { summary_md: edit.markdown } };
  const body = edit.items
    .filter((item) => item.text.trim())
    .map(({ kind, text, refs }) => ({ kind, text, refs, verified: true }) satisfies SummaryItem);
  const summary_json = { title: edit.title, tldr: edit.tldr, body };
  return change({ summary_json, summary_sha256 });
}

/** A decision that asks for something else than what is shown. */
export function change(args: Extract<Decision, { type: "edit" }>["edited_action"]["args"]): Decision {
  return { type: "edit", edited_action: { name: "handoff_summary", args } };
}

/** Goes on with the edit as Markdown, with what the fields hold. */
export function toMarkdown(edit: Edit, base: Proposal | null): Edit {
  if (edit.isMarkdownOwn) return { ...edit, how: "markdown" };
  const isSame = base && !isChanged({ ...edit, how: "fields" }, base);
  return { ...edit, how: "markdown", markdown: isSame ? base.summary_md : asMarkdown(edit) };
}

/** The mark of what could not be verified, as the server writes and reads it. */
const UNVERIFIED = " (unverified)";

/** The fields as Markdown, marks included. */
export function asMarkdown(edit: Edit): string {
  const parts = KINDS.map(({ kind, heading }) => {
    const lines = edit.items
      .filter((item) => item.kind === kind && item.text.trim())
      .flatMap((item) => {
        const mark = item.unverified === item.text ? UNVERIFIED : "";
        return (item.text.trim() + mark).split("\n").map((line) => `- ${line}`);
      });
    return lines.length ? `### ${heading}\n${lines.join("\n")}\n` : "";
  });
  return [`**${edit.title}**\n${edit.tldr}\n`, ...parts.filter(Boolean)].join("\n");
}
