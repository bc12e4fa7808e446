"""The Python SDK, unmodified: every guarantee of the Agent Server API on which it relies."""

import asyncio
import uuid

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

import suite

MODES = ["values", "messages-tuple", "updates", "custom", "tasks", "checkpoints", "debug"]


def client_of(server):
    """Returns an SDK client of the server."""
    return get_client(url=server.url, api_key=server.key)


def human(text, **more):
    return {"messages": [{"type": "human", "content": text, **more}]}


def text_of(message):
    """Returns the text of a message, whose content is a string or a list of blocks."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if block["type"] == "text")


async def open_gate(server, name):
    """Opens a gate of the model, so that the replies waiting there continue."""
    async with httpx.AsyncClient() as http:
        await http.get(f"{server.model_url}/gates/{name}")


async def new_thread(client):
    return (await client.threads.create())["thread_id"]


async def assistants(server):
    client = client_of(server)
    found = await client.assistants.search(graph_id="agent")
    [system] = [one for one in found if one["metadata"].get("created_by") == "system"]
    assert system["name"] == system["graph_id"] == "agent" and system["version"] == 1
    expected = uuid.uuid5(uuid.UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), "agent")
    assert system["assistant_id"] == str(expected)
    assert (await client.assistants.get(system["assistant_id"]))["graph_id"] == "agent"
    assert await client.assistants.count(graph_id="agent") == 1
    assert await client.assistants.search(graph_id="nobody") == []
    for name in (system["assistant_id"], "agent"):
        graph = await client.assistants.get_graph(name)
        ids = {node["id"] for node in graph["nodes"]}
        assert {"__start__", "__end__", "model", "tools"} <= ids, ids
        assert all(set(edge) <= {"source", "target", "conditional", "data"} for edge in graph["edges"])
        assert all(edge["source"] in ids and edge["target"] in ids for edge in graph["edges"])
    schemas = await client.assistants.get_schemas(system["assistant_id"])
    assert schemas["graph_id"] == "agent" and schemas["input_schema"]["type"] == "object"


async def threads(server):
    client = client_of(server)
    given = str(uuid.uuid4())
    label = {"label": str(uuid.uuid4()), "nested": {"deep": [1, 2]}}
    thread = await client.threads.create(thread_id=given, metadata=label)
    assert thread["thread_id"] == given and thread["status"] == "idle" and thread["values"] is None
    try:
        await client.threads.create(thread_id=given)
        raise AssertionError("a thread was created twice")
    except ConflictError:
        pass
    again = await client.threads.create(thread_id=given, if_exists="do_nothing")
    assert again["metadata"]["label"] == label["label"]
    patched = await client.threads.update(given, metadata={"more": None})
    assert patched["metadata"]["more"] is None and patched["metadata"]["label"] == label["label"]
    assert await client.threads.update(given, metadata={"quiet": 1}, return_minimal=True) is None
    assert (await client.threads.get(given))["metadata"]["quiet"] == 1
    found = await client.threads.search(metadata={"label": label["label"]})
    assert [one["thread_id"] for one in found] == [given]
    assert await client.threads.search(metadata={"label": label["label"], "quiet": 2}) == []
    assert await client.threads.search(metadata={"nested": {"deep": [1, 2]}, "label": label["label"]}) != []
    assert await client.threads.search(ids=[given], select=["thread_id"]) == [{"thread_id": given}]
    assert await client.threads.count(metadata={"label": label["label"]}) == 1
    copy = await client.threads.copy(given)
    assert copy["thread_id"] != given and copy["metadata"]["label"] == label["label"]
    await client.threads.delete(given)
    for missing in (given, str(uuid.uuid4())):
        try:
            await client.threads.get(missing)
            raise AssertionError("a deleted thread was returned")
        except NotFoundError:
            pass


async def sorted_pages(server):
    client = client_of(server)
    label = str(uuid.uuid4())
    made = [(await client.threads.create(metadata={"label": label}))["thread_id"] for _ in range(5)]
    query = {"metadata": {"label": label}, "sort_by": "created_at"}
    assert [t["thread_id"] for t in await client.threads.search(**query, sort_order="asc")] == made
    page = await client.threads.search(**query, sort_order="desc", limit=2, offset=1)
    assert [t["thread_id"] for t in page] == [made[3], made[2]]


async def streams_every_mode(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    ids = {}
    parts = []
    stream = client.runs.stream(
        thread_id, "agent", input=human("[hello]", id="question-1"), stream_mode=MODES, stream_subgraphs=True,
        on_run_created=lambda run: ids.update(run),
    )
    async for part in stream:
        parts.append(part)
    assert parts[0].event == "metadata" and parts[0].data["run_id"] == ids["run_id"], parts[0]
    assert not [part.event for part in parts if "|" in part.event]
    values = [part.data for part in parts if part.event == "values"]
    assert [text_of(m) for m in values[0]["messages"]] == ["[hello]"], values[0]
    assert [text_of(m) for m in values[-1]["messages"]] == ["[hello]", "Hello there."]
    assert values[0]["messages"][0]["id"] == "question-1"
    assert all("__interrupt__" not in value for value in values)
    chunks = [part.data for part in parts if part.event == "messages"]
    answer = values[-1]["messages"][-1]
    assert {chunk["id"] for chunk, _ in chunks} == {answer["id"]}
    assert "".join(text_of(chunk) for chunk, _ in chunks) == "Hello there."
    assert [text_of(chunk) for chunk, _ in chunks][:3] == ["Hel", "lo ", "there."]
    [usage] = [chunk["usage_metadata"] for chunk, _ in chunks if chunk.get("usage_metadata")]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    for _, metadata in chunks:
        assert metadata["langgraph_node"] == "model" and metadata["run_id"] == ids["run_id"]
        assert metadata["thread_id"] == thread_id and metadata["graph_id"] == "agent"
    updates = [part.data for part in parts if part.event == "updates"]
    [messages] = [update["model"]["messages"] for update in updates if "model" in update]
    assert messages[0]["id"] == answer["id"]
    order = [part.event for part in parts]
    last_chunk = len(order) - 1 - order[::-1].index("messages")
    update = next(i for i, part in enumerate(parts) if part.event == "updates" and "model" in part.data)
    snapshot = next(
        i for i, part in enumerate(parts) if part.event == "values" and len(part.data["messages"]) == 2
    )
    assert last_chunk < update < snapshot, order
    tasks = [part.data for part in parts if part.event == "tasks"]
    started = [task["id"] for task in tasks if "triggers" in task]
    finished = [task["id"] for task in tasks if "result" in task]
    assert started and sorted(started) == sorted(finished)
    checkpoints = [part.data for part in parts if part.event == "checkpoints"]
    assert checkpoints[0]["metadata"]["source"] == "input" and checkpoints[0]["metadata"]["step"] == -1
    assert {part.data["type"] for part in parts if part.event == "debug"} == {"checkpoint", "task", "task_result"}
    run = await client.runs.get(thread_id, ids["run_id"])
    assert run["status"] == "success" and run["assistant_id"] != "agent"
    assert run["kwargs"]["stream_mode"] == MODES


async def only_the_requested_modes_are_streamed(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    seen = [part.event async for part in client.runs.stream(thread_id, "agent", input=human("[todos]"))]
    assert set(seen) <= {"metadata", "values", "end"}, seen
    state = await client.threads.get_state(thread_id)
    assert state["values"]["todos"][0]["content"] == "Mend the kettle", state["values"].keys()


async def waits_and_joins(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    values = await client.runs.wait(thread_id, "agent", input=human("[hello]"), metadata={"source": "test"})
    assert text_of(values["messages"][-1]) == "Hello there."
    run = await client.runs.create(thread_id, "agent", input=human("[again]"))
    assert run["status"] in ("pending", "running") and run["multitask_strategy"] == "enqueue"
    joined = await client.runs.join(thread_id, run["run_id"])
    assert text_of(joined["messages"][-1]) == "Answered once more."
    assert await client.runs.join(thread_id, run["run_id"]) == joined
    listed = await client.runs.list(thread_id)
    assert [one["status"] for one in listed] == ["success", "success"]
    assert listed[0]["run_id"] == run["run_id"] and listed[1]["metadata"]["source"] == "test"
    assert len(await client.runs.list(thread_id, limit=1, offset=1)) == 1
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "idle" and thread["metadata"]["graph_id"] == "agent"
    assert thread["metadata"]["assistant_id"] == listed[0]["assistant_id"]
    try:
        await client.runs.get(thread_id, str(uuid.uuid4()))
        raise AssertionError("an unknown run was returned")
    except NotFoundError:
        pass


async def failures_are_in_the_stream_and_in_the_result(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    events = [part async for part in client.runs.stream(thread_id, "agent", input=human("[fail]"))]
    [error] = [part.data for part in events if part.event == "error"]
    assert error["error"] and "no such thing" in error["message"], error
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "error" and thread["error"]["message"]
    result = await client.runs.wait(thread_id, "agent", input=human("[fail]"), raise_error=False)
    assert result["__error__"]["message"]
    empty = await new_thread(client)
    result = await client.runs.wait(empty, "agent", input=None, raise_error=False)
    assert result["__error__"]["error"] == "EmptyInputError", result
    for wrong in ({"assistant_id": "nobody"}, {"assistant_id": "agent", "multitask_strategy": "sometimes"}):
        try:
            await client.http.post(f"/threads/{empty}/runs", json={"input": human("x"), **wrong})
            raise AssertionError(f"{wrong} was accepted")
        except UnprocessableEntityError:
            pass


async def interrupted_run(client, text="[tool]"):
    """Runs a message whose tool call needs approval, on a new thread. Returns the thread's id and the interrupt."""
    thread_id = await new_thread(client)
    events = [
        part
        async for part in client.runs.stream(
            thread_id, "agent", input=human(text), stream_mode=["values", "updates", "messages-tuple"]
        )
    ]
    [update] = [p.data["__interrupt__"] for p in events if p.event == "updates" and "__interrupt__" in p.data]
    shown = [p.data for p in events if p.event == "values"][-1]
    assert shown["__interrupt__"] == update and shown["messages"], shown
    return thread_id, update[0]


