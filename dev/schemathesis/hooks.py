"""What a walk of the API must know that its description cannot say."""

import json
import os
import urllib.request
import zlib

import schemathesis

# The key that the walk uses must not be revoked by it: all answers after that would be 401.
KEY = os.environ["BELFRY_SCHEMATHESIS_KEY"]
OWN = None


def own_key(base):
    global OWN
    if OWN is None:
        request = urllib.request.Request(base + "/api/v1/self", headers={"Authorization": "Bearer " + KEY})
        with urllib.request.urlopen(request, timeout=10) as answer:
            OWN = json.load(answer)["key"]
    return OWN


@schemathesis.hook
def filter_case(context, case):
    if case.operation.definition.raw.get("operationId") == "revoke-key":
        return (case.path_parameters or {}).get("key") != own_key(os.environ["BELFRY_SCHEMATHESIS_URL"])
    # null is the same as leaving a field out. The description does not say so of each field: it would make two types of
    # each in every client. So null is no wrong value, and internal/server tests what it means.
    return not (wrong_on_purpose(case) and has_null(case.body))


# No schema describes how to write a schedule or the settings of a target. Valid jobs are mixed among those
# that cannot, so that there is something to pause, run, list and delete.
SCHEDULES = [
    "0 9 * * 1-5", "every 15m", "2027-01-31T09:00:00Z", "2026-01-01T00:00:00Z", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "@daily",
    {"cron": "30 2 * * *", "timezone": "America/New_York", "dst": {"gap": "skip", "fold": "both"}},
    {"every": "1h", "anchor": "2026-01-01T00:00:00Z", "jitter": "30s", "calendars": [{"weekdays": ["sat", "sun"]}]},
]


@schemathesis.hook
def map_case(context, case):
    operation = case.operation.definition.raw.get("operationId")
    if operation == "claim-runs" and isinstance(case.body, dict) and not wrong_on_purpose(case):
        if "wait_ms" in case.body:
            case.body["wait_ms"] %= 1000  # the server waits that long for a run, up to 25 s
    if operation in ("create-job", "replace-job") and isinstance(case.body, dict) and not wrong_on_purpose(case):
        seed = zlib.crc32(repr(case.body).encode())
        if seed % 2:
            kept = ("name", "labels", "payload", "priority", "overlap", "delivery", "pause_after_failures")
            case.body = {k: v for k, v in case.body.items() if k in kept}
            case.body |= {"schedule": SCHEDULES[seed // 2 % len(SCHEDULES)], "target": {"kind": "noop"}}
    return case


def wrong_on_purpose(case):
    return case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.NEGATIVE


def has_null(value):
    if isinstance(value, dict):
        return any(v is None or has_null(v) for v in value.values())
    return isinstance(value, list) and any(has_null(v) for v in value)


# One job on each line.
@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    if isinstance(value, (bytes, str)):
        return value if isinstance(value, bytes) else value.encode()
    lines = value if isinstance(value, list) else [value]
    return "\n".join(json.dumps(line) for line in lines).encode()
