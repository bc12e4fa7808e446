// A person's edit of a summary: its operations, its limits and the decision it is sent as. Pure.
import type { Decision, JsonObject, Proposal, SummaryItem, SummaryKind } from "../api/types";
import { CONTINUATION, SUMMARY_KINDS, factSections } from "./review";

/** The limits of contract §4, in grapheme clusters and items. */
export const TITLE_MAX = 120;
export const TLDR_MAX = 200;
export const ITEMS_MAX = 12;
/** The limit for feedback in bytes. */
export const FEEDBACK_BYTES_MAX = 8_000;

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** Returns the number of grapheme clusters, which is what people count as characters. */
export function graphemeCount(text: string): number {
  let count = 0;
  for (const _ of segmenter.segment(text)) count += 1;
  return count;
}

export function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** An item that is being edited. Its `key` is stable when it is moved. */
export interface EditItem {
  key: number;
  kind: SummaryKind;
  text: string;
  refs: number[];
  /** The text of the draft, to which the references belong. */
  draftText: string;
  /** The text that could not be verified; it applies only while the item still has that text. */
  unverified: string | null;
}

/** A summary that is being edited, as fields or as Markdown. */
export interface SummaryEdit {
  /** The hash of the draft that the edit is based on. It does not change when there is a newer draft. */
  sha256: string;
  format: "fields" | "markdown";
  title: string;
  tldr: string;
  items: EditItem[];
  markdown: string;
  /** True if the Markdown was edited by hand; the fields do not have these changes. */
  isMarkdownEdited: boolean;
}

export function createEdit(proposal: Proposal): SummaryEdit {
  const { title, tldr, body } = proposal.summary_json;
  return {
    sha256: proposal.summary_sha256,
    format: "fields",
    title,
    tldr,
    items: toEditItems(body),
    markdown: proposal.package_md,
    isMarkdownEdited: false,
  };
}

function toEditItems(body: readonly SummaryItem[]): EditItem[] {
  return sortItems(
    body.map(({ kind, text, refs, verified }, key) => ({
      key,
      kind,
      text,
      refs,
      draftText: text,
      unverified: verified ? null : text,
    })),
  );
}

const KIND_RANK = new Map(SUMMARY_KINDS.map(({ kind }, at) => [kind, at]));

/** Sorts items like the summary does: by kind, stable within a kind. */
export function sortItems(items: readonly EditItem[]): EditItem[] {
  return [...items].sort((a, b) => (KIND_RANK.get(a.kind) ?? 0) - (KIND_RANK.get(b.kind) ?? 0));
}

/** Moves an item past its neighbor if both have the same kind. */
export function moveItem(items: readonly EditItem[], key: number, by: -1 | 1): EditItem[] {
  const at = items.findIndex((item) => item.key === key);
  const [item, other] = [items[at], items[at + by]];
  if (!item || !other || other.kind !== item.kind) return [...items];
  const changed = [...items];
  changed[at] = other;
  changed[at + by] = item;
  return changed;
}

export function addItem(items: readonly EditItem[], kind: SummaryKind): EditItem[] {
  const key = Math.max(-1, ...items.map((item) => item.key)) + 1;
  return sortItems([...items, { key, kind, text: "", refs: [], draftText: "", unverified: null }]);
}

/** Returns true if the edit differs from the proposal. */
export function isChanged(edit: SummaryEdit, proposal: Proposal): boolean {
  if (edit.format === "markdown") return edit.markdown !== proposal.package_md;
  const { title, tldr, body } = proposal.summary_json;
  const items = toEditItems(body);
  const contentOf = (of: readonly EditItem[]) => JSON.stringify(of.map(({ kind, text }) => [kind, text]));
  return edit.title !== title || edit.tldr !== tldr || contentOf(edit.items) !== contentOf(items);
}

/** Returns the draft that the edit is based on, or null if it is not among the given ones. */
export function baseProposal(edit: SummaryEdit, proposals: readonly Proposal[]): Proposal | null {
  return proposals.findLast((proposal) => proposal.summary_sha256 === edit.sha256) ?? null;
}

/** Returns true if the edit differs from the draft it is based on. */
export function isModified(edit: SummaryEdit | null, proposals: readonly Proposal[]): edit is SummaryEdit {
  if (!edit) return false;
  const base = baseProposal(edit, proposals);
  return !base || isChanged(edit, base);
}

