"""Jobs from Kubernetes' CronJobs."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.job_fields import job_key_of
from scheduler.domain.k8s import MOST_BYTES, MOST_JOBS, Manifest, manifests
from scheduler.domain.k8s_jobs import PREFIX, Options, drafts_of
from scheduler.management.importing import ImportCommand, Reading, content


class Command(ImportCommand):
    help = "Make jobs of the CronJobs of Kubernetes manifests; what cannot be taken is listed with the reason."
    managed_by = "k8s"
    thing = "CronJob"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files", metavar="FILE", nargs="+", help="YAML or JSON; -: kubectl get cronjobs -A -o yaml | … -"
        )
        parser.add_argument("--namespace", default="default", help="of CronJobs that name none (default: %(default)s)")
        parser.add_argument("--prefix", default=PREFIX, help="of the job keys (default: %(default)s)")
        parser.add_argument("--handler", action="store_true", help="a runner's own code does the work, not the command")
        parser.add_argument(
            "--replace-as", choices=["skip", "queue_one"], help="take the policy Replace as this overlap rule"
        )
        self.add_common_arguments(parser, zone_help="of the cluster, for CronJobs that name none (default: UTC)")

    def read(self, now: datetime, options: dict[str, Any]) -> Reading:
        job_key_of("prefix", f"{options['prefix']}:{options['namespace']}:x")
        reading = Reading()
        found: list[Manifest] = []
        for file in options["files"]:
            name = "standard input" if file == "-" else Path(file).name
            jobs, refused, notes = manifests(content(file, MOST_BYTES), name)
            found += jobs
            reading.refused += refused
            reading.notes += notes
        if len(found) > MOST_JOBS:
            raise InvalidInput.of("files", f"The files have more than {MOST_JOBS} CronJobs; import them in parts.")
        reading.drafts, refused, notes = drafts_of(
            found,
            Options(
                prefix=options["prefix"],
                namespace=options["namespace"],
                timezone=options["timezone"] or "UTC",
                handler=options["handler"],
                replace_as=options["replace_as"],
                first=self.first_fields(options),
            ),
        )
        reading.refused += refused
        reading.notes += notes
        # Of a namespace that the files have something of, all is meant to be there.
        reading.prefixes = sorted({draft.job_key.rpartition(":")[0] for draft in reading.drafts})
        return reading
