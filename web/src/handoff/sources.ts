// The items of a package that name the messages they come from, and the lookup in both directions. Pure.
import type { Proposal, SummaryItem } from "../api/types";
import { factSections, type FactSection } from "./packageText";
import { groupItems } from "./review";

/** The headings of the user's rules and pins, the only facts that name their messages. */
const RULES_HEADING = "Rules";
const PINS_HEADING = "Pins";

/** An item or a fact with its sources: the positions of messages in the parent thread. */
export interface PackageItem {
  /** Unique in the package. */
  key: string;
  refs: readonly number[];
}

/** Returns an item of the summary as an item of the package. */
export function toPackageItem({ summary_json }: Proposal, item: SummaryItem): PackageItem {
  return { key: `item-${summary_json.body.indexOf(item)}`, refs: item.refs };
}

/** Returns a fact as an item of the package; without sources, unless it is a rule or a pin. */
export function factItem(proposal: Proposal, { heading, entries }: FactSection, index: number): PackageItem {
  const { rules = [], pins = [] } = proposal.summary_json.carried;
  const quoted = heading === RULES_HEADING ? rules : heading === PINS_HEADING ? pins : [];
  // The Markdown has one line for each rule and pin, in the same order.
  const refs = quoted.length === entries.length ? (quoted[index]?.refs ?? []) : [];
  return { key: `fact-${heading}-${index}`, refs };
}

/** Returns the items with sources, in the order in which the page shows them. */
export function packageItems(proposal: Proposal): PackageItem[] {
  const items = groupItems(proposal.summary_json.body)
    .flatMap((group) => group.items)
    .map((item) => toPackageItem(proposal, item));
  const facts = factSections(proposal.package_md).flatMap((section) =>
    section.entries.map((_, index) => factItem(proposal, section, index)),
  );
  return [...items, ...facts].filter(({ refs }) => refs.length > 0);
}

/** Returns the items that come from one of the messages, in their order. */
export function itemsFrom(items: readonly PackageItem[], seqs: readonly number[]): PackageItem[] {
  return items.filter(({ refs }) => refs.some((seq) => seqs.includes(seq)));
}

/**
 * Returns the item after or before the given one. Without a current item, it is the first one or the last one;
 * at the ends, it stays.
 */
export function adjacentItem(
  items: readonly PackageItem[],
  key: string | null,
  step: 1 | -1,
): PackageItem | null {
  const at = items.findIndex((item) => item.key === key);
  if (at < 0) return (step > 0 ? items[0] : items.at(-1)) ?? null;
  return items[Math.min(Math.max(at + step, 0), items.length - 1)] ?? null;
}
