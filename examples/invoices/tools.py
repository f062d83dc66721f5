#!/usr/bin/python3
"""The host's side of the two tools: `tools.py list` and `tools.py get`.

sbxrun runs it outside of the sandbox, with the arguments as one JSON object on
standard input. They have passed the tool's schema. The answer is one JSON value
on standard output; the last line of standard error says why there is none.
"""

import json
import os
import sys

PAGE = 5


def invoices():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "invoices.json")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def list_invoices(status="any", cursor=None):
    ids = [i["id"] for i in invoices() if status in ("any", i["status"])]
    start = int(cursor) if cursor else 0
    end = start + PAGE
    return {"ids": ids[start:end], "next": str(end) if end < len(ids) else None}


def get_invoice(id):
    for i in invoices():
        if i["id"] == id:
            if i.pop("archived", False):
                sys.exit("invoice is in the archive")
            return i
    sys.exit("no such invoice")


def main():
    tool = {"list": list_invoices, "get": get_invoice}[sys.argv[1]]
    json.dump(tool(**json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
