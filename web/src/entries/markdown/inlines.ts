// Parser for inline Markdown: emphasis, code and links. It follows CommonMark and reads each character a
// bounded number of times. HTML is text, and images are links. `links.ts` decides which links can be
// followed.
import { ENTITY, decodeEntity } from "./entities";

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "break" }
  | { type: "em" | "strong" | "del"; inlines: Inline[] }
  | { type: "link"; href: string; image: boolean; inlines: Inline[] };

/** The size limit in characters; a longer paragraph is plain text. */
const CHARS_MAX = 50_000;
/** The maximum nesting depth of marks; deeper ones are text. */
const DEPTH_MAX = 12;
const HREF_MAX = 2_000;

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const PLAIN = /(?:[^\\`*_~[\]!<&\nh]|h(?!ttps?:\/\/))+/y;
const AUTOLINK = /<([a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]{1,64}@[\w.-]{1,200})>/y;
const BARE = /https?:\/\/[^\s<>"`|]+/y;
const BARE_IN_BRACKETS = /https?:\/\/[^\s<>"`|[\]()]+/y;

interface InlineNode {
  inline: Inline;
  depth: number;
  /** The delimiter run, while it can still open or close emphasis. */
  run: DelimiterRun | null;
  prev: InlineNode | null;
  next: InlineNode | null;
}
interface DelimiterRun {
  char: string;
  count: number;
  length: number;
  opens: boolean;
  closes: boolean;
}
interface Bracket {
  node: InlineNode;
  image: boolean;
}

/** Parses the text of a paragraph. */
export function parseInlines(text: string): Inline[] {
  if (text.length > CHARS_MAX) return [{ type: "text", text }];
  return new InlineParser(text).parse();
}

class InlineParser {
  #at = 0;
  #plain = "";
  readonly #brackets: Bracket[] = [];
  /** The number of open brackets around a link. They cannot become links themselves. */
  #linkDepth = 0;
  readonly #root: InlineNode = createNode({ type: "text", text: "" });
  #last: InlineNode = this.#root;
  /** The positions of the backtick runs by length, so that a closing run is found without scanning. */
  readonly #backtickRuns = new Map<number, number[]>();

  constructor(private readonly text: string) {
    for (const { 0: takePlainText, index } of text.matchAll(/`+/g)) {
      const known = this.#backtickRuns.get(takePlainText.length);
      if (known) known.push(index);
      else this.#backtickRuns.set(takePlainText.length, [index]);
    }
    for (const positions of this.#backtickRuns.values()) positions.reverse();
  }

  parse(): Inline[] {
    while (this.#at < this.text.length) this.#parseNext(this.text[this.#at] ?? "");
    this.#flushText();
    resolveEmphasis(this.#root, null);
    return collectInlines(this.#root.next, null).inlines;
  }

  #parseNext(char: string): void {
    switch (char) {
      case "\\":
        return this.#parseEscape();
      case "`":
        return this.#parseCode();
      case "*":
      case "_":
      case "~":
        return this.#parseDelimiters(char);
      case "[":
        return this.#openBracket(false);
      case "!":
        return this.text[this.#at + 1] === "[" ? this.#openBracket(true) : this.#takeText(1);
      case "]":
        return this.#closeBracket();
      case "<":
        return this.#takeMatch(AUTOLINK, ([all = "", address = ""]) => {
          const href = /^[a-z][a-z0-9+.-]+:/i.test(address) ? address : `mailto:${address}`;
          this.#appendLink(address, href);
          return all.length;
        });
      case "&":
        return this.#takeMatch(ENTITY, (match) => {
          const char = decodeEntity(match);
          this.#plain += char ?? match[0];
          return match[0].length;
        });
      case "h":
        return this.text.startsWith("http", this.#at) ? this.#parseBareUrl() : this.#run();
      case "\n":
        return this.#parseNewline();
      default:
        return this.#run();
    }
  }

  #takeText(count: number): void {
    this.#plain += this.text.slice(this.#at, this.#at + count);
    this.#at += count;
  }

  /** Consumes plain text up to the next special character. */
  #run(): void {
    PLAIN.lastIndex = this.#at;
    this.#takeText(PLAIN.exec(this.text)?.[0].length ?? 1);
  }

  #takeMatch(pattern: RegExp, consume: (found: RegExpExecArray) => number): void {
    pattern.lastIndex = this.#at;
    const result = pattern.exec(this.text);
    if (result) this.#at += consume(result);
    else this.#takeText(1);
  }

  #flushText(): void {
    if (!this.#plain) return;
    const text = this.#plain;
    this.#plain = "";
    this.#append({ type: "text", text });
  }

  #append(inline: Inline, run: DelimiterRun | null = null): InlineNode {
    this.#flushText();
    const added = createNode(inline, run);
    added.prev = this.#last;
    this.#last.next = added;
    this.#last = added;
    return added;
  }

  #parseEscape(): void {
    const next = this.text[this.#at + 1] ?? "";
    if (next === "\n") {
      this.#append({ type: "break" });
      this.#at += 2;
    } else if (PUNCTUATION.test(next)) {
      this.#plain += next;
      this.#at += 2;
    } else this.#takeText(1);
  }

  #parseNewline(): void {
    const isHard = this.#plain.endsWith("  ");
    this.#plain = this.#plain.trimEnd();
    this.#at += 1;
    if (isHard) this.#append({ type: "break" });
    else this.#plain += "\n";
    this.#flushText();
    while (/[ \t]/.test(this.text[this.#at] ?? "")) this.#at += 1;
  }

  #parseCode(): void {
    let end = this.#at;
    while (this.text[end] === "`") end += 1;
    const length = end - this.#at;
    const positions = this.#backtickRuns.get(length) ?? [];
    while (positions.length > 0 && (positions.at(-1) ?? 0) < end) positions.pop();
    const close = positions.at(-1);
    if (close === undefined) return this.#takeText(length);
    const inside = this.text.slice(end, close).replaceAll("\n", " ");
    const isPadded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    this.#append({ type: "code", text: isPadded ? inside.slice(1, -1) : inside });
    this.#at = close + length;
  }

  #parseDelimiters(char: string): void {
    let end = this.#at;
    while (this.text[end] === char) end += 1;
    const count = end - this.#at;
    if (char === "~" && count !== 2) return this.#takeText(count);
    const before = this.text[this.#at - 1] ?? " ";
    const after = this.text[end] ?? " ";
    const [blankBefore, blankAfter] = [/\s/.test(before), /\s/.test(after)];
    const [markBefore, markAfter] = [isPunctuation(before), isPunctuation(after)];
    const left = !blankAfter && (!markAfter || blankBefore || markBefore);
    const right = !blankBefore && (!markBefore || blankAfter || markAfter);
    const opens = char === "_" ? left && (!right || markBefore) : left;
    const closes = char === "_" ? right && (!left || markAfter) : right;
    this.#append({ type: "text", text: char.repeat(count) }, { char, count, length: count, opens, closes });
    this.#at = end;
  }

  #openBracket(image: boolean): void {
    const marks = image ? "![" : "[";
    this.#brackets.push({ node: this.#append({ type: "text", text: marks }), image });
    this.#at += marks.length;
  }

  #closeBracket(): void {
    const bracket = this.#brackets.pop();
    const isFree = bracket?.image || this.#brackets.length >= this.#linkDepth;
    this.#linkDepth = Math.min(this.#linkDepth, this.#brackets.length);
    const address = isFree ? this.#parseDestination(this.#at + 1) : null;
    if (!bracket || !address) return this.#takeText(1);
    this.#flushText();
    resolveEmphasis(bracket.node, null);
    const inside = collectInlines(bracket.node.next, null);
    this.#last = bracket.node;
    bracket.node.next = null;
    // Links cannot be nested.
    const flat = inside.inlines.map(unwrapLinks);
    bracket.node.inline = { type: "link", href: address.href, image: bracket.image, inlines: flat };
    bracket.node.depth = inside.depth + 1;
    if (!bracket.image) this.#linkDepth = this.#brackets.length;
    this.#at = address.end;
  }

  /** Parses `(address "title")`; the title is dropped. */
  #parseDestination(from: number): { href: string; end: number } | null {
    if (this.text[from] !== "(") return null;
    const most = Math.min(this.text.length, from + HREF_MAX);
    let at = from + 1;
    while (at < most && /\s/.test(this.text[at] ?? "")) at += 1;
    let href = "";
    const isWrapped = this.text[at] === "<";
    if (isWrapped) at += 1;
    for (let open = 0; at < most; at += 1) {
      const char = this.text[at] ?? "";
      if (isWrapped ? char === ">" || char === "\n" : /\s/.test(char)) break;
      if (!isWrapped && char === "(") open += 1;
      if (!isWrapped && char === ")") {
        if (open === 0) break;
        open -= 1;
      }
      if (char === "\\" && PUNCTUATION.test(this.text[at + 1] ?? "")) at += 1;
      href += this.text[at];
    }
    if (isWrapped && this.text[at++] !== ">") return null;
    const rest = /\s*(?:"[^"]{0,500}"|'[^']{0,500}'|\([^)]{0,500}\))?\s*\)/y;
    rest.lastIndex = at;
    return at < most && rest.test(this.text) ? { href: decodeEntities(href), end: rest.lastIndex } : null;
  }

  #parseBareUrl(): void {
    if (/\w/.test(this.text[this.#at - 1] ?? "")) return this.#takeText(1);
    const pattern = this.#brackets.length > 0 ? BARE_IN_BRACKETS : BARE;
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text)?.[0];
    if (!found) return this.#takeText(1);
    const address = trimUrlEnd(found);
    this.#appendLink(address, decodeEntities(address));
    this.#at += address.length;
  }

  #appendLink(text: string, href: string): void {
    this.#append({ type: "link", href, image: false, inlines: [{ type: "text", text }] }).depth = 1;
  }
}

