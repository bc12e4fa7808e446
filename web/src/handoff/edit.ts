// A person's edit of a summary: its operations, its limits and the decision it is sent as. Pure.
import type { Decision, JsonObject, Proposal, SummaryItem, SummaryKind } from "../api/types";
import { areFactsChanged, editFacts, renderFacts, type EditSection } from "./facts";
import {
  HEADING,
  UNVERIFIED,
  escapeLine,
  isBullet,
  normalizeLine,
  parsePackage,
  unescapeLine,
  unescapeTags,
  type PackageText,
} from "./packageText";
import { SUMMARY_KINDS, lineRefs } from "./review";

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
  /** The references of each line of the draft's text. */
  lineRefs?: number[][];
  /** The text of the draft, to which the references belong. */
  draftText: string;
  /** The text that could not be verified; it applies only while the item still has that text. */
  unverified: string | null;
  /** The names in the draft's text that were not found in the messages. */
  unfound?: string[];
}

/** A summary that is being edited, as fields or as Markdown. */
export interface SummaryEdit {
  /** The hash of the draft that the edit is based on. It does not change when there is a newer draft. */
  sha256: string;
  format: "fields" | "markdown";
  title: string;
  tldr: string;
  items: EditItem[];
  facts: EditSection[];
  /** The names in the draft's title and TL;DR that were not found in the messages. */
  unfound?: string[];
  /** The Markdown of the draft that the edit is based on. */
  draftMarkdown: string;
  markdown: string;
  /** True if the Markdown was edited by hand; the fields do not have these changes. */
  isMarkdownEdited: boolean;
}

export function createEdit(proposal: Proposal): SummaryEdit {
  const { title, tldr, body, notes } = proposal.summary_json;
  return {
    sha256: proposal.summary_sha256,
    format: "fields",
    title,
    tldr,
    items: toEditItems(body),
    facts: editFacts(proposal.package_md),
    unfound: [...(notes?.title_unfound ?? []), ...(notes?.tldr_unfound ?? [])],
    draftMarkdown: proposal.package_md,
    markdown: proposal.package_md,
    isMarkdownEdited: false,
  };
}

function toEditItems(body: readonly SummaryItem[]): EditItem[] {
  return sortItems(
    body.map((item, key) => {
      const { kind, text, refs, verified, unfound = [] } = item;
      const unverified = verified ? null : text;
      return { key, kind, text, refs, lineRefs: draftLineRefs(item), draftText: text, unverified, unfound };
    }),
  );
}

/** Returns the references of each line. If they are not known by line, each line has all of them, as on the server. */
function draftLineRefs(item: SummaryItem): number[][] {
  const lines = lineRefs(item);
  return (item.line_refs ?? []).length >= lines.length ? lines : lines.map(() => item.refs);
}

/** Returns the lines of an item's text, each of which is one bullet of the Markdown. Blank lines do not count. */
export function itemTextLines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Returns the references of an item: those of the lines that it has unchanged from the draft. */
function itemRefs({ text, refs, lineRefs = [], draftText }: EditItem): number[] {
  const lines = itemTextLines(text);
  const draftLines = itemTextLines(draftText);
  if (lines.join("\n") === draftLines.join("\n")) return refs;
  const kept = new Set(draftLines.flatMap((line, at) => (lines.includes(line) ? (lineRefs[at] ?? []) : [])));
  return refs.filter((seq) => kept.has(seq));
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
  const contentOf = (of: readonly EditItem[]) =>
    JSON.stringify(of.map(({ kind, text }) => [kind, itemTextLines(text)]));
  return (
    edit.title !== title ||
    edit.tldr !== tldr ||
    contentOf(edit.items) !== contentOf(items) ||
    areFactsChanged(edit.facts, edit.draftMarkdown)
  );
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

/** Returns the text of the edit as Markdown. */
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
  const args = textArgs(edit);
  // Markdown is accepted with an approval, which is allowed also after the last refinement.
  if ("package_md" in args) return { type: "approve", summary_sha256, args };
  return editDecision({ ...args, summary_sha256 });
}

