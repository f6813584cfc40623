"""One tool service for every pack: `python -m examples.packs.service support`, settings from the environment.

It serves the gRPC service of `<pack>/tool.proto` by the descriptors in `<pack>/policy`, keeps its records in
SQLite, and does what `<pack>/tool.yaml` says: a method reads a record, finds records, or changes one. A
change runs through the guard. PACK_LEDGER names the SQLite file; the rest is in `examples.tool_process`.
"""

import argparse
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from examples.tool_process import CallsFile, bind_socket, read_anchor, run
from licet.guard import Guard, GuardedMethod, Spend, SqliteLedger, serve
from licet.log import configure_logging
from licet.tracing import Tracing, configure

PACKS: Final = Path(__file__).resolve().parent
THREADS: Final = 8
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
  kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (kind, id)) STRICT;
CREATE TABLE IF NOT EXISTS ledger (
  change_id TEXT PRIMARY KEY NOT NULL, spend_id TEXT, entry INTEGER, resource TEXT NOT NULL,
  tenant TEXT NOT NULL, account TEXT NOT NULL, amount_minor INTEGER NOT NULL, currency TEXT NOT NULL,
  what TEXT NOT NULL) STRICT;
"""

Record = dict[str, Any]


class Records:
    """The records of a pack in its database: `version` grows with each change."""

    def __init__(self, path: Path, first: Mapping[str, Mapping[str, Record]]) -> None:
        self._lock = threading.Lock()
        self._book = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        self._book.execute("PRAGMA journal_mode = WAL")
        self._book.execute("PRAGMA synchronous = FULL")
        self._book.executescript(SCHEMA)
        for kind, named in first.items():
            for name, record in named.items():
                body = json.dumps({f"{kind}_id": name, "version": 1, **record})
                self._book.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?)", (kind, name, body))

    def read(self, kind: str, name: str) -> Record:
        """Return a record as it is now. Raises LookupError."""
        with self._lock:
            return record_of(self._book, kind, name)

    def find(self, kind: str, words: str) -> list[Record]:
        """Return the records of a kind that hold any of the words."""
        with self._lock:
            rows = self._book.execute(
                "SELECT body FROM records WHERE kind = ? ORDER BY id", (kind,)
            ).fetchall()
        return [json.loads(row[0]) for row in rows if any(w in row[0].lower() for w in words.lower().split())]


def record_of(book: Any, kind: str, name: str) -> Record:
    """Return a record, from a connection or inside a step. Raises LookupError."""
    row = book.execute("SELECT body FROM records WHERE kind = ? AND id = ?", (kind, name)).fetchone()
    if row is None:
        raise LookupError(f"no {kind} `{name}`")
    return dict(json.loads(row[0]))


def change_record(request: Message, step: Spend, rule: Mapping[str, Any]) -> Record:
    """Change one record and write one ledger row about it, in the step's transaction."""
    kind, name = rule["changes"], value_at(request, rule["id"])
    record = record_of(step, kind, name)
    facts = {f"{kind}.{field}": v for field, v in record.items() if isinstance(v, bool | int | str)}
    step.check(tenant=record["tenant"], facts=facts)
    record.update(rule.get("set", {}))
    for field, path in rule.get("copy", {}).items():
        record[field] = value_at(request, path)
    for field, path in rule.get("add", {}).items():
        record[field] += value_at(request, path)
    record["version"] += 1
    step.execute("UPDATE records SET body = ? WHERE kind = ? AND id = ?", (json.dumps(record), kind, name))
    money = rule.get("money", {})
    minor = -value_at(request, money["amount"]) if money else 0
    currency = value_at(request, money["currency"]) if money else ""
    account = f"{kind}:{record['tenant']}"
    entry = step.entry(account=account, amount_minor=minor, currency=currency)
    row = (f"{step.spend_id}/{entry}", step.spend_id, entry, f"{kind}:{name}", record["tenant"], account)
    step.execute(
        "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, minor, currency, str(request))
    )
    return record


