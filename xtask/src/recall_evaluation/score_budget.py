"""Prints the mean share of the evidence, in percent, that lists of messages contain.

Arguments: the scorer, whose questions and corrections are used, the conversations, and the lists."""
import json, os, sys

scorer, conversations, lists = sys.argv[1:4]
sys.path.insert(0, os.path.dirname(os.path.abspath(scorer)))
import eval_retrieval

found = {line["q"]: set(line["ranked"]) for line in map(json.loads, open(lists))}
questions = [question for conversation in eval_retrieval.load([conversations])[0] for question in conversation[3]]
answerable = [question for question in questions if question["cat"] != 5]
shares = [len(found[question["id"]] & set(question["gold"])) / len(question["gold"]) for question in answerable]
print(100 * sum(shares) / len(shares))
