"""The request series of django-prometheus, with labels that no client can multiply.

They are of what Django answers: pages and API. `/v1/work/` never comes to Django; croniq_runs_claimed_total and its
like count there.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django_prometheus.middleware import PrometheusAfterMiddleware
from prometheus_client.metrics import MetricWrapperBase


class CountRequests(PrometheusAfterMiddleware):
    """As the library's, whose latency series takes any method by the name that the client gave it."""

    def label_metric(self, metric: MetricWrapperBase, request: HttpRequest, response: Any = None, **labels: str) -> Any:
        if "method" in labels:
            labels["method"] = self._method(request)
        return super().label_metric(metric, request, response, **labels)
