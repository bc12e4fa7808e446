"""Scores the offline handoff summary on real transcripts, with the scorer that comes with the data.

  eval_handoff.py DATA_DIR EXAMPLE_BINARY [--cases NAME_PART] [--model PROVIDER/NAME] [--verbose]

DATA_DIR holds score_handoff.py, score_noise.py and the folder `open`; EXAMPLE_BINARY is the built example `eval_handoff`. The binary is
run once over all cases; every answer is scored, and each bar is printed with PASS or MISS. The exit code is 1 when a bar is missed.
With --model, the model drafts each summary, which costs at least two calls a case; the drafts that failed are counted, and the bars,
which belong to the offline summary, are not applied.
"""
import argparse, json, os, re, subprocess, sys

BUDGETS = (300, 1000)
SELECTION_TOKENS = 4000
# The minimum scores: what the offline summary reached when they were last raised, less half a point. The maximum mean
# number of kinds of noise in a summary, likewise.
SCORE_MIN = {300: 73.1, 1000: 84.0}
SELECTION_MIN = .893
NOISE_MAX = {300: .2, 1000: .45}
DIMS = ("files", "future", "last", "todos", "goal", "rules", "errors", "refs", "idents")


def cases_of(scorer, folder):
    """Returns (path, name, cut, case): the case's own window decides the gold, everything before the cut is the input."""
    out = []
    for path in scorer.find([folder]):
        try:
            built = scorer.build_cases(path)
        except ValueError as error:
            print("skipped", path, error, file=sys.stderr)
            continue
        for case in built:
            case.fmt = os.path.basename(os.path.dirname(path))
            stem, cut = case.name.rsplit("@", 1)
            name = stem.split("::", 1)[1] if "::" in stem else None
            out.append((path, name, int(cut), case))
    return out


