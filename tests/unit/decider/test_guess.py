"""What a tool's own words suggest: evidence raises, and nothing that a tool says for itself lowers."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.catalog.guess import guess_tool
from decider.catalog.verbs import sentence_tier, stem, verb_tier, words_of

CODE = {"type": "object", "properties": {"sql": {"type": "string"}}}
CHOICE = {"type": "object", "properties": {"action": {"type": "string", "enum": ["get", "create", "delete"]}}}
HTTP = {"type": "object", "properties": {"method": {"enum": ["GET", "DELETE"]}}}
MAIL = {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}}}
MONEY = {"type": "object", "properties": {"amount": {"type": "integer"}, "currency": {"type": "string"}}}
PAGE = {"type": "object", "properties": {"selector": {"type": "string"}}}


@pytest.mark.parametrize(
    ("name", "more", "tier"),
    [
        ("get_order", {}, 1),
        ("getOrder", {}, 1),
        ("API-retrieve-a-page", {}, 1),
        ("pull_request_read", {}, 1),
        ("list_created_pull_requests", {}, 1),
        ("crm-batch-read-objects", {}, 1),
        ("draft_reply", {}, 2),
        ("create_issue", {}, 3),
        ("issue_write", {}, 3),
        ("file_upload", {}, 3),
        ("send_message", {}, 4),
        ("create_refund", {}, 4),
        ("delete_file", {}, 5),
        ("get_or_delete", {}, 5),
        ("execute_query", {}, 5),
        ("page_click", {}, 5),
        ("frobnicate", {}, 4),
        ("", {}, 4),
        ("\u524a\u9664", {}, 4),
        ("frobnicate", {"description": "Returns the state of the thing."}, 1),
        ("frobnicate", {"title": "List things"}, 1),
        ("frobnicate", {"description": "Use this tool to delete things."}, 5),
        ("get_thing", {"description": "Gets a thing and deletes it."}, 5),
        ("get_thing", {"description": "Gets a thing. This cannot be undone."}, 5),
        ("get_thing", {"description": "Gets a thing. It is not destructive."}, 1),
        ("query", {"description": "Runs a read-only SQL query."}, 5),
        ("notify_me", {"description": "Tells somebody: sends an email."}, 4),
        ("query", {"schema": CODE}, 5),
        ("get_thing", {"schema": CHOICE}, 5),
        ("fetch", {"schema": HTTP}, 5),
        ("update_thing", {"schema": MAIL}, 4),
        ("search_mail", {"schema": MAIL}, 1),
        ("update_thing", {"schema": MONEY}, 4),
        ("get_thing", {"schema": PAGE}, 1),
        ("set_thing", {"schema": PAGE}, 5),
        ("mail_search_threads", {"description": "Search conversations."}, 1),
        ("mail_search_threads", {}, 4),
        ("mail_search_threads", {"description": "Sends what it found."}, 4),
        ("mail_trash_message", {"description": "Move a message to the trash."}, 5),
        ("pay_create_customer", {"description": "This tool will create a customer."}, 3),
        ("send_input", {"description": "Send text to the terminal."}, 5),
        ("start_workflow", {}, 5),
        ("start_timer", {}, 3),
        ("turn_lights", {"description": "Turn on a light."}, 3),
        ("schedule_message", {}, 4),
        ("schedule_meeting", {}, 3),
        ("users_deactivate", {}, 5),
        ("project_pause", {}, 5),
        ("pause_song", {}, 3),
        ("mute_alert", {}, 5),
        ("list_alerts", {}, 1),
        ("attach_policy", {}, 5),
        ("browser_upload", {}, 5),
        ("browser_console_messages", {"description": "Returns all messages."}, 1),
        ("put_object", {"description": "Stores an object, overwriting one of that key."}, 5),
        ("put_object", {"description": "Stores an object without overwriting one."}, 3),
        ("merge_branch", {"description": "Merges migrations to production."}, 5),
        ("bulk", {"description": "Perform many insert, update and delete operations."}, 5),
        ("format_cells", {}, 3),
        ("format_volume", {}, 5),
        ("git_log", {}, 1),
        ("get_thing", {"annotations": {"readOnlyHint": False}}, 3),
        ("get_thing", {"annotations": {"readOnlyHint": False, "destructiveHint": True}}, 5),
        ("get_thing", {"annotations": {"destructiveHint": True}}, 5),
    ],
)
def test_the_most_dangerous_evidence_counts(name: str, more: dict[str, Any], tier: int) -> None:
    assert guess_tool(name, **more).tier == tier


@pytest.mark.parametrize("name", ["delete_all", "frobnicate", "send_mail", "create_issue"])
def test_what_a_tool_says_for_itself_is_not_heard(name: str) -> None:
    claims = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert guess_tool(name, annotations=claims).tier == guess_tool(name).tier


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "action", "enum", "sql", "to"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40), st.text(max_size=80), ANYTHING, ANYTHING)
def test_more_evidence_never_lowers_a_known_verb(name: str, text: str, schema: Any, hints: Any) -> None:
    known = guess_tool(f"delete_{name}", description=text, schema=schema, annotations=hints)
    assert known.tier == 5
    guess = guess_tool(name, description=text, schema=schema, annotations=hints)
    assert guess.tier >= guess_tool(name, description=text).tier >= 1


def test_words_are_found_however_a_name_is_spelled() -> None:
    assert words_of("getHTTPResponse_v2-forUser") == ("get", "http", "response", "v", "for", "user")
    assert [stem(word) for word in ("creates", "copying", "deleted", "applies", "getting", "news")] == [
        *("create", "copy", "delete", "apply", "get", "news")
    ]
    assert verb_tier(()) is None
    assert sentence_tier("This tool can be used to send things.") is None  # says nothing that is sure
    assert sentence_tier("Please use this tool to remove a thing") == 5
