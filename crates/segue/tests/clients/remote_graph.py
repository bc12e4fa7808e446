"""`RemoteGraph`, LangGraph's client for a remote graph, unmodified."""

import uuid

from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command

import suite


def graph_of(server):
    return RemoteGraph("agent", url=server.url, api_key=server.key)


def configured():
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


def human(text):
    return {"messages": [{"role": "user", "content": text}]}


async def invokes_without_a_thread(server):
    values = await graph_of(server).ainvoke(human("[hello]"))
    assert values["messages"][-1]["content"] == "Hello there.", values["messages"][-1]


async def invokes_and_creates_a_thread(server):
    graph, config = graph_of(server), configured()
    await graph.ainvoke(human("[hello]"), config)
    values = await graph.ainvoke(human("[again]"), config)
    assert [m["type"] for m in values["messages"]] == ["human", "ai", "human", "ai"]
    state = await graph.aget_state(config)
    assert state.next == () and len(state.values["messages"]) == 4
    assert state.config["configurable"]["checkpoint_id"] and state.parent_config
    history = [state async for state in graph.aget_state_history(config, limit=3)]
    assert history[0].config == state.config and len(history) == 3
    older = [state async for state in graph.aget_state_history(config, before=history[0].config, limit=2)]
    assert [state.config for state in older] == [state.config for state in history[1:]]
    changed = await graph.aupdate_state(config, {"messages": [{"role": "user", "content": "[todos]"}]}, as_node="__start__")
    assert changed["configurable"]["checkpoint_id"]
    assert (await graph.aget_state(config)).next != ()


async def streams_and_resumes(server):
    graph, config = graph_of(server), configured()
    modes = ["values", "updates", "messages"]
    seen = {part.event async for part in graph.astream(human("[tool]"), config, stream_mode=modes)}
    assert seen == set(modes), seen
    state = await graph.aget_state(config)
    [task] = state.tasks
    [interrupt] = task.interrupts
    assert interrupt.value["action_requests"][0]["name"] == "execute"
    values = await graph.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert values["messages"][-1]["content"] == "The tool has answered."


async def draws_the_graph(server):
    drawn = await graph_of(server).aget_graph()
    assert {"model", "tools"} <= set(drawn.nodes), drawn.nodes


suite.run([
    invokes_without_a_thread, invokes_and_creates_a_thread, streams_and_resumes, draws_the_graph,
])
