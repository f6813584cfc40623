"""Where authority is handed down: `licet delegations` at the registry of a real NATS server."""

import asyncio
import json
from typing import Any

from typer.testing import CliRunner

from decider.delegation.cli import app
from licet.embedded.dev_keys import make_dev_keys
from licet.identity import TRUST_DOMAIN_DEV
from licet.streams import EMBEDDED_SIZES, apply_streams, connect
from tests.worlds.decisions import APPROVERS, ENV, Ground

REFUND = "/fin.v1.Finance/IssueRefund"


class DelegationDesk:
    """Grants, narrows and takes back with the command line; `opened` makes streams and keys."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.keys = ground.keys_dir
        self.resting: dict[str, str] = {}
        """What each task rests on, as `tasks` last wrote it."""

    @classmethod
    async def opened(cls, ground: Ground, *agents: str) -> "DelegationDesk":
        """Return a desk at which `agents` may hand on, too."""
        ground.keys = make_dev_keys(
            ground.keys_dir, ENV, ["finance"], agents, TRUST_DOMAIN_DEV, approvers=APPROVERS
        )
        nc = await connect(ground.nats.settings("setup"), "setup")
        await apply_streams(nc, ENV, sizes=EMBEDDED_SIZES)
        await nc.close()
        return cls(ground)

    async def run(self, *words: str, fails: bool = False, told: bool = False) -> str:
        nats = self.ground.nats
        common = ["--environment", ENV, "--nats-url", nats.url, "--nats-user", "setup"]
        common += ["--nats-password-file", str(nats.password_file("setup")), "--keys-dir", str(self.keys)]
        result = await asyncio.to_thread(CliRunner().invoke, app, [*words, *common])
        assert result.exit_code == (1 if fails else 0), result.output
        return (result.stderr if fails or told else result.stdout).strip()

    def key(self, name: str) -> str:
        return str(self.keys / f"{name}.key")

    async def grant(self, *more: str) -> str:
        base = ["grant", "--key", self.key("delegator"), "--tenant", "t1", "--from", "ana@t1.example.com"]
        base += ["--to", "support-bot", "--method", REFUND, "--operation", "refund", "--resource", "order"]
        return await self.run(
            *base, "--max-tier", "4", "--autonomy", "full", "--max-cost", "USD:10000", *more
        )

    async def narrow(
        self, parent: str, *more: str, key: str = "delegator-support-bot", fails: bool = False
    ) -> str:
        words = ["narrow", parent, "--key", self.key(key), "--to", "refund-bot", *more]
        return await self.run(*words, fails=fails)

    async def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(await self.run("show", "--json"))
        return found

    def tasks(self, **delegations: str) -> None:
        """Write Ana's tasks for the refund bot, each resting on its delegation."""
        lines, self.resting = ["tasks:"], dict(delegations)
        for task, delegation in delegations.items():
            lines.append(
                f'  {task}: {{agent: refund-bot, caller: agent/refund-bot, principal: "ana@t1.example.com",'
                f" tenant: t1, delegation: {delegation}}}"
            )
        (self.ground.policy / "tasks.yaml").write_text("\n".join(lines) + "\n")
