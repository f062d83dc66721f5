#!/usr/bin/python3
"""Checks the result record of one run of agent.py: verify.py RECORD STATUS."""

import json
import os
import sys


def expected():
    """The sum again, from the file and without the tools."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "invoices.json")
    with open(path, encoding="utf-8") as f:
        all_invoices = json.load(f)
    paid = [i for i in all_invoices if i["status"] == "paid"]
    counted = [i for i in paid if i["currency"] == "EUR" and not i.get("archived")]
    total = sum(int(i["cents"]) * (-1 if i["kind"] == "credit-note" else 1) for i in counted)
    missing = [i["id"] for i in paid if i.get("archived")]
    return total, len(counted), missing, len(paid)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        record = json.load(f)
    total, counted, missing, paid = expected()
    result = record.get("result") or {}
    calls = record["tool_calls"]
    checks = [
        ("the program ran and exited with 0",
         (record["started"], record["reason"], record["exit_code"], sys.argv[2]), (True, "exited", 0, "0")),
        ("the sum came back", result.get("total_cents"), total),
        ("of so many invoices", result.get("counted"), counted),
        ("the one that the tool refused is named", result.get("missing"), missing),
        ("nothing was sent", result.get("sent"), False),
        ("the attempt was counted (network_denials)", record["network_denials"], 1),
        ("tool calls by tool", calls["by_tool"], {"list-invoices": -(-paid // 5), "get-invoice": paid}),
        ("tool calls by outcome", calls["by_code"],
         {"ok": -(-paid // 5) + paid - len(missing), "tool_error": len(missing)}),
    ]
    bad = 0
    for what, got, want in checks:
        ok = got == want
        bad += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {got!r}" + ("" if ok else f", expected {want!r}"))
    print(f"{len(checks) - bad} of {len(checks)} as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
