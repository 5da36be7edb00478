from runners.models.audit import AuditCut, AuditEvent
from runners.models.clients import ApiClient, ApiKey
from runners.models.heartbeat import Heartbeat, Outage
from runners.models.people import Preferences, SignInCount
from runners.models.runners import Runner, RunnerInstance

__all__ = [
    "ApiClient",
    "ApiKey",
    "AuditCut",
    "AuditEvent",
    "Heartbeat",
    "Outage",
    "Preferences",
    "Runner",
    "RunnerInstance",
    "SignInCount",
]
