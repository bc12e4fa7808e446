// The ruler over the bars. Pure.

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
/** Distances that people count in, in milliseconds. */
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((many) => many * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((many) => many * MINUTE),
  ...[1, 2, 3, 6, 12].map((many) => many * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((many) => many * DAY),
];

export interface Tick {
  /** Milliseconds from the beginning. */
  at: number;
  label: string;
}

/** Round moments of a stretch, `most` distances of them at the most, and none where its label would not fit. */
export function ticks(length: number, most = 5): Tick[] {
  const step = STEPS.find((step) => length / step <= most) ?? length / most;
  const isMillis = length < SECOND;
  const [unit, name] = isMillis
    ? [1, "ms"]
    : step < MINUTE
      ? [SECOND, "s"]
      : step < HOUR
        ? [MINUTE, "min"]
        : step < DAY
          ? [HOUR, "h"]
          : [DAY, "d"];
  const digits = !isMillis && step < SECOND ? 1 : 0;
  const found: Tick[] = [{ at: 0, label: "0" }];
  for (let at = step; at < length * 0.93; at += step)
    found.push({ at, label: `${(at / unit).toFixed(digits)} ${name}` });
  return found;
}

/** Where a stretch is drawn, in parts of a hundred. A moment is drawn too. */
export function place(span: { start: number; end: number }, whole: { start: number; end: number }) {
  const length = Math.max(1, whole.end - whole.start);
  const left = Math.min(100, (100 * (span.start - whole.start)) / length);
  return { left, width: Math.min(100 - left, (100 * (span.end - span.start)) / length) };
}
