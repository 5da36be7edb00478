"""Which answers lead where: links of the OpenAPI document, for clients and for tests that follow them."""

from __future__ import annotations

from typing import Any

_BODY = "$response.body#/"

# The operation and the status of its answer; of each operation that goes on from there: path parameter → where it is.
LINKS: dict[tuple[str, str], dict[str, dict[str, str]]] = {
    ("saveJob", "201"): {
        name: {"job_key": "job_key"}
        for name in ("getJob", "updateJob", "pauseJob", "resumeJob", "skipNextFire", "getJobStats", "deleteJob")
    },
    ("registerJob", "201"): {"getJob": {"job_key": "job_key"}, "getSchedule": {"trigger_id": "trigger_id"}},
    ("createSchedule", "201"): {
        name: {"trigger_id": "trigger_id"} for name in ("getSchedule", "updateSchedule", "deleteSchedule")
    },
    ("createCalendar", "201"): {
        name: {"calendar_id": "id"}
        for name in ("getCalendar", "updateCalendar", "previewCalendar", "whatIfCalendar", "deleteCalendar")
    },
    ("triggerJob", "200"): {
        name: {"execution_id": "execution_id"}
        for name in ("getExecution", "getExecutionLogs", "explainExecution", "cancelExecution", "sendEvents")
    },
    ("replayDeadLetter", "200"): {"getExecution": {"execution_id": "execution_id"}},
    ("createApiClient", "201"): {name: {"client_id": "id"} for name in ("getApiClient", "editApiClient")},
    ("createAlertChannel", "201"): {name: {"channel_id": "id"} for name in ("testAlertChannel", "deleteAlertChannel")},
    ("createAlertRule", "201"): {
        name: {"rule_id": "id"} for name in ("getAlertRule", "editAlertRule", "deleteAlertRule")
    },
    ("createAlertExemption", "201"): {"endAlertExemption": {"exemption_id": "id"}},
    ("createApiKey", "201"): {name: {"key_id": "id"} for name in ("rotateApiKey", "revokeApiKey")},
}

_NUMBERS = ("calendar_id", "channel_id", "client_id", "key_id", "line_id", "rule_id")
_UUIDS = ("execution_id", "letter_id", "trigger_id")


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the links, and what the parameters of a path are (a hook of drf-spectacular)."""
    for methods in result["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    _describe(parameter)
            for status, answer in operation["responses"].items():
                following = LINKS.get((operation["operationId"], status))
                if following:
                    answer["links"] = {
                        target: {
                            "operationId": target,
                            "parameters": {name: _BODY + pointer for name, pointer in parameters.items()},
                        }
                        for target, parameters in following.items()
                    }
    return result


def _describe(parameter: dict[str, Any]) -> None:
    if parameter["name"] in _NUMBERS:
        parameter["schema"] = {"type": "integer", "minimum": 1}
    elif parameter["name"] in _UUIDS:
        parameter["schema"] = {"type": "string", "format": "uuid"}
    else:
        parameter["schema"] = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^/]+$"}
        if parameter["name"] == "job_key":
            parameter["schema"]["pattern"] = "^[^/:]+:[^/:]+(:[^/:]+)?$"
