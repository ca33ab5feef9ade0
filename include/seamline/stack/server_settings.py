"""What every server of the stack is set to, wherever it runs: the local stack and docker-compose.yml say the same.

Only settings that carry meaning are here; addresses, paths and sizes of one machine are added where it is started.
"""

MARIADB_DATABASE = "bank"
ARCHIVE_DATABASE = "archive"

POSTGRES: dict[str, str] = {
    "wal_level": "logical",
    "max_connections": "300",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    # A forgotten slot gives itself up before it fills the disk.
    "max_slot_wal_keep_size": "4GB",
    "max_wal_size": "2GB",
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
}

MARIADB: dict[str, str] = {
    "server_id": "7",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_domain_id": "0",
    "gtid_strict_mode": "1",
    "sync_binlog": "1",
    "innodb_flush_log_at_trx_commit": "1",
    # Ten days: longer than the longest pause of a capture.
    "binlog_expire_logs_seconds": "864000",
    "default_time_zone": "+00:00",
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "max_connections": "500",
    "max_allowed_packet": "256M",
    "innodb_buffer_pool_size": "256M",
}

KAFKA: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "900000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Topics are made and checked by the project, never by accident.
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    # The log is pruned only behind every reader, never by time or size.
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    # The active segment is never freed by pruning: a small one frees space in time.
    "log.segment.bytes": "134217728",
    # What was pruned is given back at this look; five minutes is meant for many more topics.
    "log.retention.check.interval.ms": "10000",
    # An idle controller writes and flushes an empty record this often; half a second is meant for large clusters.
    "metadata.max.idle.interval.ms": "5000",
    "message.max.bytes": "33554432",
    "replica.fetch.max.bytes": "33554432",
}

CONNECT: dict[str, str] = {
    "group.id": "seamline-connect",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "config.storage.topic": "seamline.connect.configs",
    "offset.storage.topic": "seamline.connect.offsets",
    "status.storage.topic": "seamline.connect.status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "exactly.once.source.support": "enabled",
    "plugin.discovery": "service_load",
    "scheduled.rebalance.max.delay.ms": "0",
    "producer.max.request.size": "33554432",
    # A task given up while it still writes leaves its transaction open, and its offsets cannot be read until that ends.
    "task.shutdown.graceful.timeout.ms": "30000",
    # A connector's settings name a secret, `${file:<path>:<key>}`; only this worker can read it.
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}

AIRFLOW: dict[str, str] = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # Airflow's LocalExecutor, but for what is described in seamline_airflow.ready_executor: tasks start with their
    # libraries loaded, and one that ends wakes the scheduler.
    "AIRFLOW__CORE__EXECUTOR": "seamline_airflow.ready_executor.ReadyLocalExecutor",
    "AIRFLOW__CORE__PARALLELISM": "6",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "viewer:viewer,operator:op,approver:admin",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # A changed file is parsed at once; this is for the declarations beside it, which Airflow does not watch.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "90",
    # A scheduler that was killed is known dead after the threshold, and its tasks are queued again at the next look:
    # within 50 s. By Airflow's own 300 s between two looks they stayed "running" for 307 s. The heartbeat below does
    # not help there: a scheduler looks only at tasks that it has queued itself (scheduler_job_runner.py of 3.3.2).
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    # A scheduler that found nothing to do looks again so many seconds later, and the 1.4 that it waits in the executor
    # for a task that ends; each look takes about 20 ms of a core.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.1",
    # Without it, clearing a successful Spark task is a green no-op.
    "AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS": "True",
    "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    # A slip of the pointer pauses no stream and no night.
    "AIRFLOW__API__REQUIRE_CONFIRMATION_DAG_CHANGE": "True",
}

AIRFLOW_USERS = ("viewer", "operator", "approver")

# Connect writes about a thousand lines per task start: its settings, printed back.
LOG4J2 = """Configuration:
  Appenders:
    Console:
      name: Console
      PatternLayout:
        pattern: "%d{ISO8601} %p %c{1} %m%n"
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: Console
    Logger:
      - name: org.apache.kafka.clients.admin.AdminClientConfig
        level: WARN
      - name: org.apache.kafka.clients.consumer.ConsumerConfig
        level: WARN
      - name: org.apache.kafka.clients.producer.ProducerConfig
        level: WARN
      - name: org.apache.kafka.common.config.AbstractConfig
        level: WARN
      - name: org.apache.kafka.connect.runtime.ConnectorConfig
        level: WARN
      - name: org.apache.kafka.connect.runtime.ConnectorConfig$EnrichedConnectorConfig
        level: WARN
      - name: org.apache.kafka.connect.runtime.SourceConnectorConfig
        level: WARN
      - name: org.apache.kafka.connect.runtime.SourceConnectorConfig$EnrichedSourceConnectorConfig
        level: WARN
      - name: org.apache.kafka.connect.runtime.TaskConfig
        level: WARN
      - name: org.apache.kafka.connect.json.JsonConverterConfig
        level: WARN
      - name: kafka.server.KafkaConfig
        level: WARN
      - name: kafka.utils.Log4jControllerRegistration$
        level: WARN
      - name: io.debezium.metrics.activity.ActivityMonitoringMeter
        level: WARN
      - name: io.debezium.pipeline.meters.CommonEventMeter
        level: ERROR
      # After a restart inside a transaction it writes the rows that it passes over: a bank's values.
      - name: io.debezium.connector.binlog.BinlogStreamingChangeEventSource
        level: INFO
        RegexFilter:
          regex: "Skipping previously processed row event.*"
          useRawMsg: true
          onMatch: DENY
          onMismatch: NEUTRAL
      - name: org.apache.kafka.common.metrics
        level: WARN
      - name: org.eclipse.jetty
        level: WARN
"""
