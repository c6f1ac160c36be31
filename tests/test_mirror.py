"""Every module is tested in the file of its name, or in the one that this table names.

`exchange/outbox.py` is tested in `tests/exchange/test_outbox.py`. A module that is an inner part of another, or that
only a running server or command shows, has a row here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCES = TESTS.parent / "src" / "fumarole"
TESTED_IN = {
    "doors/tls_alerts": "doors/test_tls.py",
    "doors/mqtt": "integration/mqtt/test_mqtt.py",
    "protocols/mqtt_fields": "protocols/test_mqtt.py",
    "protocols/mqtt_packets": "protocols/test_mqtt.py",
    "protocols/mqtt_reasons": "protocols/test_mqtt.py",
    "cluster/spoken": "cluster/test_lane.py",
    "cluster/strangers": "cluster/test_lane.py",
    "exchange/client_ids": "cluster/test_client_ids.py",
    "exchange/filling": "exchange/test_producers.py",
    "exchange/forgotten": "exchange/test_producers.py",
    "exchange/parts": "fastpath/test_equal.py",
    "exchange/pieces": "exchange/test_filters.py",
    "exchange/producer": "exchange/test_producers.py",
    "exchange/recipients": "exchange/test_exchange.py",
    "exchange/worst_consumers": "sessions/test_services.py",
    "sessions/diff": "sessions/test_msgpack.py",
    "sessions/service_request": "sessions/test_services.py",
    "sessions/mqtt_clients": "sessions/test_mqtt.py",
    "sessions/mqtt_outlet": "sessions/test_mqtt.py",
    "sessions/mqtt_speaker": "sessions/test_mqtt.py",
    "sessions/mqtt_subscriptions": "sessions/test_mqtt.py",
    "sessions/mqtt_window": "sessions/test_mqtt.py",
    "bridge/amqp": "integration/bridge/test_bridge.py",
    "bridge/blocking": "integration/bridge/test_client.py",
    "bridge/bridge": "integration/bridge/test_broker_behind.py",
    "bridge/client": "integration/bridge/test_client.py",
    "bridge/connections": "integration/bridge/test_bad_input.py",
    "bridge/errors": "bridge/test_calls.py",
    "bridge/exchange_link": "integration/bridge/test_broker_behind.py",
    "bridge/forms": "bridge/test_erlang_messages.py",
    "bridge/listener": "bridge/test_zeromq.py",
    "bridge/operations": "integration/bridge/test_broker_behind.py",
    "bridge/peer_connection": "bridge/test_zeromq.py",
    "bridge/waiters": "integration/bridge/test_client.py",
    "cli/bench": "cli/test_messages.py",
    "cli/bench_worker": "cli/test_messages.py",
    "cli/bridge_status": "cli/test_bridge.py",
    "cli/cluster_status": "integration/cluster/test_coming_and_going.py",
    "cli/command": "cli/test_main.py",
    "cli/config_check": "cli/test_main.py",
    "cli/demo": "demo/test_demo.py",
    "cli/last": "cli/test_messages.py",
    "cli/message_lines": "cli/test_messages.py",
    "cli/options": "cli/test_main.py",
    "server/signals": "integration/test_reload.py",
    "cli/reload": "integration/test_reload.py",
    "cli/nkey": "cli/test_main.py",
    "cli/password": "cli/test_main.py",
    "cli/pipeline/balance": "pipeline/test_commands.py",
    "cli/pipeline/compact": "pipeline/test_commands.py",
    "cli/pipeline/demo": "pipeline/test_commands.py",
    "cli/pipeline/enrich": "pipeline/test_commands.py",
    "cli/pipeline/gaps": "pipeline/test_commands.py",
    "cli/pipeline/options": "pipeline/test_commands.py",
    "cli/pipeline/replay": "pipeline/test_commands.py",
    "cli/pipeline/report": "pipeline/test_commands.py",
    "cli/pipeline/resident": "pipeline/warm/test_resident.py",
    "cli/pipeline/rollup": "pipeline/test_commands.py",
    "cli/pipeline/run": "pipeline/test_commands.py",
    "cli/pipeline/spark": "pipeline/test_commands.py",
    "cli/pipeline/sql": "pipeline/test_commands.py",
    "cli/pipeline/table": "pipeline/test_commands.py",
    "cli/pipeline/traffic": "pipeline/test_commands.py",
    "cli/pipeline/view": "pipeline/test_commands.py",
    "cli/pipeline/verify": "pipeline/test_commands.py",
    "cli/pipeline/watch": "pipeline/jobs/test_watching.py",
    "cli/pipeline/whatif": "pipeline/test_commands.py",
    "cli/producer_forget": "cli/test_readings.py",
    "cli/producers": "cli/test_readings.py",
    "cli/progress": "cli/test_messages.py",
    "cli/pub": "cli/test_messages.py",
    "cli/query_explain": "cli/test_readings.py",
    "cli/query_mistakes": "cli/test_readings.py",
    "cli/record": "cli/pipeline/test_record.py",
    "cli/reply": "cli/test_messages.py",
    "cli/request": "cli/test_messages.py",
    "cli/serve": "cli/test_main.py",
    "cli/serve_options": "cli/test_main.py",
    "cli/stats": "cli/test_messages.py",
    "cli/sub": "cli/test_messages.py",
    "cli/token": "cli/test_main.py",
    "cli/view": "cli/test_messages.py",
    "client/client": "client/test_publish.py",
    "client/connection": "client/test_connect.py",
    "client/errors": "client/test_documentation.py",
    "client/message": "client/test_subscription.py",
    "client/opening": "client/test_subscription.py",
    "client/sender": "client/test_publish.py",
    "cluster/peer": "cluster/test_lane.py",
    "cluster/registry": "cluster/test_cluster.py",
    "config/schema": "config/test_settings.py",
    "core/decoding": "core/test_payloads.py",
    "core/errors": "core/test_topic.py",
    "core/limits": "config/test_settings.py",
    "core/msgpack": "core/test_payloads.py",
    "core/publication": "exchange/test_exchange.py",
    "core/sparkplug": "core/test_payloads.py",
    "demo/broker": "demo/test_demo.py",
    "demo/cluster": "demo/test_demo.py",
    "demo/pipeline": "pipeline/test_commands.py",
    "demo/screen": "demo/test_demo.py",
    "demo/sensors": "demo/test_demo.py",
    "demo/stations": "demo/test_demo.py",
    "doors/kubemq": "integration/kubemq",
    "doors/msgpack": "doors/test_stream.py",
    "doors/nats": "doors/test_pump.py",
    "exchange/confirmations": "sessions/test_answers.py",
    "exchange/consumer": "exchange/test_exchange.py",
    "exchange/counters": "exchange/test_exchange.py",
    "exchange/node": "sessions/test_services.py",
    "exchange/plans": "exchange/test_exchange.py",
    "fastpath/cluster_protocol": "fastpath/test_cluster_protocol_equal.py",
    "fastpath/conflation": "exchange/test_conflation.py",
    "fastpath/heir": "integration/cluster/test_heir.py",
    "fastpath/http": "fastpath/test_http_equal.py",
    "fastpath/hot_path": "fastpath/test_equal.py",
    "fastpath/last_values": "exchange/test_last_values.py",
    "fastpath/mqtt": "fastpath/test_mqtt_equal.py",
    "fastpath/msgpack": "fastpath/test_readings_equal.py",
    "fastpath/nats": "fastpath/test_equal.py",
    "fastpath/outbox": "exchange/test_outbox.py",
    "fastpath/websocket": "protocols/test_websocket.py",
    "fastpath/pieces": "exchange/test_filters.py",
    "fastpath/plans": "exchange/test_exchange.py",
    "pipeline/archive/deletions": "pipeline/jobs/test_expiring.py",
    "pipeline/archive/places": "pipeline/archive/test_seals.py",
    "pipeline/archive/schema": "pipeline/archive/test_seals.py",
    "pipeline/archive/writing": "pipeline/test_rows.py",
    "pipeline/analysis": "pipeline/test_connect.py",
    "pipeline/columns/regex_ambiguity": "pipeline/columns/test_regex.py",
    "pipeline/columns/regex_simplify": "pipeline/columns/test_regex.py",
    "pipeline/columns/regex_tree": "pipeline/columns/test_regex.py",
    "pipeline/columns/values": "pipeline/columns/test_where.py",
    "pipeline/errors": "pipeline/archive/test_seals.py",
    "pipeline/jobs/delivering": "pipeline/jobs/test_watching.py",
    "pipeline/jobs/batch": "pipeline/jobs/test_spark.py",
    "pipeline/jobs/output": "pipeline/jobs/test_standing.py",
    "pipeline/live/listener": "pipeline/live/test_live.py",
    "pipeline/live/source": "pipeline/live/test_live.py",
    "pipeline/locks": "pipeline/live/test_buffer.py",
    "pipeline/patterns": "pipeline/columns/test_topic.py",
    "pipeline/recorder/recorder": "pipeline/recorder/test_recording.py",
    "pipeline/report/figures": "pipeline/report/test_report.py",
    "pipeline/report/page": "pipeline/report/test_report.py",
    "pipeline/report/plots": "pipeline/report/test_report.py",
    "pipeline/sharding": "pipeline/transforms/test_alarms.py",
    "pipeline/tables": "pipeline/columns/test_frame_where.py",
    "pipeline/rules/conditions": "pipeline/rules/test_shard.py",
    "pipeline/rules/messages": "pipeline/rules/test_shard.py",
    "pipeline/rules/plan": "pipeline/transforms/test_alarms.py",
    "pipeline/rules/rows": "pipeline/rules/test_shard.py",
    "pipeline/rules/silences": "pipeline/rules/test_shard.py",
    "pipeline/rules/state": "pipeline/rules/test_shard.py",
    "pipeline/rules/truths": "pipeline/rules/test_shard.py",
    "pipeline/rules/waves": "pipeline/rules/test_shard.py",
    "pipeline/transforms/gaps": "pipeline/transforms/test_transforms.py",
    "pipeline/transforms/grouping": "pipeline/transforms/test_transforms.py",
    "pipeline/transforms/rollup": "pipeline/transforms/test_transforms.py",
    "pipeline/transforms/traffic": "pipeline/transforms/test_transforms.py",
    "pipeline/views": "pipeline/test_commands.py",
    "protocols/columns": "fastpath/test_capture.py",
    "protocols/stream": "protocols/test_nats.py",
    "server/bridges": "cli/test_bridge.py",
    "server/clustering": "integration/cluster",
    "server/logs": "cli/test_main.py",
    "server/workers": "integration/cluster/test_workers.py",
    "doors/websocket": "integration/http/test_websocket.py",
    "server/cookies": "server/test_credentials.py",
    "sessions/http/access": "sessions/http/test_session.py",
    "sessions/http/routes": "sessions/http/test_session.py",
    "sessions/http/api": "sessions/http/test_session.py",
    "sessions/http/call": "sessions/http/test_session.py",
    "sessions/http/forms": "sessions/http/test_session.py",
    "sessions/http/login": "sessions/http/test_session.py",
    "sessions/http/openapi": "docs/test_http.py",
    "sessions/http/pages": "sessions/http/test_session.py",
    "sessions/http/producers": "sessions/http/test_session.py",
    "sessions/http/requests": "sessions/http/test_session.py",
    "sessions/http/service": "sessions/http/test_session.py",
    "sessions/http/stream": "sessions/http/test_session.py",
    "sessions/http/upgrade": "integration/http/test_websocket.py",
    "sessions/http/metrics": "sessions/http/test_session.py",
    "sessions/http/monitoring": "sessions/http/test_session.py",
    "sessions/http/levels": "sessions/http/test_session.py",
    "sessions/http/streams": "sessions/http/test_session.py",
    "sessions/http/views": "sessions/http/test_session.py",
    "sessions/http/last_values": "sessions/http/test_session.py",
    "sessions/http/topics": "sessions/http/test_session.py",
    "sessions/nats_forms": "sessions/test_nats.py",
    "sessions/stream": "sessions/test_nats.py",
}
"""Where the modules without a file of their name are tested: a file, or a folder of files with real servers."""


def modules() -> set[str]:
    """Each module by its path below `src/fumarole`, without its ending. Generated modules are left out."""
    found = (path for pattern in ("*.py", "*.pyx") for path in SOURCES.rglob(pattern))
    names = (path.relative_to(SOURCES).with_suffix("").as_posix() for path in found)
    return {name for name in names if not name.endswith(("__init__", "__main__", "_pb2", "_pb2_grpc"))}


def twin(module: str) -> Path:
    folder, _, name = module.rpartition("/")
    return TESTS / folder / f"test_{name}.py"


def test_every_module_is_tested_somewhere() -> None:
    assert {module for module in modules() if not twin(module).exists()} - TESTED_IN.keys() == set()


def test_no_row_outlives_its_module() -> None:
    assert TESTED_IN.keys() - modules() == set()


def test_no_row_stands_beside_a_file_of_its_name() -> None:
    assert {module for module in TESTED_IN if twin(module).exists()} == set()


@pytest.mark.parametrize("place", sorted(set(TESTED_IN.values())))
def test_a_row_names_a_place_with_tests(place: str) -> None:
    path = TESTS / place
    files = [path] if path.is_file() else list(path.rglob("test_*.py"))
    assert any("def test_" in file.read_text() for file in files)