function createNode(inline: Inline, run: DelimiterRun | null = null): InlineNode {
  return { inline, run, depth: 0, prev: null, next: null };
}

function isPunctuation(char: string): boolean {
  return PUNCTUATION.test(char) || /[\p{P}\p{S}]/u.test(char);
}

const decodeEntities = (text: string) =>
  text.replace(
    new RegExp(ENTITY.source, "g"),
    (...found) => decodeEntity(found as unknown as RegExpExecArray) ?? found[0],
  );

/** Removes trailing punctuation and an unbalanced closing parenthesis from a bare URL. */
function trimUrlEnd(address: string): string {
  let unopened = 0;
  for (const char of address) unopened += char === ")" ? 1 : char === "(" ? -1 : 0;
  let end = address.length;
  for (; end > 0; end -= 1) {
    const char = address[end - 1] ?? "";
    if (char === ")" && unopened > 0) unopened -= 1;
    else if (!/[?!.,:;*_~'\]]/.test(char)) break;
  }
  return address.slice(0, end);
}

function unwrapLinks(inline: Inline): Inline {
  if (inline.type === "link") return { type: "text", text: textOf(inline.inlines) };
  if (!("inlines" in inline)) return inline;
  return { ...inline, inlines: inline.inlines.map(unwrapLinks) };
}

/** Returns the plain text. */
export function textOf(inlines: readonly Inline[]): string {
  const toText = (inline: Inline): string =>
    "inlines" in inline ? textOf(inline.inlines) : inline.type === "break" ? "\n" : inline.text;
  return inlines.map(toText).join("");
}

/** Matches the delimiters after `from`, innermost first. */
function resolveEmphasis(from: InlineNode, until: InlineNode | null): void {
  // No matching opener exists below this node, as in the CommonMark algorithm.
  const bottoms = new Map<string, InlineNode>();
  let closer = from.next;
  while (closer && closer !== until) {
    const run = closer.run;
    if (!run?.closes || run.count === 0) {
      closer = closer.next;
      continue;
    }
    const key = `${run.char}${run.opens}${run.length % 3}`;
    const bottom = bottoms.get(key) ?? from;
    const opener = findOpener(closer, run, bottom);
    if (!opener?.run) {
      bottoms.set(key, closer.prev ?? from);
      if (!run.opens) closer.run = null;
      closer = closer.next;
      continue;
    }
    const used = run.count >= 2 && opener.run.count >= 2 ? 2 : 1;
    const inside = collectInlines(opener.next, closer);
    const type = run.char === "~" ? "del" : used === 2 ? "strong" : "em";
    const wrapper = wrapNodes(type, run.char.repeat(used), inside);
    opener.next = wrapper;
    wrapper.prev = opener;
    wrapper.next = closer;
    closer.prev = wrapper;
    consumeDelimiters(opener, used);
    consumeDelimiters(closer, used);
    if (run.count === 0) closer = closer.next;
  }
  for (let left = from.next; left && left !== until; left = left.next) left.run = null;
}

function findOpener(closer: InlineNode, run: DelimiterRun, bottom: InlineNode): InlineNode | null {
  for (let at = closer.prev; at && at !== bottom; at = at.prev) {
    const opener = at.run;
    if (!opener?.opens || opener.char !== run.char || opener.count === 0) continue;
    const isOdd = (opener.closes || run.opens) && (opener.length + run.length) % 3 === 0;
    if (!isOdd || (opener.length % 3 === 0 && run.length % 3 === 0)) return at;
  }
  return null;
}

function wrapNodes(
  type: "em" | "strong" | "del",
  marks: string,
  { inlines, depth }: { inlines: Inline[]; depth: number },
): InlineNode {
  if (depth < DEPTH_MAX) {
    const wrapped = createNode({ type, inlines });
    wrapped.depth = depth + 1;
    return wrapped;
  }
  const flat = createNode({ type: "text", text: `${marks}${textOf(inlines)}${marks}` });
  return flat;
}

function consumeDelimiters(mark: InlineNode, used: number): void {
  if (!mark.run) return;
  mark.run.count -= used;
  mark.inline = { type: "text", text: mark.run.char.repeat(mark.run.count) };
}

/** Returns the nodes from `from` to before `until`, with adjacent texts merged. */
function collectInlines(
  from: InlineNode | null,
  until: InlineNode | null,
): { inlines: Inline[]; depth: number } {
  const found: Inline[] = [];
  let depth = 0;
  for (let at = from; at && at !== until; at = at.next) {
    depth = Math.max(depth, at.depth);
    const last = found.at(-1);
    if (at.inline.type === "text" && last?.type === "text") last.text += at.inline.text;
    else if (at.inline.type === "text" && !at.inline.text) continue;
    else found.push(at.inline.type === "text" ? { ...at.inline } : at.inline);
  }
  return { inlines: found, depth };
}