async def tools_are_approved(server):
    client = client_of(server)
    answers = {
        "approve": ({"type": "approve"}, "success"),
        "edit": ({"type": "edit", "edited_action": {"name": "execute", "args": {"command": "touch other.txt"}}}, "success"),
        "reject": ({"type": "reject", "message": "not now"}, "error"),
        "respond": ({"type": "respond", "message": "use the other file"}, None),
    }
    for kind, (decision, status) in answers.items():
        thread_id, interrupt = await interrupted_run(client)
        assert set(interrupt) - {"response_schema"} == {"id", "value"} and len(interrupt["id"]) == 32
        [action], [config] = interrupt["value"]["action_requests"], interrupt["value"]["review_configs"]
        assert action["name"] == config["action_name"] == "execute" and action["args"]["command"] == "touch note.txt"
        assert kind in config["allowed_decisions"], config
        thread = await client.threads.get(thread_id)
        assert thread["status"] == "interrupted", thread["status"]
        [[task_id, pending]] = thread["interrupts"].items()
        assert pending == [interrupt]
        state = await client.threads.get_state(thread_id)
        assert state["tasks"][-1]["id"] == task_id and state["tasks"][-1]["interrupts"] == [interrupt]
        assert state["next"] == [state["tasks"][-1]["name"]] and state["interrupts"] == [interrupt]
        assert "__interrupt__" not in state["values"]
        [listed] = await client.threads.search(ids=[thread_id], status="interrupted")
        assert listed["interrupts"] == thread["interrupts"]
        [run] = await client.runs.list(thread_id)
        assert run["status"] == "success"
        again = await client.runs.join(thread_id, run["run_id"])
        assert again["__interrupt__"] == [interrupt]
        resume = {"decisions": [decision]} if kind != "approve" else {interrupt["id"]: {"decisions": [decision]}}
        first, values = None, None
        async for part in client.runs.stream(thread_id, "agent", command={"resume": resume}):
            if part.event == "values":
                first, values = first or part.data, part.data
        assert "__interrupt__" not in first
        assert text_of(values["messages"][-1]) == "The tool has answered."
        result = values["messages"][-2]
        assert result["type"] == "tool" and result["tool_call_id"] == "call_note"
        assert status is None or result["status"] == status, result
        thread = await client.threads.get(thread_id)
        assert thread["status"] == "idle" and thread["interrupts"] == {}


