"""NATS JetStream as licet uses it: subjects, the five streams, connections, publishing, configuration."""

from licet.streams.api import SpendPosition, StoredMessage, read_last, read_seq, spend_position, stream_info
from licet.streams.config_store import ActivationLost, ArtifactDamaged, ConfigStore
from licet.streams.connection import Connection, NatsSettings, connect, inbox_prefix
from licet.streams.errors import (
    CredentialsRefused,
    StoreRefused,
    StoreUnavailable,
    StreamsError,
    UnsafeChange,
)
from licet.streams.publisher import PubAck, Publisher, Publishing, parse_ack
from licet.streams.reconcile import Applied, apply_streams, check_streams
from licet.streams.settings import (
    EMBEDDED_SIZES,
    Problem,
    StreamConfig,
    StreamSizes,
    problems,
    stream_configs,
)
from licet.streams.spend_memory import SpendMemory
from licet.streams.subjects import (
    stream_audit,
    stream_config,
    stream_ledger,
    stream_spend,
    stream_spend_log,
    subject_artifact,
    subject_audit,
    subject_beacon,
    subject_config_active,
    subject_ledger,
    subject_spend,
)

__all__ = [
    "EMBEDDED_SIZES",
    "ActivationLost",
    "Applied",
    "ArtifactDamaged",
    "ConfigStore",
    "Connection",
    "CredentialsRefused",
    "NatsSettings",
    "Problem",
    "PubAck",
    "Publisher",
    "Publishing",
    "SpendMemory",
    "SpendPosition",
    "StoreRefused",
    "StoreUnavailable",
    "StoredMessage",
    "StreamConfig",
    "StreamSizes",
    "StreamsError",
    "UnsafeChange",
    "apply_streams",
    "check_streams",
    "connect",
    "inbox_prefix",
    "parse_ack",
    "problems",
    "read_last",
    "read_seq",
    "spend_position",
    "stream_audit",
    "stream_config",
    "stream_configs",
    "stream_info",
    "stream_ledger",
    "stream_spend",
    "stream_spend_log",
    "subject_artifact",
    "subject_audit",
    "subject_beacon",
    "subject_config_active",
    "subject_ledger",
    "subject_spend",
]