def value_at(message: Message, path: str) -> Any:
    """Return the value at a path of field names with dots between them."""
    value: Any = message
    for name in path.split("."):
        value = getattr(value, name)
    return value


def reply_of(kind: type[Message], record: Mapping[str, Any]) -> Message:
    """Return a reply with those fields of a record that the reply has."""
    return kind(
        **{field.name: record[field.name] for field in kind.DESCRIPTOR.fields if field.name in record}
    )


class Tool:
    """The handlers of one pack, made from its descriptors and its `tool.yaml`."""

    def __init__(
        self, pack: Path, records: Records, guard: Guard, calls: CallsFile, tracing: Tracing
    ) -> None:
        self._said = yaml.safe_load((pack / "tool.yaml").read_text())
        self._records, self._guard, self._calls, self._tracing = records, guard, calls, tracing
        pool = descriptor_pool.DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet.FromString((pack / "policy/descriptors.binpb").read_bytes())
        for file in files.file:
            pool.Add(file)
        self._service = pool.FindServiceByName(self._said["service"])

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what the server is given."""
        methods = {method.name: self._method(method) for method in self._service.methods}
        return grpc.method_handlers_generic_handler(self._said["service"], methods)

    def _method(self, method: Any) -> Any:
        rule = self._said["methods"][method.name]
        request = message_factory.GetMessageClass(method.input_type)
        reply = message_factory.GetMessageClass(method.output_type)
        run_it = self._change(method.name, reply, rule) if "changes" in rule else self._read(reply, rule)

        def handle(sent: Message, context: grpc.ServicerContext) -> Message:
            self._calls.note(method.name, context)
            try:
                return run_it(sent, context)
            except LookupError as error:
                context.abort(grpc.StatusCode.NOT_FOUND, str(error))

        return grpc.unary_unary_rpc_method_handler(
            handle, request.FromString, lambda message: message.SerializeToString()
        )

    def _read(self, reply: type[Message], rule: Mapping[str, Any]) -> Callable[[Any, Any], Message]:
        def read(sent: Message, _: grpc.ServicerContext) -> Message:
            if "finds" in rule:
                found = self._records.find(rule["finds"], value_at(sent, rule["words"]))
                return reply(found=[str(record[rule["shows"]]) for record in found])
            return reply_of(reply, self._records.read(rule["reads"], value_at(sent, rule["id"])))

        return read

    def _change(
        self, name: str, reply: type[Message], rule: Mapping[str, Any]
    ) -> Callable[[Any, Any], Message]:
        path = f"/{self._said['service']}/{name}"
        guarded = GuardedMethod(self._guard, path, reply, entries=1, tracing=self._tracing)
        return lambda sent, context: guarded(
            sent, context, lambda step: reply_of(reply, change_record(sent, step, rule))
        )


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", choices=sorted(one.parent.name for one in PACKS.glob("*/tool.yaml")))
    pack = PACKS / parser.parse_args().pack
    configure_logging(pack.name)
    path, environ = Path(os.environ["PACK_LEDGER"]), os.environ
    records = Records(path, yaml.safe_load((pack / "tool.yaml").read_text())["records"])
    ledger = SqliteLedger(path)
    ledger.install()
    ledger.protect("ledger", "spend_id", "entry")
    guard = Guard(ledger, read_anchor(environ, pack.name))
    tracing = configure(pack.name, environ.get("LICET_OTLP_ENDPOINT", ""))
    server = grpc.server(ThreadPoolExecutor(THREADS, pack.name), options=(("grpc.so_reuseport", 0),))
    tool = Tool(pack, records, guard, CallsFile(environ.get("LICET_TOOL_CALLS_FILE", "")), tracing)
    server.add_generic_rpc_handlers((tool.handler(),))
    serve(guard, server)
    bind_socket(server, Path(environ["LICET_TOOL_SOCKET"]))
    run(server)
    tracing.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