async def assert_refused(request, status, *parts):
    """Checks that the request is refused with this status and a text that has these parts."""
    try:
        result = await request
    except httpx.HTTPStatusError as error:
        text = " ".join([str(error), *getattr(error, "__notes__", [])])
        assert error.response.status_code == status, text
        assert all(part in text for part in parts), text
    else:
        raise AssertionError(f"the answer was accepted: {result}")


async def invalid_decisions_leave_the_question_pending(server):
    client = client_of(server)
    thread_id, interrupt = await interrupted_run(client, "[two]")
    assert len(interrupt["value"]["action_requests"]) == 2
    wrong = [
        {"decisions": [{"type": "approve"}]},
        {"decisions": [{"type": "approve"}, {"type": "later"}]},
        "yes",
    ]
    for answer in wrong:
        invalid = client.runs.wait(thread_id, "agent", command={"resume": answer}, raise_error=False)
        await assert_refused(invalid, 422, "the answer to interrupt")
        state = await client.threads.get_state(thread_id)
        assert state["interrupts"] == [interrupt], (answer, state["interrupts"])
    strict = {"command": {"resume": {"0" * 32: "yes"}}, "strict_resume": True, "assistant_id": "agent"}
    await assert_refused(client.http.post(f"/threads/{thread_id}/runs/wait", json=strict), 409, "unknown")
    both = {"decisions": [{"type": "approve"}, {"type": "reject", "message": "no"}]}
    values = await client.runs.wait(thread_id, "agent", command={"resume": both})
    assert text_of(values["messages"][-1]) == "Both are settled."
    late = client.runs.wait(thread_id, "agent", command={"resume": both})
    await assert_refused(late, 409, "was answered", "approve, reject")
    state = await client.threads.get_state(thread_id)
    assert state["values"]["messages"] == values["messages"], "a late answer changes nothing"


