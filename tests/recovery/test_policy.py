"""The rules of recovery, one by one, without a clock or a socket."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.ids import AppVersion, ExecutorId, WorkflowId
from relay.records import VersionPolicy
from relay.recovery import policy
from relay.recovery.policy import (
    Acknowledged,
    BackOff,
    Candidate,
    Finding,
    Finish,
    Hold,
    NoAnswer,
    NobodyResponsive,
    NobodyToAsk,
    NothingPending,
    Order,
    Refused,
    Strand,
    Unanswerable,
    Unanswered,
    Undelivered,
    Verify,
    Wait,
    Withdrawn,
    WorkRemains,
)
from tests.recovery.records import V1, V2, make_recovery
from tests.recovery.situations import candidate, situation

PEER = ExecutorId("peer")
WORK = WorkRemains(PEER, 2, (WorkflowId("w-1"), WorkflowId("w-2")))


def test_nobody_is_asked_when_nobody_is_connected() -> None:
    """Without an executor of the application the answer is known."""
    assert policy.presume([]) == NobodyToAsk()


def test_nobody_is_asked_when_all_are_silent() -> None:
    """Executors that stopped answering are left to the probes."""
    assert policy.presume([candidate(is_responsive=False)]) == NobodyResponsive()


def test_one_responsive_executor_is_worth_asking() -> None:
    """The question is asked as soon as one may answer, of whatever version."""
    silent, other = candidate(is_responsive=False), candidate("other", V2)

    assert policy.presume([silent, other]) is None


def test_nothing_pending_finishes_without_an_order() -> None:
    """A dead executor without work is done, whoever is connected."""
    decision = policy.decide(situation(), NothingPending(PEER), jitter=0.5)

    assert decision == Finish(is_verified=True)


@pytest.mark.parametrize("finding", [NobodyToAsk(), NobodyResponsive()])
def test_recovery_waits_when_nobody_can_be_asked(finding: Finding) -> None:
    """It waits for somebody to connect or answer, with a reason."""
    decision = policy.decide(situation(), finding, jitter=0.5)

    assert isinstance(decision, Wait)
    assert decision.reason


def test_failed_question_backs_off_and_orders_nothing() -> None:
    """No order goes out while it is unknown what is pending."""
    decision = policy.decide(situation(candidate()), NoAnswer("silence"), jitter=0.5)

    assert decision == BackOff(timedelta(seconds=0.5), "silence")


@pytest.mark.parametrize("finding", [WORK, Unanswerable()])
def test_work_is_ordered_from_an_executor_of_its_version(finding: Finding) -> None:
    """Also when no SDK can tell whether there is work."""
    decision = policy.decide(
        situation(candidate("other", V2), candidate("peer", V1)), finding, jitter=0.5
    )

    assert decision == Order(PEER, V1, is_foreign=False)


def test_nothing_is_ordered_while_relay_has_just_started() -> None:
    """The dead executor, or one of its version, may be redialling."""
    decision = policy.decide(
        situation(candidate(), hold=timedelta(seconds=12)), WORK, jitter=0.5
    )

    assert isinstance(decision, Hold)
    assert decision.delay == timedelta(seconds=12)


def test_nothing_is_stranded_while_relay_has_just_started() -> None:
    """An alarm in the first seconds would be false as often as not."""
    decision = policy.decide(
        situation(candidate("other", V2), hold=timedelta(seconds=12)), WORK, jitter=0.5
    )

    assert isinstance(decision, Hold)


def test_no_second_order_while_the_first_may_still_be_carried_out() -> None:
    """An SDK that starts work on the spot would start it twice."""
    decision = policy.decide(
        situation(candidate(), unsettled=ExecutorId("first")), WORK, jitter=1.0
    )

    assert isinstance(decision, BackOff)
    assert "first" in decision.reason


def test_work_waits_when_everybody_left_after_answering() -> None:
    """Then the first executor that connects wakes the row."""
    assert isinstance(policy.decide(situation(), WORK, jitter=0.5), Wait)


def test_work_is_stranded_without_an_executor_of_its_version() -> None:
    """It is looked at again after five minutes, and the version is named."""
    decision = policy.decide(situation(candidate("other", V2)), WORK, jitter=0.5)

    assert isinstance(decision, Strand)
    assert decision.delay == timedelta(minutes=5)
    assert "v1" in decision.reason


def test_any_version_policy_orders_each_other_version_once() -> None:
    """A version that was tried is not tried again, and then the row is stranded."""
    other = candidate("other", V2)
    tried = replace(make_recovery(), tried_versions=(V2,))

    first = policy.decide(
        situation(other, version_policy=VersionPolicy.ANY), WORK, jitter=0.5
    )
    second = policy.decide(
        situation(other, record=tried, version_policy=VersionPolicy.ANY),
        WORK,
        jitter=0.5,
    )

    assert first == Order(ExecutorId("other"), V2, is_foreign=True)
    assert isinstance(second, Strand)


def test_any_version_policy_prefers_the_own_version() -> None:
    """Another version is the last resort."""
    decision = policy.decide(
        situation(
            candidate("other", V2),
            candidate("peer", V1, in_flight=9),
            version_policy=VersionPolicy.ANY,
        ),
        WORK,
        jitter=0.5,
    )

    assert decision == Order(PEER, V1, is_foreign=False)


def test_any_version_policy_leaves_silent_foreigners_alone() -> None:
    """Their one try is kept for when they answer."""
    decision = policy.decide(
        situation(
            candidate("other", V2, is_responsive=False),
            version_policy=VersionPolicy.ANY,
        ),
        WORK,
        jitter=0.5,
    )

    assert isinstance(decision, Strand)


def test_least_busy_executor_is_chosen() -> None:
    """Orders go where the fewest requests wait."""
    order = policy.choose_target(
        situation(candidate("busy", in_flight=2), candidate("idle", in_flight=1))
    )

    assert order == Order(ExecutorId("idle"), V1, is_foreign=False)


def test_silent_executor_is_passed_over() -> None:
    """A busy executor that answers is better than an idle one that does not."""
    order = policy.choose_target(
        situation(
            candidate("silent", is_responsive=False), candidate("busy", in_flight=9)
        )
    )

    assert order == Order(ExecutorId("busy"), V1, is_foreign=False)


def test_silent_executor_is_ordered_when_its_version_has_no_other() -> None:
    """Better asked in vain than never."""
    order = policy.choose_target(
        situation(candidate("silent", is_responsive=False), candidate("other", V2))
    )

    assert order == Order(ExecutorId("silent"), V1, is_foreign=False)


def test_equal_executors_take_turns() -> None:
    """A hundred orders at once do not all go to the same one."""
    chosen = {
        policy.choose_target(
            situation(candidate("a"), candidate("b"), candidate("c"), spread=spread)
        )
        for spread in range(3)
    }

    assert len(chosen) == 3


def test_success_is_verified_before_it_is_believed() -> None:
    """SDKs answer success when they recovered nothing."""
    assert policy.judge_outcome(make_recovery(), Acknowledged(), jitter=0.5) == Verify()


@pytest.mark.parametrize("outcome_type", [Refused, Unanswered, Undelivered])
def test_failed_order_backs_off_with_its_reason(
    outcome_type: type[Refused | Unanswered | Undelivered],
) -> None:
    """Whatever went wrong, the next attempt starts with the question."""
    decision = policy.judge_outcome(make_recovery(), outcome_type("why"), jitter=0.5)

    assert decision == BackOff(timedelta(seconds=0.5), "why")


def test_withdrawn_order_is_no_failure() -> None:
    """The executor came back; its row is about to be closed."""
    decision = policy.judge_outcome(make_recovery(), Withdrawn(), jitter=0.5)

    assert decision == policy.hold_online()


OWN = Order(PEER, V1, is_foreign=False)
FOREIGN = Order(PEER, V2, is_foreign=True)


@pytest.mark.parametrize("order", [OWN, FOREIGN])
def test_verified_order_finishes(order: Order) -> None:
    """Nothing pending is proof, whoever took the work."""
    decision = policy.judge_verification(
        make_recovery(), order, NothingPending(PEER), jitter=0.5
    )

    assert decision == Finish(is_verified=True)


def test_success_while_work_remains_backs_off() -> None:
    """An acknowledged order that did nothing is repeated."""
    decision = policy.judge_verification(make_recovery(), OWN, WORK, jitter=0.5)

    assert decision == BackOff(timedelta(seconds=0.5), "work remains")


def test_order_that_nobody_can_verify_finishes_unverified() -> None:
    """The row ends, but without the proof that deletes a record."""
    decision = policy.judge_verification(
        make_recovery(), OWN, Unanswerable(), jitter=0.5
    )

    assert decision == Finish(is_verified=False)


def test_foreign_order_that_nobody_can_verify_proves_nothing() -> None:
    """Another version acknowledges orders that it does not carry out."""
    decision = policy.judge_verification(
        make_recovery(), FOREIGN, Unanswerable(), jitter=0.5
    )

    assert isinstance(decision, BackOff)


def test_unanswered_verification_backs_off() -> None:
    """Unknown is not nothing."""
    decision = policy.judge_verification(
        make_recovery(), OWN, NoAnswer("silence"), jitter=0.5
    )

    assert isinstance(decision, BackOff)
    assert "silence" in decision.reason


@pytest.mark.parametrize("finding", [NobodyToAsk(), NobodyResponsive()])
def test_verification_waits_when_nobody_can_be_asked(finding: Finding) -> None:
    """The target may have taken the work and left; the question comes first then."""
    decision = policy.judge_verification(make_recovery(), OWN, finding, jitter=0.5)

    assert isinstance(decision, Wait)


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (WORK, True),
        (NoAnswer("silence"), True),
        (NothingPending(PEER), False),
        (Unanswerable(), False),
        (NobodyToAsk(), False),
        (NobodyResponsive(), False),
    ],
)
def test_only_passing_findings_are_asked_for_again(
    finding: Finding, expected: bool
) -> None:
    """Work may vanish and silence may end in a moment; the rest stays as it is."""
    assert policy.is_worth_repeating(finding) is expected


def test_verification_takes_ten_seconds_at_most() -> None:
    """Five askings over ten seconds, the first at once."""
    assert len(policy.VERIFICATION_PAUSES) == 5
    assert policy.VERIFICATION_PAUSES[0] == timedelta(0)
    assert sum(policy.VERIFICATION_PAUSES, timedelta(0)) == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (7, 60), (10_000, 60)],
)
def test_backoff_doubles_from_one_second_to_a_minute(
    failures: int, seconds: int
) -> None:
    """The longest delay after each failure in a row."""
    record = replace(make_recovery(), failures=failures)

    assert policy.back_off(record, "why", jitter=1.0).delay == timedelta(
        seconds=seconds
    )


@given(failures=st.integers(0, 10_000), jitter=st.floats(0, 1, exclude_max=True))
def test_backoff_stays_between_nothing_and_a_minute(
    failures: int, jitter: float
) -> None:
    """Full jitter: any delay up to the limit of this failure."""
    record = replace(make_recovery(), failures=failures)
    delay = policy.back_off(record, "why", jitter=jitter).delay

    assert timedelta(0) <= delay <= timedelta(seconds=60)


def test_the_end_of_a_doubted_recovery_waits_and_says_why() -> None:
    """Executors read different databases: "nothing pending" is no proof."""
    rest = policy.doubt(make_recovery(), jitter=0.5)

    assert rest == BackOff(
        timedelta(milliseconds=500),
        "executors of the application read different databases",
    )


def test_busy_row_rests_for_a_moment() -> None:
    """A row whose executor has an attempt under way is put back, not failed."""
    assert policy.hold_busy() == Hold(
        timedelta(seconds=1), "an earlier attempt has not ended yet"
    )


CANDIDATES = st.lists(
    st.builds(
        Candidate,
        executor_id=st.sampled_from(["a", "b", "c", "d"]).map(ExecutorId),
        app_version=st.sampled_from([V1, V2, AppVersion("v3")]),
        in_flight=st.integers(0, 3),
        is_responsive=st.booleans(),
    ),
    max_size=5,
)


@given(
    candidates=CANDIDATES,
    version_policy=st.sampled_from(VersionPolicy),
    tried=st.sets(st.sampled_from([V2, AppVersion("v3")])),
    spread=st.integers(0, 100),
)
def test_target_is_always_a_candidate_that_may_be_ordered(
    candidates: list[Candidate],
    version_policy: VersionPolicy,
    tried: set[AppVersion],
    spread: int,
) -> None:
    """Never of another version unless allowed and untried; none only if none may be."""
    record = replace(make_recovery(), tried_versions=tuple(tried))

    order = policy.choose_target(
        situation(
            *candidates, record=record, version_policy=version_policy, spread=spread
        )
    )

    versions = {c.app_version for c in candidates}
    if order is None:
        assert V1 not in versions
        return
    assert (order.target, order.app_version) in {
        (c.executor_id, c.app_version) for c in candidates
    }
    assert order.is_foreign is (order.app_version != V1)
    if order.is_foreign:
        assert version_policy is VersionPolicy.ANY
        assert V1 not in versions
        assert order.app_version not in tried


@pytest.mark.parametrize(
    ("changes", "may_share"),
    [
        ({}, True),
        ({"failures": 3}, True),
        ({"attempts": 1}, False),
        ({"suspect_ids": (WorkflowId("w-1"),)}, False),
    ],
)
def test_first_order_may_be_shared_unless_a_suspect_is_in_it(
    changes: dict[str, Any], *, may_share: bool
) -> None:
    """A question that failed is no order; whoever was ordered before goes alone."""
    record = replace(make_recovery(), **changes)

    assert policy.may_share_an_order(record) is may_share
