import { afterEach, describe, expect, test, vi } from "vitest";
import { follow, Parser, type ServerEvent, SILENCE_MS } from "./stream";

const answer = vi.hoisted(() => ({ body: null as ReadableStream<Uint8Array> | null }));
vi.mock("./client", () => ({ send: () => Promise.resolve({ body: answer.body }) }));
afterEach(() => vi.useRealTimers());

function told(...pieces: string[]): ServerEvent[] {
  const events: ServerEvent[] = [];
  const parser = new Parser((event) => events.push(event));
  for (const piece of pieces) parser.push(piece);
  return events;
}

/** A sequence of numbers below one, the same for the same seed. */
function randoms(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return state / 4_294_967_296;
  };
}

describe("events", () => {
  test("have a name, an id and data, and end with an empty line", () => {
    expect(told('event: history\nid: 7\ndata: {"a":1}\n\n')).toEqual([
      { event: "history", id: "7", data: '{"a":1}' },
    ]);
    expect(told("data: a\n")).toEqual([]);
  });

  test("without a name are messages, and an id stays until another comes", () => {
    expect(told("id: 1\ndata: a\n\nevent: x\ndata: b\n\ndata: c\n\n")).toEqual([
      { event: "message", id: "1", data: "a" },
      { event: "x", id: "1", data: "b" },
      { event: "message", id: "1", data: "c" },
    ]);
  });

  test("may have data of several lines, and only one blank belongs to the field", () => {
    expect(told("data: a\ndata:\ndata:  b\ndata:c\n\n")[0]?.data).toBe("a\n\n b\nc");
  });

  test("without data are none; comments and fields that nobody knows are passed over", () => {
    expect(told(": alive\n\nevent: x\n\nretry: 5\nwhat\ndata: a\n: within\n\n")).toEqual([
      { event: "message", id: null, data: "a" },
    ]);
  });
});

describe("lines", () => {
  test("end with LF, CRLF or CR, each of its own", () => {
    for (const end of ["\n", "\r\n"])
      expect(told(["event: x", "data: a", "data: b", "", ""].join(end))).toEqual([
        { event: "x", id: null, data: "a\nb" },
      ]);
    // A CR at the end of what came may be half of a CRLF: it waits for what follows.
    expect(told("event: x\rdata: a\r\r", "data: b\r\r\n")).toEqual([
      { event: "x", id: null, data: "a" },
      { event: "message", id: null, data: "b" },
    ]);
  });

  test("a CRLF that comes in two pieces is one end", () => {
    expect(told("data: a\r", "\ndata: b\r", "\n\r", "\n")).toEqual([
      { event: "message", id: null, data: "a\nb" },
    ]);
  });

  test("characters that end lines elsewhere do not end them here", () => {
    expect(told("data: a\u2028b\u0085c\u000bd\n\n")[0]?.data).toBe("a\u2028b\u0085c\u000bd");
  });
});

test("wherever the bytes are cut, inside a character too, the same events are told", () => {
  const events: ServerEvent[] = [
    { event: "history", id: "1", data: '{"text":"Grüße, 世界 🕰️"}' },
    { event: "message", id: "2", data: "one\ntwo\n\nthree" },
    { event: "x", id: "3", data: ": no comment" },
    { event: "message", id: "3", data: "" },
    { event: "last", id: "4", data: "\u202e" },
  ];
  for (let seed = 1; seed <= 300; seed++) {
    const random = randoms(seed);
    let id: string | null = null;
    const lines = events.flatMap((event) => {
      const named = event.event === "message" ? [] : [`event: ${event.event}`];
      const numbered = event.id === id ? [] : [`id: ${event.id}`];
      id = event.id;
      return [...named, ...numbered, ...event.data.split("\n").map((line) => `data: ${line}`), ": alive", ""];
    });
    // Not CR alone before an LF: together they would be one end.
    const ends = random() < 0.3 ? ["\r"] : ["\n", "\r\n"];
    const text = lines.map((line) => line + (ends[Math.floor(random() * ends.length)] ?? "\n")).join("");
    const bytes = new TextEncoder().encode(text);
    const decoder = new TextDecoder();
    const pieces: string[] = [];
    for (let at = 0; at < bytes.length;) {
      const size = 1 + Math.floor(random() * (random() < 0.5 ? 3 : 40));
      pieces.push(decoder.decode(bytes.subarray(at, at + size), { stream: true }));
      at += size;
    }
    // What comes next shows that a last CR was a whole end.
    expect(told(...pieces, ":"), `seed ${seed}`).toEqual(events);
  }
});

describe("a connection", () => {
  const init = () => ({ signal: new AbortController().signal });

  test("tells what it reads, and returns when the server ends it", async () => {
    const bytes = new TextEncoder().encode("data: Grüße\n\ndata: cut o");
    answer.body = new ReadableStream({
      start: (stream) => {
        for (const byte of bytes) stream.enqueue(Uint8Array.of(byte));
        stream.close();
      },
    });
    const seen: string[] = [];
    await follow(
      "/x",
      init(),
      ({ data }) => seen.push(data),
      () => seen.push("opened"),
    );
    expect(seen).toEqual(["opened", "Grüße"]);
  });

  test("that says nothing for a while is lost, and given back", async () => {
    vi.useFakeTimers();
    let isGivenBack = false;
    answer.body = new ReadableStream({ cancel: () => void (isGivenBack = true) });
    const lost = expect(follow("/x", init(), () => undefined)).rejects.toThrow("nothing was heard");
    await vi.advanceTimersByTimeAsync(SILENCE_MS);
    await lost;
    expect(isGivenBack).toBe(true);
  });
});
