// What stands inside a line of Markdown: emphasis, code, links. As CommonMark reads it, each character a bounded number of times;
// HTML is text, images are links. Where a link may lead is `links.ts`.
import { ENTITY, entity } from "./entities";

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "break" }
  | { type: "em" | "strong" | "del"; inlines: Inline[] }
  | { type: "link"; href: string; image: boolean; inlines: Inline[] };

/** Characters beyond which a paragraph is text without marks. */
const CHARS_MAX = 50_000;
/** How deep marks stand in one another; deeper ones are text. */
const DEPTH_MAX = 12;
const HREF_MAX = 2_000;

const PUNCTUATION = /[!-/:-@[-`{-~]/;
const PLAIN = /(?:[^\\`*_~[\]!<&\nh]|h(?!ttps?:\/\/))+/y;
const AUTOLINK = /<([a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*|[\w.+-]{1,64}@[\w.-]{1,200})>/y;
const BARE = /https?:\/\/[^\s<>"`|]+/y;
const BARE_IN_BRACKETS = /https?:\/\/[^\s<>"`|[\]()]+/y;

interface Node {
  inline: Inline;
  depth: number;
  /** Marks that may still open or close something. */
  run: Run | null;
  prev: Node | null;
  next: Node | null;
}
interface Run {
  char: string;
  count: number;
  length: number;
  opens: boolean;
  closes: boolean;
}
interface Bracket {
  node: Node;
  image: boolean;
}

/** Returns what the text of a paragraph holds. */
export function inlines(text: string): Inline[] {
  if (text.length > CHARS_MAX) return [{ type: "text", text }];
  return new Reader(text).read();
}

class Reader {
  private at = 0;
  private plain = "";
  private readonly brackets: Bracket[] = [];
  /** So many of them stand around a link and can become none. */
  private around = 0;
  private readonly root: Node = node({ type: "text", text: "" });
  private last: Node = this.root;
  /** Where runs of backticks of a length stand, to find the one that closes without looking at each again. */
  private readonly ticks = new Map<number, number[]>();

  constructor(private readonly text: string) {
    for (const { 0: run, index } of text.matchAll(/`+/g)) {
      const known = this.ticks.get(run.length);
      if (known) known.push(index);
      else this.ticks.set(run.length, [index]);
    }
    for (const places of this.ticks.values()) places.reverse();
  }

  read(): Inline[] {
    while (this.at < this.text.length) this.step(this.text[this.at] ?? "");
    this.flush();
    emphasize(this.root, null);
    return collected(this.root.next, null).inlines;
  }

  private step(char: string): void {
    switch (char) {
      case "\\":
        return this.escape();
      case "`":
        return this.code();
      case "*":
      case "_":
      case "~":
        return this.marks(char);
      case "[":
        return this.open(false);
      case "!":
        return this.text[this.at + 1] === "[" ? this.open(true) : this.take(1);
      case "]":
        return this.close();
      case "<":
        return this.matched(AUTOLINK, ([all = "", address = ""]) => {
          const href = /^[a-z][a-z0-9+.-]+:/i.test(address) ? address : `mailto:${address}`;
          this.link(address, href);
          return all.length;
        });
      case "&":
        return this.matched(ENTITY, (found) => {
          const char = entity(found);
          this.plain += char ?? found[0];
          return found[0].length;
        });
      case "h":
        return this.text.startsWith("http", this.at) ? this.bare() : this.run();
      case "\n":
        return this.newline();
      default:
        return this.run();
    }
  }

  private take(count: number): void {
    this.plain += this.text.slice(this.at, this.at + count);
    this.at += count;
  }

  /** Takes all that means nothing at once. */
  private run(): void {
    PLAIN.lastIndex = this.at;
    this.take(PLAIN.exec(this.text)?.[0].length ?? 1);
  }

  private matched(pattern: RegExp, use: (found: RegExpExecArray) => number): void {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at += use(found);
    else this.take(1);
  }

  private flush(): void {
    if (!this.plain) return;
    const text = this.plain;
    this.plain = "";
    this.put({ type: "text", text });
  }

  private put(inline: Inline, run: Run | null = null): Node {
    this.flush();
    const added = node(inline, run);
    added.prev = this.last;
    this.last.next = added;
    this.last = added;
    return added;
  }

  private escape(): void {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") {
      this.put({ type: "break" });
      this.at += 2;
    } else if (PUNCTUATION.test(next)) {
      this.plain += next;
      this.at += 2;
    } else this.take(1);
  }

  private newline(): void {
    const isHard = this.plain.endsWith("  ");
    this.plain = this.plain.trimEnd();
    this.at += 1;
    if (isHard) this.put({ type: "break" });
    else this.plain += "\n";
    this.flush();
    while (/[ \t]/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  private code(): void {
    let end = this.at;
    while (this.text[end] === "`") end += 1;
    const length = end - this.at;
    const places = this.ticks.get(length) ?? [];
    while (places.length > 0 && (places.at(-1) ?? 0) < end) places.pop();
    const close = places.at(-1);
    if (close === undefined) return this.take(length);
    const inside = this.text.slice(end, close).replaceAll("\n", " ");
    const isPadded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    this.put({ type: "code", text: isPadded ? inside.slice(1, -1) : inside });
    this.at = close + length;
  }

  private marks(char: string): void {
    let end = this.at;
    while (this.text[end] === char) end += 1;
    const count = end - this.at;
    if (char === "~" && count !== 2) return this.take(count);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[end] ?? " ";
    const [blankBefore, blankAfter] = [/\s/.test(before), /\s/.test(after)];
    const [markBefore, markAfter] = [isPunctuation(before), isPunctuation(after)];
    const left = !blankAfter && (!markAfter || blankBefore || markBefore);
    const right = !blankBefore && (!markBefore || blankAfter || markAfter);
    const opens = char === "_" ? left && (!right || markBefore) : left;
    const closes = char === "_" ? right && (!left || markAfter) : right;
    this.put({ type: "text", text: char.repeat(count) }, { char, count, length: count, opens, closes });
    this.at = end;
  }

  private open(image: boolean): void {
    const marks = image ? "![" : "[";
    this.brackets.push({ node: this.put({ type: "text", text: marks }), image });
    this.at += marks.length;
  }

  private close(): void {
    const bracket = this.brackets.pop();
    const isFree = bracket?.image || this.brackets.length >= this.around;
    this.around = Math.min(this.around, this.brackets.length);
    const address = isFree ? this.address(this.at + 1) : null;
    if (!bracket || !address) return this.take(1);
    this.flush();
    emphasize(bracket.node, null);
    const inside = collected(bracket.node.next, null);
    this.last = bracket.node;
    bracket.node.next = null;
    // A link holds no other.
    const flat = inside.inlines.map(unlinked);
    bracket.node.inline = { type: "link", href: address.href, image: bracket.image, inlines: flat };
    bracket.node.depth = inside.depth + 1;
    if (!bracket.image) this.around = this.brackets.length;
    this.at = address.end;
  }

  /** Reads `(address "title")`; the title is left out. */
  private address(from: number): { href: string; end: number } | null {
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
    return at < most && rest.test(this.text) ? { href: decoded(href), end: rest.lastIndex } : null;
  }

  private bare(): void {
    if (/\w/.test(this.text[this.at - 1] ?? "")) return this.take(1);
    const pattern = this.brackets.length > 0 ? BARE_IN_BRACKETS : BARE;
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (!found) return this.take(1);
    const address = withoutEnd(found);
    this.link(address, decoded(address));
    this.at += address.length;
  }

  private link(text: string, href: string): void {
    this.put({ type: "link", href, image: false, inlines: [{ type: "text", text }] }).depth = 1;
  }
}

function node(inline: Inline, run: Run | null = null): Node {
  return { inline, run, depth: 0, prev: null, next: null };
}

function isPunctuation(char: string): boolean {
  return PUNCTUATION.test(char) || /[\p{P}\p{S}]/u.test(char);
}

const decoded = (text: string) =>
  text.replace(
    new RegExp(ENTITY.source, "g"),
    (...found) => entity(found as unknown as RegExpExecArray) ?? found[0],
  );

/** An address at the end of a sentence does not hold its full stop, nor the bracket around it. */
function withoutEnd(address: string): string {
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

function unlinked(inline: Inline): Inline {
  if (inline.type === "link") return { type: "text", text: textOf(inline.inlines) };
  if (!("inlines" in inline)) return inline;
  return { ...inline, inlines: inline.inlines.map(unlinked) };
}

/** Returns the text alone. */
export function textOf(inlines: readonly Inline[]): string {
  const one = (inline: Inline): string =>
    "inlines" in inline ? textOf(inline.inlines) : inline.type === "break" ? "\n" : inline.text;
  return inlines.map(one).join("");
}

/** Pairs the marks behind `from`, the nearest first. */
function emphasize(from: Node, until: Node | null): void {
  // Below this node, nothing opens what such a mark would close.
  const bottoms = new Map<string, Node>();
  let closer = from.next;
  while (closer && closer !== until) {
    const run = closer.run;
    if (!run?.closes || run.count === 0) {
      closer = closer.next;
      continue;
    }
    const key = `${run.char}${run.opens}${run.length % 3}`;
    const bottom = bottoms.get(key) ?? from;
    const opener = openerOf(closer, run, bottom);
    if (!opener?.run) {
      bottoms.set(key, closer.prev ?? from);
      if (!run.opens) closer.run = null;
      closer = closer.next;
      continue;
    }
    const used = run.count >= 2 && opener.run.count >= 2 ? 2 : 1;
    const inside = collected(opener.next, closer);
    const type = run.char === "~" ? "del" : used === 2 ? "strong" : "em";
    const wrapped = wrap(type, run.char.repeat(used), inside);
    opener.next = wrapped;
    wrapped.prev = opener;
    wrapped.next = closer;
    closer.prev = wrapped;
    shorten(opener, used);
    shorten(closer, used);
    if (run.count === 0) closer = closer.next;
  }
  for (let left = from.next; left && left !== until; left = left.next) left.run = null;
}

function openerOf(closer: Node, run: Run, bottom: Node): Node | null {
  for (let at = closer.prev; at && at !== bottom; at = at.prev) {
    const opener = at.run;
    if (!opener?.opens || opener.char !== run.char || opener.count === 0) continue;
    const isOdd = (opener.closes || run.opens) && (opener.length + run.length) % 3 === 0;
    if (!isOdd || (opener.length % 3 === 0 && run.length % 3 === 0)) return at;
  }
  return null;
}

function wrap(
  type: "em" | "strong" | "del",
  marks: string,
  { inlines, depth }: { inlines: Inline[]; depth: number },
): Node {
  if (depth < DEPTH_MAX) {
    const wrapped = node({ type, inlines });
    wrapped.depth = depth + 1;
    return wrapped;
  }
  const flat = node({ type: "text", text: `${marks}${textOf(inlines)}${marks}` });
  return flat;
}

function shorten(mark: Node, used: number): void {
  if (!mark.run) return;
  mark.run.count -= used;
  mark.inline = { type: "text", text: mark.run.char.repeat(mark.run.count) };
}

/** Returns what stands from one node to before another, neighbouring texts as one. */
function collected(from: Node | null, until: Node | null): { inlines: Inline[]; depth: number } {
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
