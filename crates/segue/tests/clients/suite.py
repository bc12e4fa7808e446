"""Test runner: runs cases (coroutines with assertions) one after the other and prints which of them failed."""

import asyncio
import sys
import traceback


class Server:
    """Addresses of the server under test and of its scripted model, and the API key of the server."""

    def __init__(self, argv):
        self.url, self.key, self.model_url = argv[1], argv[2], argv[3]


def run(cases):
    server = Server(sys.argv)
    failed = []
    for case in cases:
        try:
            asyncio.run(asyncio.wait_for(case(server), timeout=60))
            print(f"ok   {case.__name__}", flush=True)
        except BaseException:
            failed.append(case.__name__)
            print(f"FAIL {case.__name__}\n{traceback.format_exc()}", flush=True)
    if failed:
        sys.exit(f"{len(failed)} of {len(cases)} cases failed: {', '.join(failed)}")
    print(f"all {len(cases)} cases passed")
