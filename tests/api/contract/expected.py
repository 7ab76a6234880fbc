"""
What each operation may answer: kept by hand, apart from the contract document.

The document itself lists success codes and one `default`, so that the error statuses
of an operation stand only here and in its prose.
"""

from dataclasses import dataclass

COMMON_ERRORS = frozenset({401, 403, 404, 422, 500})
"""What every operation may answer."""

TRANSPORT_ERRORS = frozenset({405, 413, 415})
"""What is answered before an operation is found, or its body read."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One operation's statuses."""

    success: int
    extra_errors: frozenset[int]

    @property
    def errors(self) -> frozenset[int]:
        return COMMON_ERRORS | TRANSPORT_ERRORS | self.extra_errors


def _expect(success: int, *extra_errors: int) -> Expected:
    return Expected(success, frozenset(extra_errors))


EXPECTED = {
    "registerUser": _expect(201, 400, 409),
    "getCurrentUser": _expect(200),
    "getOrg": _expect(200),
    "updateOrg": _expect(204, 400, 409),
    "joinOrg": _expect(204, 400, 409),
    "generateSecret": _expect(201),
    "listMembers": _expect(200),
    "removeMember": _expect(200, 409),
    "listDomainClaims": _expect(200),
    "requestDomainClaim": _expect(201, 400, 409),
    "releaseDomainClaim": _expect(204),
    "listPermissions": _expect(200),
    "listRoles": _expect(200),
    "createRole": _expect(201, 400, 409),
    "deleteRole": _expect(204, 409),
    "grantRole": _expect(204, 409),
    "listTokens": _expect(200),
    "createToken": _expect(201, 400, 409),
    "deleteToken": _expect(204),
    "listAuditLogs": _expect(200, 400),
    "listApps": _expect(200),
    "getApp": _expect(200),
    "registerApp": _expect(204, 400),
    "updateApp": _expect(204, 400),
    "deleteApp": _expect(204, 409),
    "listExecutors": _expect(200),
    "listMetrics": _expect(200, 400),
    "listAppVersions": _expect(200, 502, 503),
    "setLatestAppVersion": _expect(204, 400, 502, 503),
    "listAlertingRules": _expect(200),
    "createAlertingRule": _expect(201, 400),
    "deleteAlertingRule": _expect(204),
    "getAutoscale": _expect(200, 502, 503),
    "getAutoscaleVersion": _expect(200, 502, 503),
    "getAutoscalingPolicy": _expect(200),
    "setAutoscalingPolicy": _expect(200, 400, 502, 503),
    "deleteAutoscalingPolicy": _expect(204),
    "listQueues": _expect(200, 502, 503),
    "getQueue": _expect(200, 502, 503),
    "listSchedules": _expect(200, 502, 503),
    "getSchedule": _expect(200, 502, 503),
    "pauseSchedule": _expect(204, 502, 503),
    "resumeSchedule": _expect(204, 502, 503),
    "triggerSchedule": _expect(201, 502, 503),
    "backfillSchedule": _expect(200, 400, 502, 503),
    "listWorkflows": _expect(200, 502, 503),
    "searchWorkflows": _expect(200, 400, 502, 503),
    "getWorkflow": _expect(200, 502, 503),
    "listWorkflowSteps": _expect(200, 502, 503),
    "listWorkflowEvents": _expect(200, 502, 503),
    "listWorkflowNotifications": _expect(200, 502, 503),
    "listWorkflowStreams": _expect(200, 502, 503),
    "exportWorkflow": _expect(200, 502, 503),
    "importWorkflow": _expect(201, 400, 502, 503),
    "cancelWorkflow": _expect(204, 400, 502, 503),
    "resumeWorkflow": _expect(204, 400, 502, 503),
    "forkWorkflow": _expect(201, 400, 409, 502, 503),
    "deleteWorkflow": _expect(204, 502, 503),
    "bulkCancelWorkflows": _expect(204, 400, 502, 503),
    "bulkResumeWorkflows": _expect(204, 400, 502, 503),
    "bulkDeleteWorkflows": _expect(204, 400, 502, 503),
    "bulkForkWorkflowsFromFailure": _expect(200, 400, 502, 503),
    "getWorkflowAggregates": _expect(200, 400, 502, 503),
    "getStepAggregates": _expect(200, 400, 502, 503),
}
"""Each operation's success code and the errors beyond the common ones."""

NEEDS_OIDC = frozenset(
    {
        "createRole",
        "deleteRole",
        "generateSecret",
        "getCurrentUser",
        "getOrg",
        "grantRole",
        "joinOrg",
        "listAuditLogs",
        "listDomainClaims",
        "listMembers",
        "listRoles",
        "registerUser",
        "releaseDomainClaim",
        "removeMember",
        "requestDomainClaim",
        "updateOrg",
    }
)
"""Operations that carry `x-dbos-requires-oauth`."""

NOT_SERVED = (NEEDS_OIDC - {"listAuditLogs"}) | {
    "listAlertingRules",
    "createAlertingRule",
    "deleteAlertingRule",
    "getAutoscale",
    "getAutoscaleVersion",
    "getAutoscalingPolicy",
    "setAutoscalingPolicy",
    "deleteAutoscalingPolicy",
}
"""Operations of the contract that this version has no route for."""
