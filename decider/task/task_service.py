"""`licet.v1.TaskService`: applications register tasks, close them and look at them.

Who asks is the peer that the transport proved; which applications may, and for which tenants, stands in the
decider's settings. The event is acknowledged before the reply. To anybody else there is no such task.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from decider.in_force.configuration import Configuration
from decider.in_force.in_force import InForce
from decider.reception import Reception
from decider.service import Context
from decider.task.registration import Desk, Registrars, judge_registration, may_register, same_registration
from decider.task.task_store import TaskStore
from decider.task.tasks import Tasks
from licet.event import EventKind
from licet.journal import Journal
from licet.log import log
from licet.refusal import Reason, Refusal
from licet.v1 import task_pb2, task_pb2_grpc

logger = logging.getLogger(__name__)

T = TypeVar("T")


class TaskRegistry:
    """The three operations, whatever brings them."""

    def __init__(
        self,
        store: TaskStore,
        configuration: Configuration,
        journal: Journal,
        *,
        registrars: Registrars,
        trust_domain: str,
        listed: Tasks,
        wall_ms: Callable[[], int],
    ) -> None:
        self._store, self._configuration, self._journal = store, configuration, journal
        self._registrars, self._trust_domain = registrars, trust_domain
        self._listed, self._wall_ms = listed, wall_ms

    def _in_force(self) -> InForce | Refusal:
        in_force = self._configuration.current
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        if not self._store.writable:
            return Refusal(Reason.REGISTRATION_REFUSED, "this decider has no task key")
        return in_force

    async def register(self, request: task_pb2.RegisterTaskRequest, peer: str) -> task_pb2.Task | Refusal:
        """Store a task, once. Raises `StreamsError`, `SpoolError`."""
        in_force = self._in_force()
        if isinstance(in_force, Refusal):
            return in_force
        now_ms = self._wall_ms()
        desk = Desk(
            environment=in_force.config.environment,
            trust_domain=self._trust_domain,
            registrars=self._registrars,
            templates=in_force.bundle.templates,
            bundle_version=in_force.bundle.version,
            generation=in_force.generation,
        )
        task = judge_registration(request, peer, desk, now_ms=now_ms)
        if isinstance(task, Refusal):
            return task
        if task.task_id in self._listed:
            return Refusal(Reason.TASK_EXISTS, "a task of the tasks file has this id")
        if not await self._store.write(task, 0):
            found = await self._store.record(task.task_id, in_force.keys, now_ms)
            if found is None or not same_registration(found[0], task):
                return Refusal(Reason.TASK_EXISTS)
            task = found[0]
        await self._tell(EventKind.TASK_REGISTERED, task, peer, f"template `{task.template}`")
        return task

    async def close(self, task_id: str, peer: str) -> task_pb2.Task | Refusal:
        """End a task. Raises `StreamsError`, `SpoolError`."""
        in_force = self._in_force()
        if isinstance(in_force, Refusal):
            return in_force
        now_ms = self._wall_ms()
        found = await self._store.record(task_id, in_force.keys, now_ms)
        if found is None or not may_register(peer, found[0].tenant, self._registrars):
            return Refusal(Reason.REGISTRATION_REFUSED, "no task of this application's tenants")
        task = found[0]
        if not task.closed_at_ms:
            task.closed_at_ms, task.closed_by = now_ms, peer
        await self._store.close(task)
        await self._tell(EventKind.TASK_CLOSED, task, peer, "closed")
        return task

    async def show(self, task_id: str, peer: str) -> task_pb2.Task | Refusal:
        """Return a task. Raises `StreamsError`."""
        in_force = self._configuration.current
        if in_force is None:
            return Refusal(Reason.BEACON_STALE, "no configuration is in force")
        found = await self._store.record(task_id, in_force.keys, self._wall_ms())
        if found is None or not may_register(peer, found[0].tenant, self._registrars):
            return Refusal(Reason.REGISTRATION_REFUSED, "no task of this application's tenants")
        return found[0]

    async def _tell(self, kind: EventKind, task: task_pb2.Task, peer: str, detail: str) -> None:
        await self._journal.append_acked(
            kind,
            tenant=task.tenant,
            principal=task.principal,
            caller=peer,
            agent=task.agent,
            task_id=task.task_id,
            delegations=(task.delegation,) if task.delegation else (),
            bundle_version=task.bundle_version,
            generation=task.generation,
            not_after_ms=task.not_after_ms,
            detail=detail,
        )


class TaskService(task_pb2_grpc.TaskServiceServicer):
    """Transport in, transport out."""

    def __init__(self, registry: TaskRegistry, *, reception: Reception) -> None:
        self._registry, self._reception = registry, reception

    async def _serve(
        self, context: Context, request: Message, work: Callable[[str], Awaitable[T | Refusal]]
    ) -> T:
        return await self._reception.serve(context, request, work, refused=_tell_refused)

    async def RegisterTask(  # noqa: N802 - the name of the RPC
        self, request: task_pb2.RegisterTaskRequest, context: Context
    ) -> task_pb2.RegisterTaskResponse:
        """Register a task."""
        task = await self._serve(context, request, lambda peer: self._registry.register(request, peer))
        return task_pb2.RegisterTaskResponse(task=task)

    async def CloseTask(  # noqa: N802 - the name of the RPC
        self, request: task_pb2.CloseTaskRequest, context: Context
    ) -> task_pb2.CloseTaskResponse:
        """End a task."""
        task = await self._serve(context, request, lambda peer: self._registry.close(request.task_id, peer))
        return task_pb2.CloseTaskResponse(task=task)

    async def GetTask(  # noqa: N802 - the name of the RPC
        self, request: task_pb2.GetTaskRequest, context: Context
    ) -> task_pb2.GetTaskResponse:
        """Show a task."""
        task = await self._serve(context, request, lambda peer: self._registry.show(request.task_id, peer))
        return task_pb2.GetTaskResponse(task=task)


def _tell_refused(peer: str, refusal: Refusal) -> None:
    reason, detail = str(refusal.reason), refusal.detail[:300]
    log(logger, logging.WARNING, "tasks.refused", peer=peer, reason=reason, detail=detail)
