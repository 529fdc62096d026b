# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The request router of Ray Serve: as thin as can be, for Ray copies the class into every process that has a handle.

Decisions are made at the front end, by the book of `tessera.fleet.Router`; a call says which replica it is for (`pin`).
"""

from __future__ import annotations

from typing import Any

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica


class FleetRouter(RequestRouter):
    def initialize_state(self, **kwargs: Any) -> None:
        import front

        front.ray_routers.append(self)

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        call = pending_request.args[0] if pending_request is not None and pending_request.args else None
        if not isinstance(call, dict) or "pin" not in call:
            return [candidate_replicas]
        for replica in candidate_replicas:
            if replica.replica_id.unique_id == call["pin"]:
                # Ray would ask the replica how much it has. While one hangs, that holds up calls for all others.
                self.replica_queue_len_cache.update(replica.replica_id, 0)
                return [[replica]]
        # It is not there any more. Ray would try for ever: any replica may say so.
        call["misrouted"] = True
        return [candidate_replicas]
