# The kind of program that a model writes when it is asked: "What did our
# customers pay us in euros this year? Report it to the dashboard." It runs in a
# sandbox: the two tools are all it can reach.
import socket

from sbx_tools import ToolError, get_invoice, list_invoices, set_result

# 1. The ids, page by page.
ids, cursor = [], None
while True:
    page = list_invoices(status="paid", cursor=cursor)
    ids += page["ids"]
    cursor = page["next"]
    if cursor is None:
        break
print(f"{len(ids)} paid invoices")

# 2. Each of them; one that cannot be had is reported, not guessed.
total, counted, missing = 0, 0, []
for id in ids:
    try:
        invoice = get_invoice(id=id)
    except ToolError as e:
        print(f"  {id}: {e}")
        missing.append(id)
        continue
    if invoice["currency"] != "EUR":
        continue
    cents = int(invoice["cents"])  # some systems write "4550"
    if invoice["kind"] == "credit-note":
        cents = -cents
    total += cents
    counted += 1
    print(f"  {id}: {cents:>20} {invoice['customer']!r}")
print(f"total: {total} cents")

# 3. The dashboard. The address is one that is reserved for documentation.
try:
    with socket.create_connection(("192.0.2.10", 443), timeout=5) as s:
        s.sendall(str(total).encode())
    sent, why = True, None
except OSError as e:
    sent, why = False, str(e)
print("sent:", sent, why or "")

# 4. What the host asked for.
set_result({"total_cents": total, "counted": counted, "missing": missing, "sent": sent, "why": why})