def run(binary, cases, model):
    """Returns the binary's answer for every case, in order. With a model, the binary's messages about failed drafts are shown."""
    requests = "".join(
        json.dumps(dict(path=path, name=name, cut=cut, budgets=BUDGETS)) + "\n" for path, name, cut, _ in cases)
    done = subprocess.run([binary] + (["--model", model] if model else []), input=requests, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("the example failed:\n" + done.stderr)
    if model:
        sys.stderr.write(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def percent(value, width=5):
    return "-".rjust(width) if value is None else ("%.1f" % (100 * value)).rjust(width)


def table(title, rows):
    print("\n%s" % title)
    print("budget   n tokens SCORE cover " + " ".join(d[:6].rjust(6) for d in DIMS) + " halluc contra")
    for budget in BUDGETS + (SELECTION_TOKENS,):
        x = [r for r in rows if r["budget_tokens"] == budget]
        if not x:
            continue
        label = "select" if budget == SELECTION_TOKENS else str(budget)
        print("%6s %3d %6d %5.1f %s " % (label, len(x), mean([r["tokens"] for r in x]), mean([r["score"] for r in x]),
                                         percent(mean([r["coverage"] for r in x])))
              + " ".join(percent(mean([r[d] for r in x]), 6) for d in DIMS)
              + percent(mean([r["halluc"] for r in x]), 7) + percent(mean([r["contra"] for r in x if r["contra_n"]]), 7))


def noise_kinds(noise, rows, budget):
    """Prints each kind of noise with its share of the summaries; returns the mean number of kinds in a summary."""
    texts = [r["text"] for r in rows if r["budget_tokens"] == budget]
    shares = {name: sum(bool(check(text)) for text in texts) / len(texts) for name, check in noise.CHECKS.items()}
    for name, share in sorted(shares.items(), key=lambda item: -item[1]):
        if share:
            print("%6d %s %%  %s" % (budget, percent(share), name))
    return sum(shares.values())


def bars(rows, noise):
    """Prints the bars on the long complete cases; returns whether all are reached."""
    def of(budget):
        return [r for r in rows if r["budget_tokens"] == budget]

    def score(budget):
        return mean([r["score"] for r in of(budget)])

    short = of(BUDGETS[0])
    summaries = [r for r in rows if r["budget_tokens"] != SELECTION_TOKENS]
    kept = all(r["tokens"] <= r["budget_tokens"] for r in summaries)
    told = sum("told as done" in why for r in summaries for why in r["contra_why"])
    selection = mean([r["coverage"] for r in of(SELECTION_TOKENS)])
    print("\nNoise in the long complete cases: share of the summaries with each kind")
    kinds = {b: noise_kinds(noise, summaries, b) for b in BUDGETS}
    checks = [
        *(("SCORE at %s tokens >= %s" % (format(b, ","), least), score(b), score(b) >= least) for b, least in SCORE_MIN.items()),
        *(("noise at %s tokens <= %s" % (format(b, ","), most), kinds[b], kinds[b] <= most) for b, most in NOISE_MAX.items()),
        ("last request at 300 tokens >= 90", 100 * mean([r["last"] for r in short]), mean([r["last"] for r in short]) >= .9),
        ("files at 300 tokens >= 90", 100 * mean([r["files"] for r in short]), mean([r["files"] for r in short]) >= .9),
        ("hallucination 0", 100 * max(r["halluc"] for r in summaries), max(r["halluc"] for r in summaries) == 0),
        ("no open todo told as done", told, told == 0),
        ("budget always kept", 100 * mean([float(r["tokens"] <= r["budget_tokens"]) for r in summaries]), kept),
        ("selection covers >= %s %%" % (100 * SELECTION_MIN), 100 * selection, selection >= SELECTION_MIN),
    ]
    print("\nBars on the long complete cases")
    for name, value, passed in checks:
        print("%s  %-34s %6.2f" % ("PASS" if passed else "MISS", name, value))
    return all(passed for _, _, passed in checks)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data"), parser.add_argument("binary")
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--model", default="", help="the model that drafts, PROVIDER/NAME; its key is read from the environment")
    parser.add_argument("--verbose", action="store_true", help="print every case's score, misses and summary")
    options = parser.parse_args()
    sys.path.insert(0, options.data)
    sys.dont_write_bytecode = True
    import score_handoff as scorer
    import score_noise as noise

    cases = [c for c in cases_of(scorer, os.path.join(options.data, "open")) if options.cases in c[3].name]
    rows = []
    failed = 0
    for (path, _, _, case), answer in zip(cases, run(options.binary, cases, options.model), strict=True):
        texts = [(b, answer["summaries"][str(b)]) for b in BUDGETS]
        failed += sum(text is None for _, text in texts)
        texts = [(b, text) for b, text in texts if text is not None]
        if answer.get("selection"):
            texts.append((SELECTION_TOKENS, answer["selection"]))
        for budget, text in texts:
            row = scorer.score(case, text, budget)
            row.update(case=case.name, kind=case.kind, complete=case.complete, budget_tokens=budget, text=text,
                       window=scorer.toks(case.text))
            rows.append(row)
            if options.verbose:
                print("%-60s %5d SCORE %5.1f " % (case.name[:60], budget, row["score"])
                      + " ".join("%s%s" % (d, percent(row[d])) for d in DIMS), row["bad"], row["contra_why"])
                if budget != SELECTION_TOKENS:
                    print(re.sub("(?m)^", "    ", text))
    long = [r for r in rows if r["window"] >= scorer.LONG and r["complete"]]
    table("A. Long windows, synthetic cuts", [r for r in long if r["kind"] == "synthetic"])
    table("B/C. Long windows, real compaction points", [r for r in long if r["kind"] == "real"])
    table("All long windows", long)
    table("D. Short conversations", [r for r in rows if r["window"] < scorer.LONG])
    if options.model:
        print("\nDrafts by %s: %d, of which %d failed" % (options.model, len(BUDGETS) * len(cases), failed))
        sys.exit(1 if failed else 0)
    sys.exit(0 if bars(long, noise) else 1)


if __name__ == "__main__":
    main()
