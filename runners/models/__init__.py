from runners.models.audit import AuditEvent
from runners.models.clients import ApiClient, ApiKey
from runners.models.heartbeat import Heartbeat
from runners.models.runners import Runner, RunnerInstance

__all__ = ["ApiClient", "ApiKey", "AuditEvent", "Heartbeat", "Runner", "RunnerInstance"]
