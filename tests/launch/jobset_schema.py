"""The part of Kubernetes' schemas that a JobSet of `fastdist manifest` uses.

Types, required fields and allowed values are those of:

- JobSet v1alpha2: kubernetes-sigs/jobset at 0336a8fd, api/jobset/v1alpha2/jobset_types.go
- Job (batch/v1), Pod and Secret (v1): the API reference of Kubernetes 1.34

A dictionary lists the known fields; "!" after a name marks it as required. A list contains the
schema of its items, and a tuple contains the allowed values. `Mapping` allows any field names.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple


class Mapping(NamedTuple):
    """A mapping with any names, whose values have one schema."""

    values: Any


_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUANTITY: Final = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?")
_METADATA: Final = {"name!": _NAME, "labels": Mapping(str)}
_ENV: Final = {
    "name!": re.compile(r"[A-Z][A-Z0-9_]*"),
    "value": str,
    "valueFrom": {
        "secretKeyRef": {"name!": _NAME, "key!": str},
        "fieldRef": {"fieldPath!": str},
    },
}
_CONTAINER: Final = {
    "name!": _NAME,
    "image": str,
    "command": [str],
    "env": [_ENV],
    "ports": [{"name": _NAME, "containerPort!": range(1, 65_536)}],
    "volumeMounts": [{"name!": _NAME, "mountPath!": str}],
    "resources": {"requests": Mapping(_QUANTITY), "limits": Mapping(_QUANTITY)},
}
_POD: Final = {
    "restartPolicy!": ("Never", "OnFailure"),  # the two values that a Job allows
    "terminationGracePeriodSeconds": range(86_400),
    "containers!": [_CONTAINER],
    "volumes": [{"name!": _NAME, "emptyDir": {"medium": ("", "Memory"), "sizeLimit": _QUANTITY}}],
}
_JOB: Final = {
    "completionMode": ("Indexed", "NonIndexed"),
    "completions": range(1, 100_000),
    "parallelism": range(100_000),
    "backoffLimit": range(1000),
    "activeDeadlineSeconds": range(1, 1 << 31),
    "podFailurePolicy": {
        "rules!": [
            {
                "action!": ("FailJob", "FailIndex", "Ignore", "Count"),
                "onExitCodes": {
                    "containerName": _NAME,
                    "operator!": ("In", "NotIn"),
                    "values!": [range(1, 256)],  # 0 is not allowed for "In"
                },
            }
        ]
    },
    "template!": {"spec!": _POD},
}
# The reasons of a Job's condition Failed.
_JOB_FAILURE: Final = ("BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy")
JOBSET: Final = {
    "apiVersion!": ("jobset.x-k8s.io/v1alpha2",),
    "kind!": ("JobSet",),
    "metadata!": _METADATA,
    "spec!": {
        "network": {
            "enableDNSHostnames": bool,
            "subdomain": str,
            "publishNotReadyAddresses": bool,
        },
        "failurePolicy": {
            "maxRestarts": range(1000),
            "restartStrategy": ("Recreate", "BlockingRecreate", "InPlaceRestart"),
            "rules": [
                {
                    "name!": re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"),
                    "action!": (
                        *("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"),
                        *("RestartJob", "RestartJobAndIgnoreMaxRestarts"),
                    ),
                    "onJobFailureReasons": [_JOB_FAILURE],
                }
            ],
        },
        "replicatedJobs!": [
            {"name!": _NAME, "replicas": range(1, 1000), "template!": {"spec!": _JOB}}
        ],
    },
}
SECRET: Final = {
    "apiVersion!": ("v1",),
    "kind!": ("Secret",),
    "metadata!": _METADATA,
    "type": str,
    "immutable": bool,
    "stringData": Mapping(str),
}


def mistakes(value: Any, schema: Any, where: str = "") -> list[str]:
    """Return the parts of a value that its schema does not allow."""
    if isinstance(schema, dict):
        return _mistakes_of_fields(value, schema, where)
    if isinstance(schema, list):
        items = enumerate(value) if isinstance(value, list) else [(0, value)]
        return [m for at, one in items for m in mistakes(one, schema[0], f"{where}[{at}]")]
    if isinstance(schema, Mapping):
        return [
            m for at, one in value.items() for m in mistakes(one, schema.values, f"{where}.{at}")
        ]
    if isinstance(schema, re.Pattern):
        fits = isinstance(value, str) and schema.fullmatch(value) is not None
    elif isinstance(schema, type):
        fits = type(value) is schema
    else:
        fits = type(value) is (int if isinstance(schema, range) else str) and value in schema
    return [] if fits else [f"{where}: {value!r} is not {schema}"]


def _mistakes_of_fields(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: {value!r} is not an object"]
    known = {name.removesuffix("!"): of for name, of in schema.items()}
    found = [f"{where}.{name}: unknown" for name in value.keys() - known.keys()]
    required = {name[:-1] for name in schema if name.endswith("!")}
    found += [f"{where}.{name}: missing" for name in required - value.keys()]
    for name in value.keys() & known.keys():
        found += mistakes(value[name], known[name], f"{where}.{name}")
    return found