/** Returns the text of the edit as Markdown, as far as it can be rendered without the server. */
export function textOf(edit: SummaryEdit): string {
  return edit.format === "markdown" ? edit.markdown : renderMarkdown(edit);
}

/** Returns the validation errors of an edit. The server validates it again. */
export function validationErrors(edit: SummaryEdit): string[] {
  if (edit.format === "markdown") return edit.markdown.trim() ? [] : ["There is no text."];
  const filledItems = edit.items.filter((item) => item.text.trim());
  const [title, tldr] = [graphemeCount(edit.title), graphemeCount(edit.tldr)];
  return [
    edit.title.trim() ? "" : "The title is empty.",
    title > TITLE_MAX ? `The title has ${title} characters, at most ${TITLE_MAX} are allowed.` : "",
    tldr > TLDR_MAX ? `The TL;DR has ${tldr} characters, at most ${TLDR_MAX} are allowed.` : "",
    filledItems.length === 0 ? "There is no item." : "",
    filledItems.length > ITEMS_MAX
      ? `There are ${filledItems.length} items, at most ${ITEMS_MAX} are allowed.`
      : "",
  ].filter(Boolean);
}

/**
 * Returns the decision that accepts the edit instead of a draft: the one it is based on, or a newer one that
 * the person discards. The server refuses it for any other draft.
 */
export function acceptEdit(edit: SummaryEdit, summary_sha256 = edit.sha256): Decision {
  if (edit.format === "markdown") return { type: "approve", summary_sha256, args: textArgs(edit) };
  return editDecision({ ...textArgs(edit), summary_sha256 });
}

/** Returns the text of the edit as arguments of a decision. */
export function textArgs(edit: SummaryEdit): JsonObject {
  if (edit.format === "markdown") return { package_md: edit.markdown };
  const body = edit.items
    .filter((item) => item.text.trim())
    .map(({ kind, text, refs, draftText }) => {
      // The references are those of the draft's text. A changed text is the person's own.
      return { kind, text, refs: text === draftText ? refs : [], verified: true } satisfies SummaryItem;
    });
  return { summary_json: { title: edit.title, tldr: edit.tldr, body } };
}

/** Returns a decision that changes the proposal. */
export function editDecision(args: Extract<Decision, { type: "edit" }>["edited_action"]["args"]): Decision {
  return { type: "edit", edited_action: { name: "handoff_summary", args } };
}

/** Switches the edit to Markdown, with the content of the fields. */
export function switchToMarkdown(edit: SummaryEdit, base: Proposal | null): SummaryEdit {
  if (edit.isMarkdownEdited) return { ...edit, format: "markdown" };
  const isSame = base && !isChanged({ ...edit, format: "fields" }, base);
  const facts = base ? factsMarkdown(base.package_md) : "";
  return { ...edit, format: "markdown", markdown: isSame ? base.package_md : renderMarkdown(edit) + facts };
}

/** Returns the facts of a proposal's Markdown, unchanged. */
function factsMarkdown(markdown: string): string {
  const indented = (entry: string) => entry.replace(/\n(?=[^\n])/g, `\n${CONTINUATION}`);
  const bullets = (entries: string[]) => entries.map((entry) => `- ${indented(entry)}\n`).join("");
  return factSections(markdown)
    .map(({ heading, entries }) => `\n### ${heading}\n${bullets(entries)}`)
    .join("");
}

/** The server writes and parses this mark for unverified items. */
const UNVERIFIED = " (unverified)";

/** Renders the fields as Markdown with verification marks. */
export function renderMarkdown(edit: SummaryEdit): string {
  const parts = SUMMARY_KINDS.map(({ kind, heading }) => {
    const lines = edit.items
      .filter((item) => item.kind === kind && item.text.trim())
      .flatMap((item) => {
        const suffix = item.unverified === item.text ? UNVERIFIED : "";
        return (item.text.trim() + suffix).split("\n").map((line) => `- ${line}`);
      });
    return lines.length ? `### ${heading}\n${lines.join("\n")}\n` : "";
  });
  return [`**${edit.title}**\n${edit.tldr}\n`, ...parts.filter(Boolean)].join("\n");
}
