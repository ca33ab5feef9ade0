"""The client of Kafka's administration: one for a process, and no answer of it ends the process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from seamline.adapters.kafka.client import admin_client, client_settings
from tests.conftest import RunningStack

# Holds the client's own thread in the answer until the asker is gone; the thread is then the last to hold the answer.
REPORTED_BY_THE_CLIENTS_THREAD = """
import json, sys, threading, weakref
from confluent_kafka.admin import AdminClient
from seamline.adapters.kafka.topics import CaptureTopics

is_gone, is_freed, answers, ask = threading.Event(), threading.Event(), [], AdminClient.delete_topics

def asked_and_held(*args, **named):
    futures = ask(*args, **named)
    for future in futures.values():
        answers.append(weakref.ref(future, lambda _: is_freed.set()))
        future.add_done_callback(lambda _: is_gone.wait(30))
    return futures

AdminClient.delete_topics = asked_and_held
settings, never_made = json.loads(sys.argv[1]), "seamline-test.never-made"
CaptureTopics(settings).delete(never_made)
assert answers[0]() is not None, "the answer is gone already: this shows nothing"
is_gone.set()
assert is_freed.wait(30), "the answer is still held"
# The same thread answers this: it has gone on behind what it gave up.
assert CaptureTopics(settings).topic_id(never_made) == ""
print("alive")
"""


def test_an_answer_that_the_clients_own_thread_gives_up_last_does_not_end_the_process(
    stack: RunningStack, checkout: Path
) -> None:
    settings = json.dumps(client_settings(stack.connection("kafka")))
    done = subprocess.run(
        [sys.executable, "-c", REPORTED_BY_THE_CLIENTS_THREAD, settings],
        cwd=checkout / "include",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_process_has_one_client_for_the_same_settings(stack: RunningStack) -> None:
    settings: dict[str, Any] = client_settings(stack.connection("kafka"))
    other = {**settings, "client.id": "another"}
    assert admin_client(settings) is admin_client(dict(reversed(settings.items())))
    assert admin_client(other) is not admin_client(settings)