/** Returns the text of the edit as arguments of a decision: changed facts as Markdown, which the server parses. */
export function textArgs(edit: SummaryEdit): JsonObject {
  if (edit.format === "markdown") return { package_md: edit.markdown };
  if (areFactsChanged(edit.facts, edit.draftMarkdown)) return { package_md: renderMarkdown(edit) };
  const body = edit.items
    .filter((item) => item.text.trim())
    .map((item) => {
      const text = itemTextLines(item.text).join("\n");
      // The references are those of the draft's lines. A changed line is the person's own.
      return { kind: item.kind, text, refs: itemRefs(item), verified: true } satisfies SummaryItem;
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
  return { ...edit, format: "markdown", markdown: isSame ? base.package_md : renderMarkdown(edit) };
}

/** Returns the edit with the text in which lost rules were put back. In the fields, only the facts are taken from it. */
export function addRestoredText(edit: SummaryEdit, markdown: string): SummaryEdit {
  if (edit.format === "fields") return { ...edit, facts: editFacts(markdown) };
  return { ...edit, markdown, isMarkdownEdited: true };
}

/** Renders the fields as Markdown with verification marks. Unchanged lines are those of the draft. */
export function renderMarkdown(edit: SummaryEdit): string {
  const draft = parsePackage(edit.draftMarkdown);
  const sections = draft.sections.filter(({ isFact }) => !isFact);
  const draftBody = [
    ...draft.head,
    ...sections.flatMap(({ headingLines, entries }) => [
      ...headingLines,
      ...entries.flatMap(({ lines }) => lines),
    ]),
  ];
  const body = [...renderHead(edit, draft), ...renderItems(edit, draft)];
  const textOf = (lines: string[]) => lines.filter((line) => line.trim() !== "").join("\n");
  const facts = renderFacts(edit.facts, edit.draftMarkdown);
  // Blank lines of the draft stay too.
  return [...(textOf(body) === textOf(draftBody) ? draftBody : body), ...facts, ...draft.end].join("\n");
}

/** Renders the title and the TL;DR. */
function renderHead(edit: SummaryEdit, draft: PackageText): string[] {
  const [titleLine = "", ...tldrLines] = draft.head.filter((line) => line.trim() !== "");
  const [title, tldr] = [normalizeLine(edit.title), normalizeLine(edit.tldr)];
  const draftTitle = withoutMark(titleLine).replace(/^\*\*(.*)\*\*$/, "$1");
  const draftTldr = unescapeLine(withoutMark(tldrLines.join(" ")));
  const markOf = (line: string, text: string) =>
    line.endsWith(UNVERIFIED) && (!edit.unfound || hasName(text, edit.unfound)) ? UNVERIFIED : "";
  const isKnown = (text: string, known: string) => unescapeTags(text) === unescapeTags(known);
  return [
    isKnown(title, draftTitle) ? titleLine : `**${title}**${markOf(titleLine, title)}`,
    ...(isKnown(tldr, draftTldr) ? tldrLines : [tldrLine(tldr) + markOf(tldrLines.at(-1) ?? "", tldr)]),
  ];
}

/** Returns the line of a TL;DR. A start of a heading or a bullet is escaped, because no item is there. */
function tldrLine(tldr: string): string {
  return /^[#\-*+]/.test(tldr) ? `\\${tldr}` : escapeLine(tldr);
}

/** Renders the items, each kind under its heading and each line as a bullet. */
function renderItems(edit: SummaryEdit, draft: PackageText): string[] {
  return SUMMARY_KINDS.flatMap(({ kind, heading }) => {
    const known = draft.sections.filter((section) => section.heading === heading);
    const knownLines = known.flatMap(({ entries }) =>
      entries.map(({ text, lines }) => ({ text: withoutMark(text), line: withoutMark(lines.at(-1) ?? "") })),
    );
    const bullets = edit.items
      .filter((item) => item.kind === kind)
      .flatMap((item) => {
        const lines = itemTextLines(item.text).map((text, at) => {
          const isSame = (one: { text: string; line: string }) =>
            one.text === unescapeTags(text) && (at > 0 || isBullet(one.line));
          return knownLines.find(isSame)?.line ?? `- ${escapeLine(text)}`;
        });
        return lines.map((line, at) => (at === lines.length - 1 ? line + itemMark(item) : line));
      });
    if (bullets.length === 0) return [];
    return [...(known[0]?.headingLines ?? ["", HEADING + heading]), ...bullets];
  });
}

/** Returns the mark of an unverified item. A changed one keeps it while it has a name that was not found. */
function itemMark({ text, unverified, unfound = [] }: EditItem): string {
  if (unverified === null) return "";
  return unverified === text || hasName(text, unfound) ? UNVERIFIED : "";
}

function hasName(text: string, names: readonly string[]): boolean {
  return names.some((name) => name && text.includes(name));
}

function withoutMark(line: string): string {
  return line.endsWith(UNVERIFIED) ? line.slice(0, -UNVERIFIED.length) : line;
}
