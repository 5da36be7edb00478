"""A scrape as a test looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Scrape:
    samples: dict[tuple[str, Labels], float]

    def value(self, name: str, **labels: str) -> float | None:
        """The sample of exactly these labels, None where there is none."""
        return self.samples.get((name, frozenset(labels.items())))

    def of(self, name: str, label: str) -> dict[str, float]:
        """The samples of a name by the value of one label."""
        return {dict(labels)[label]: value for (found, labels), value in self.samples.items() if found == name}

    @property
    def series(self) -> set[tuple[str, Labels]]:
        return set(self.samples)

    def ours(self) -> set[tuple[str, Labels]]:
        return {(name, labels) for name, labels in self.samples if name.startswith("croniq_")}


def parsed(text: str) -> Scrape:
    """Parse Prometheus' text format; a series that is there twice is an error."""
    samples: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples, key
            samples[key] = sample.value
    return Scrape(samples)


def scraped() -> Scrape:
    """What this process tells now, to an address that may ask."""
    answer = APIClient().get("/metrics")
    assert answer.status_code == 200, answer.content
    return parsed(answer.content.decode())
