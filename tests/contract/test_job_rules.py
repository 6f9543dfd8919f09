"""What a server refuses in jobs and their schedules, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kube_fairlead_lab.testing.rawhttp import RawApi
from tests.contract.conftest import Refused, inside

JOBS, CRON_JOBS = "jobs.batch/v1", "cronjobs.batch/v1"


def template(*, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}], **spec}
    return {"metadata": {"labels": labels} if labels else {}, "spec": pod}


def job(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": template(), **spec}}


def success(*rules: dict[str, Any]) -> dict[str, Any]:
    policy = {"rules": list(rules)}
    return {"completionMode": "Indexed", "completions": 5, "parallelism": 2, "successPolicy": policy}


AT = "spec.successPolicy.rules"
PARSING = "error parsing succeededIndexes"
# How indexes may not be named, and what is said of it.
NO_INDEXES = {
    "a": 'cannot convert string to integer for index: "a"',
    "1-": 'cannot convert string to integer for index: ""',
    "1_0": 'cannot convert string to integer for index: "1_0"',
    "7": 'too large index: "7"',
    "1-9": 'too large index: "9"',
    "2-1": "non-increasing order, previous: 2, current: 1",
    "3,2": "non-increasing order, previous: 3, current: 2",
    "1-2-3": (
        'the fragment "1-2-3" violates the requirement that '
        "an index interval can have at most two parts separated by '-'"
    ),
}

RULES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pods that never end": (
        {"template": template(restartPolicy="Always")},
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "a selector that is not its own": (
        {"selector": {"matchLabels": {"a": "b"}}},
        [
            "spec.selector: Invalid value: {}: `selector` not auto-generated",
            "spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`",
        ],
    ),
    "another job's name": (
        {"template": template(labels={"job-name": "y"})},
        ["spec.template.metadata.labels[job-name]: Invalid value: {}: must be 'x'"],
    ),
    "less than nothing": (
        {"parallelism": -1, "backoffLimit": -1},
        [
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "indexes without a number of them": (
        {"completionMode": "Indexed", "parallelism": 1},
        ["spec.completions: Required value: when completion mode is Indexed"],
    ),
    "a limit per index without indexes": (
        {"backoffLimitPerIndex": 1},
        ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    ),
    "a mode that is none": (
        {"completionMode": "X", "podReplacementPolicy": "Y"},
        [
            'spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"',
            'spec.podReplacementPolicy: Unsupported value: "Y": supported values: "Failed", "TerminatingOrFailed"',
        ],
    ),
    "success of what has no indexes": (
        {"successPolicy": {"rules": [{"succeededCount": 1}]}},
        ["spec.successPolicy: Invalid value: {}: requires indexed completion mode"],
    ),
    "success by no rule": (
        success(),
        [f"{AT}: Required value: at least one rules must be specified when the successPolicy is specified"],
    ),
    "success by too many rules": (
        success(*[{"succeededCount": 1}] * 21),
        [f"{AT}: Too many: 21: must have at most 20 items"],
    ),
    "success that cannot be": (
        success(
            {},
            {"succeededCount": -1},
            {"succeededCount": 6},
            {"succeededIndexes": "", "succeededCount": 1},
            {"succeededIndexes": "0,2-3", "succeededCount": 4},
            {"succeededIndexes": "0,2-3", "succeededCount": 3},
        ),
        [
            f"{AT}[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
            f"{AT}[1].succeededCount: Invalid value: -1: must be greater than or equal to 0",
            (
                f"{AT}[2].succeededCount: Invalid value: 6: "
                "must be less than or equal to 5 (the number of specified completions)"
            ),
            (
                f"{AT}[3].succeededCount: Invalid value: 1: must be less than or equal to 0 "
                "(the number of indexes in the specified succeededIndexes field)"
            ),
            (
                f"{AT}[4].succeededCount: Invalid value: 4: must be less than or equal to 3 "
                "(the number of indexes in the specified succeededIndexes field)"
            ),
        ],
    ),
    "success of indexes that are none": (
        success(*({"succeededIndexes": text} for text in NO_INDEXES)),
        [
            f'{AT}[{index}].succeededIndexes: Invalid value: "{text}": {PARSING}: {said}'
            for index, (text, said) in enumerate(NO_INDEXES.items())
        ],
    ),
    "rules about failures": (
        {
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob"},
                    {"action": "X", "onExitCodes": {"operator": "In", "values": [0, 3, 2, 2]}},
                    {"action": "FailIndex", "onPodConditions": [{"type": "X", "status": "Y"}]},
                ]
            }
        },
        [
            (
                "spec.podFailurePolicy.rules[0]: Invalid value: "
                "specifying one of OnExitCodes and OnPodConditions is required"
            ),
            (
                'spec.podFailurePolicy.rules[1].action: Unsupported value: "X": '
                'supported values: "Count", "FailIndex", "FailJob", "Ignore"'
            ),
            "spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: {}: must be ordered",
            "spec.podFailurePolicy.rules[1].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
            "spec.podFailurePolicy.rules[1].onExitCodes.values[3]: Duplicate value: 2",
            (
                'spec.podFailurePolicy.rules[2].action: Invalid value: "FailIndex": '
                "requires the backoffLimitPerIndex to be set"
            ),
            (
                'spec.podFailurePolicy.rules[2].onPodConditions[0].status: Unsupported value: "Y": '
                'supported values: "False", "True", "Unknown"'
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", RULES)
async def test_a_job_that_cannot_be(refused: Refused, case: str) -> None:
    spec, expected = RULES[case]
    assert await refused(JOBS, job(**spec)) == sorted(expected)


async def test_a_job_is_known_by_the_labels_of_its_pods(api: RawApi, namespace: str) -> None:
    path = inside(namespace, JOBS)
    made = (await api.post(path, {"metadata": {"name": "j"}, **job()}, dryRun="All")).expect(201)
    uid = made["metadata"]["uid"]
    marks = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    assert made["metadata"]["labels"] == marks
    assert made["spec"]["template"]["metadata"]["labels"] == marks
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "X"}]}]}
    made = (await api.post(path, {"metadata": {"name": "k"}, **job(podFailurePolicy=policy)}, dryRun="All")).expect(201)
    assert made["spec"]["podReplacementPolicy"] == "Failed"
    assert made["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "X", "status": "True"}]


async def test_what_a_job_does_stays(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, JOBS)
    (await api.post(path, {"metadata": {"name": "j"}, **job()})).expect(201)
    for spec, field in (
        ({"completions": 3}, "spec.completions: Invalid value: 3"),
        ({"template": {"spec": {"schedulerName": "other"}}}, "spec.template: Invalid value: {}"),
        ({"template": {"spec": {"nodeSelector": {"a": "b"}}}}, "spec.template: Invalid value: {}"),
        ({"managedBy": "a.b/c"}, 'spec.managedBy: Invalid value: "a.b/c"'),
    ):
        assert await refused(JOBS, {"spec": spec}, patch="j") == [f"{field}: field is immutable"]
    (await api.patch(f"{path}/j", {"spec": {"parallelism": 2, "suspend": True}})).expect(200)
    # A job that is held back may still be sent elsewhere, but it stays the same job.
    (await api.patch(f"{path}/j", {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}})).expect(200)
    assert await refused(JOBS, {"spec": {"template": {"spec": {"hostPID": True}}}}, patch="j") == [
        "spec.template.spec: Invalid value: {}: field is immutable"
    ]
    (await api.delete(f"{path}/j", propagationPolicy="Background")).expect(200)


async def test_indexes_grow_together_with_their_pods(api: RawApi, namespace: str, refused: Refused) -> None:
    path = inside(namespace, JOBS)
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    (await api.post(path, {"metadata": {"name": "i"}, **job(**spec)})).expect(201)
    assert await refused(JOBS, {"spec": {"completions": 3}}, patch="i") == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]
    (await api.patch(f"{path}/i", {"spec": {"completions": 3, "parallelism": 3}})).expect(200)
    (await api.delete(f"{path}/i", propagationPolicy="Background")).expect(200)


CRON_RULES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no schedule": ({"schedule": ""}, ["spec.schedule: Required value"]),
    "one word": (
        {"schedule": "bla"},
        ['spec.schedule: Invalid value: "bla": expected exactly 5 fields, found 1: [bla]'],
    ),
    "a time zone in it": (
        {"schedule": "TZ=UTC 0 0 * * *"},
        [
            (
                'spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": '
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            )
        ],
    ),
    "a time zone that is none": (
        {"timeZone": "../x"},
        ['spec.timeZone: Invalid value: "../x": unknown time zone ../x'],
    ),
    "jobs that never end": (
        {"jobTemplate": {"spec": {"template": template(restartPolicy="Always")}}},
        ['spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    "a selector for all its jobs": (
        {"jobTemplate": {"spec": {"template": template(), "selector": {"matchLabels": {"a": "b"}}}}},
        ["spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated"],
    ),
    "policies and limits": (
        {"concurrencyPolicy": "X", "failedJobsHistoryLimit": -1},
        [
            'spec.concurrencyPolicy: Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"',
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
}


@pytest.mark.parametrize("case", CRON_RULES)
async def test_a_schedule_that_cannot_be(refused: Refused, case: str) -> None:
    spec, expected = CRON_RULES[case]
    body = {"spec": {"schedule": "* * * * *", "jobTemplate": job(), **spec}}
    assert await refused(CRON_JOBS, body) == expected


async def test_a_schedule_makes_names_longer(refused: Refused) -> None:
    name = "x" * 53
    body = {"metadata": {"name": name}, "spec": {"schedule": "* * * * *", "jobTemplate": job()}}
    assert await refused(CRON_JOBS, body) == [
        f'metadata.name: Invalid value: "{name}": must be no more than 52 characters'
    ]
