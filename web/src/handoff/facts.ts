// A person's edit of the facts that are carried over: its operations, and its lines in the Markdown. Pure.
import {
  HEADING,
  entryLines,
  normalizeLine,
  parsePackage,
  type TextEntry,
  type TextSection,
} from "./packageText";

/** An entry of facts that is being edited. Its `key` is unique in the edit. */
export interface EditEntry {
  key: number;
  text: string;
}

/** A section of facts that is being edited. */
export interface EditSection {
  /** The heading without a state. */
  name: string;
  heading: string;
  entries: EditEntry[];
}

/** An edit with an entry that it has added. */
export interface AddedEntry {
  sections: EditSection[];
  /** The key of the entry. */
  key: number;
}

const GOAL = "Goal of the new thread";
const RULES = "Rules";
const PINS = "Pins";
export const LAST_REQUEST = "Last request";
/** The sections that a person can add, in the order in which the server writes them. */
const SECTION_NAMES = [
  GOAL,
  RULES,
  PINS,
  LAST_REQUEST,
  "Tasks",
  "Files changed",
  "Files deleted",
  "Files read",
  "In use",
  "Commands",
  "Unresolved errors",
  "Skills in use",
  "Given to other agents",
];
/** The other sections, which describe the thread or the folder and come last. */
const DRAFT_ONLY_NAMES = ["Calls that wait for approval", "Files for the goal, when this was drafted"];
const SECTION_ORDER = [...SECTION_NAMES, ...DRAFT_ONLY_NAMES];

/** Returns whether the entries of a section keep their line breaks. */
export function keepsLineBreaks(name: string): boolean {
  return [GOAL, PINS, LAST_REQUEST].includes(name);
}

/** Returns whether a section is one text, to which no entry can be added. */
export function hasOneEntry(name: string): boolean {
  return [GOAL, LAST_REQUEST].includes(name);
}

/** Returns whether an entry only counts further entries, which stay in the package with it. */
export function isMoreEntry({ name, entries }: EditSection, entry: EditEntry): boolean {
  const isList = !keepsLineBreaks(name) && name !== RULES;
  return isList && entries.at(-1)?.key === entry.key && /^and \d+ more$/.test(entry.text);
}

/** The states of the last request, with the end of its heading. */
export const REQUEST_STATES = [
  { state: "open", name: "still open", suffix: " (still open)" },
  { state: "answered", name: "answered", suffix: " (answered; not to be done again)" },
  { state: "unknown", name: "not known", suffix: "" },
] as const;
export type RequestState = (typeof REQUEST_STATES)[number]["state"];

/** Returns the state of the last request by its heading. */
export function requestState(heading: string): RequestState {
  const found = REQUEST_STATES.find(({ suffix }) => suffix && heading.endsWith(suffix));
  return found?.state ?? "unknown";
}

/** Returns the sections with another state of the last request. */
export function setRequestState(sections: readonly EditSection[], state: RequestState): EditSection[] {
  const suffix = REQUEST_STATES.find((known) => known.state === state)?.suffix ?? "";
  return sections.map((section) =>
    section.name === LAST_REQUEST ? { ...section, heading: LAST_REQUEST + suffix } : section,
  );
}

/** Returns the facts of a draft as sections to edit. */
export function editFacts(markdown: string): EditSection[] {
  let key = 0;
  return draftSections(markdown).map(({ heading, entries }) => ({
    name: sectionName(heading),
    heading,
    entries: entries.map(({ text }) => ({ key: key++, text })),
  }));
}

/** Returns the sections of facts that have entries. */
function draftSections(markdown: string): TextSection[] {
  return parsePackage(markdown).sections.filter(({ isFact, entries }) => isFact && entries.length > 0);
}

/** Returns the heading without a state, as the server writes it. */
function sectionName(heading: string): string {
  const name = heading.split(" (")[0] ?? heading;
  return SECTION_ORDER.find((known) => known.toLowerCase() === name.toLowerCase()) ?? name;
}

function nextKey(sections: readonly EditSection[]): number {
  return Math.max(-1, ...sections.flatMap(({ entries }) => entries.map(({ key }) => key))) + 1;
}

/** Returns the sections with another text of an entry. */
export function changeEntry(sections: readonly EditSection[], key: number, text: string): EditSection[] {
  return sections.map((section) => ({
    ...section,
    entries: section.entries.map((entry) => (entry.key === key ? { key, text } : entry)),
  }));
}

/** Returns the sections without an entry. A section without entries is removed. */
export function removeEntry(sections: readonly EditSection[], key: number): EditSection[] {
  return sections
    .map((section) => ({ ...section, entries: section.entries.filter((entry) => entry.key !== key) }))
    .filter(({ entries }) => entries.length > 0);
}

