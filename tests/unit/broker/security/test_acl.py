"""Rights as Kafka decides them: patterns, denials, what implies what, hosts, everybody (L4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.acls import Acl, AclFilter, Operation, PatternType, PermissionType, ResourceType
from seamark.broker.security.acl import AclTable
from seamark.errors import ConfigError

ALICE, BOB = "User:alice", "User:bob"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def may(table, operation, name="orders", *, who=ALICE, host="10.0.0.1", kind=TOPIC):
    return table.allows(who, host, operation, kind, name)


def test_without_a_rule_nobody_may_do_anything():
    assert not may(AclTable(), Operation.READ)


def test_everybody_may_use_what_no_rule_is_about_if_so_configured():
    table = AclTable([Acl(BOB, "READ", "TOPIC", "orders")], is_open_without_rules=True)
    assert may(table, Operation.WRITE, "other")
    # A rule for somebody else is a rule about the topic.
    assert not may(table, Operation.READ, "orders")


@pytest.mark.parametrize("right", ["READ", "WRITE", "DELETE", "ALTER", "DESCRIBE"])
def test_rights_that_imply_describe(right):
    table = AclTable([Acl(ALICE, right, "TOPIC", "orders")])
    assert may(table, Operation.DESCRIBE)
    assert not may(table, Operation.DESCRIBE_CONFIGS)


@pytest.mark.parametrize("right", ["CREATE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CLUSTER_ACTION"])
def test_rights_that_do_not_imply_describe(right):
    assert not may(AclTable([Acl(ALICE, right, "TOPIC", "orders")]), Operation.DESCRIBE)


def test_alter_configs_implies_describe_configs_and_not_the_other_way_round():
    assert may(AclTable([Acl(ALICE, "ALTER_CONFIGS", "TOPIC", "orders")]), Operation.DESCRIBE_CONFIGS)
    assert not may(AclTable([Acl(ALICE, "DESCRIBE_CONFIGS", "TOPIC", "orders")]), Operation.ALTER_CONFIGS)


def test_a_denial_wins_over_every_allowance_and_implies_nothing():
    table = AclTable(
        [
            Acl(ALICE, "ALL", "TOPIC", "orders"),
            Acl("User:*", "READ", "TOPIC", "or", pattern="PREFIXED", permission="DENY"),
        ]
    )
    assert not may(table, Operation.READ)
    assert may(table, Operation.DESCRIBE)
    assert may(table, Operation.WRITE)


def test_a_denial_of_all_denies_each_operation():
    table = AclTable([Acl(ALICE, "ALL", "TOPIC"), Acl(ALICE, "ALL", "TOPIC", "orders", permission="DENY")])
    assert not any(may(table, operation) for operation in (Operation.READ, Operation.DESCRIBE, Operation.ALTER))
    assert may(table, Operation.READ, "other")


def test_prefixes_match_from_their_own_length_on():
    table = AclTable([Acl(ALICE, "READ", "GROUP", "team-", pattern="PREFIXED")])
    assert may(table, Operation.READ, "team-", kind=GROUP)
    assert may(table, Operation.READ, "team-a", kind=GROUP)
    assert not may(table, Operation.READ, "team", kind=GROUP)
    assert not may(table, Operation.READ, "team-a", kind=TOPIC)


def test_a_star_is_every_name_only_as_a_literal():
    assert may(AclTable([Acl(ALICE, "READ", "TOPIC", "*")]), Operation.READ, "anything")
    assert not may(AclTable([Acl(ALICE, "READ", "TOPIC", "*", pattern="PREFIXED")]), Operation.READ, "anything")


def test_a_rule_for_one_host_is_for_no_other():
    table = AclTable([Acl(ALICE, "READ", "TOPIC", "orders", host="10.0.0.1")])
    assert may(table, Operation.READ, host="10.0.0.1")
    assert not may(table, Operation.READ, host="10.0.0.2")


def test_removing_a_rule_ends_its_effect_and_a_second_removal_does_nothing():
    rule = Acl(ALICE, "READ", "TOPIC", "or", pattern="PREFIXED")
    table = AclTable([rule, Acl(ALICE, "READ", "TOPIC", "or", pattern="PREFIXED", host="10.0.0.9")])
    before = table.generation
    table.remove([rule])
    table.remove([rule])
    assert not may(table, Operation.READ)
    assert may(table, Operation.READ, host="10.0.0.9")
    assert table.generation > before
    assert len(table) == 1


def test_filters_mean_what_kafkas_mean():
    literal, prefixed = Acl(ALICE, "READ", "TOPIC", "orders"), Acl(BOB, "READ", "TOPIC", "ord", pattern="PREFIXED")
    star, group = Acl(BOB, "WRITE", "TOPIC", "*", permission="DENY"), Acl(ALICE, "READ", "GROUP", "orders")
    table = AclTable([literal, prefixed, star, group])

    def matching(**given):
        return set(table.matching(AclFilter(**given)))

    assert matching() == {literal, prefixed, star, group}
    assert matching(resource_type=TOPIC, name="orders", pattern=PatternType.MATCH) == {literal, prefixed, star}
    assert matching(resource_type=TOPIC, name="orders") == {literal}
    assert matching(name="*") == {star}
    assert matching(pattern=PatternType.PREFIXED) == {prefixed}
    assert matching(pattern=PatternType.LITERAL, name="ord") == set()
    assert matching(principal=ALICE, operation=Operation.READ) == {literal, group}
    assert matching(permission=PermissionType.DENY) == {star}
    assert matching(host="10.0.0.1") == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"principal": "alice"},
        {"principal": "User:"},
        {"operation": "ANY"},
        {"operation": "FLY"},
        {"operation": 99},
        {"resource_type": "ANY"},
        {"name": ""},
        {"pattern": "MATCH"},
        {"permission": "ANY"},
        {"resource_type": "CLUSTER", "name": "other"},
    ],
)
def test_a_rule_that_no_broker_can_have_is_refused_with_a_sentence(wrong):
    good = {"principal": ALICE, "operation": "READ", "resource_type": "TOPIC", "name": "orders"}
    with pytest.raises(ConfigError) as caught:
        Acl(**{**good, **wrong})
    assert next(iter(wrong)) in str(caught.value) or "cluster" in str(caught.value)


def test_a_rule_survives_its_way_to_disk():
    rule = Acl(ALICE, "IDEMPOTENT_WRITE", "CLUSTER", "kafka-cluster", permission="DENY", host="10.0.0.1")
    assert Acl.from_json(rule.to_json()) == rule


names = st.text("ab*", min_size=1, max_size=3)
rules = st.builds(
    Acl,
    st.sampled_from([ALICE, BOB, "User:*"]),
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL, Operation.ALTER_CONFIGS]),
    st.sampled_from([TOPIC, GROUP]),
    names,
    pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    permission=st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
    host=st.sampled_from(["*", "h1", "h2"]),
)
questions = st.tuples(
    st.sampled_from([ALICE, BOB, "User:eve"]),
    st.sampled_from(["h1", "h2"]),
    st.sampled_from([Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS]),
    st.sampled_from([TOPIC, GROUP]),
    st.text("ab", min_size=1, max_size=3),
)


def decided_naively(given_rules, is_open, who, host, operation, kind, name):
    """The rule of the documentation, word by word, over all rules."""
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    about = [
        rule
        for rule in given_rules
        if rule.resource_type is kind
        and (name.startswith(rule.name) if rule.pattern is PatternType.PREFIXED else rule.name in (name, "*"))
    ]
    mine = [rule for rule in about if rule.principal in (who, "User:*") and rule.host in (host, "*")]
    direct = {operation, Operation.ALL}
    if any(rule.permission is PermissionType.DENY and rule.operation in direct for rule in mine):
        return False
    if any(rule.permission is PermissionType.ALLOW and rule.operation in direct | implied for rule in mine):
        return True
    return is_open and not about


@settings(max_examples=200)
@given(st.lists(rules, max_size=8), st.lists(rules, max_size=4), st.booleans(), st.lists(questions, max_size=10))
def test_the_arranged_rules_decide_as_all_rules_looked_at_one_by_one(kept, removed, is_open, asked):
    table = AclTable([*kept, *removed], is_open_without_rules=is_open)
    table.remove(removed)
    left = set(kept) - set(removed)
    assert set(table) == left
    for question in asked:
        assert table.allows(*question) == decided_naively(left, is_open, *question), question


@pytest.mark.parametrize(
    ("rules", "may"),
    [
        ([], False),
        ([Acl("User:alice", "WRITE", "TOPIC", "orders")], True),
        ([Acl("User:*", "ALL", "TOPIC")], True),
        ([Acl("User:alice", "WRITE", "TOPIC", "o", pattern="PREFIXED")], True),
        ([Acl("User:bob", "WRITE", "TOPIC", "orders")], False),
        ([Acl("User:alice", "READ", "TOPIC", "orders")], False),
        ([Acl("User:alice", "WRITE", "GROUP", "orders")], False),
        ([Acl("User:alice", "WRITE", "TOPIC", "orders", host="10.0.0.1")], False),
        ([Acl(ALICE, "WRITE", "TOPIC", "orders"), Acl(ALICE, "WRITE", "TOPIC", permission="DENY")], False),
        (
            [
                Acl("User:alice", "WRITE", "TOPIC", "orders"),
                Acl("User:alice", "ALL", "TOPIC", "or", pattern="PREFIXED", permission="DENY"),
            ],
            False,
        ),
    ],
)  # fmt: skip
def test_a_right_to_some_resource_is_found_without_looking_at_the_resources(rules, may):
    table = AclTable(rules)
    assert table.allows_some("User:alice", "127.0.0.1", Operation.WRITE, ResourceType.TOPIC) is may
