// The time axis of the waterfall. Pure.

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
/** Round tick distances in milliseconds. */
const TICK_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((factor) => factor * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((many) => many * MINUTE),
  ...[1, 2, 3, 6, 12].map((many) => many * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100].map((many) => many * DAY),
];

export interface AxisTick {
  /** Milliseconds from the start. */
  at: number;
  label: string;
}

/** Returns ticks at round distances, at most `maxSteps` of them, without one whose label does not fit. */
export function axisTicks(length: number, maxSteps = 5): AxisTick[] {
  const step = TICK_STEPS.find((step) => length / step <= maxSteps) ?? length / maxSteps;
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
  const result: AxisTick[] = [{ at: 0, label: "0" }];
  for (let at = step; at < length * 0.93; at += step)
    result.push({ at, label: `${(at / unit).toFixed(digits)} ${name}` });
  return result;
}

/** Returns the position of a bar in percent. */
export function barPosition(span: { start: number; end: number }, range: { start: number; end: number }) {
  const length = Math.max(1, range.end - range.start);
  const left = Math.min(100, (100 * (span.start - range.start)) / length);
  return { left, width: Math.min(100 - left, (100 * (span.end - span.start)) / length) };
}