/** Adds an empty entry to the section at an index: after the given entry, or else at the end of the listed entries. */
export function addEntry(sections: readonly EditSection[], index: number, after?: number): AddedEntry {
  const key = nextKey(sections);
  const added = sections.map((section, at) => {
    if (at !== index) return section;
    const { entries } = section;
    const last = entries.at(-1);
    const end = last && isMoreEntry(section, last) ? entries.length - 1 : entries.length;
    const before = entries.findIndex((entry) => entry.key === after);
    const position = before < 0 ? end : before + 1;
    return { ...section, entries: entries.toSpliced(position, 0, { key, text: "" }) };
  });
  return { sections: added, key };
}

/** A section that can be added. */
export interface AddableSection {
  name: string;
  /** True if the draft has the section, so that adding it restores its entries. */
  isInDraft: boolean;
}

/** Returns the sections that the edit does not have and that can be added to it. */
export function addableSections(sections: readonly EditSection[], markdown: string): AddableSection[] {
  const inDraft = editFacts(markdown).map(({ name }) => name);
  const offered = SECTION_ORDER.filter((name) => SECTION_NAMES.includes(name) || inDraft.includes(name));
  return offered
    .filter((name) => !sections.some((section) => section.name === name))
    .map((name) => ({ name, isInDraft: inDraft.includes(name) }));
}

/** Adds a section in its order, with the entries of the draft or else with an empty entry. */
export function addSection(sections: readonly EditSection[], name: string, markdown: string): AddedEntry {
  const key = nextKey(sections);
  const draft = editFacts(markdown).filter((section) => section.name === name);
  const texts = draft.flatMap(({ entries }) => entries.map(({ text }) => text));
  const entries = (texts.length > 0 ? texts : [""]).map((text, at) => ({ key: key + at, text }));
  const rank = SECTION_ORDER.indexOf(name);
  const before = sections.findIndex((section) => SECTION_ORDER.indexOf(section.name) > rank);
  const position = before < 0 ? sections.length : before;
  return {
    sections: sections.toSpliced(position, 0, { name, heading: draft[0]?.heading ?? name, entries }),
    key,
  };
}

/** Returns whether the facts differ from those of the draft. Empty entries and spaces at the ends do not count. */
export function areFactsChanged(sections: readonly EditSection[], markdown: string): boolean {
  const textOf = (of: readonly EditSection[]) => renderFacts(of, markdown).join("\n");
  return textOf(sections) !== textOf(editFacts(markdown));
}

/** Renders the facts as lines of Markdown. A line that the draft has in the same place is that of the draft. */
export function renderFacts(sections: readonly EditSection[], markdown: string): string[] {
  const draft = draftSections(markdown);
  const isRendered = new Set<number>();
  return sections.flatMap(({ name, heading, entries }) => {
    const found = draft.findIndex((other, at) => sectionName(other.heading) === name && !isRendered.has(at));
    isRendered.add(found);
    const known = draft[found]?.entries ?? [];
    const unused = [...known];
    const lines = entries.flatMap(({ text }) => renderEntry(text, name, known, unused));
    if (lines.length === 0) return [];
    const headingLines = draft[found]?.headingLines ?? ["", ""];
    const isSame = draft[found]?.heading === heading;
    return [...(isSame ? headingLines : [...headingLines.slice(0, -1), HEADING + heading]), ...lines];
  });
}

/**
 * Renders an entry with the lines of the draft where it has the same text. `entries` are those of the draft's section,
 * `unused` those of them that were not rendered yet.
 */
function renderEntry(text: string, name: string, entries: TextEntry[], unused: TextEntry[]): string[] {
  const normalized = keepsLineBreaks(name) ? normalizeBlock(text) : normalizeLine(text);
  if (!normalized) return [];
  // Spaces at the ends are no change.
  const isSame = [(known: string) => known === text, (known: string) => known.trim() === normalized];
  for (const test of isSame) {
    const at = unused.findIndex((entry) => test(entry.text));
    if (at >= 0) return unused.splice(at, 1)[0]?.lines ?? [];
  }
  const texts = normalized.split("\n");
  return entryLines(normalized).map((line, at) => knownLine(entries, texts[at] ?? "", at === 0) ?? line);
}

/** Returns the line of the draft with that text, which is the first line of an entry or a further one. */
function knownLine(entries: readonly TextEntry[], text: string, isFirst: boolean): string | undefined {
  for (const entry of entries) {
    const at = entry.text.split("\n").findIndex((known, at) => known === text && (at === 0) === isFirst);
    if (at >= 0) return entry.lines[entry.lines.findIndex((line) => line.trim() !== "") + at];
  }
  return undefined;
}

/** Returns a text of several lines without spaces at the ends of its lines and without blank lines at its ends. */
function normalizeBlock(text: string): string {
  return text.replace(/[^\S\n]+$/gm, "").replace(/^\n+|\n+$/g, "");
}