async def questions_end_without_a_decision(server):
    client = client_of(server)
    thread_id, _ = await interrupted_run(client)
    values = await client.runs.wait(thread_id, "agent", input=human("[again]"))
    assert text_of(values["messages"][-1]) == "Answered once more."
    calls = {call["id"] for m in values["messages"] if m["type"] == "ai" for call in m["tool_calls"]}
    results = {m["tool_call_id"] for m in values["messages"] if m["type"] == "tool"}
    assert calls == results
    thread_id, _ = await interrupted_run(client)
    await client.runs.wait(thread_id, "agent", input={}, command={"goto": "__end__"})
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "idle" and thread["interrupts"] == {}
    assert (await client.threads.get_state(thread_id))["next"] == []


async def breakpoints(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    before = await client.runs.wait(thread_id, "agent", input=human("[todos]"), interrupt_before=["tools"])
    assert before["messages"][-1]["tool_calls"][0]["name"] == "write_todos"
    state = await client.threads.get_state(thread_id)
    assert state["next"] == ["tools"] and state["interrupts"] == []
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    values = await client.runs.wait(thread_id, "agent", input=None)
    assert text_of(values["messages"][-1]) == "The plan stands."
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def history_and_forks(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    await client.runs.wait(thread_id, "agent", input=human("[hello]", id="first"))
    await client.runs.wait(thread_id, "agent", input=human("[again]", id="second"))
    history = await client.threads.get_history(thread_id, limit=100)
    ids = [state["checkpoint"]["checkpoint_id"] for state in history]
    assert ids == sorted(ids, reverse=True), ids
    assert history[0]["next"] == [] and history[-1]["metadata"]["source"] == "input"
    assert history[-1]["metadata"]["step"] == -1 and history[-1]["next"] == ["__start__"]
    assert history[-1]["values"].get("messages", []) == [] and history[-1]["parent_checkpoint"] is None
    assert [state["metadata"]["step"] for state in history] == list(range(len(history) - 2, -2, -1))

    def first_with(message_id, states):
        with_it = [s for s in states if message_id in [m["id"] for m in s["values"].get("messages", [])]]
        return with_it[-1]

    edited_at = first_with("second", history)["parent_checkpoint"]
    assert edited_at is not None
    page = await client.threads.get_history(thread_id, limit=2, before={"configurable": history[1]["checkpoint"]})
    assert [s["checkpoint"] for s in page] == [s["checkpoint"] for s in history[2:4]]
    values = await client.runs.wait(thread_id, "agent", input=human("[edited]"), checkpoint=edited_at)
    assert [text_of(m) for m in values["messages"]] == [
        "[hello]", "Hello there.", "[edited]", "An answer to the edited question.",
    ]
    branches = await client.threads.get_history(thread_id, limit=100)
    assert set(ids) < {state["checkpoint"]["checkpoint_id"] for state in branches}
    old = await client.threads.get_state(thread_id, checkpoint_id=ids[0])
    assert [text_of(m) for m in old["values"]["messages"]][-1] == "Answered once more."
    answer = values["messages"][-1]["id"]
    at = first_with(answer, branches)["parent_checkpoint"]
    regenerated = [
        part.data async for part in client.runs.stream(thread_id, "agent", checkpoint=at) if part.event == "values"
    ][-1]
    assert text_of(regenerated["messages"][-1]) == "An answer to the edited question."
    assert len(regenerated["messages"]) == 4 and regenerated["messages"][-1]["id"] != answer
    assert regenerated["messages"][2]["id"] == values["messages"][2]["id"]


async def state_is_updated(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    values = await client.runs.wait(thread_id, "agent", input=human("[hello]", id="ask"))
    answer = values["messages"][-1]
    change = {"messages": [{"type": "ai", "id": answer["id"], "content": "Mended."}]}
    point = await client.threads.update_state(thread_id, change)
    state = await client.threads.get_state(thread_id)
    assert state["checkpoint"]["checkpoint_id"] == point["checkpoint"]["checkpoint_id"]
    assert [(m["id"], text_of(m)) for m in state["values"]["messages"]] == [("ask", "[hello]"), (answer["id"], "Mended.")]
    assert state["metadata"]["source"] == "update"
    await client.threads.update_state(thread_id, {"messages": [{"type": "remove", "id": answer["id"]}]})
    state = await client.threads.get_state(thread_id)
    assert [m["id"] for m in state["values"]["messages"]] == ["ask"]
    await client.threads.update_state(thread_id, {"messages": [{"role": "user", "content": "more"}]}, as_node="__start__")
    state = await client.threads.get_state(thread_id)
    assert text_of(state["values"]["messages"][-1]) == "more" and state["next"] != []
    values = await client.runs.wait(thread_id, "agent", input=None)
    assert values["messages"][-1]["type"] == "ai"
    fresh = await client.threads.get_state(await new_thread(client))
    assert fresh["values"] == {} and fresh["checkpoint"] is None and fresh["next"] == []


async def store(server):
    client = client_of(server)
    root = str(uuid.uuid4())
    await client.store.put_item([root, "a"], "k", {"n": 1, "text": "brass kettle"})
    await client.store.put_item([root, "b"], "k", {"n": 2, "text": "copper pot"})
    item = await client.store.get_item([root, "a"], "k")
    assert item["value"] == {"n": 1, "text": "brass kettle"} and item["namespace"] == [root, "a"]
    found = await client.store.search_items([root], filter={"n": {"$gte": 2}})
    assert [one["key"] for one in found["items"]] == ["k"] and found["items"][0]["namespace"] == [root, "b"]
    found = await client.store.search_items([root], query="brass")
    assert found["items"][0]["value"]["n"] == 1
    names = await client.store.list_namespaces(prefix=[root])
    assert sorted(map(tuple, names["namespaces"])) == [(root, "a"), (root, "b")]
    await client.store.delete_item([root, "a"], "k")
    await client.store.delete_item([root, "a"], "k")
    try:
        assert await client.store.get_item([root, "a"], "k") is None
    except NotFoundError:
        pass


async def a_reader_reconnects(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    run = await client.runs.create(
        thread_id, "agent", input=human("[hello]"), stream_mode=["values", "messages-tuple"], stream_resumable=True
    )
    await client.runs.join(thread_id, run["run_id"])
    async def events(last_event_id):
        stream = client.runs.join_stream(thread_id, run["run_id"], last_event_id=last_event_id)
        return [(part.event, part.id, part.data) async for part in stream if part.event != "end"]

    whole = await events("-1")
    names = [event for event, _, _ in whole]
    assert names[0] == "metadata" and names.count("messages") >= 3, names
    ids = [id for _, id, _ in whole]
    assert len(set(ids)) == len(ids), ids
    for at, id in enumerate(ids):
        assert await events(id) == whole[at + 1 :], at
    live = [part.event async for part in client.runs.join_stream(thread_id, run["run_id"])]
    assert set(live) <= {"end"}, live


async def a_run_continues_without_readers_and_is_joined(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    ids = {}
    stream = client.runs.stream(
        thread_id, "agent", input=human("[slow]"), stream_mode="messages-tuple", stream_resumable=True,
        on_disconnect="continue", on_run_created=lambda run: ids.update(run),
    )
    async for part in stream:
        if part.event == "messages":
            last = part.id
            break
    await stream.aclose()
    assert (await client.threads.get(thread_id))["status"] == "busy"
    rejoined = client.runs.join_stream(thread_id, ids["run_id"], last_event_id=last)
    await open_gate(server, "slow")
    text = "".join([text_of(part.data[0]) async for part in rejoined if part.event == "messages"])
    assert text == "answer.", text
    assert (await client.runs.get(thread_id, ids["run_id"]))["status"] == "success"


async def runs_are_cancelled(server):
    client = client_of(server)
    for action in ("interrupt", "rollback"):
        thread_id = await new_thread(client)
        await client.runs.wait(thread_id, "agent", input=human("[hello]"))
        run = await client.runs.create(thread_id, "agent", input=human("[held]"))
        waiting = await client.runs.create(thread_id, "agent", input=human("[again]"))
        try:
            await client.runs.create(thread_id, "agent", input=human("x"), multitask_strategy="reject")
            raise AssertionError("a busy thread took another run")
        except ConflictError:
            pass
        await client.runs.cancel(thread_id, waiting["run_id"], wait=True)
        await client.runs.cancel(thread_id, run["run_id"], wait=True, action=action)
        state = await client.threads.get_state(thread_id)
        texts = [text_of(m) for m in state["values"]["messages"]]
        if action == "interrupt":
            assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
            assert texts[:3] == ["[hello]", "Hello there.", "[held]"], texts
        else:
            try:
                await client.runs.get(thread_id, run["run_id"])
                raise AssertionError("a run that was rolled back was returned")
            except NotFoundError:
                pass
            assert texts == ["[hello]", "Hello there."], texts
            assert (await client.threads.get(thread_id))["status"] == "idle"
        try:
            await client.runs.cancel(thread_id, str(uuid.uuid4()))
            raise AssertionError("an unknown run was cancelled")
        except (NotFoundError, ConflictError):
            pass


async def double_texting(server):
    client = client_of(server)
    for strategy in ("interrupt", "rollback"):
        thread_id = await new_thread(client)
        await client.runs.create(thread_id, "agent", input=human("[held]"))
        values = await client.runs.wait(
            thread_id, "agent", input=human("[again]"), multitask_strategy=strategy
        )
        texts = [text_of(m) for m in values["messages"] if m["type"] == "human"]
        assert texts == (["[held]", "[again]"] if strategy == "interrupt" else ["[again]"]), texts
        assert text_of(values["messages"][-1]) == "Answered once more."
    thread_id = await new_thread(client)
    runs = [await client.runs.create(thread_id, "agent", input=human(f"message {n}")) for n in range(5)]
    values = await client.runs.join(thread_id, runs[-1]["run_id"])
    texts = [text_of(m) for m in values["messages"] if m["type"] == "human"]
    assert texts == [f"message {n}" for n in range(5)], texts


async def without_a_thread(server):
    client = client_of(server)
    values = await client.runs.wait(None, "agent", input=human("[hello]"))
    assert text_of(values["messages"][-1]) == "Hello there."
    events = [part async for part in client.runs.stream(None, "agent", input=human("[hello]"))]
    assert events[0].event == "metadata" and text_of(events[-2 if events[-1].event == "end" else -1].data["messages"][-1]) == "Hello there."
    batch = await client.runs.create_batch([{"assistant_id": "agent", "input": human("[hello]")}] * 2)
    assert len(batch) == 2


async def a_thread_is_followed(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    async def send_message(text):
        run = await client.runs.create(thread_id, "agent", input=human(text), stream_resumable=True)
        await client.runs.join(thread_id, run["run_id"])

    await send_message("[hello]")
    seen = []

    async def follow():
        async for part in await client.threads.join_stream(thread_id, last_event_id="-"):
            seen.append(part)
            if sum(1 for p in seen if p.event == "metadata" and p.data.get("status") == "run_done") == 2:
                return

    following = asyncio.create_task(follow())
    await send_message("[again]")
    await following
    assert all(part.id for part in seen), seen


async def the_event_stream(server):
    client = client_of(server)
    async with client.threads.stream(assistant_id="agent") as thread:
        await thread.run.start(input=human("[hello]"))
        messages = [message async for message in thread.messages]
        assert [await message.text for message in messages] == ["Hello there."]
        output = await thread.output
        assert text_of(output["messages"][-1]) == "Hello there."
        thread_id = thread.thread_id
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def the_event_stream_asks(server):
    client = client_of(server)
    async with client.threads.stream(assistant_id="agent") as thread:
        await thread.run.start(input=human("[tool]"))
        async for _ in thread.values:
            pass
        assert thread.interrupted and len(thread.interrupts) == 1, thread.interrupts
        [interrupt] = thread.interrupts
        assert interrupt["value"]["action_requests"][0]["name"] == "execute", interrupt
        await thread.run.respond({"decisions": [{"type": "approve"}]})
        output = await thread.output
        assert text_of(output["messages"][-1]) == "The tool has answered."


async def handoffs(server):
    client = client_of(server)
    thread_id = await new_thread(client)
    await client.runs.wait(thread_id, "agent", input=human("[hello]"))
    async with httpx.AsyncClient(base_url=server.url, headers={"x-api-key": server.key}, timeout=30) as http:
        asked = await http.post(f"/api/threads/{thread_id}/handoffs", json={})
        assert asked.status_code == 200, asked.text
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    state = await client.threads.get_state(thread_id)
    [interrupt] = state["interrupts"]
    [action] = interrupt["value"]["action_requests"]
    assert action["name"] == "handoff_summary"
    last = state["values"]["messages"][-1]
    assert last["type"] == "ai" and last["tool_calls"][0]["name"] == "handoff_summary"
    assert last["tool_calls"][0]["args"]["feedback"] == ""
    refined = dict(last["tool_calls"][0]["args"], feedback="[shorter please]")
    refine = {"type": "edit", "edited_action": {"name": "handoff_summary", "args": refined}}
    values = await client.runs.wait(thread_id, "agent", command={"resume": {"decisions": [refine]}})
    [interrupt] = values["__interrupt__"]
    args = interrupt["value"]["action_requests"][0]["args"]
    assert args["iteration"] == 1 and "briefly" in args["summary_md"], args
    approve = {"decisions": [{"type": "approve", "summary_sha256": args["summary_sha256"]}]}
    values = await client.runs.wait(thread_id, "agent", command={"resume": approve})
    assert "__interrupt__" not in values
    calls = [call["id"] for m in values["messages"] if m["type"] == "ai" for call in m["tool_calls"]]
    results = [m["tool_call_id"] for m in values["messages"] if m["type"] == "tool"]
    assert calls == results and len(calls) == 2, (calls, results)
    parent = await client.threads.get(thread_id)
    child_id = parent["metadata"]["handoff"]["child_thread_id"]
    child = await client.threads.get(child_id)
    assert child["metadata"]["handoff"]["source_thread_id"] == thread_id
    values = await client.runs.wait(child_id, "agent", input=human("[child go]"))
    assert text_of(values["messages"][-1]) == "Going on in the child."
    assert (await client.threads.get(child_id))["metadata"]["handoff"]["pending"] is False


suite.run([
    assistants, threads, sorted_pages, streams_every_mode, only_the_requested_modes_are_streamed, waits_and_joins,
    failures_are_in_the_stream_and_in_the_result, tools_are_approved, invalid_decisions_leave_the_question_pending,
    questions_end_without_a_decision, breakpoints, history_and_forks, state_is_updated, store, a_reader_reconnects,
    a_run_continues_without_readers_and_is_joined, runs_are_cancelled, double_texting, without_a_thread,
    a_thread_is_followed, the_event_stream, the_event_stream_asks, handoffs,
])
