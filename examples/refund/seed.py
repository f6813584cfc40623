"""Make the finance tool's database: `python -m examples.refund.seed --ledger tool/ledger.db [--bulk 500]`."""

import argparse
from pathlib import Path

from examples.refund.orders import FIRST_ORDERS, bulk_orders, open_book, seed


def main() -> None:
    """Insert the orders that are missing and say how many; orders that are there stay as they are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ledger", type=Path, required=True, help="the SQLite file; made when missing")
    parser.add_argument("--bulk", type=int, default=0, help="so many more orders, B0001 and on, for load")
    arguments = parser.parse_args()
    arguments.ledger.parent.mkdir(parents=True, exist_ok=True)
    book = open_book(arguments.ledger)
    made = seed(book, (*FIRST_ORDERS, *bulk_orders(arguments.bulk)))
    book.close()
    print(f"{made} orders made in {arguments.ledger}")


if __name__ == "__main__":
    main()
